//! How a session ends.

use std::io;
use std::mem::take;
use std::time::Duration;

use antiphon::session::Fault;
use antiphon::{CloseReason, Closed};

use super::{Session, Tag};
use crate::guard::caught;

impl Session {
    /// Closes the connection at once.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.act(|state| state.conn.close(reason));
    }

    /// Whether the peer has asked for the end by a message, so that handlers of notifications are not
    /// awaited.
    pub(crate) fn has_exited(&self) -> bool {
        self.lock().conn.has_exited()
    }

    /// Begins a drain of the connection, whose first messages unsubscribe what the program follows.
    pub(crate) fn drain(&self) {
        let timeout = self.options.call_timeout;
        self.act(|state| {
            state.unsubscribe_topics(timeout.map(|timeout| self.now() + timeout));
            state.conn.unsubscribe_all();
            state.conn.unsubscribe(timeout, || Tag::Unsubscribe);
            state.conn.drain();
        });
    }

    /// Ends a connection at once, without sending anything more: its transport could not be made or
    /// has panicked, or its driver was dropped.
    #[cold]
    pub(crate) fn abort(&self, error: Option<io::Error>) {
        let fault = error.map(Fault::from);
        // The session gets a clone, so that the last owner of the error drops it without the lock.
        self.act(|state| state.conn.abort(fault.clone()));
    }

    /// Notes that the transport was dropped.
    pub(crate) fn let_go(&self) {
        self.lock().let_go();
    }

    /// Why the connection ended, after its transport was dropped, and the error that broke it.
    pub(crate) fn finished(&self) -> (Closed, Option<io::Error>) {
        let state = self.lock();
        let why = state.finished().unwrap_or(Closed::EndOfInput);
        (why, state.fault())
    }

    /// Whether any message waits for the service.
    pub(crate) fn has_work(&self) -> bool {
        self.lock().conn.has_work()
    }

    /// How long to wait for the other side's end of stream after ours. Zero, if we wait no more.
    pub(crate) fn linger(&self) -> Duration {
        self.lock().conn.linger()
    }

    /// Drops the work that waits for the service. Work such as a call's [`Then`] may own the session,
    /// and the session owns the work, so that neither would ever be dropped.
    pub(crate) fn let_work_go(&self) {
        loop {
            let work = self.lock().conn.poll_work(true);
            if work.is_none() {
                break;
            }
            // The work is dropped without the lock.
            caught(|| drop(work));
        }
        if let Some(feed) = self.feed.get() {
            feed.end();
        }
        if let Some(durable) = self.durable.get() {
            durable.end();
        }
        // No request begins any more, so the connection leaves the dispatcher now, and not when the
        // last owner of the session drops it.
        let mut state = self.lock();
        state.membership.take().inspect(|membership| {
            let mut permits = take(&mut state.permits);
            drop(state);
            membership.leave(permits.take_all(), permits.waiting);
        });
    }
}
