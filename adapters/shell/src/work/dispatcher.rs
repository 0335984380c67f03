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
use crate::work::seat::Seat;

/// Limits how many requests of a server run at the same time, over all its connections, and how many wait.
/// Clones are the same dispatcher. A running request holds a permit. Connections that get no permit for
/// their requests stand in line, and each begins one request when its turn comes. So a connection that
/// floods the server does not keep others out.
///
/// A handler that waits for its own peer, for the answer to a call or for space in the output, gives its
/// permit back meanwhile. Then it goes on at once, so more requests than the limit may run for a while.
///
/// Requests of connections whose peer has ended its direction, or is gone, run with permits of their own, of
/// which there are as many: so peers that have gone keep no others out. When a peer ends its direction and
/// there are too few of these permits for the handlers that run, they are dropped, and their requests are
/// answered *busy*, with the dialect's error. (On threads a request keeps its permit to its end.)
///
/// ```
/// use antiphon::Config;
/// use antiphon_shell::{ConnectionConfig, Dispatcher};
/// let mut options = ConnectionConfig::from(Config::new());
/// options.dispatcher = Dispatcher::new(16, 100);
/// ```
#[derive(Clone)]
pub struct Dispatcher {
    pools: Arc<Pools>,
}

/// The permits of a server: for connections whose peer may still send, and for those whose peer has ended
/// its direction, or is gone.
struct Pools {
    live: PermitPool,
    gone: PermitPool,
    max_waiting: usize,
    /// How many requests wait.
    waiting: AtomicUsize,
}

impl Pools {
    fn of(&self, is_gone: bool) -> &PermitPool {
        match is_gone {
            true => &self.gone,
            false => &self.live,
        }
    }

    /// Counts `waiting` requests of a connection in place of `before`, as many of them as may wait, and
    /// returns how many. While there is room in `pool` all may: they wait for their own connection only, and
    /// those of another connection begin at once.
    fn set_waiting(&self, pool: &PermitPool, before: usize, waiting: usize) -> usize {
        let is_free = pool.running.load(Acquire) < pool.max_running;
        let kept = |all: usize| match is_free {
            true => waiting,
            false => waiting.min(self.max_waiting.saturating_sub(all - before)),
        };
        let change = |all| Some(all - before + kept(all));
        let all = self.waiting.fetch_update(Relaxed, Relaxed, change);
        all.map_or(waiting, kept)
    }
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

/// Some permits of a server.
struct PermitPool {
    max_running: usize,
    /// How many requests run, or [`SCHEDULED`].
    running: AtomicUsize,
    scheduler: Lock<Scheduler<Weak<dyn Begins>>>,
    /// How often the scheduler was asked: for tests.
    #[cfg(debug_assertions)]
    asked: AtomicUsize,
}

impl PermitPool {
    fn new(max_running: usize) -> Self {
        // The largest number says that the scheduler counts.
        let max_running = max_running.clamp(1, SCHEDULED - 1);
        Self {
            max_running,
            running: AtomicUsize::new(0),
            scheduler: Lock::new(Scheduler::new(max_running)),
            #[cfg(debug_assertions)]
            asked: AtomicUsize::new(0),
        }
    }

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

    /// Takes permits back; false if the scheduler must do so, because requests wait or fewer permits are taken.
    fn try_end(&self, permits: usize) -> bool {
        self.count(|running| running.checked_sub(permits)).is_some()
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
        if scheduler.free() > 0 && !scheduler.is_ahead() {
            self.running.store(scheduler.running(), Release);
        }
        (result, called)
    }

    /// How many requests run.
    fn running(&self) -> usize {
        match self.running.load(Acquire) {
            SCHEDULED => self.scheduler.lock().running(),
            running => running,
        }
    }

    /// Takes one permit, even if none is free.
    fn exceed(&self) {
        if self.count(|running| Some(running + 1)).is_none() {
            self.schedule(|scheduler, _| scheduler.exceed());
        }
    }

    /// Takes so many permits, if all of them are free and nobody waits for one.
    fn take_all(&self, permits: usize) -> bool {
        let fits = |running: &usize| *running <= self.max_running;
        self.count(|running| Some(running + permits).filter(fits))
            .is_some()
    }

