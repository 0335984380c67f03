//! A client's own connections: so many, kept for a while, and never asked twice for what may have
//! been done.
//!
//! ```text
//!   send ──▶ idle one? ──▶ request ──▶ reply ──▶ idle again
//!              │ none          └ dropped, broken ──▶ its task ends, its place is free
//!              ├ a place is free ──▶ connect ──▶ a task of its own
//!              └ none ──▶ wait in line for either
//! ```
//!
//! The rules guarded here: a place is taken until the stream is let go, so the server never sees
//! more than the limit; and a request is sent again only if hyper gave it back unsent.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use antiphon::Instant;
use antiphon_session::http::{HttpClientOptions, HttpError, HttpRequest, HttpResponse, HttpUrl};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION};
use hyper::{Method, Request, Response, Uri};

use super::client::{HttpSend, Sending};
use super::stream::{HyperIo, Phases};
use crate::client::Connect;
use crate::runtime::{SharedRuntime, until};

/// The most bytes of a reply that hyper holds at once.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// How often it is looked whether a connection is idle, at most.
const LOOKS_APART_MIN: Duration = Duration::from_millis(1);

/// Where requests are handed to a connection.
type Sender = SendRequest<Full<Bytes>>;

/// Connections to one server, made when they are needed. Dropped, it closes those that are idle at
/// once and the others with their replies.
pub struct Connections {
    inner: Arc<Inner>,
}

struct Inner {
    connect: Box<dyn Connect>,
    runtime: SharedRuntime,
    connections_max: usize,
    connect_time_max: Duration,
    idle_time_max: Duration,
    write_time_max: Option<Duration>,
    header_bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The latest to become idle last, each with the time.
    idle: Vec<(Sender, u64, Instant)>,
    /// How many places are taken.
    places: usize,
    /// Who waits for a connection or a place, the longest first.
    waiting: VecDeque<Arc<Ticket>>,
    /// Numbers the connections.
    made: u64,
    /// Where the last request went, and how its head says so.
    target: Option<(HttpUrl, Uri, HeaderValue)>,
}

/// A place in the line.
#[derive(Default)]
struct Ticket {
    inside: Mutex<TicketState>,
}

#[derive(Default)]
struct TicketState {
    granted: Option<Grant>,
    is_given_up: bool,
    waker: Option<Waker>,
}

/// What somebody who waited gets.
enum Grant {
    /// A connection that was idle, and its number.
    Idle(Sender, u64),
    /// The right to make one.
    Place(Place),
}

/// The right to one connection. Dropped, it goes to the next in line.
struct Place {
    inner: Weak<Inner>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.give(None);
        }
    }
}

impl Ticket {
    fn lock(&self) -> MutexGuard<'_, TicketState> {
        // Nothing that can panic runs under the lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection that has become idle, or a place that has become free, to whoever has
    /// waited longest; to nobody in particular if nobody does.
    fn give(self: &Arc<Self>, idle: Option<(Sender, u64)>) {
        if idle.as_ref().is_some_and(|(sender, _)| sender.is_closed()) {
            // Its task gives its place.
            return;
        }
        let mut state = self.lock();
        while let Some(ticket) = state.waiting.pop_front() {
            let mut inside = ticket.lock();
            if inside.is_given_up {
                continue;
            }
            inside.granted = Some(match idle {
                Some((sender, number)) => Grant::Idle(sender, number),
                None => Grant::Place(self.place()),
            });
            let waker = inside.waker.take();
            drop(inside);
            drop(state);
            waker.into_iter().for_each(Waker::wake);
            return;
        }
        match idle {
            Some((sender, number)) => state.idle.push((sender, number, self.runtime.now())),
            None => state.places -= 1,
        }
    }

    fn place(self: &Arc<Self>) -> Place {
        let inner = Arc::downgrade(self);
        Place { inner }
    }

    /// An idle connection, a place for a new one, or a ticket to wait with.
    fn ask(self: &Arc<Self>) -> Result<Grant, Arc<Ticket>> {
        let mut state = self.lock();
        if let Some((sender, number, _)) = state.idle.pop() {
            return Ok(Grant::Idle(sender, number));
        }
        if state.places < self.connections_max {
            state.places += 1;
            return Ok(Grant::Place(self.place()));
        }
        let ticket = Arc::<Ticket>::default();
        state.waiting.push_back(Arc::clone(&ticket));
        Err(ticket)
    }

