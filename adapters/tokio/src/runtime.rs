//! tokio's tasks and timers, as the engine wants them.

use std::fmt;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use antiphon::Instant;
use antiphon_net::{Runtime, SharedRuntime, Task, Timer};
use tokio::runtime::Handle;
use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep_until};

/// The tokio runtime that it was made in. Its clock is tokio's, which tests can pause.
pub struct Tokio {
    handle: Handle,
    epoch: tokio::time::Instant,
}

impl Tokio {
    /// The runtime of the calling task.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as tokio's own functions do.
    pub fn current() -> SharedRuntime {
        Arc::new(Self {
            handle: Handle::current(),
            epoch: tokio::time::Instant::now(),
        })
    }
}

impl antiphon_net::Clock for Tokio {
    fn now(&self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }
}

impl Runtime for Tokio {
    fn spawn(&self, task: Task) {
        self.handle.spawn(task);
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(TokioTimer {
            epoch: self.epoch,
            set: None,
        })
    }

    fn sleep_until(&self, at: Instant) -> Task {
        if at == Instant::FAR_FUTURE {
            return Box::pin(pending());
        }
        let due = self.epoch + at.saturating_since(Instant::ZERO);
        // As with the timer below.
        Box::pin(unconstrained(sleep_until(due)))
    }
}

impl fmt::Debug for Tokio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokio").finish_non_exhaustive()
    }
}

struct TokioTimer {
    epoch: tokio::time::Instant,
    set: Option<Set>,
}

struct Set {
    at: Instant,
    sleep: Pin<Box<Sleep>>,
    /// Whom it wakes.
    waker: Option<Waker>,
}

impl Timer for TokioTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if at == Instant::FAR_FUTURE {
            self.set = None;
            return Poll::Pending;
        }
        let epoch = self.epoch;
        let due = || epoch + at.saturating_since(Instant::ZERO);
        let set = self.set.get_or_insert_with(|| Set {
            at,
            sleep: Box::pin(sleep_until(due())),
            waker: None,
        });
        if set.at != at {
            // Setting anew costs a lock.
            set.at = at;
            set.sleep.as_mut().reset(due());
            set.waker = None;
        }
        let is_known = |known: &Waker| known.will_wake(cx.waker());
        if set.waker.as_ref().is_some_and(is_known) && !set.sleep.is_elapsed() {
            return Poll::Pending;
        }
        // Pending is to mean that it wakes, and not that others are to have their turn.
        let polled = pin!(unconstrained(set.sleep.as_mut())).poll(cx);
        set.waker = polled.is_pending().then(|| cx.waker().clone());
        polled
    }
}
