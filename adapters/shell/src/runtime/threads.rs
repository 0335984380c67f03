//! Threads as a runtime: a task is a thread, and a timer limits how long the thread that polls it sleeps.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use antiphon::Instant;

use super::{Runtime, SharedRuntime, Task, Timer, until};

/// The time from which the clocks of runtimes count that tell the time by the system's clock, so that times of several servers
/// can be compared: they may share a limit. It lies an hour before the first call of this function,
/// because a test's clock may have begun before that call.
pub fn epoch() -> std::time::Instant {
    const BEFORE: Duration = Duration::from_secs(3600);
    static EPOCH: OnceLock<std::time::Instant> = OnceLock::new();
    *EPOCH.get_or_init(|| {
        let now = std::time::Instant::now();
        now.checked_sub(BEFORE).unwrap_or(now)
    })
}

struct Threads;

/// Returns a runtime that runs each task on a thread of its own, with [`block_on`].
pub fn threads() -> SharedRuntime {
    Arc::new(Threads)
}

impl Runtime for Threads {
    fn now(&self) -> Instant {
        Instant::ZERO + epoch().elapsed()
    }

    fn spawn(&self, task: Task) {
        let builder = thread::Builder::new().name("antiphon-task".into());
        // If the system refuses the thread, the task is dropped, and those that wait for it notice.
        let _ = builder.spawn(|| block_on(task));
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(Alarm)
    }

    fn sleep_until(&self, at: Instant) -> Task {
        Box::pin(poll_fn(move |_| poll_alarm(at)))
    }
}

struct Alarm;

impl Timer for Alarm {
    fn poll_until(&mut self, at: Instant, _: &mut Context<'_>) -> Poll<()> {
        poll_alarm(at)
    }
}

thread_local! {
    /// Wakes this thread when it is parked.
    static WAKER: Waker = Waker::from(Arc::new(Parked(thread::current())));
    /// When the future that this thread polls has to be polled again at the latest.
    static WAKE_AT: Cell<Instant> = const { Cell::new(Instant::FAR_FUTURE) };
    /// How many futures this thread polls, one inside the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the waker that wakes this thread when it is parked.
pub(crate) fn thread_waker() -> Waker {
    // While a thread ends, its waker is gone, so a new one is made.
    let known = WAKER.try_with(Waker::clone);
    known.unwrap_or_else(|_| Waker::from(Arc::new(Parked(thread::current()))))
}

fn poll_alarm(at: Instant) -> Poll<()> {
    if at != Instant::FAR_FUTURE && Threads.now() >= at {
        return Poll::Ready(());
    }
    WAKE_AT.set(WAKE_AT.get().min(at));
    Poll::Pending
}

/// Polls `future` on this thread until it is ready.
pub fn block_on<F: Future>(future: F) -> F::Output {
    block_on_with(future, park_until)
}

/// Polls `future` on this thread until it is ready. Between polls it calls `wait` with the time at
/// which that must return at the latest.
pub(crate) fn block_on_with<F: Future>(future: F, mut wait: impl FnMut(Instant)) -> F::Output {
    let (mut future, waker) = (pin!(future), thread_waker());
    DEPTH.set(DEPTH.get() + 1);
    let ready = loop {
        WAKE_AT.set(Instant::FAR_FUTURE);
        if let Poll::Ready(ready) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            break ready;
        }
        wait(WAKE_AT.get());
    };
    DEPTH.set(DEPTH.get() - 1);
    if DEPTH.get() > 0 {
        // The wake of the inner future may have been meant for the outer one.
        waker.wake();
    }
    ready
}

/// Makes the thread sleep until it is woken, or until `at`.
pub(crate) fn park_until(at: Instant) {
    match at {
        Instant::FAR_FUTURE => thread::park(),
        _ => thread::park_timeout(at.saturating_since(Threads.now())),
    }
}

/// Returns a future for [`block_on`], which runs `future` for `span` at most. Its output is `None` if
/// `future` took longer.
pub(crate) fn within<F: Future>(
    span: Duration,
    future: F,
) -> impl Future<Output = Option<F::Output>> {
    until(&Threads, Threads.now() + span, future)
}
