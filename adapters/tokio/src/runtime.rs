//! tokio's tasks and timers, as the engine wants them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use antiphon::Instant;
use antiphon_async::{Runtime, SharedRuntime, Task, Timer};
use tokio::runtime::Handle;
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

impl antiphon_async::Clock for Tokio {
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
}

impl fmt::Debug for Tokio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokio").finish_non_exhaustive()
    }
}

struct TokioTimer {
    epoch: tokio::time::Instant,
    set: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Timer for TokioTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if at == Instant::FAR_FUTURE {
            self.set = None;
            return Poll::Pending;
        }
        let due = self.epoch + at.saturating_since(Instant::ZERO);
        let (_, sleep) = match &mut self.set {
            Some(set) => {
                // Setting anew costs a lock.
                if set.0 != at {
                    set.0 = at;
                    set.1.as_mut().reset(due);
                }
                set
            }
            none => none.insert((at, Box::pin(sleep_until(due)))),
        };
        sleep.as_mut().poll(cx)
    }
}
