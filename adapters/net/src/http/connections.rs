//! A client's own connections: a limited number, each used for several requests. A request of which a
//! byte was sent is never sent again here: it ends as [`HttpError::Lost`]. The
//! client may then send an idempotent call again, as its `retry` says.
//!
//! ```text
//!   send ──▶ pool: an idle connection, or the right to one more ──▶ request ──▶ reply ──▶ pool
//! ```
//!
//! hyper-util's pool stores the connections, and gives a free one to the request that has waited
//! longest. A permit is held until the stream is dropped, so the server never sees more connections
//! than the limit. (hyper-util's legacy client cannot keep to a limit: it makes another connection while
//! one is just being returned. The test `client_and_server_talk_over_real_sockets` counts connections.)
//! [`stages`](super::stages) says when a request is sent again.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use antiphon::http::SseReader;
use async_lock::{Semaphore, SemaphoreGuardArc};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    LOCATION,
};
use hyper::{Method, Request, Response};
use hyper_util::client::pool::cache;
use tower_service::Service;

use super::io::{Alarm, HyperIo};
use super::stages::{ClientWatch, Stages, idle_time_from};
use crate::link::Connect;
use antiphon_shell::http::{
    HttpError, HttpRequest, HttpResponse, HttpSend, HttpSending, SendProgress,
};
use antiphon_shell::{ClientConfig, SharedRuntime, until};

/// The most bytes of a reply that hyper holds at a time, unless the limit on a head is larger.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

type Body = Full<Bytes>;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Connections to one server, made when they are needed. Dropping it closes idle ones at once, and
/// the others after their replies.
pub(crate) struct HttpConnections {
    shared: Arc<Shared>,
    /// Sends a request over one connection of the pool. `None` if no byte of it was sent, so that it may
    /// be sent over another one.
    attempt: Box<Attempting>,
}

type Attempt = Result<Option<HttpResponse>, HttpError>;

type Attempting =
    dyn Fn(Request<Body>, usize, Arc<SendProgress>) -> BoxFuture<Attempt> + Send + Sync;

struct Shared {
    connect: Arc<dyn Connect>,
    runtime: SharedRuntime,
    options: ClientConfig,
    /// The free permits for a connection.
    permits: Arc<Semaphore>,
}

impl HttpConnections {
    /// Makes connections with `connect`, as many and for as long as `options` says.
    ///
    /// # Errors
    /// [`HttpError::Header`] for a header that is not valid.
    pub(crate) fn new(
        options: &ClientConfig,
        connect: Arc<dyn Connect>,
        runtime: SharedRuntime,
    ) -> Result<Self, HttpError> {
        // A header that is not valid is reported now, and not by every call.
        header_map(&options.headers)?;
        let mut options = options.clone();
        options.max_http_connections = options.max_http_connections.max(1);
        let idle_timeout = options.idle_timeout;
        let shared = Arc::new(Shared {
            connect,
            runtime,
            permits: Arc::new(Semaphore::new(options.max_http_connections)),
            options,
        });
        let pool = cache::builder().build(HttpConnector::new(&shared));
        let attempt =
            move |request, max_bytes, progress: Arc<SendProgress>| -> BoxFuture<Attempt> {
                let mut pool = pool.clone();
                Box::pin(async move {
                    progress.set_waiting(true);
                    poll_fn(|cx| pool.poll_ready(cx)).await?;
                    let mut conn = pool.call(()).await?;
                    drop(pool);
                    let stages = Arc::clone(&conn.inner().stages);
                    // The connection may have ended while it was idle.
                    if poll_fn(|cx| conn.poll_ready(cx)).await.is_err() || !stages.begin() {
                        return Ok(None);
                    }
                    progress.set_waiting(false);
                    let before = progress.set_may_be_read(true);
                    let leased = Leased { conn, stages };
                    let ended = leased.exchange(request, max_bytes, idle_timeout).await;
                    if let Ok(None) = &ended {
                        progress.set_may_be_read(before);
                    }
                    ended
                })
            };
        Ok(Self {
            shared,
            attempt: Box::new(attempt),
        })
    }
}

impl HttpSend for HttpConnections {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> HttpSending<'a> {
        Box::pin(async move {
            // Each idle connection may have ended; then a new one is made.
            for _ in 0..=self.shared.options.max_http_connections {
                let (head, max_bytes) = (head_of(request)?, request.max_reply_bytes);
                let progress = Arc::clone(&request.progress);
                if let Some(response) = (self.attempt)(head, max_bytes, progress).await? {
                    return Ok(response);
                }
            }
            let why = "the server closes every connection before it is used";
            let aborted = io::ErrorKind::ConnectionAborted;
            Err(HttpError::Unsent(io::Error::new(aborted, why)))
        })
    }
}