    async fn acquire(self: &Arc<Self>) -> Grant {
        match self.ask() {
            Ok(grant) => grant,
            Err(ticket) => {
                let waiting = Waiting(self, &ticket);
                poll_fn(|cx| {
                    let mut inside = waiting.1.lock();
                    if let Some(grant) = inside.granted.take() {
                        return Poll::Ready(grant);
                    }
                    inside.waker = Some(cx.waker().clone());
                    Poll::Pending
                })
                .await
            }
        }
    }

    /// When an idle connection has been kept long enough; none for one that is at work.
    fn idle_until(&self, number: u64) -> Option<Instant> {
        let state = self.lock();
        let mut idle = state.idle.iter();
        let found = idle.find(|(_, found, _)| *found == number)?;
        Some(found.2 + self.idle_time_max)
    }

    /// Lets go of an idle connection.
    fn forget(&self, number: u64) {
        let mut state = self.lock();
        let found = state.idle.iter().position(|(_, found, _)| *found == number);
        let forgotten = found.map(|at| state.idle.remove(at));
        drop(state);
        drop(forgotten);
    }

    /// Makes a connection, and lets it run on a task of its own, which holds the place.
    async fn open(self: &Arc<Self>, place: Place) -> Result<(Sender, u64), HttpError> {
        let due = self.runtime.now() + self.connect_time_max;
        let connecting = until(&*self.runtime, due, self.connect.connect());
        let link = match connecting.await {
            Some(link) => link.map_err(HttpError::Connect)?,
            None => return Err(HttpError::Connect(io::ErrorKind::TimedOut.into())),
        };
        let io = HyperIo::new(
            link.io,
            None,
            Phases::untimed(),
            self.write_time_max,
            Duration::ZERO,
            Arc::clone(&self.runtime),
        );
        let mut builder = Builder::new();
        builder
            .max_header_size(self.header_bytes_max)
            .max_buf_size(BUFFER_BYTES_MAX.max(self.header_bytes_max));
        let (sender, conn) = builder.handshake(io).await.map_err(unsent)?;
        let number = {
            let mut state = self.lock();
            state.made += 1;
            state.made
        };
        let (inner, runtime) = (Arc::downgrade(self), Arc::clone(&self.runtime));
        self.runtime.spawn(Box::pin(async move {
            run(conn, &inner, &runtime, number).await;
            drop(place);
        }));
        Ok((sender, number))
    }

    async fn send(self: &Arc<Self>, asked: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut request = self.request(asked)?;
        // At most once for every connection that was closed while it was idle, and on a new one.
        for _ in 0..=self.connections_max {
            let (mut sender, number) = match self.acquire().await {
                Grant::Idle(sender, number) => (sender, number),
                // Apart, for it is large and rare.
                Grant::Place(place) => Box::pin(self.open(place)).await?,
            };
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let response = read(response, asked.reply_bytes_max).await?;
                    self.give(Some((sender, number)));
                    return Ok(response);
                }
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(lost(failed.into_error())),
                },
            }
        }
        let broken = io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "the server closes every connection before it is used",
        );
        Err(HttpError::Unsent(broken))
    }

    fn request(&self, asked: &HttpRequest) -> Result<Request<Full<Bytes>>, HttpError> {
        let body = Full::new(Bytes::from_owner(Body(Arc::clone(&asked.body))));
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        let (target, host) = self.target(&asked.url)?;
        *request.uri_mut() = target;
        let headers = request.headers_mut();
        // With the length of the body, which hyper adds.
        headers.reserve(5 + asked.headers.len());
        headers.insert(HOST, host);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(asked.content_type));
        headers.insert(ACCEPT, HeaderValue::from_static(asked.content_type));
        if !asked.headers.is_empty() {
            let own = header_map(&asked.headers)?;
            for name in own.keys() {
                headers.remove(name);
            }
            headers.extend(own);
        }
        Ok(request)
    }

    /// What the head of a request to `url` says of it. Mostly that is where the last one went.
    fn target(&self, url: &HttpUrl) -> Result<(Uri, HeaderValue), HttpError> {
        let mut state = self.lock();
        if let Some((known, target, host)) = &state.target {
            if known == url {
                return Ok((target.clone(), host.clone()));
            }
        }
        let target = url.target().parse::<Uri>();
        let target = target.map_err(|_| HttpError::Url("its path cannot be asked for"))?;
        let host = HeaderValue::from_str(url.authority());
        let host = host.map_err(|_| HttpError::Url("it names no host"))?;
        state.target = Some((url.clone(), target.clone(), host.clone()));
        Ok((target, host))
    }
}

