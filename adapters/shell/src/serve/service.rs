//! The [`Service`] that a program writes.

use std::future::{Future, ready};
use std::task::{Context, Poll};

use antiphon::session::Report;
use antiphon::{Closed, OwnedError, OwnedJson, OwnedOutcome, RequestKey};

use crate::peer::Peer;
use crate::serve::answer::Answer;
use crate::serve::notification::Notification;
use crate::serve::request::Request;
use crate::session::Then;

/// Handles the messages of the peer. One service may serve any number of connections.
///
/// Messages are begun in the order in which they came in. By default (see
/// [`ConnectionConfig::order`](crate::ConnectionConfig::order)) requests run at the same time, up to
/// [`max_running_requests`](crate::ConnectionConfig::max_running_requests); the next one waits, and so do
/// the messages after it. A notification ends before the messages after it begin, so later requests see
/// what it has changed. Deadlines, output and the answers to our own calls wait for no handler, so a
/// handler may call the peer and wait. Nor does reading, except while
/// [`when_full`](crate::ConnectionConfig::when_full) pauses it.
///
/// All handlers of a connection run on the connection's task, unless
/// [`spawn_handlers`](crate::ConnectionConfig::spawn_handlers) is set. A handler that computes for long or
/// blocks its thread would stop that connection; do such work in [`Request::on_pool`], on a thread of
/// the connection's [`Pool`](crate::Pool):
///
/// ```
/// use antiphon_shell::{Answer, Peer, Request, Service};
/// use antiphon::OwnedError;
///
/// struct Slow;
///
/// impl Service for Slow {
///     async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
///         // Any blocking work.
///         let sum: u64 = request.on_pool(|_| (0..1_000_000).sum()).await?;
///         Ok(sum.into())
///     }
/// }
/// ```
///
/// When the connection has ended, handlers that still wait are dropped: at once, or, after the end
/// of the input, when the configuration's `drain_timeout` has passed. A panic in a handler is
/// caught: the request is answered *internal error*, and the service is used further. `()` is the
/// service that knows no method.
pub trait Service: Send + Sync + 'static {
    /// The connection is open, after its handshake if it has one. Messages of the peer wait until this
    /// has returned. If a handshake fails, this is not called, but [`closed`](Self::closed) is.
    fn opened(&self, peer: &Peer) -> impl Future<Output = ()> + Send {
        let _ = peer;
        ready(())
    }

    /// The peer has sent a batch of so many items. The requests and notifications among them come next,
    /// each by itself.
    fn batch(&self, peer: &Peer, items: usize) {
        let _ = (peer, items);
    }

    /// The peer sent a request. What this returns is the answer, unless the request was
    /// [deferred](Request::defer). An error is sent with its code, message and data; its `source` is
    /// only reported. An error type of your own becomes an [`OwnedError`] by `From`.
    fn request(
        &self,
        peer: &Peer,
        request: &Request,
    ) -> impl Future<Output = Result<Answer, OwnedError>> + Send {
        let _ = peer;
        ready(Err(request.unknown_method()))
    }

    /// The peer sent a notification. The default reports that nobody serves it.
    fn notification(
        &self,
        peer: &Peer,
        notification: Notification,
    ) -> impl Future<Output = ()> + Send {
        let _ = peer;
        notification.unserved();
        ready(())
    }

    /// The peer has cancelled a request that has begun. The request's
    /// [`cancellation`](Request::cancellation) is ready too. Afterwards the handler's future is
    /// dropped, and the dialect's answer to a cancelled request is sent. If the handler has passed
    /// its [`Responder`](crate::Responder) to `spawn` or to a task of its own, that still answers.
    /// A request that is cancelled before it has begun never reaches the service.
    fn cancelled(&self, peer: &Peer, request: RequestKey, reason: Option<OwnedJson>) {
        let _ = (peer, request, reason);
    }

    /// The queue in which the methods of the service wait, if they run one after another, as those of an adapter
    /// for threads do: a few requests are begun together then, and take one place of the server. By default there
    /// is none, and requests run side by side.
    fn turns(&self) -> Option<&dyn Turns> {
        None
    }

    /// Something went wrong of which the peer was told nothing, or only a part. The default ignores it.
    fn report(&self, peer: &Peer, report: Report) {
        let _ = (peer, report);
    }

    /// The connection has ended. The last method that is called.
    fn closed(&self, peer: &Peer, why: Closed) {
        let _ = (peer, why);
    }
}

/// The queue of a service whose methods run one after another.
pub trait Turns {
    /// Whether the service takes more work; if it is pending, `cx` is woken when it does. Until then messages
    /// wait in the session, and only cancels and the end reach the service.
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// A call has ended that was sent with [`Call::then`](crate::Call::then): runs `then` with its outcome when
    /// its turn comes. Without a queue it runs on the connection's task.
    fn settled(&self, peer: &Peer, then: Then, outcome: OwnedOutcome);
}

impl Service for () {}

/// A service can be shared.
impl<S: Service> Service for std::sync::Arc<S> {
    fn opened(&self, peer: &Peer) -> impl Future<Output = ()> + Send {
        (**self).opened(peer)
    }

    fn batch(&self, peer: &Peer, items: usize) {
        (**self).batch(peer, items);
    }

    fn request(
        &self,
        peer: &Peer,
        request: &Request,
    ) -> impl Future<Output = Result<Answer, OwnedError>> + Send {
        (**self).request(peer, request)
    }

    fn notification(
        &self,
        peer: &Peer,
        notification: Notification,
    ) -> impl Future<Output = ()> + Send {
        (**self).notification(peer, notification)
    }

    fn cancelled(&self, peer: &Peer, request: RequestKey, reason: Option<OwnedJson>) {
        (**self).cancelled(peer, request, reason);
    }

    fn turns(&self) -> Option<&dyn Turns> {
        (**self).turns()
    }

    fn report(&self, peer: &Peer, report: Report) {
        (**self).report(peer, report);
    }

    fn closed(&self, peer: &Peer, why: Closed) {
        (**self).closed(peer, why);
    }
}
