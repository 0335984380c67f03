//! What adapters and layers ask of the connection of a peer.

use std::any::Any;
use std::sync::MutexGuard;

use antiphon::Dialect;
use antiphon::service::Attributes;
use antiphon::session::RequestDetails;

use super::Peer;
use crate::runtime::Runtime;

impl Peer {
    /// The runtime that makes the timers and tasks of the connection.
    pub fn runtime(&self) -> &dyn Runtime {
        self.session.runtime()
    }

    /// The dialect: the configured one, or that which [was set](Self::set_dialect) since.
    pub fn dialect(&self) -> &Dialect {
        self.session.dialect()
    }

    /// Values that interceptors and handlers store for later requests of the connection. They have a
    /// lock of their own, which is held until the guard is dropped.
    pub fn attributes(&self) -> MutexGuard<'_, Attributes> {
        self.session.attributes()
    }

    /// Stores a value of an adapter for the connection, unless there is one. Unlike the attributes, no code of
    /// the program can lock it.
    pub fn set_adapter_value(&self, value: impl Any + Send + Sync) {
        self.session.set_adapter_value(value);
    }

    /// The value that an adapter has stored, if it has this type.
    pub fn adapter_value<T: Any>(&self) -> Option<&T> {
        self.session.adapter_value()
    }

    /// How many of our calls are open.
    pub fn calls_open(&self) -> usize {
        self.session.lock().conn.calls_open()
    }

    /// How many bytes of output have been queued in all, and not been written.
    pub fn transmit_queued(&self) -> u64 {
        self.session.lock().conn.transmit_queued()
    }

    /// How often the lock of the connection was taken so far, for tests.
    #[cfg(debug_assertions)]
    pub fn locks(&self) -> usize {
        self.session.locks()
    }

    /// Takes the details of the request whose handler has just panicked, for a report. `None` if the
    /// handler served no request.
    pub fn take_panicked(&self) -> Option<RequestDetails> {
        self.session.take_panicked()
    }

    /// Notes whether there was a thread for a notification of an HTTP exchange. If there was none for any of
    /// them, and the exchange has no reply, it is answered with status 503.
    pub fn note_notification(&self, is_taken: bool) {
        self.session.note_notification(is_taken);
    }

    /// Runs a job of the connection on the [`Pool`](crate::Pool) in its options. Returns false if too much work
    /// waits there; a job that runs `always` waits before all others however many wait.
    pub fn run_on_pool(&self, job: impl FnOnce() + Send + 'static, always: bool) -> bool {
        let (pool, jobs) = (&self.session.options().pool, self.session.jobs());
        if always {
            pool.run_always(jobs, Box::new(job));
            return true;
        }
        pool.run_for(jobs, Box::new(job)).is_ok()
    }
}
