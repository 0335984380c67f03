//! The connections of a server: their limit, and the signal for all of them to end.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use antiphon::{ConnectionLimiter, ConnectionLimits, LimitReached, Permit};

use super::ending::{End, EndSignal, Ending};

use antiphon_shell::Lock;

/// The connections of a server, and the task that listens.
#[derive(Debug)]
pub(crate) struct Connections {
    listening: Arc<EndSignal>,
    inside: Lock<Inside>,
}

#[derive(Debug)]
struct Inside {
    /// The key of the next one. It is not the connection's number, which begins anew after 2^32 of them.
    next: u64,
    open: HashMap<u64, (Arc<EndSignal>, Permit<IpAddr>)>,
    admission: ConnectionLimiter<IpAddr>,
    has_stopped_listening: bool,
    watchers: Vec<Waker>,
}

impl Connections {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            listening: Arc::default(),
            inside: Lock::new(Inside {
                next: 0,
                open: HashMap::new(),
                admission: ConnectionLimiter::new(limits),
                has_stopped_listening: false,
                watchers: Vec::new(),
            }),
        }
    }

    /// Makes those of a server that does not listen itself.
    #[cfg(feature = "http")]
    pub(crate) fn without_listener(limits: ConnectionLimits) -> Arc<Self> {
        let connections = Arc::new(Self::new(limits));
        drop(connections.listen());
        connections
    }

    /// Whether they have been told to end. A connection that enters after that has to ask, because it is not told.
    #[cfg(feature = "http")]
    pub(crate) fn is_ending(&self) -> bool {
        self.listening.beyond(End::No).is_some()
    }

    /// The number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.inside.lock().open.len()
    }

    /// Registers the task that listens. It is registered until the `Listening` is dropped.
    pub(super) fn listen(self: &Arc<Self>) -> (Listening, Ending) {
        (
            Listening(Arc::clone(self)),
            Ending::new(&self.listening, None),
        )
    }

    /// Accepts a connection, if the limit allows it. It counts until its `Ending`, and all others of it, are dropped.
    pub(crate) fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Ending, LimitReached> {
        let mut inside = self.inside.lock();
        let place = inside.admission.enter(address)?;
        let signal = Arc::default();
        let key = inside.next;
        inside.next += 1;
        inside.open.insert(key, (Arc::clone(&signal), place));
        let counted = Arc::new(Entered(Arc::clone(self), key));
        Ok(Ending::new(&signal, Some(counted)))
    }

    /// Tells all connections, and the task that listens, to end.
    pub(crate) fn tell(&self, end: End) {
        self.listening.tell(end);
        let inside = self.inside.lock();
        let open: Vec<_> = inside
            .open
            .values()
            .map(|(signal, _)| signal.clone())
            .collect();
        drop(inside);
        open.iter().for_each(|signal| signal.tell(end));
    }

    fn change(&self, change: impl FnOnce(&mut Inside)) {
        let mut inside = self.inside.lock();
        change(&mut inside);
        let watchers = std::mem::take(&mut inside.watchers);
        drop(inside);
        watchers.into_iter().for_each(Waker::wake);
    }

    /// Ready once the listener has stopped.
    pub(super) fn poll_stopped(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll(cx, |inside| inside.has_stopped_listening)
    }

    /// Ready once the listener has stopped and no connection is open.
    pub(super) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        let is_over = |inside: &Inside| inside.open.is_empty() && inside.has_stopped_listening;
        self.poll(cx, is_over)
    }

    fn poll(&self, cx: &Context<'_>, is_so: impl Fn(&Inside) -> bool) -> Poll<()> {
        let mut inside = self.inside.lock();
        if is_so(&inside) {
            return Poll::Ready(());
        }
        inside.watchers.push(cx.waker().clone());
        Poll::Pending
    }
}

/// An accepted connection, by its key. Dropping it frees its slot.
#[derive(Debug)]
struct Entered(Arc<Connections>, u64);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.change(|inside| {
            if let Some((_, place)) = inside.open.remove(&self.1) {
                inside.admission.leave(place);
            }
        });
    }
}

/// Its drop notes that the listener has stopped, whatever ended the listener's task.
pub(super) struct Listening(Arc<Connections>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.change(|inside| inside.has_stopped_listening = true);
    }
}
