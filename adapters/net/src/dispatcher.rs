//! How many requests of a server run at once, over all its connections.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use antiphon::service::{Member, Scheduler};
use smallvec::SmallVec;

/// Limits how many requests of a server run at once, over all its connections, and how many wait.
/// Clones are the same. Connections that get no permit stand in line, and each begins one request
/// when its turn comes. So a connection that floods the server does not keep others out.
///
/// ```
/// use antiphon::Config;
/// use antiphon_net::{ConnectionConfig, Dispatcher};
/// let mut options = ConnectionConfig::from(Config::new());
/// options.dispatcher = Dispatcher::new(16, 100);
/// ```
#[derive(Clone)]
pub struct Dispatcher {
    scheduler: Arc<Mutex<Scheduler<Weak<dyn Begins>>>>,
}

/// A session whose requests wait for a permit.
pub(crate) trait Begins: Send + Sync {
    /// Makes it look for requests to begin, because there is a permit for one.
    fn may_begin(&self);
}

/// Those that have a permit now. They are called when no lock is held.
pub(crate) type Called = SmallVec<[Weak<dyn Begins>; 1]>;

impl Dispatcher {
    /// Allows `max_running` requests to run at once (at least one), and `max_waiting` to wait;
    /// further requests are answered *busy*, with the dialect's error.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            scheduler: Arc::new(Mutex::new(Scheduler::new(max_running, max_waiting))),
        }
    }

    /// How many requests run.
    pub fn running(&self) -> usize {
        self.lock().running()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    fn lock(&self) -> MutexGuard<'_, Scheduler<Weak<dyn Begins>>> {
        // No code that can panic runs under the lock.
        self.scheduler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one permit more, even if there is none.
    pub(crate) fn exceed(&self) {
        self.lock().exceed();
    }

    /// Takes permits back, and wakes those that get them.
    pub(crate) fn end(&self, permits: usize) {
        let mut called = Called::new();
        self.lock().end(permits, &mut called);
        call(&called);
    }
}

/// Makes each look for requests to begin. No lock may be held.
pub(crate) fn call(called: &Called) {
    let sessions = called.iter().filter_map(Weak::upgrade);
    sessions.for_each(|session| session.may_begin());
}

/// Allows 64 requests to run, and 1024 to wait.
impl Default for Dispatcher {
    fn default() -> Self {
        Self::new(64, 1024)
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().fmt(f)
    }
}

/// A connection of a server, as its dispatcher knows it. Dropping it removes the connection.
pub(crate) struct Membership {
    dispatcher: Dispatcher,
    session: Weak<dyn Begins>,
    member: Member,
}

impl Membership {
    pub(crate) fn new(dispatcher: Dispatcher, session: Weak<dyn Begins>) -> Self {
        let member = dispatcher.lock().join();
        Self {
            dispatcher,
            session,
            member,
        }
    }

    /// Returns permits for `wanted` requests. If there is none, the session is called when there
    /// is.
    pub(crate) fn begin(&mut self, wanted: usize) -> usize {
        let call = || Weak::clone(&self.session);
        let mut scheduler = self.dispatcher.lock();
        scheduler.begin(&mut self.member, wanted, call)
    }

    /// Returns unused permits.
    pub(crate) fn end(&self, permits: usize, called: &mut Called) {
        if permits > 0 {
            self.dispatcher.lock().end(permits, called);
        }
    }

    /// Leaves the line, if it is in it, because it has nothing to begin.
    pub(crate) fn step_out(&mut self, called: &mut Called) {
        if self.member.is_in_line() {
            self.dispatcher.lock().step_out(&mut self.member, called);
        }
    }

    /// Sets how many requests wait. Returns how many of them exceed the limit.
    pub(crate) fn set_waiting(&mut self, waiting: usize) -> usize {
        if self.member.waiting() == waiting {
            return 0;
        }
        let mut scheduler = self.dispatcher.lock();
        scheduler.set_waiting(&mut self.member, waiting)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut called = Called::new();
        self.dispatcher.lock().leave(&mut self.member, &mut called);
        call(&called);
    }
}

/// The permits with which the handlers of a connection run. Dropping it returns them.
#[derive(Debug, Default)]
pub struct Permits {
    dispatcher: Option<Dispatcher>,
    permits: usize,
}

impl Permits {
    /// Makes it without permits. Without a dispatcher there are permits for all.
    pub fn new(dispatcher: Option<&Dispatcher>) -> Self {
        Self {
            dispatcher: dispatcher.cloned(),
            permits: 0,
        }
    }

    /// Adds permits.
    pub fn add(&mut self, permits: usize) {
        self.permits += permits;
    }

    /// Returns all but `permits`.
    pub fn retain(&mut self, permits: usize) {
        let over = self.permits.saturating_sub(permits);
        self.permits -= over;
        if let Some(dispatcher) = self.dispatcher.as_ref().filter(|_| over > 0) {
            dispatcher.end(over);
        }
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        self.retain(0);
    }
}
