//! A web endpoint for servers of others: axum, hyper, and what else serves tower services.
//!
//! ```text
//!   request ─▶ counted ─▶ Endpoint::serve ─▶ answer
//!                                         └▶ 101: the server hands its stream over, which is a connection from now on
//! ```
//!
//! The server has the sockets, so its own settings hold for connections, heads and slow readers. Everything from a
//! complete head on is ours.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use antiphon::http::HttpAnswer;
use antiphon::session::Report;
use antiphon::{ConnectionLimits, address_key};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::Body;
use hyper::rt::{Read, ReadBuf, Write};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response};

use super::body::{Carrier, WebBody, response};
use super::endpoint::Endpoint;
use super::web::Web;
use crate::server::{Connections, End, Ending, Running};
use antiphon_shell::{Context, Io, Service, SharedRuntime, debug_fields};

/// A web endpoint as a tower service: a route of axum, or what hyper calls for each request. Clones are the same
/// service.
///
/// All rules of the [`Web`] hold: origins and hosts, checks, the size and the time of a body, WebSockets with their
/// pings and close codes. Layers may be around it: for CORS, compression, traces or time limits. WebSockets need a
/// server that hands its streams over, as axum does and hyper with `with_upgrades`; elsewhere they are answered 501,
/// or end at once. [`shutdown`](Self::shutdown) ends those that are open; they do not end with the server.
///
/// A framework that nests the service under a path removes that from the request, and so the endpoint's paths are
/// those behind it: leave [`WebRules::paths`](antiphon::http::WebRules::paths) empty there. Addresses of clients come
/// from [`Web::context_from`].
pub struct WebService<S> {
    endpoint: Endpoint<S>,
    connections: Arc<Connections>,
}

impl<S: Service> Web<S> {
    /// Makes a tower service of the endpoint, on the runtime of the calling task: see [`WebService`].
    ///
    /// # Panics
    /// There is no runtime here: see [`current`](crate::current).
    #[cfg(any(feature = "tokio", feature = "async-io"))]
    #[track_caller]
    pub fn into_service(self) -> WebService<S> {
        self.into_service_on(crate::runtime::current())
    }

    /// Makes a tower service of the endpoint, on a runtime.
    pub fn into_service_on(self, runtime: impl Into<SharedRuntime>) -> WebService<S> {
        WebService {
            endpoint: Endpoint::of(self, runtime),
            connections: Connections::without_listener(ConnectionLimits::new()),
        }
    }
}

impl<S: Service> WebService<S> {
    /// Sets how many WebSockets and requests that are being answered may be there at the same time, in all and from
    /// one address. Further requests are answered 503, and reported to the service. Connections without a request are
    /// the server's matter. Set it before the service is cloned. Default 10 240 in all.
    #[must_use]
    pub fn limits(mut self, limits: ConnectionLimits) -> Self {
        self.connections = Connections::without_listener(limits);
        self
    }

    /// The number of WebSockets, and of requests that are being answered.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Answers further requests 503, lets running ones finish, and closes the WebSockets that are left after `grace`;
    /// these then have 5 s to write queued output. Returns whether all had ended before `grace` was over. The server
    /// itself goes on, and is to be stopped too. Dropping the future closes all at once.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.connections.tell(End::Drain);
        let running = Running {
            connections: Arc::clone(&self.connections),
            runtime: Arc::clone(self.endpoint.runtime()),
        };
        running.shutdown(grace).await
    }

    async fn answer<B: Body<Data = Bytes>>(self, request: Request<B>) -> Response<WebBody> {
        let Self {
            endpoint,
            connections,
        } = self;
        let leaving = || {
            let answer = HttpAnswer::text(503, "the server is shutting down\n");
            response(answer.with_header("connection", "close"))
        };
        let (mut parts, body) = request.into_parts();
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let mut context = Context::new();
        context.draw_number();
        context.is_accepted = true;
        let (context, headers) = endpoint.complete(&context, &mut parts);
        let address = context.peer_addr.map(|address| address_key(address.ip()));
        let mut ending = match connections.enter(address) {
            Ok(_) if connections.is_ending() => return leaving(),
            Ok(ending) => ending,
            Err(why) => {
                endpoint.report(&context, Report::LimitReached(why));
                return response(endpoint.options().rules.too_many_connections());
            }
        };
        let carrier = InService(ending.another());
        let serving = endpoint.serve(context, (&parts, &headers), body, 0, carrier);
        let (answer, context) = match ending.unless(End::Drain, serving).await {
            None => return leaving(),
            Some((answer, None)) => return answer,
            Some((answer, Some(context))) => (answer, context),
        };
        let Some(upgrade) = upgrade else {
            return response(HttpAnswer::text(501, "this server hands no stream over\n"));
        };
        let runtime = Arc::clone(endpoint.runtime());
        runtime.spawn(Box::pin(async move {
            let _counted = ending.another();
            // The server hands its stream over after it has written the answer. If it does not write it, nothing runs.
            if let Some(Ok(stream)) = ending.unless(End::Now, upgrade).await {
                let io = Box::new(UpgradedIo(stream));
                if let Some(task) = endpoint.upgraded(io, context, ending) {
                    task.await;
                }
            }
        }));
        answer
    }
}

/// A request in a server of others. It counts as long as its answer is made.
struct InService(Ending);

impl Clone for InService {
    fn clone(&self) -> Self {
        Self(self.0.another())
    }
}

impl Carrier for InService {
    fn has_ended(&self) -> bool {
        false
    }

    fn ending(&mut self) -> &mut Ending {
        &mut self.0
    }

    fn is_client_gone(&self) -> bool {
        // Or a layer has dropped the answer, for its time limit: that cannot be told apart.
        !self.0.is_beyond(End::Drain)
    }

    fn stream_ended(&self) {}
}

impl<S, B> tower_service::Service<Request<B>> for WebService<S>
where
    S: Service,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<WebBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<WebBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answering = self.clone().answer(request);
        Box::pin(async { Ok(answering.await) })
    }
}

impl<S> Clone for WebService<S> {
    fn clone(&self) -> Self {
        Self {
            endpoint: self.endpoint.clone(),
            connections: Arc::clone(&self.connections),
        }
    }
}

debug_fields!(impl[S] WebService<S> as "WebService" { endpoint });

/// A stream that a server has handed over.
struct UpgradedIo(Upgraded);

impl Io for UpgradedIo {
    fn poll_read(&mut self, cx: &mut TaskContext<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(buf);
        ready!(Pin::new(&mut self.0).poll_read(cx, read.unfilled()))?;
        Poll::Ready(Ok(read.filled().len()))
    }

    fn poll_write(&mut self, cx: &mut TaskContext<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
