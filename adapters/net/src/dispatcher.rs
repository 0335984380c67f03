//! How many requests of a server run at the same time, over all its connections.

use std::fmt;
use std::sync::{Arc, Weak};

use antiphon::service::{Member, Scheduler};
use smallvec::SmallVec;

use crate::lock::Lock;
use crate::seat::Seat;

/// Limits how many requests of a server run at the same time, over all its connections, and how many wait.
/// Clones are the same dispatcher. A running request holds a permit. Connections that get no permit for
/// their requests stand in line, and each begins one request when its turn comes. So a connection that
/// floods the server does not keep others out.
///
/// A handler that waits for its own peer, for the answer to a call or for space in the output, gives its
/// permit back meanwhile. Then it goes on at once, so more requests than the limit may run for a while. A
/// connection whose peer has ended its direction, or is gone, holds no permits for the handlers that still
/// run.
///
/// ```
/// use antiphon::Config;
/// use antiphon_net::{ConnectionConfig, Dispatcher};
/// let mut options = ConnectionConfig::from(Config::new());
/// options.dispatcher = Dispatcher::new(16, 100);
/// ```
#[derive(Clone)]
pub struct Dispatcher {
    scheduler: Arc<Lock<Scheduler<Weak<dyn Begins>>>>,
}

/// A session whose requests wait for a permit.
pub(crate) trait Begins: Send + Sync {
    /// Makes the session look for requests to begin, because there is a permit for one.
    fn may_begin(&self);
}

/// The sessions that have a permit now. [`call`] tells them when no lock is held.
pub(crate) type Called = SmallVec<[Weak<dyn Begins>; 1]>;

impl Dispatcher {
    /// Allows `max_running` requests to run at the same time (at least one), and `max_waiting` to wait
    /// while that many run; further requests are answered *busy*, with the dialect's error.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            scheduler: Arc::new(Lock::new(Scheduler::new(max_running, max_waiting))),
        }
    }

    /// How many requests run.
    pub fn running(&self) -> usize {
        self.scheduler.lock().running()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.scheduler.lock().waiting()
    }

    /// Takes one permit, even if none is free.
    pub(crate) fn exceed(&self) {
        self.scheduler.lock().exceed();
    }

    /// Takes permits back, and calls the sessions that get them.
    pub(crate) fn end(&self, permits: usize) {
        let mut called = Called::new();
        self.scheduler.lock().end(permits, &mut called);
        call(&called);
    }
}

/// Makes each session look for requests to begin. No lock may be held.
pub(crate) fn call(called: &Called) {
    let sessions = called.iter().filter_map(Weak::upgrade);
    sessions.for_each(|session| session.may_begin());
}

/// Allows 1024 requests to run, and 1024 to wait.
impl Default for Dispatcher {
    fn default() -> Self {
        Self::new(1024, 1024)
    }
}

/// The seat of a handler that holds a permit.
impl Seat for Dispatcher {
    fn leave(&self) {
        self.end(1);
    }

    fn come_back(&self) {
        self.exceed();
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scheduler.lock().fmt(f)
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
        let member = dispatcher.scheduler.lock().join();
        Self {
            dispatcher,
            session,
            member,
        }
    }

    /// Takes permits for at most `wanted` requests, and returns how many. If it gets none, because none
    /// is free or other connections stand in line already, the connection stands in line, and the
    /// session is called when it has a permit.
    pub(crate) fn begin(&mut self, wanted: usize) -> usize {
        let call = || Weak::clone(&self.session);
        let mut scheduler = self.dispatcher.scheduler.lock();
        scheduler.begin(&mut self.member, wanted, call)
    }

    /// Gives unused permits back.
    pub(crate) fn end(&self, permits: usize, called: &mut Called) {
        if permits > 0 {
            self.dispatcher.scheduler.lock().end(permits, called);
        }
    }

    /// Leaves the line for permits, if the connection stands in it, because it has nothing to begin.
    pub(crate) fn step_out(&mut self, called: &mut Called) {
        if self.member.is_in_line() {
            self.dispatcher
                .scheduler
                .lock()
                .step_out(&mut self.member, called);
        }
    }

    /// Sets how many requests of the connection wait. Returns how many of them exceed the limit.
    pub(crate) fn set_waiting(&mut self, waiting: usize) -> usize {
        if self.member.waiting() == waiting {
            return 0;
        }
        let mut scheduler = self.dispatcher.scheduler.lock();
        scheduler.set_waiting(&mut self.member, waiting)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut called = Called::new();
        self.dispatcher
            .scheduler
            .lock()
            .leave(&mut self.member, &mut called);
        call(&called);
    }
}

/// The permits with which the handlers of a connection run. Dropping it gives them back.
#[derive(Debug, Default)]
pub struct Permits {
    dispatcher: Option<Dispatcher>,
    permits: usize,
}

impl Permits {
    /// Begins with no permits. Without a dispatcher permits are only counted, and given back to nobody.
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

    /// Gives back all but this many permits, or takes permits up to so many, even if none is free: for
    /// handlers that go on after a wait.
    pub(crate) fn hold(&mut self, permits: usize) {
        self.retain(permits);
        for _ in self.permits..permits {
            self.permits += 1;
            if let Some(dispatcher) = &self.dispatcher {
                dispatcher.exceed();
            }
        }
    }

    /// Gives back all but this many permits.
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
