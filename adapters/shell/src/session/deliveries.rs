//! The messages of durable topics that a connection sends.

use std::sync::Arc;
use std::task::Waker;

use antiphon::durable::{Delivery, Opening};
use antiphon::{AnswerMark, CloseReason, RequestKey};

use super::durable_conn::DurableConn;
use super::{Session, State};

/// How many bytes of messages are put into the output at a time.
const MAX_DRAINED: usize = 64 * 1024;

/// Why a connection is closed whose consumer has to attach again.
const REWOUND: &str = "the store has lost messages that were delivered";

impl Session {
    /// Returns the connection's part in durable topics, which `make` makes for its first request.
    pub(crate) fn durable_or(&self, make: impl FnOnce() -> Arc<DurableConn>) -> &Arc<DurableConn> {
        self.durable.get_or_init(make)
    }

    /// Notes that subscriptions begin with the answer of `mark`.
    pub(crate) fn begin_durable(
        &self,
        request: RequestKey,
        mark: AnswerMark,
        conn: &Arc<DurableConn>,
        opening: Opening,
    ) {
        let conn = Arc::clone(conn);
        self.act(|state| state.sinks.hold_durable(request, mark, conn, opening));
    }
}

impl State {
    /// Puts messages into the output, if nothing was being written. Returns a waker that is not needed any more, to be
    /// dropped without the lock.
    pub(super) fn drain_durable(
        &mut self,
        durable: &DurableConn,
        may_send: bool,
        waker: &Waker,
    ) -> Option<Waker> {
        let mut state = durable.state.lock();
        let is_ready = may_send && std::mem::take(&mut state.is_ready);
        let (is_rewound, before) = (state.is_rewound, state.waker.replace(waker.clone()));
        drop(state);
        if is_rewound && self.closed().is_none() {
            self.conn.close(CloseReason::Other(REWOUND));
        }
        if let Some(hub) = durable.hub.upgrade().filter(|_| is_ready) {
            let mut bytes = 0;
            while !self.conn.is_full() && bytes < MAX_DRAINED {
                let Some(delivery) = hub.next(durable.key) else {
                    return before;
                };
                let params = delivery.params();
                bytes += params.as_str().len();
                // One that is too large for the output stays unacknowledged; the connection may have ended.
                let _ = self.conn.notify(Delivery::METHOD, params.as_json());
            }
            durable.state.lock().is_ready = true;
        }
        before
    }
}
