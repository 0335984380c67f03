//! The part of a connection in durable topics.

use std::fmt;
use std::sync::{Arc, Weak};
use std::task::Waker;

use antiphon::durable::{Delivery, Opening};

use crate::lock::Lock;

/// Durable topics, as a connection knows them. Their lock may be taken under the session's; under it no other is taken.
pub(crate) trait DurableHub: Send + Sync {
    /// Returns the next message for a connection.
    fn next(&self, key: u64) -> Option<Delivery>;

    /// Notes that an answer to a subscribe is in the output, or that the peer was answered something else.
    fn opened(&self, opening: Opening, is_accepted: bool);

    /// Removes a connection.
    fn leave(&self, key: u64);
}

/// A connection in durable topics.
pub(crate) struct DurableConn {
    pub(super) hub: Weak<dyn DurableHub>,
    /// The connection's number there.
    pub(crate) key: u64,
    pub(super) state: Lock<Attention>,
}

#[derive(Default)]
pub(super) struct Attention {
    /// Whether there may be messages to send.
    pub(super) is_ready: bool,
    pub(super) is_rewound: bool,
    /// Wakes the connection's task.
    pub(super) waker: Option<Waker>,
}

impl DurableConn {
    pub(crate) fn new(hub: Weak<impl DurableHub + 'static>, key: u64) -> Arc<Self> {
        let state = Lock::default();
        Arc::new(Self { hub, key, state })
    }

    /// Notes that there may be messages, or that the consumer has to attach again. Returns the waker that is to be
    /// woken without a lock.
    pub(crate) fn wake(&self, is_rewound: bool) -> Option<Waker> {
        let mut state = self.state.lock();
        state.is_ready = true;
        state.is_rewound |= is_rewound;
        state.waker.take()
    }

    pub(super) fn opened(&self, opening: Opening, is_accepted: bool) -> Option<Waker> {
        self.hub.upgrade()?.opened(opening, is_accepted);
        self.wake(false)
    }

    pub(super) fn end(&self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.leave(self.key);
        }
        let waker = self.state.lock().waker.take();
        drop(waker);
    }
}

impl fmt::Debug for DurableConn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DurableConn").field(&self.key).finish()
    }
}
