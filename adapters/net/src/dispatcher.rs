//! How many requests of a server run at the same time, over all its connections.
//!
//! While there is room, running requests are counted without a lock. When a connection gets no permit, the
//! scheduler of the core counts, under a lock, until nobody waits any more. No connection takes that lock
//! while it holds its own: it notes what it wants, and asks when its own is free.

use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};

use antiphon::service::{Member, Scheduler, share};
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
    pool: Arc<Pool>,
}

/// A session whose requests wait for a permit.
pub(crate) trait Begins: Send + Sync {
    /// Makes the session ask for its permit, because one is reserved for it. Returns the sessions that may
    /// do so too, if it does not need it. No lock is held.
    fn may_begin(&self) -> Called;
}

/// The sessions for which a permit is reserved now, until [`call`] tells them so.
pub(crate) type Called = SmallVec<[Weak<dyn Begins>; 1]>;

/// Makes each session ask for its permit. No lock is held.
pub(crate) fn call(mut called: Called) {
    while let Some(session) = called.pop() {
        if let Some(session) = session.upgrade() {
            called.extend(session.may_begin());
        }
    }
}

/// In place of a number: the scheduler counts.
const SCHEDULED: usize = usize::MAX;

/// The permits of a server.
struct Pool {
    max_running: usize,
    max_waiting: usize,
    /// How many requests run, or [`SCHEDULED`].
    running: AtomicUsize,
    /// How many requests wait.
    waiting: AtomicUsize,
    scheduler: Lock<Scheduler<Weak<dyn Begins>>>,
    /// How often the scheduler was asked: for tests.
    #[cfg(debug_assertions)]
    asked: AtomicUsize,
}

impl Pool {
    /// Changes the number of running requests, and returns what it was; `None` if the scheduler counts, or
    /// if there is no new number.
    fn count(&self, change: impl Fn(usize) -> Option<usize>) -> Option<usize> {
        let change = |running| match running {
            SCHEDULED => None,
            running => change(running),
        };
        self.running.fetch_update(AcqRel, Acquire, change).ok()
    }

    /// Returns how many permits a connection gets that wants so many; `None` if it has to ask the
    /// scheduler.
    fn try_begin(&self, wanted: usize) -> Option<usize> {
        let permits = |running| share(self.max_running.saturating_sub(running), wanted);
        let more = |running| Some(permits(running)).filter(|permits| *permits > 0);
        let before = self.count(|running| more(running).map(|permits| running + permits));
        before.map(permits)
    }

    /// Takes permits back; false if the scheduler must do so.
    fn try_end(&self, permits: usize) -> bool {
        self.count(|running| Some(running.saturating_sub(permits)))
            .is_some()
    }

    /// Lets the scheduler count. Also returns the sessions that are to be called. No lock is held.
    fn schedule<R>(
        &self,
        change: impl FnOnce(&mut Scheduler<Weak<dyn Begins>>, &mut Called) -> R,
    ) -> (R, Called) {
        #[cfg(debug_assertions)]
        self.asked.fetch_add(1, Relaxed);
        let mut called = Called::new();
        let mut scheduler = self.scheduler.lock();
        let running = self.running.swap(SCHEDULED, AcqRel);
        if running != SCHEDULED {
            scheduler.set_running(running);
        }
        let result = change(&mut scheduler, &mut called);
        if scheduler.free() > 0 {
            self.running.store(scheduler.running(), Release);
        }
        (result, called)
    }

    /// Counts `waiting` requests of a connection in place of `before`, as many of them as may wait, and
    /// returns how many. While there is room all may: they wait for their own connection only, and those of
    /// another connection begin at once.
    fn set_waiting(&self, before: usize, waiting: usize) -> usize {
        let is_free = self.running.load(Acquire) < self.max_running;
        let kept = |all: usize| match is_free {
            true => waiting,
            false => waiting.min(self.max_waiting.saturating_sub(all - before)),
        };
        let change = |all| Some(all - before + kept(all));
        let all = self.waiting.fetch_update(Relaxed, Relaxed, change);
        all.map_or(waiting, kept)
    }
}