impl fmt::Debug for HttpConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnections")
            .field(
                "max_http_connections",
                &self.shared.options.max_http_connections,
            )
            .finish_non_exhaustive()
    }
}

/// Makes connections, each with a permit.
struct HttpConnector {
    shared: Arc<Shared>,
    waiting: Option<Pin<Box<dyn Future<Output = SemaphoreGuardArc> + Send + Sync>>>,
    permit: Option<SemaphoreGuardArc>,
}

impl HttpConnector {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            waiting: None,
            permit: None,
        }
    }
}

impl Clone for HttpConnector {
    fn clone(&self) -> Self {
        Self::new(&self.shared)
    }
}

impl Service<()> for HttpConnector {
    type Response = Conn;
    type Error = HttpError;
    type Future = BoxFuture<Result<Conn, HttpError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HttpError>> {
        if self.permit.is_none() {
            let acquire = || Box::pin(self.shared.permits.acquire_arc()) as _;
            let waiting = self.waiting.get_or_insert_with(acquire);
            self.permit = Some(ready!(waiting.as_mut().poll(cx)));
            self.waiting = None;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let (shared, permit) = (Arc::clone(&self.shared), self.permit.take());
        Box::pin(async move {
            let (options, write_timeout) = (
                &shared.options,
                shared.options.connection.config.timeouts.write_timeout,
            );
            let due = shared.runtime.now() + options.connect_timeout;
            let connecting = until(&*shared.runtime, due, shared.connect.connect());
            let link = match connecting.await {
                Some(link) => link.map_err(HttpError::Connect)?,
                None => return Err(HttpError::Connect(io::ErrorKind::TimedOut.into())),
            };
            link.context.check_http1().map_err(HttpError::Connect)?;
            let stages = Stages::new(&shared.runtime);
            let io = HyperIo::new(link.io, ClientWatch::new(Arc::clone(&stages), permit));
            let (sender, conn) = Builder::new()
                .max_header_size(options.max_header_bytes)
                .max_buf_size(MAX_BUFFER_BYTES.max(options.max_header_bytes))
                .handshake(io)
                .await
                .map_err(|error| HttpError::Unsent(io::Error::other(error)))?;
            let alarm = Alarm::new(&shared.runtime);
            let task = run(conn, Arc::clone(&stages), alarm, write_timeout);
            shared.runtime.spawn(Box::pin(task));
            Ok(Conn { sender, stages })
        })
    }
}

/// Runs a connection until it ends, was idle for too long, or the server takes no output.
async fn run(
    conn: Connection<HyperIo<ClientWatch>, Body>,
    stages: Arc<Stages>,
    mut alarm: Alarm,
    write_timeout: Option<Duration>,
) {
    let mut conn = pin!(conn);
    poll_fn(|cx| {
        loop {
            if conn.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            ready!(alarm.poll_over(stages.due(write_timeout, cx), cx));
            if !stages.end_idle() {
                return Poll::Ready(());
            }
        }
    })
    .await;
}

/// One connection of the pool.
struct Conn {
    sender: SendRequest<Body>,
    stages: Arc<Stages>,
}

impl Service<Request<Body>> for Conn {
    type Response = Response<Incoming>;
    /// `None` if no byte of the request was sent.
    type Error = Option<HttpError>;
    type Future = BoxFuture<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self.stages.is_usable() {
            true => self.sender.poll_ready(cx).map_err(|_| None),
            false => Poll::Ready(Err(None)),
        }
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let sending = self.sender.try_send_request(request);
        let stages = Arc::clone(&self.stages);
        Box::pin(async move {
            let mut sending = pin!(sending);
            poll_fn(|cx| match sending.as_mut().poll(cx) {
                Poll::Ready(Err(_)) if stages.end_unsent() => Poll::Ready(Err(None)),
                Poll::Ready(sent) => {
                    Poll::Ready(sent.map_err(|failed| Some(lost(failed.into_error()))))
                }
                Poll::Pending => stages.poll_unsent(cx).map(|()| Err(None)),
            })
            .await
        })
    }
}

/// A connection that carries a request.
struct Leased<C: Exchange> {
    conn: C,
    stages: Arc<Stages>,
}

/// A connection as the pool returns it; its type has no name.
trait Exchange:
    Service<Request<Body>, Response = Response<Incoming>, Error = Option<HttpError>> + Send + 'static
{
}

impl<C> Exchange for C where
    C: Service<Request<Body>, Response = Response<Incoming>, Error = Option<HttpError>>
        + Send
        + 'static
{
}