    /// Takes permits back, and calls the sessions that get them. No lock is held.
    fn end(&self, permits: usize) {
        if !self.try_end(permits) {
            let end = |scheduler: &mut Scheduler<_>, called: &mut _| scheduler.end(permits, called);
            call(self.schedule(end).1);
        }
    }
}

impl Dispatcher {
    /// Allows `max_running` requests to run at the same time (at least one), and `max_waiting` to wait
    /// while that many run; further requests are answered *busy*, with the dialect's error.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        let pools = Pools {
            live: PermitPool::new(max_running),
            gone: PermitPool::new(max_running),
            max_waiting,
            waiting: AtomicUsize::new(0),
        };
        Self {
            pools: Arc::new(pools),
        }
    }

    /// How many requests run.
    pub fn running(&self) -> usize {
        self.pools.live.running() + self.pools.gone.running()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.pools.waiting.load(Relaxed)
    }

    /// How often a request, or its end, took the dispatcher's lock so far.
    #[cfg(debug_assertions)]
    pub fn locks(&self) -> usize {
        self.pools.live.asked.load(Relaxed) + self.pools.gone.asked.load(Relaxed)
    }

    /// Takes one permit, even if none is free; `is_gone` says of which.
    pub(crate) fn exceed(&self, is_gone: bool) {
        self.pools.of(is_gone).exceed();
    }

    /// Takes such permits back, and calls the sessions that get them. No lock is held.
    pub(crate) fn give_back(&self, permits: usize, is_gone: bool) {
        self.pools.of(is_gone).end(permits);
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
        self.give_back(1, false);
    }

    fn come_back(&self) {
        self.exceed(false);
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

/// A connection of a server, as its dispatcher knows it.
pub(crate) struct Membership {
    pools: Arc<Pools>,
    session: Weak<dyn Begins>,
    place: Lock<Standing>,
    /// How many requests the session wants to begin for which it has no permit.
    wanted: AtomicUsize,
    is_in_line: AtomicBool,
    /// Whether the peer has ended its direction, or is gone.
    is_gone: AtomicBool,
}

/// Where a connection stands in line, and has its permits from.
struct Standing {
    is_gone: bool,
    member: Member,
}

impl Membership {
    pub(crate) fn new(dispatcher: &Dispatcher, session: Weak<dyn Begins>) -> Self {
        let pools = Arc::clone(&dispatcher.pools);
        let member = pools.live.scheduler.lock().join();
        Self {
            pools,
            session,
            place: Lock::new(Standing {
                is_gone: false,
                member,
            }),
            wanted: AtomicUsize::new(0),
            is_in_line: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        }
    }

    /// The permits with which requests begin now.
    fn pool(&self) -> &PermitPool {
        self.pools.of(self.is_gone.load(Acquire))
    }

    /// Notes under the session's lock that the peer has ended its direction, or is gone.
    /// If it stands in line, it asks again, among those that are gone.
    pub(crate) fn go(&self) {
        self.is_gone.store(true, Release);
        self.is_in_line.store(false, Release);
    }

    /// Takes permits for at most `wanted` requests; `None` if the connection has to stand in line.
    pub(crate) fn try_begin(&self, wanted: usize) -> Option<usize> {
        match self.is_in_line.load(Acquire) {
            true => None,
            false => self.pool().try_begin(wanted),
        }
    }

    /// Gives unused permits back; false if that has to wait until the session's lock is free.
    pub(crate) fn try_end(&self, permits: usize) -> bool {
        self.pool().try_end(permits)
    }

    /// Counts `waiting` requests in place of `before`, as many as may wait, and returns how many.
    pub(crate) fn set_waiting(&self, before: usize, waiting: usize) -> usize {
        self.pools.set_waiting(self.pool(), before, waiting)
    }

    /// Notes under the session's lock how many requests want to begin that have no permit. Returns whether
    /// [`ask`](Self::ask) is to be called then.
    pub(crate) fn set_wanted(&self, wanted: usize) -> bool {
        self.wanted.store(wanted, Release);
        (wanted > 0) != self.is_in_line.load(Acquire)
    }

    /// Gives permits back, stands in line if requests want to begin, and leaves the line if none does.
    /// Returns how many permits there are for them and whether these are those for peers that are gone, and
    /// the sessions that are to be called. No lock is held.
    pub(crate) fn ask(&self, returned: Returned) -> (usize, bool, Called) {
        let mut place = self.place.lock();
        let (is_gone, mut called) = (self.is_gone.load(Acquire), Called::new());
        if place.is_gone != is_gone || (is_gone && returned.live > 0) {
            let leave = |scheduler: &mut Scheduler<_>, called: &mut _| {
                scheduler.end(returned.live, called);
                if !place.is_gone {
                    scheduler.step_out(&mut place.member, called);
                }
            };
            called = self.pools.live.schedule(leave).1;
        }
        if place.is_gone != is_gone {
            place.member = self.pools.gone.scheduler.lock().join();
            place.is_gone = is_gone;
        }
        let (permits, more) = self.pools.of(is_gone).schedule(|scheduler, called| {
            scheduler.end(returned.of(is_gone), called);
            match self.wanted.load(Acquire) {
                0 => {
                    scheduler.step_out(&mut place.member, called);
                    0
                }
                wanted => scheduler.begin(&mut place.member, wanted, || Weak::clone(&self.session)),
            }
        });
        self.is_in_line.store(place.member.is_in_line(), Release);
        called.extend(more);
        (permits, is_gone, called)
    }

    /// Leaves the dispatcher, of which it has permits that it does not need.
    pub(crate) fn leave(&self, returned: Returned, waiting: usize) {
        self.set_waiting(waiting, 0);
        self.wanted.store(0, Release);
        let is_in_line = self.place.lock().member.is_in_line();
        if is_in_line || !returned.is_empty() {
            call(self.ask(returned).2);
        }
    }
}

/// Permits that are to be given back when the session's lock is free.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Returned {
    live: usize,
    /// Of those for peers that have ended their direction, or are gone.
    gone: usize,
}

