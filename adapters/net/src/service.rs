//! What serves: the [`Service`] that a program writes.

use std::future::{Future, ready};

use antiphon::session::Report;
use antiphon::{Closed, OwnedError, OwnedJson, RequestKey};

use crate::answer::Answer;
use crate::notification::Notification;
use crate::peer::Peer;
use crate::request::Request;

/// What answers the peer. One service may serve any number of connections.
///
/// Messages are begun in the order in which they came in. A request that waits for something lets
/// those after it begin, unless it waits for a place among the
/// [`max_running_requests`](crate::ConnectionConfig::max_running_requests) that run at once; a notification is done
/// with before what came after it begins, so state that notifications change is seen by later
/// requests, and by none before. Reading, time, output and the answers to
/// our own calls wait for none of them, so a handler may call the peer and wait.
///
/// All of a connection's handlers run on the connection's task. One that computes for long or
/// blocks its thread would hold up that connection, and belongs in [`Request::spawn`], on a
/// thread of the connection's [`Pool`](crate::Pool):
///
/// ```
/// use antiphon_net::{Answer, Peer, Request, Service};
/// use antiphon::OwnedError;
///
/// struct Slow;
///
/// impl Service for Slow {
///     async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
///         Ok(request.spawn(|_| {
///             // Any blocking work; the answer goes out when it is done.
///             let sum: u64 = (0..1_000_000).sum();
///             Ok(sum.into())
///         }))
///     }
/// }
/// ```
///
/// When the connection has ended, handlers that are still waiting are dropped. After the end of
/// input that is when the configuration's `drain_timeout` has passed; otherwise it is at once. A
/// panic in any of them is caught: the request is answered *internal error* and the service is used
/// on. `()` is the service that knows no method.
pub trait Service: Send + Sync + 'static {
    /// The connection is there: after its handshake, where it has one. The first call, unless there
    /// was no handshake; what the peer says waits for its end.
    fn opened(&self, peer: &Peer) -> impl Future<Output = ()> + Send {
        let _ = peer;
        ready(())
    }

    /// The peer asks something. What this returns is the answer, unless the request was
    /// [deferred](Request::defer). An error is sent as it is; other errors become one by `From`.
    fn request(
        &self,
        peer: &Peer,
        request: &Request,
    ) -> impl Future<Output = Result<Answer, OwnedError>> + Send {
        let _ = peer;
        ready(Err(request.unknown_method()))
    }

    /// The peer sent a notification.
    fn notification(
        &self,
        peer: &Peer,
        notification: Notification,
    ) -> impl Future<Output = ()> + Send {
        let _ = (peer, notification);
        ready(())
    }

    /// The peer gave up a request that has begun; its [`cancellation`](Request::cancellation) says so
    /// too, and at once. Afterwards the handler's future is dropped, and with it the right to answer, which
    /// then answers as the dialect says. A handler that has handed its [`Responder`](crate::Responder) on, to
    /// `spawn` or to a task of its own, leaves the answer to that. A request
    /// that had not begun never reaches the service.
    fn cancelled(&self, peer: &Peer, request: RequestKey, reason: Option<OwnedJson>) {
        let _ = (peer, request, reason);
    }

    /// Something went wrong, and the peer was not sent all of it. Ignored unless written.
    fn report(&self, peer: &Peer, report: Report) {
        let _ = (peer, report);
    }

    /// The connection is over. The last call.
    fn closed(&self, peer: &Peer, why: Closed) {
        let _ = (peer, why);
    }
}

impl Service for () {}

/// A service may be shared.
impl<S: Service> Service for std::sync::Arc<S> {
    fn opened(&self, peer: &Peer) -> impl Future<Output = ()> + Send {
        (**self).opened(peer)
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

    fn report(&self, peer: &Peer, report: Report) {
        (**self).report(peer, report);
    }

    fn closed(&self, peer: &Peer, why: Closed) {
        (**self).closed(peer, why);
    }
}
