//! The end of a request before its answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use antiphon::RequestKey;

use crate::runtime::threads::{block_on, within};
use crate::session::Session;

/// A future that is ready when a request that has begun is cancelled by the peer, or its connection
/// has ended: for a handler to stop at.
///
/// ```no_run
/// # async fn example(request: &antiphon_net::Request) {
/// let responder = request.defer();
/// responder.cancellation().await;
/// // The peer awaits an answer all the same; the dialect says which.
/// let _ = responder.cancelled();
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it is awaited, or asked"]
pub struct Cancellation {
    session: Arc<Session>,
    key: RequestKey,
}

impl Cancellation {
    pub(crate) fn new(session: &Arc<Session>, key: RequestKey) -> Self {
        let session = Arc::clone(session);
        Self { session, key }
    }

    /// Whether nobody waits for the answer any more: the peer gave the request up, or the
    /// connection has ended.
    pub fn is_cancelled(&self) -> bool {
        self.session.lock().is_cancelled(self.key)
    }

    /// Lets the thread wait until the request is cancelled, at most `span`: the way to pause that
    /// a cancel ends. Says whether it is cancelled.
    pub fn wait(self, span: Duration) -> bool {
        block_on(within(span, self)).is_some()
    }
}

impl Future for Cancellation {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let look = |state: &mut crate::session::State| state.is_cancelled(self.key).then_some(());
        self.session.poll_until(cx.waker(), look)
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancellation({:?})", self.key)
    }
}
