//! One request of a client, from its place in the line to its reply.
//!
//! ```text
//!   Waiting ──▶ Placed: who asked makes a connection ──▶ Waiting
//!      ├──────▶ Done: the reply, or what there was instead
//!      └──────▶ GivenUp: nobody waits for it any more
//! ```
//!
//! The rules guarded here: who asked is woken once for each step, with nothing locked; and of a reply no
//! more is held than was asked for.

use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antiphon::http::MEDIA_TYPE;
use antiphon_session::http::{
    HttpError, HttpRequest, HttpResponse, HttpUrl, idle_time_said, is_unprocessed,
};
use bytes::Buf;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    LOCATION, TRANSFER_ENCODING,
};
use hyper::{Method, Request, Response, Uri, Version};

use super::JSON;
use super::connections::Place;
use super::stream::NextRequest;

/// Where requests are handed to hyper.
pub(super) struct Sender {
    hyper: SendRequest<Full<Body>>,
    /// Tells the stream where each begins.
    next: NextRequest,
}

impl Sender {
    pub(super) fn new(hyper: SendRequest<Full<Body>>, next: NextRequest) -> Self {
        Self { hyper, next }
    }
}

/// Whether a connection may be given another request after a reply (RFC 9112 clause 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    Yes,
    /// Within this time.
    For(Duration),
    No,
}

impl Reuse {
    fn after(response: &Response<Incoming>) -> Self {
        let headers = response.headers();
        let ends_by_itself =
            response.version() != Version::HTTP_11 && !has_token(headers, CONNECTION, "keep-alive");
        // Then the end of the connection is the end of the body.
        let has_no_end = hyper::body::Body::size_hint(response.body())
            .exact()
            .is_none()
            && !headers.contains_key(TRANSFER_ENCODING);
        if ends_by_itself || has_no_end || has_token(headers, CONNECTION, "close") {
            return Self::No;
        }
        let keep_alive = headers.get("keep-alive");
        match keep_alive.and_then(|value| idle_time_said(value.to_str().ok()?)) {
            None => Self::Yes,
            Some(Duration::ZERO) => Self::No,
            Some(span) => Self::For(span),
        }
    }
}

fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut tokens = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tokens.any(|found| found.trim().eq_ignore_ascii_case(token))
}

/// Where requests go, and how their heads say so.
pub(super) struct Target {
    url: HttpUrl,
    uri: Uri,
    host: HeaderValue,
}

impl Target {
    /// What is known of `url`.
    pub(super) fn new(url: &HttpUrl) -> Result<Self, HttpError> {
        let uri = url.target().parse();
        let host = HeaderValue::from_str(url.authority());
        Ok(Self {
            url: url.clone(),
            uri: uri.map_err(|_| HttpError::Url("its path cannot be asked for"))?,
            host: host.map_err(|_| HttpError::Url("it names no host"))?,
        })
    }

    pub(super) fn is_at(&self, url: &HttpUrl) -> bool {
        self.url == *url
    }
}

/// One request, from its place in the line to its reply.
pub(super) struct Job {
    target: Arc<Target>,
    content_type: &'static str,
    headers: Arc<Vec<(String, String)>>,
    body: Arc<Vec<u8>>,
    reply_bytes_max: usize,
    state: Mutex<JobState>,
}

#[derive(Default)]
struct JobState {
    stage: Stage,
    /// Who asked.
    asker: Option<Waker>,
    /// The task that serves it.
    server: Option<Waker>,
    /// How many connections were closed before they had taken it.
    tries: usize,
}

/// How far a [`Job`] is.
#[derive(Default)]
pub(super) enum Stage {
    /// It waits in line, or is being served.
    #[default]
    Waiting,
    /// Who asked may make a connection for it.
    Placed(Place),
    Done(Result<HttpResponse, HttpError>),
    /// Nobody waits for it any more.
    GivenUp,
}

/// What whoever asked has to do next.
pub(super) enum Step {
    /// Make a connection.
    Open(Place),
    Done(Result<HttpResponse, HttpError>),
}

/// How serving a [`Job`] ended without a reply.
pub(super) enum Failed {
    /// The connection had been closed: nothing was sent, or nothing that the server can have read.
    Unsent,
    /// Nobody waits for it any more.
    GivenUp,
    Error(HttpError),
}

// Nothing that can panic runs under the lock.

impl Job {
    /// A request that nobody serves yet.
    pub(super) fn new(target: Arc<Target>, asked: &HttpRequest) -> Self {
        Self {
            target,
            content_type: asked.content_type,
            headers: Arc::clone(&asked.headers),
            body: Arc::clone(&asked.body),
            reply_bytes_max: asked.reply_bytes_max,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes a step on, and wakes whoever asked, if anybody waits. Lets go of it before: memory is freed
    /// most cheaply by the thread that took it.
    pub(super) fn advance(self: Arc<Self>, stage: Stage) {
        let mut state = self.lock();
        if matches!(state.stage, Stage::GivenUp) {
            drop(state);
            // A place would go to the next in line, which takes the lock of the line.
            drop(stage);
            return;
        }
        state.stage = stage;
        state.server = None;
        let asker = state.asker.take();
        drop(state);
        drop(self);
        asker.into_iter().for_each(Waker::wake);
    }

    /// Nobody waits for it any more. Says how far it was, and which task serves it.
    pub(super) fn give_up(&self) -> (Stage, Option<Waker>) {
        let mut state = self.lock();
        let stage = mem::replace(&mut state.stage, Stage::GivenUp);
        (stage, state.server.take())
    }

    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.lock().stage, Stage::GivenUp)
    }