impl Dispatcher {
    /// Allows `max_running` requests to run at the same time (at least one), and `max_waiting` to wait
    /// while that many run; further requests are answered *busy*, with the dialect's error.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        // The largest number says that the scheduler counts.
        let max_running = max_running.clamp(1, SCHEDULED - 1);
        Self {
            pool: Arc::new(Pool {
                max_running,
                max_waiting,
                running: AtomicUsize::new(0),
                waiting: AtomicUsize::new(0),
                scheduler: Lock::new(Scheduler::new(max_running)),
                #[cfg(debug_assertions)]
                asked: AtomicUsize::new(0),
            }),
        }
    }

    /// How many requests run.
    pub fn running(&self) -> usize {
        match self.pool.running.load(Acquire) {
            SCHEDULED => self.pool.scheduler.lock().running(),
            running => running,
        }
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.pool.waiting.load(Relaxed)
    }

    /// How often a request, or its end, took the dispatcher's lock so far.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn locks(&self) -> usize {
        self.pool.asked.load(Relaxed)
    }

    /// Takes one permit, even if none is free.
    pub(crate) fn exceed(&self) {
        if self.pool.count(|running| Some(running + 1)).is_none() {
            self.pool.schedule(|scheduler, _| scheduler.exceed());
        }
    }

    /// Takes permits back, and calls the sessions that get them. No lock is held.
    pub(crate) fn end(&self, permits: usize) {
        if !self.pool.try_end(permits) {
            let end = |scheduler: &mut Scheduler<_>, called: &mut _| scheduler.end(permits, called);
            call(self.pool.schedule(end).1);
        }
    }
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
        f.debug_struct("Dispatcher")
            .field("running", &self.running())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// A connection of a server, as its dispatcher knows it. Dropping it removes the connection.
pub(crate) struct Membership {
    pool: Arc<Pool>,
    session: Weak<dyn Begins>,
    member: Lock<Member>,
    /// How many requests the session wants to begin for which it has no permit.
    wanted: AtomicUsize,
    is_in_line: AtomicBool,
}

impl Membership {
    pub(crate) fn new(dispatcher: &Dispatcher, session: Weak<dyn Begins>) -> Self {
        let pool = Arc::clone(&dispatcher.pool);
        let member = Lock::new(pool.scheduler.lock().join());
        Self {
            pool,
            session,
            member,
            wanted: AtomicUsize::new(0),
            is_in_line: AtomicBool::new(false),
        }
    }

    /// Takes permits for at most `wanted` requests; `None` if the connection has to stand in line.
    pub(crate) fn try_begin(&self, wanted: usize) -> Option<usize> {
        match self.is_in_line.load(Acquire) {
            true => None,
            false => self.pool.try_begin(wanted),
        }
    }

    /// Gives unused permits back; false if that has to wait until the session's lock is free.
    pub(crate) fn try_end(&self, permits: usize) -> bool {
        self.pool.try_end(permits)
    }

    /// Counts `waiting` requests in place of `before`, as many as may wait, and returns how many.
    pub(crate) fn set_waiting(&self, before: usize, waiting: usize) -> usize {
        self.pool.set_waiting(before, waiting)
    }

    /// Notes under the session's lock how many requests want to begin that have no permit. Returns whether
    /// [`ask`](Self::ask) is to be called then.
    pub(crate) fn set_wanted(&self, wanted: usize) -> bool {
        self.wanted.store(wanted, Release);
        (wanted > 0) != self.is_in_line.load(Acquire)
    }

    /// Gives permits back, stands in line if requests want to begin, and leaves the line if none does.
    /// Returns how many permits there are for them, and the sessions that are to be called. No lock is held.
    pub(crate) fn ask(&self, returned: usize) -> (usize, Called) {
        self.pool.schedule(|scheduler, called| {
            let mut member = self.member.lock();
            scheduler.end(returned, called);
            let permits = match self.wanted.load(Acquire) {
                0 => {
                    scheduler.step_out(&mut member, called);
                    0
                }
                wanted => scheduler.begin(&mut member, wanted, || Weak::clone(&self.session)),
            };
            self.is_in_line.store(member.is_in_line(), Release);
            permits
        })
    }

    /// Leaves the dispatcher, of which it has permits that it does not need.
    pub(crate) fn leave(&self, permits: usize, waiting: usize) {
        self.set_waiting(waiting, 0);
        let must_step_out = self.set_wanted(0);
        if must_step_out || !self.try_end(permits) {
            call(self.ask(permits).1);
        }
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

#[cfg(test)]
mod tests {
    use super::Dispatcher;

    // SRV-24
    #[test]
    fn what_waits_is_counted_over_all_connections() {
        let dispatcher = Dispatcher::new(0, 10);
        let pool = &dispatcher.pool;
        // While a permit is free, requests wait for their own connection only.
        assert_eq!(pool.set_waiting(0, 20), 20);
        assert_eq!(pool.set_waiting(0, 5), 5);
        assert_eq!(pool.set_waiting(5, 0), 0);
        // With a limit of 0 one request may still run.
        assert_eq!((pool.try_begin(3), pool.try_begin(1)), (Some(1), None));
        assert_eq!(pool.set_waiting(20, 8), 8);
        assert_eq!(pool.set_waiting(0, 5), 2);
        assert_eq!(dispatcher.waiting(), 10);
        assert_eq!(pool.set_waiting(8, 9), 8);
        assert_eq!(pool.set_waiting(8, 1), 1);
        assert_eq!(pool.set_waiting(2, 20), 9);
        assert_eq!(pool.set_waiting(1, 0), 0);
        assert_eq!((dispatcher.waiting(), dispatcher.running()), (9, 1));
    }
}
