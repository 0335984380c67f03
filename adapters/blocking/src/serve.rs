//! The [`Service`] that a program writes.

use antiphon::session::Report;
use antiphon::{Closed, Json, OwnedError, RequestKey};
use antiphon_net::{Answer, Notification, OnThreads, Peer, Request, Routes, block_on};

/// Handles the messages of the peer.
///
/// The methods are called on the threads of the connection's [`Pool`](crate::Pool), one after another, in the
/// order in which the messages arrived. While a method blocks, later messages wait, but the answers to our own
/// calls, deadlines and output do not: a handler may call the peer and wait. Long work belongs in
/// [`Responder::spawn`](crate::Responder::spawn).
///
/// Over HTTP each HTTP request is a connection of its own, and every call of a method gets a service
/// of its own, on a thread of the pool. Requests of a batch may run at the same time; when the client
/// goes away, [`closed`](Self::closed) may be called while they still run. If the pool refuses all jobs
/// of an HTTP request, because too many wait, no method is called for it.
///
/// A panic in a method is caught: the request is answered *internal error*, and the service is used
/// further. `()` is the service that knows no method.
pub trait Service: Send + 'static {
    /// Called first: the connection is open, and its handshake has ended if it has one. If the
    /// handshake fails, only [`closed`](Self::closed) is called.
    fn opened(&mut self, peer: &Peer) {
        let _ = peer;
    }

    /// The peer has sent a batch with this many items. The requests and notifications among them
    /// follow, one by one.
    fn batch(&mut self, peer: &Peer, items: usize) {
        let _ = (peer, items);
    }

    /// The peer has sent a request. The returned value is the answer, unless the request was
    /// [deferred](Request::defer). An error is sent as the error object that it holds, without its
    /// cause.
    fn request(&mut self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let _ = peer;
        Err(request.unknown_method())
    }

    /// The peer sent a notification. The default reports that nobody serves it.
    fn notification(&mut self, peer: &Peer, notification: Notification) {
        let _ = peer;
        notification.unserved();
    }

    /// The peer has cancelled a request that the service has begun; the request's
    /// [`is_cancelled`](Request::is_cancelled) is true too. It must still be answered, unless it
    /// has been answered by now: the first answer counts. A request that is cancelled before it has
    /// begun never reaches the service.
    fn cancelled(&mut self, peer: &Peer, request: RequestKey, reason: Option<Json<'_>>) {
        let _ = (peer, request, reason);
    }

    /// Something went wrong, and the peer was told nothing of it, or only a part. The default
    /// ignores it.
    fn report(&mut self, peer: &Peer, report: Report) {
        let _ = (peer, report);
    }

    /// Called last: the connection has ended.
    fn closed(&mut self, peer: &Peer, why: Closed) {
        let _ = (peer, why);
    }
}

impl Service for () {}

impl<S: Send + Sync + 'static> Service for Routes<S, OnThreads> {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        // Its handlers are plain functions. This waits only for an interceptor that decides later.
        block_on(self.serve(request))
    }

    fn notification(&mut self, _: &Peer, notification: Notification) {
        block_on(self.handle(notification));
    }

    fn opened(&mut self, peer: &Peer) {
        Self::opened(self, peer);
    }

    fn batch(&mut self, peer: &Peer, items: usize) {
        Self::batch(self, peer, items);
    }

    fn report(&mut self, peer: &Peer, report: Report) {
        Self::report(self, peer, report);
    }

    fn closed(&mut self, peer: &Peer, why: Closed) {
        Self::closed(self, peer, why);
    }
}