    /// Ready once nobody waits any more: for the task that serves it.
    fn poll_given_up(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if matches!(state.stage, Stage::GivenUp) {
            return Poll::Ready(());
        }
        register(&mut state.server, cx);
        Poll::Pending
    }

    /// Ready with the place or the outcome, for whoever asked.
    pub(super) fn poll_step(&self, cx: &Context<'_>) -> Poll<Step> {
        let mut state = self.lock();
        match mem::replace(&mut state.stage, Stage::GivenUp) {
            Stage::Placed(place) => {
                state.stage = Stage::Waiting;
                Poll::Ready(Step::Open(place))
            }
            // Nobody waits any more.
            Stage::Done(replied) => Poll::Ready(Step::Done(replied)),
            waits => {
                state.stage = waits;
                register(&mut state.asker, cx);
                Poll::Pending
            }
        }
    }

    /// Counts a connection that was closed before it had taken it: at most one for each that may
    /// have been idle, and a new one.
    pub(super) fn may_be_tried(&self, connections_max: usize) -> bool {
        let mut state = self.lock();
        state.tries += 1;
        state.tries <= connections_max
    }

    fn request(&self) -> Result<Request<Full<Body>>, HttpError> {
        let mut request = Request::new(Full::new(Body::new(&self.body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.uri.clone();
        let headers = request.headers_mut();
        // With the length of the body, which hyper adds.
        headers.reserve(6 + self.headers.len());
        headers.insert(HOST, self.target.host.clone());
        let content_type = match self.content_type {
            MEDIA_TYPE => JSON.clone(),
            other => HeaderValue::from_static(other),
        };
        headers.insert(CONTENT_TYPE, content_type.clone());
        headers.insert(ACCEPT, content_type);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if !self.headers.is_empty() {
            let own = header_map(&self.headers)?;
            for name in own.keys() {
                headers.remove(name);
            }
            headers.extend(own);
        }
        Ok(request)
    }

    /// Sends it over a connection, and reads the reply. Gives whether the connection may be used
    /// again, too.
    async fn exchange(&self, sender: &mut Sender) -> Result<(HttpResponse, Reuse), Failed> {
        if sender.hyper.ready().await.is_err() {
            return Err(Failed::Unsent);
        }
        let request = self.request().map_err(Failed::Error)?;
        sender.next.begin();
        match sender.hyper.try_send_request(request).await {
            Ok(response) => {
                let reuse = Reuse::after(&response);
                let response = read(response, self.reply_bytes_max).await;
                response.map(|read| (read, reuse)).map_err(Failed::Error)
            }
            Err(mut failed) => Err(match failed.take_message() {
                Some(_) => Failed::Unsent,
                None if cannot_have_arrived(failed.error()) => Failed::Unsent,
                None => Failed::Error(lost(failed.into_error())),
            }),
        }
    }

    /// The same for as long as anybody waits.
    pub(super) async fn serve(&self, sender: &mut Sender) -> Result<(HttpResponse, Reuse), Failed> {
        let mut exchange = pin!(self.exchange(sender));
        poll_fn(|cx| {
            if self.poll_given_up(cx).is_ready() {
                return Poll::Ready(Err(Failed::GivenUp));
            }
            exchange.as_mut().poll(cx)
        })
        .await
    }
}

pub(super) fn register(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(known) => known.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

/// The bytes of a request, shared with whoever may have to send them again.
pub(super) struct Body {
    bytes: Arc<Vec<u8>>,
    /// How many have been sent.
    sent: usize,
}

impl Body {
    fn new(bytes: &Arc<Vec<u8>>) -> Self {
        let bytes = Arc::clone(bytes);
        Self { bytes, sent: 0 }
    }
}

impl Buf for Body {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.sent
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn advance(&mut self, count: usize) {
        self.sent += count;
    }
}

pub(super) fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let refuse = || HttpError::Header(name.clone());
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse())?;
        let value = HeaderValue::from_str(value).map_err(|_| refuse())?;
        map.append(name, value);
    }
    Ok(map)
}

async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<HttpResponse, HttpError> {
    let (parts, mut incoming) = response.into_parts();
    let location = parts.headers.get(LOCATION);
    let mut response = HttpResponse::new(parts.status.as_u16(), Vec::new());
    response.location = location.map(|value| String::from_utf8_lossy(value.as_bytes()).into());
    for (name, value) in &parts.headers {
        response.headers.push(name.as_str(), value.as_bytes());
    }
    let declared = hyper::body::Body::size_hint(&incoming).lower();
    if declared > bytes_max as u64 {
        return Err(response.too_large(bytes_max));
    }
    // What is known to have ended need not be asked again.
    while !hyper::body::Body::is_end_stream(&incoming) {
        let Some(frame) = incoming.frame().await else {
            break;
        };
        // Trailers say nothing that is asked for.
        let Ok(data) = frame.map_err(lost)?.into_data() else {
            continue;
        };
        if response.body.len() + data.len() > bytes_max {
            return Err(response.too_large(bytes_max));
        }
        response.body.extend_from_slice(&data);
    }
    Ok(response)
}

/// Whether the stream failed in a way that leaves the request unprocessed.
fn cannot_have_arrived(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref());
    cause.is_some_and(is_unprocessed)
}

fn lost(error: hyper::Error) -> HttpError {
    HttpError::Lost(io::Error::other(error))
}
