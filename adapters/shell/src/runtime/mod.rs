//! The interface to a runtime: a clock, tasks and timers, in three small methods, so that any executor can be
//! used.

pub(crate) mod threads;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::Instant;
use antiphon::session::grace;
use pin_project_lite::pin_project;

use crate::debug_fields;

/// A task for the runtime to run.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An executor with timers, and their clock.
pub trait Runtime: Send + Sync + 'static {
    /// Returns the current time, counted from an epoch that the runtime chooses. In a test it may
    /// stand still or be moved by hand. If it steps back, deadlines are late, but nothing breaks.
    fn now(&self) -> Instant;

    /// Runs `task` in the background. A runtime that is shutting down may drop it.
    fn spawn(&self, task: Task);

    /// Makes a timer that is not set.
    fn timer(&self) -> Box<dyn Timer>;

    /// Returns a future that is ready once `at`, of the runtime's clock, has passed; never for
    /// [`Instant::FAR_FUTURE`]. For a single wait this may be cheaper than a timer.
    fn sleep_until(&self, at: Instant) -> Task {
        let mut timer = self.timer();
        Box::pin(poll_fn(move |cx| timer.poll_until(at, cx)))
    }
}

debug_fields!(impl[] dyn Runtime as "Runtime" {});

/// A timer that can be set again.
pub trait Timer: Send {
    /// Ready once `at`, of the runtime's clock, has passed; never for [`Instant::FAR_FUTURE`]. Each
    /// call sets the timer again.
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()>;
}

/// A shared runtime.
pub type SharedRuntime = Arc<dyn Runtime>;

/// Runs `future` until `at` at the latest; returns `None` if it took longer, and then it was
/// dropped. A result that is ready at `at` is returned. If the clock has jumped past `at`, as it
/// does when the process was stopped, the future gets extra time once: see [`grace`].
pub fn until<F: Future>(
    runtime: &dyn Runtime,
    at: Instant,
    future: F,
) -> impl Future<Output = Option<F::Output>> {
    Until {
        runtime,
        at: Some(at),
        due: Instant::FAR_FUTURE,
        asleep: None,
        yields: YIELDS,
        future,
    }
}

/// How often other tasks may run after the time has come and before the result is `None`: the task that
/// reads may have received what the future waits for.
const YIELDS: u32 = 16;

pin_project! {
    /// A future with a deadline. It is not an async function, because that would need more memory.
    struct Until<'r, F> {
        runtime: &'r dyn Runtime,
        // `None` after the timer was set.
        at: Option<Instant>,
        due: Instant,
        // The timer. `None` before it is needed, and after the time has come.
        asleep: Option<Task>,
        // Zero after the time has come and other tasks have run.
        yields: u32,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Until<'_, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Some(output));
        }
        if let Some(at) = this.at.take() {
            *this.due = at;
            *this.asleep = Some(this.runtime.sleep_until(*this.due));
        }
        if let Some(asleep) = this.asleep {
            ready!(asleep.as_mut().poll(cx));
            let now = this.runtime.now();
            *this.asleep = match grace(now.saturating_since(*this.due)) {
                Duration::ZERO => None,
                more => Some(this.runtime.sleep_until(now + more)),
            };
            // The extra time is granted only once.
            *this.due = Instant::FAR_FUTURE;
        } else if *this.yields == 0 {
            return Poll::Ready(None);
        } else {
            *this.yields -= 1;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
