//! How many requests of a server run at once, over all its connections.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use antiphon::service::{Member, Scheduler};
use smallvec::SmallVec;

/// The limit on the requests of a server that run at once, whatever their connections, and on those
/// that wait. Clones are the same. Connections that find no permit stand in line, and each begins one
/// request when its turn comes, so none that floods the server keeps others out.
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
    /// Has it look for requests to begin: there is a permit for one.
    fn may_begin(&self);
}

/// Those that have a permit now, to be told when no lock is held.
pub(crate) type Called = SmallVec<[Weak<dyn Begins>; 1]>;

impl Dispatcher {
    /// Lets `max_running` requests run at once, at least one, and `max_waiting` wait; further ones are
    /// answered *busy*, as the dialect says it.
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
        // Nothing that can panic runs under the lock.
        self.scheduler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes permits back, and wakes those that get them.
    pub(crate) fn end(&self, permits: usize) {
        let mut called = Called::new();
        self.lock().end(permits, &mut called);
        call(&called);
    }
}

/// Has each look for requests to begin. No lock may be held.
pub(crate) fn call(called: &Called) {
    let sessions = called.iter().filter_map(Weak::upgrade);
    sessions.for_each(|session| session.may_begin());
}

/// Lets 64 requests run, and 1024 wait.
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

/// A connection of a server, as its dispatcher knows it. It leaves when it is dropped.
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

    /// Gives permits for `wanted` requests. If there is none, the session is called when there is.
    pub(crate) fn begin(&mut self, wanted: usize) -> usize {
        let call = || Weak::clone(&self.session);
        let mut scheduler = self.dispatcher.lock();
        scheduler.begin(&mut self.member, wanted, call)
    }

    /// Gives permits back that are not used.
    pub(crate) fn end(&self, permits: usize, called: &mut Called) {
        if permits > 0 {
            self.dispatcher.lock().end(permits, called);
        }
    }

    /// Steps out of the line, if it stands there: it has nothing to begin.
    pub(crate) fn step_out(&mut self, called: &mut Called) {
        if self.member.is_in_line() {
            self.dispatcher.lock().step_out(&mut self.member, called);
        }
    }

    /// Tells how many requests wait. Gives how many of them are too many.
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

/// The permits in which the handlers of a connection run. They are given back when it is dropped.
#[derive(Debug, Default)]
pub struct Permits {
    dispatcher: Option<Dispatcher>,
    permits: usize,
}

impl Permits {
    /// Holds none yet. Without a dispatcher there are permits for all.
    pub fn new(dispatcher: Option<&Dispatcher>) -> Self {
        Self {
            dispatcher: dispatcher.cloned(),
            permits: 0,
        }
    }

    /// Holds so many more.
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
