//! Work of a handler that goes on when nobody waits for the answer any more.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::guard::contained;
use crate::session::Session;

/// What a handler of a router returns so that its work runs to its end: a future that is not dropped when
/// the request is cancelled, its connection ends or the handler's time is up. The peer then gets the same
/// answer as without it, and the result of the future is not sent.
///
/// Work that goes on counts as a request that runs, in the limits of its connection and of the server. The
/// interceptors of the request no longer run around it. If the runtime shuts down, the work is dropped. On
/// threads a handler always runs to its end.
///
/// ```
/// use antiphon::OwnedError;
/// use antiphon_shell::{Router, RunToEnd};
///
/// async fn withdraw(amount: u32) -> Result<u32, OwnedError> {
///     // Changes one account and then the other, so it must not stop in between.
///     Ok(amount)
/// }
///
/// let router = Router::new()
///     .method("withdraw", ["amount"], |amount: u32| RunToEnd(withdraw(amount)));
/// # let _: Router = router;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RunToEnd<F>(pub F);

/// Work that goes on as a task of its own if it is dropped before its end.
pub(crate) struct WorkToEnd<T: Send + 'static> {
    session: Arc<Session>,
    /// `None` at its end, and after a panic.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: Send> WorkToEnd<T> {
    pub(crate) fn new(
        session: &Arc<Session>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self {
            session: Arc::clone(session),
            work: Some(Box::pin(work)),
        }
    }
}

impl<T: Send> Future for WorkToEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // If the work panics, it stays taken out, so that `drop` does not poll it again.
        let Some(mut work) = self.work.take() else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send> Drop for WorkToEnd<T> {
    fn drop(&mut self) {
        let Some(mut work) = self.work.take() else {
            return;
        };
        let session = Arc::clone(&self.session);
        let running = Unawaited::new(&session);
        let task = Box::pin(async move {
            let mut step = |cx: &mut Context<'_>| work.as_mut().poll(cx).map(drop);
            poll_fn(|cx| {
                let polled = contained(Some(&*running.session), || step(cx));
                polled.unwrap_or(Poll::Ready(()))
            })
            .await;
            contained(Some(&*running.session), || drop(work));
        });
        contained(Some(&*session), || session.runtime().spawn(task));
    }
}

/// Makes the work count as a request that runs, until this is dropped.
struct Unawaited {
    session: Arc<Session>,
    /// Whether its permit is one of those for peers that are gone.
    is_gone: bool,
}

impl Unawaited {
    fn new(session: &Arc<Session>) -> Self {
        Self {
            is_gone: session.begin_unawaited(),
            session: Arc::clone(session),
        }
    }
}

impl Drop for Unawaited {
    fn drop(&mut self) {
        self.session.end_unawaited(self.is_gone);
    }
}