/// Somebody in line. Dropped before its turn, it leaves; dropped at its turn, the next one gets
/// what it got.
struct Waiting<'a>(&'a Arc<Inner>, &'a Arc<Ticket>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut inside = self.1.lock();
        inside.is_given_up = true;
        let granted = inside.granted.take();
        drop(inside);
        match granted {
            Some(Grant::Idle(sender, number)) => self.0.give(Some((sender, number))),
            // Dropping it gives it to the next.
            Some(Grant::Place(_)) => {}
            None => {
                let mut state = self.0.lock();
                state.waiting.retain(|ticket| !Arc::ptr_eq(ticket, self.1));
            }
        }
    }
}

/// The bytes of a request, shared with whoever may have to send them again.
struct Body(Arc<Vec<u8>>);

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Runs a connection until it ends or has been idle for too long.
async fn run(
    conn: hyper::client::conn::http1::Connection<HyperIo, Full<Bytes>>,
    inner: &Weak<Inner>,
    runtime: &SharedRuntime,
    number: u64,
) {
    let mut conn = pin!(conn);
    let mut timer = runtime.timer();
    // It cannot have been idle for too long before then.
    let mut due = Instant::ZERO;
    poll_fn(|cx| {
        loop {
            // Whoever asked over it has been told how it ended.
            if conn.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if inner.strong_count() == 0 {
                // Nobody will ask any more; the reply that is under way is awaited.
                return Poll::Pending;
            }
            if timer.poll_until(due, cx).is_pending() {
                return Poll::Pending;
            }
            let Some(inner) = inner.upgrade() else {
                continue;
            };
            let now = runtime.now();
            due = match inner.idle_until(number) {
                Some(due) if due <= now => {
                    inner.forget(number);
                    continue;
                }
                Some(due) => due,
                // It is at work, and does not become idle for too long before then.
                None => now + inner.idle_time_max.max(LOOKS_APART_MIN),
            };
        }
    })
    .await;
    if let Some(inner) = inner.upgrade() {
        inner.forget(number);
    }
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let refuse = || HttpError::Header(name.clone());
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse())?;
        let value = HeaderValue::from_str(value).map_err(|_| refuse())?;
        map.append(name, value);
    }
    Ok(map)
}

async fn read(
    response: Response<hyper::body::Incoming>,
    bytes_max: usize,
) -> Result<HttpResponse, HttpError> {
    let (parts, mut incoming) = response.into_parts();
    let location = parts.headers.get(LOCATION);
    let mut response = HttpResponse::new(parts.status.as_u16(), Vec::new());
    response.location = location.map(|value| String::from_utf8_lossy(value.as_bytes()).into());
    let too_large = || HttpError::Reply(antiphon::http::ReplyError::TooLarge { bytes_max });
    let declared = hyper::body::Body::size_hint(&incoming).lower();
    if declared > bytes_max as u64 {
        return Err(too_large());
    }
    while let Some(frame) = incoming.frame().await {
        // Trailers say nothing that is asked for.
        let Ok(data) = frame.map_err(lost)?.into_data() else {
            continue;
        };
        if response.body.len() + data.len() > bytes_max {
            return Err(too_large());
        }
        response.body.extend_from_slice(&data);
    }
    Ok(response)
}

fn unsent(error: hyper::Error) -> HttpError {
    HttpError::Unsent(io::Error::other(error))
}

fn lost(error: hyper::Error) -> HttpError {
    HttpError::Lost(io::Error::other(error))
}

impl Connections {
    /// Connections made by `connect`, as many and for as long as `options` says.
    ///
    /// # Errors
    /// [`HttpError::Header`] for one that cannot be sent.
    pub fn new(
        options: &HttpClientOptions,
        connect: impl Connect,
        runtime: SharedRuntime,
    ) -> Result<Self, HttpError> {
        // A header that is of no use is better told now than by every call.
        header_map(&options.headers)?;
        let inner = Inner {
            connect: Box::new(connect),
            runtime,
            connections_max: options.connections_max.max(1),
            connect_time_max: options.connect_time_max,
            idle_time_max: options.idle_time_max,
            write_time_max: options.config.write_time_max,
            header_bytes_max: options.header_bytes_max,
            state: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// How many connections there are, those that are being made included.
    pub fn open(&self) -> usize {
        self.inner.lock().places
    }
}

impl HttpSend for Connections {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> Sending<'a> {
        Box::pin(self.inner.send(request))
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.lock();
        f.debug_struct("Connections")
            .field("places", &state.places)
            .field("idle", &state.idle.len())
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}