impl<C: Exchange> Leased<C> {
    async fn exchange(
        mut self,
        request: Request<Body>,
        max_bytes: usize,
        idle_timeout: Duration,
    ) -> Attempt {
        let response = match self.conn.call(request).await {
            Ok(response) => response,
            Err(failed) => return failed.map_or(Ok(None), Err),
        };
        let text = |name| response.headers().get(name)?.to_str().ok();
        let said = text(KEEP_ALIVE).and_then(idle_time_from);
        let is_close = |option: &str| option.trim().eq_ignore_ascii_case("close");
        let closes = text(CONNECTION).is_some_and(|text| text.split(',').any(is_close));
        let span = said.map_or(idle_timeout, |span| span.min(idle_timeout));
        let has_events = text(CONTENT_TYPE).is_some_and(SseReader::is_named_by);
        let (response, mut incoming) = begin(response);
        if has_events {
            let runtime = self.stages.runtime.clone();
            // The connection can be used again if the whole body was read, and ends if this is dropped before.
            let pieces = stream::poll_fn(move |cx| {
                let (leased, frame) = (&self, ready!(Pin::new(&mut incoming).poll_frame(cx)));
                if frame.is_none() && !closes {
                    leased.stages.become_idle(span);
                }
                // Trailers are not used.
                let data = |frame: hyper::body::Frame<Bytes>| frame.into_data().unwrap_or_default();
                Poll::Ready(frame.map(|frame| frame.map(data)))
            });
            return Ok(Some(response.with_pieces(pieces).drained_on(&runtime)));
        }
        let response = read(response, incoming, max_bytes).await?;
        if !closes {
            self.stages.become_idle(span);
        }
        Ok(Some(response))
    }
}

/// Makes sure that no other request gets a connection that cannot be used any more. The pool discards
/// a returned connection only if a `poll_ready` of it has failed. That of [`Conn`] fails at once if
/// the connection is not usable, so it is called here only to fail, and needs no waker.
impl<C: Exchange> Drop for Leased<C> {
    fn drop(&mut self) {
        if !self.stages.is_usable() {
            let _ = self
                .conn
                .poll_ready(&mut Context::from_waker(Waker::noop()));
        }
    }
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Makes the request for hyper. Its body is shared, because it may have to be sent again.
fn head_of(asked: &HttpRequest) -> Result<Request<Body>, HttpError> {
    struct SharedBody(Arc<Vec<u8>>);

    impl AsRef<[u8]> for SharedBody {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    let body = Bytes::from_owner(SharedBody(Arc::clone(&asked.body)));
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = asked.url.origin_form();
    let headers = request.headers_mut();
    headers.insert(HOST, asked.url.host_header());
    headers.insert(CONTENT_TYPE, value_of(asked.content_type));
    headers.insert(ACCEPT, value_of(asked.accept));
    headers.insert(ACCEPT_ENCODING, value_of("identity"));
    let own = header_map(&asked.headers)?;
    for name in own.keys() {
        headers.remove(name);
    }
    headers.extend(own);
    Ok(request)
}

/// The value of a header that is a constant: those of each call have been checked when this was compiled.
fn value_of(text: &'static str) -> HeaderValue {
    const TEXTS: [&str; 3] = [
        "application/json",
        "application/json, text/event-stream",
        "identity",
    ];
    static KNOWN: [HeaderValue; 3] = [
        HeaderValue::from_static(TEXTS[0]),
        HeaderValue::from_static(TEXTS[1]),
        HeaderValue::from_static(TEXTS[2]),
    ];
    let known = TEXTS.iter().position(|known| *known == text);
    known.map_or_else(|| HeaderValue::from_static(text), |at| KNOWN[at].clone())
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let header = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(value),
        );
        let (Ok(known), Ok(value)) = header else {
            return Err(HttpError::Header(name.clone()));
        };
        map.append(known, value);
    }
    Ok(map)
}

/// Takes the head of a response.
fn begin(response: Response<Incoming>) -> (HttpResponse, Incoming) {
    let (parts, incoming) = response.into_parts();
    let location = parts.headers.get(LOCATION);
    let mut response = HttpResponse::new(parts.status.as_u16(), Vec::new());
    response.location = location.map(|value| String::from_utf8_lossy(value.as_bytes()).into());
    response.headers = parts.headers.into();
    (response, incoming)
}

async fn read(
    mut response: HttpResponse,
    mut incoming: Incoming,
    max_bytes: usize,
) -> Result<HttpResponse, HttpError> {
    let declared = incoming.size_hint().lower();
    if declared > max_bytes as u64 {
        return Err(response.too_large(max_bytes));
    }
    while let Some(frame) = incoming.frame().await {
        // Trailers are not used.
        let Ok(data) = frame.map_err(lost)?.into_data() else {
            continue;
        };
        if response.body.len() + data.len() > max_bytes {
            return Err(response.too_large(max_bytes));
        }
        response.body.extend_from_slice(&data);
    }
    Ok(response)
}

fn lost(error: hyper::Error) -> HttpError {
    HttpError::Lost(io::Error::other(error))
}
