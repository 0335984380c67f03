//! The cancellation of a request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use antiphon::RequestKey;

use crate::runtime::threads::{block_on, within};
use crate::session::{CancelFlag, Session};

/// A future that is ready when the peer cancels a request that has begun, or when its connection
/// has ended. A handler can await it to stop its work. It stays ready, also after the request has been
/// answered: work that goes on elsewhere can ask it at any time.
///
/// ```no_run
/// # async fn example(request: &antiphon_shell::Request) {
/// let responder = request.defer();
/// responder.cancellation().await;
/// // Sends the dialect's error for a cancelled request; nothing, if the dialect wants no answer.
/// let _ = responder.cancelled();
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it is awaited, or asked"]
pub struct Cancellation {
    session: Arc<Session>,
    key: RequestKey,
    flag: CancelFlag,
}

impl Cancellation {
    pub(crate) fn new(session: &Arc<Session>, key: RequestKey, flag: CancelFlag) -> Self {
        let session = Arc::clone(session);
        Self { session, key, flag }
    }

    /// Whether the peer has cancelled the request, or the connection has ended.
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.session.lock().is_cancelled(self.key)
    }

    /// Blocks the thread until the request is cancelled or the connection has ended, for `span` at most:
    /// a pause that a cancel ends. Returns false if neither has happened by then.
    pub fn wait(self, span: Duration) -> bool {
        block_on(within(span, self)).is_some()
    }
}

impl Future for Cancellation {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let look = |state: &mut crate::session::State| {
            let is_cancelled = self.flag.load(Ordering::Relaxed) || state.is_cancelled(self.key);
            is_cancelled.then_some(())
        };
        self.session.poll_until(cx.waker(), look)
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancellation({:?})", self.key)
    }
}
