//! What sends a client's requests: ureq, with every limit and deadline set.
//!
//! The rules guarded here: nothing that ureq leaves open by default is left open; and no more
//! requests are under way at once than there may be connections.

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use antiphon::http::ReplyError;
use antiphon_session::http::{
    HttpClientOptions, HttpError, HttpMock, HttpRequest, HttpResponse, is_unprocessed,
};
use ureq::{Agent, Error, Timeout};

use super::deadline::ahead;
use super::socket::{Names, Sockets, Unconnected};

/// What sends requests: [`Ureq`], or any HTTP client that a program has already. A dozen lines
/// with most of them: post `request.body` to `request.url` with `request.content_type` and
/// `request.headers`, follow no redirect, take any status, and refuse a body of more than
/// `request.reply_bytes_max` bytes.
pub trait HttpSend: Send + Sync + 'static {
    /// Sends one request and reads its reply, within `timeout` from now; none waits for ever.
    ///
    /// # Errors
    /// How the transport failed.
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError>;
}

/// What is shared is not closed with one of its clients.
impl<T: HttpSend + ?Sized> HttpSend for Arc<T> {
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError> {
        (**self).send(request, timeout)
    }
}

impl HttpSend for HttpMock {
    fn send(&self, request: &HttpRequest, _: Option<Duration>) -> Result<HttpResponse, HttpError> {
        self.exchange(request)
    }
}

/// Sends with ureq.
pub struct Ureq {
    agent: Agent,
    /// The agent ends a call at its deadline, for its sockets are not ours.
    keeps_time: bool,
    places: Places,
    /// How many connections may be found closed before a request counts as not sent: each that may
    /// have been idle.
    tries_max: usize,
}

/// How many more requests may be under way.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, usize> {
        // Nothing that can panic runs under the lock.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, deadline: Option<Instant>) -> Result<Place<'_>, HttpError> {
        let mut free = self.lock();
        while *free == 0 {
            free = match deadline {
                None => {
                    let waited = self.freed.wait(free);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(HttpError::TimedOut);
                    }
                    let waited = self.freed.wait_timeout(free, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *free -= 1;
        Ok(Place(self))
    }
}

/// One request under way.
struct Place<'a>(&'a Places);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
    }
}

impl Ureq {
    /// Connections of its own, as many and for as long as `options` says.
    ///
    /// # Errors
    /// [`HttpError::Header`] for one that cannot be sent.
    pub fn new(options: &HttpClientOptions) -> Result<Self, HttpError> {
        let connections_max = options.connections_max.max(1);
        let agent = Agent::config_builder()
            // Where the server is, is for the caller to say.
            .proxy(None)
            .max_response_header_size(options.header_bytes_max)
            .max_idle_connections(connections_max)
            .max_idle_connections_per_host(connections_max)
            .max_idle_age(options.idle_time_max)
            .build();
        let time_max = options.connect_time_max;
        let agent = Agent::with_parts(agent, Sockets { time_max }, Names { time_max });
        let mut ureq = Self::from_agent(agent, options)?;
        ureq.keeps_time = false;
        Ok(ureq)
    }

    /// Sends with an agent that the caller has made: with TLS, a proxy, another resolver. Its
    /// limits and deadlines are its own, but for the reply's size and the call's timeout, and for
    /// `connections_max`. Statuses are not errors to it and redirects are not followed, whatever
    /// it was told. A call that meets the end of an idle connection of the agent is lost: only the
    /// sockets of [`new`](Self::new) tell that the server cannot have read it. Nor does the agent read
    /// what came while the process was stopped, once the call's timeout is over, or know for how long
    /// the server says that it keeps a connection.
    ///
    /// # Errors
    /// [`HttpError::Header`] for one that cannot be sent.
    pub fn from_agent(agent: Agent, options: &HttpClientOptions) -> Result<Self, HttpError> {
        for (name, value) in &options.headers {
            // A header that is of no use is better told now than by every call.
            let header = (
                name.parse::<ureq::http::HeaderName>(),
                value.parse::<ureq::http::HeaderValue>(),
            );
            let (Ok(_), Ok(_)) = header else {
                return Err(HttpError::Header(name.clone()));
            };
        }
        Ok(Self {
            agent,
            keeps_time: true,
            tries_max: options.connections_max.max(1),
            places: Places {
                free: Mutex::new(options.connections_max.max(1)),
                freed: Condvar::new(),
            },
        })
    }
}

