//! What is needed of a runtime: tasks and timers. Three small methods, so any executor will do.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use antiphon::Instant;
use antiphon_session::Clock;

/// Something for the runtime to run.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An executor with timers, and the clock that the timers go by.
pub trait Runtime: Clock {
    /// Runs `task` in the background. If the runtime is shutting down it may drop it.
    fn spawn(&self, task: Task);

    /// A timer that is not set.
    fn timer(&self) -> Box<dyn Timer>;
}

impl fmt::Debug for dyn Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

/// A timer that can be set again and again.
pub trait Timer: Send {
    /// Ready once `at`, of the runtime's clock, has come; [`Instant::FAR_FUTURE`] never comes. Each
    /// call sets the timer anew.
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()>;
}

/// A runtime that is shared.
pub type SharedRuntime = Arc<dyn Runtime>;

/// Waits until `at`, of the runtime's clock.
pub async fn sleep_until(runtime: &dyn Runtime, at: Instant) {
    let mut timer = runtime.timer();
    std::future::poll_fn(|cx| timer.poll_until(at, cx)).await;
}

/// Runs `future` until `at` at the latest; none if it took longer, and then it has been dropped.
pub async fn until<F: Future>(runtime: &dyn Runtime, at: Instant, future: F) -> Option<F::Output> {
    until_due(runtime, || at, future).await
}

/// The same for `span` at the longest, by a clock that is read only if it is not ready at once.
#[cfg(feature = "http")]
pub(crate) async fn within<F: Future>(
    runtime: &dyn Runtime,
    span: std::time::Duration,
    future: F,
) -> Option<F::Output> {
    until_due(runtime, || runtime.now() + span, future).await
}

async fn until_due<F: Future>(
    runtime: &dyn Runtime,
    at: impl FnOnce() -> Instant,
    future: F,
) -> Option<F::Output> {
    let mut at = Some(at);
    let mut set = None;
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        if let Some(at) = at.take() {
            set = Some((runtime.timer(), at()));
        }
        let Some((timer, at)) = &mut set else {
            return Poll::Pending;
        };
        timer.poll_until(*at, cx).map(|()| None)
    })
    .await
}
