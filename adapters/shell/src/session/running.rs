//! How many handlers of a connection may run, and what a running one takes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use antiphon::RequestKey;

use super::Session;
use crate::work::dispatcher::{Begins, Called, Dispatcher, Membership, Returned};
use crate::work::pool::Jobs;
use crate::work::seat::seated_twice;

impl Session {
    /// The dispatcher, which limits the requests of the server that accepted the connection; `None` if
    /// no server did.
    pub(crate) fn dispatcher(&self) -> Option<&Dispatcher> {
        self.context.is_accepted.then_some(&self.options.dispatcher)
    }

    /// How many requests may run: the configured limit, less the handlers whose answer nobody awaits any
    /// more.
    pub(crate) fn max_running_requests(&self) -> usize {
        let unawaited = self.unawaited.load(Ordering::Relaxed);
        self.options.max_running_requests.saturating_sub(unawaited)
    }

    /// The address of the session, by which its handlers are known to their threads.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The connection's jobs, for [`Pool::run_for`](crate::Pool::run_for).
    pub(crate) fn jobs(&self) -> &Arc<Jobs> {
        self.jobs.get_or_init(|| Jobs::new(self.address()))
    }

    /// Whether the peer has ended its direction, or is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// Whether handlers of requests are being dropped, and their requests answered *busy*, because there are
    /// no permits for them.
    pub(crate) fn makes_way(&self) -> bool {
        self.makes_way.load(Ordering::Relaxed) > 0
    }

    /// Runs `drop_handlers` while [`makes_way`](Self::makes_way) is true.
    pub(crate) fn make_way(&self, drop_handlers: impl FnOnce()) {
        self.makes_way.fetch_add(1, Ordering::Relaxed);
        drop_handlers();
        self.makes_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Runs a handler on this thread, with a permit of the server, which is given back while the handler
    /// waits for its own peer.
    pub(crate) fn run_with_permit<R>(&self, handler: impl FnOnce() -> R) -> R {
        match self.dispatcher() {
            Some(dispatcher) => {
                let seat = Arc::new(dispatcher.clone());
                seated_twice(self.address(), seat, handler)
            }
            None => handler(),
        }
    }

    /// Notes that handlers run with the permits for peers that have ended their direction, or are gone.
    pub(crate) fn note_gone_permits(&self) {
        self.has_gone_permits.store(true, Ordering::Relaxed);
    }

    /// Counts a handler as one that runs, although nobody awaits its answer any more: with a permit as it had
    /// before. Returns whether that is one of those for peers that are gone.
    pub(crate) fn begin_unawaited(&self) -> bool {
        self.unawaited.fetch_add(1, Ordering::Relaxed);
        let is_gone = self.has_gone_permits.load(Ordering::Relaxed);
        if let Some(dispatcher) = self.dispatcher() {
            dispatcher.exceed(is_gone);
        }
        is_gone
    }

    /// Notes that a handler has ended that [`begin_unawaited`](Self::begin_unawaited) counted, and gives back what
    /// that has returned.
    pub(crate) fn end_unawaited(&self, is_gone: bool) {
        self.unawaited.fetch_sub(1, Ordering::Relaxed);
        if let Some(dispatcher) = self.dispatcher() {
            dispatcher.give_back(1, is_gone);
        }
        self.begin_more();
    }

    /// Notes that the handler of this request runs, and the messages after it wait for its end.
    pub(crate) fn note_held(&self, method: &str, request: RequestKey) {
        self.act(|state| state.conn.handle_held(method, request));
    }

    /// Notes whether there was a thread for a notification of an HTTP exchange. If there was none for any of
    /// them, and the exchange has no reply, it is answered with status 503.
    pub(crate) fn note_notification(&self, is_taken: bool) {
        let noted = match is_taken {
            true => &self.is_notified,
            false => &self.is_refused,
        };
        noted.store(true, Ordering::Relaxed);
    }

    /// Whether there were notifications, and no thread for any of them.
    pub(crate) fn has_refused_all(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed) && !self.is_notified.load(Ordering::Relaxed)
    }

    /// Makes the session look for requests to begin.
    pub(super) fn begin_more(&self) {
        self.lock().rouse();
    }

    /// Gives permits back to the dispatcher, and asks for those that the session wants. No lock is held.
    pub(super) fn ask_dispatcher(&self, membership: &Membership, returned: Returned) -> Called {
        let (permits, is_gone, called) = membership.ask(returned);
        if permits == 0 {
            return called;
        }
        let mut state = self.lock();
        if state.membership.is_some() && state.permits.is_gone == is_gone {
            state.permits.granted += permits;
            state.permits.wanted = 0;
            state.rouse();
            return called;
        }
        // The connection, or its peer's direction, has ended meanwhile.
        state.rouse();
        drop(state);
        self.options.dispatcher.give_back(permits, is_gone);
        called
    }
}

impl Begins for Session {
    fn may_begin(&self) -> Called {
        let membership = self.lock().membership.clone();
        membership.map_or_else(Called::new, |membership| {
            self.ask_dispatcher(&membership, Returned::default())
        })
    }
}