impl HttpSend for Ureq {
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError> {
        let deadline = timeout.map(|span| Instant::now() + span);
        let _place = self.places.enter(deadline)?;
        let mut tries_left = self.tries_max;
        loop {
            let sent = self.send_once(request, deadline);
            match sent {
                Err(HttpError::Unsent(_)) if tries_left > 0 => tries_left -= 1,
                sent => return sent,
            }
        }
    }
}

impl Ureq {
    fn send_once(
        &self,
        request: &HttpRequest,
        deadline: Option<Instant>,
    ) -> Result<HttpResponse, HttpError> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(HttpError::TimedOut);
        }
        let timeout = match self.keeps_time {
            true => left,
            false => left.map(ahead),
        };
        let mut post = self
            .agent
            .post(request.url.to_string())
            .content_type(request.content_type)
            .header("accept", request.content_type)
            .header("accept-encoding", "identity");
        if let Some(headers) = post.headers_mut() {
            for (name, _) in &*request.headers {
                headers.remove(name);
            }
        }
        for (name, value) in &*request.headers {
            post = post.header(name, value);
        }
        let post = post
            .config()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(timeout)
            .build();
        let sent = post.send(&request.body[..]);
        let mut response = sent.map_err(|error| failed(error, request))?;
        let location = response.headers().get("location");
        let location = location.map(|value| String::from_utf8_lossy(value.as_bytes()).into());
        let mut received = HttpResponse::new(response.status().as_u16(), Vec::new());
        received.location = location;
        for (name, value) in response.headers() {
            received.headers.push(name.as_str(), value.as_bytes());
        }
        let limit = request.reply_bytes_max as u64;
        if response
            .body()
            .content_length()
            .is_some_and(|declared| declared > limit)
        {
            return Err(received.too_large(request.reply_bytes_max));
        }
        // ureq refuses a body that fills its limit, for it does not look whether it has ended.
        let body = response.body_mut().with_config();
        let body = body.limit(limit.saturating_add(1)).read_to_vec();
        match body {
            Ok(body) => received.body = body,
            Err(Error::BodyExceedsLimit(_)) => {
                return Err(received.too_large(request.reply_bytes_max));
            }
            Err(error) => return Err(failed(error, request)),
        }
        Ok(received)
    }
}

fn failed(error: Error, request: &HttpRequest) -> HttpError {
    let bytes_max = request.reply_bytes_max;
    match error {
        Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
            HttpError::Connect(io::ErrorKind::TimedOut.into())
        }
        Error::Timeout(_) => HttpError::TimedOut,
        Error::BodyExceedsLimit(_) => ReplyError::TooLarge { bytes_max }.into(),
        Error::HostNotFound => {
            HttpError::Connect(io::Error::new(io::ErrorKind::NotFound, "no such host"))
        }
        Error::ConnectionFailed => HttpError::Connect(io::Error::other(error)),
        Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            HttpError::Connect(error)
        }
        Error::Io(error) if is_unprocessed(&error) => HttpError::Unsent(error),
        Error::Io(error) => HttpError::Lost(error),
        Error::Other(error) => match error.downcast() {
            Ok(unconnected) => {
                let Unconnected(error) = *unconnected;
                HttpError::Connect(error)
            }
            Err(error) => HttpError::Lost(io::Error::other(error)),
        },
        Error::BadUri(_) => HttpError::Url("it is of no use to ureq"),
        Error::Tls(_) | Error::RequireHttpsOnly(_) => HttpError::Connect(io::Error::other(error)),
        error => HttpError::Lost(io::Error::other(error)),
    }
}

impl fmt::Debug for Ureq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ureq")
            .field("free", &*self.places.lock())
            .finish_non_exhaustive()
    }
}