impl Returned {
    pub(crate) fn add(&mut self, permits: usize, is_gone: bool) {
        match is_gone {
            true => self.gone += permits,
            false => self.live += permits,
        }
    }

    fn of(self, is_gone: bool) -> usize {
        match is_gone {
            true => self.gone,
            false => self.live,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.live + self.gone == 0
    }
}

/// The permits with which the handlers of a connection run. Dropping it gives them back.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    dispatcher: Option<Dispatcher>,
    permits: usize,
    /// Whether they are those for peers that have ended their direction, or are gone.
    is_gone: bool,
}

impl Permits {
    /// Begins with no permits. Without a dispatcher permits are only counted, and given back to nobody.
    pub(crate) fn new(dispatcher: Option<&Dispatcher>) -> Self {
        Self {
            dispatcher: dispatcher.cloned(),
            permits: 0,
            is_gone: false,
        }
    }

    /// Adds permits.
    pub(crate) fn add(&mut self, permits: usize) {
        self.permits += permits;
    }

    /// Gives back all but this many permits, or takes permits up to so many, even if none is free: for
    /// handlers that go on after a wait.
    pub(crate) fn hold(&mut self, permits: usize) {
        self.retain(permits);
        for _ in self.permits..permits {
            self.permits += 1;
            if let Some(dispatcher) = &self.dispatcher {
                dispatcher.pools.of(self.is_gone).exceed();
            }
        }
    }

    /// Takes permits for peers that have ended their direction instead of these, and gives these back. If
    /// there are too few, `drop_handlers` drops those that run with them.
    pub(crate) fn go(&mut self, drop_handlers: impl FnOnce()) {
        if self.is_gone {
            return;
        }
        let mut permits = self.permits;
        let pools = self.dispatcher.as_ref().map(|dispatcher| &dispatcher.pools);
        // Handlers that wait for their own peer have no permits, and need none.
        if permits > 0 && pools.is_some_and(|pools| !pools.gone.take_all(permits)) {
            drop_handlers();
            permits = 0;
        }
        self.retain(0);
        (self.is_gone, self.permits) = (true, permits);
    }

    /// Gives back all but this many permits.
    pub(crate) fn retain(&mut self, permits: usize) {
        let over = self.permits.saturating_sub(permits);
        self.permits -= over;
        if let Some(dispatcher) = self.dispatcher.as_ref().filter(|_| over > 0) {
            dispatcher.give_back(over, self.is_gone);
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
        let pools = &dispatcher.pools;
        let set = |before, waiting| pools.set_waiting(&pools.live, before, waiting);
        // While a permit is free, requests wait for their own connection only.
        assert_eq!((set(0, 20), set(0, 5), set(5, 0)), (20, 5, 0));
        // With a limit of 0 one request may still run.
        let begun = (pools.live.try_begin(3), pools.live.try_begin(1));
        assert_eq!(begun, (Some(1), None));
        assert_eq!((set(20, 8), set(0, 5)), (8, 2));
        assert_eq!(dispatcher.waiting(), 10);
        assert_eq!((set(8, 9), set(8, 1)), (8, 1));
        assert_eq!((set(2, 20), set(1, 0)), (9, 0));
        assert_eq!((dispatcher.waiting(), dispatcher.running()), (9, 1));
    }
}
