//! The client's side of HTTP: one request, and the meaning of its reply.
//!
//! A reply only ends calls of its own request. A body that answers these calls is used, whatever
//! the status of the reply is. A request body is never sent to another origin.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::config::Config;
use crate::connection::{Batch, Connection, SendError};
use crate::encode::Payload;
use crate::event::{CloseReason, Event, MalformedCause, Outcome, ResponseRef};
use crate::id::{CallId, Id};
use crate::input::Input;
use crate::origin::is_same;
use crate::owned::first_bytes;

/// How many redirects of one request are followed.
pub const MAX_REDIRECTS: u32 = 5;

/// How much of a body that is no answer is kept for the error.
const MAX_SNIPPET_BYTES: usize = 256;

/// One request, from its calls to its reply. `T` is the tag of each call, as in [`Connection`].
///
/// ```
/// use antiphon::{Config, Outcome, http::ClientExchange};
/// let mut exchange = ClientExchange::new(Config::new());
/// exchange.call("add", &(1, 2), "the sum")?;
/// let body = exchange.take_body();
/// assert_eq!(body, br#"{"jsonrpc":"2.0","method":"add","params":[1,2],"id":1}"#);
///
/// // Send it as a POST; what came back:
/// let reply = br#"{"jsonrpc":"2.0","result":3,"id":1}"#;
/// exchange.receive(200, reply, |response| {
///     assert_eq!(response.tag, "the sum");
///     assert!(matches!(response.outcome, Outcome::Ok(sum) if sum.as_str() == "3"));
/// }).unwrap();
/// # Ok::<(), antiphon::SendError>(())
/// ```
pub struct ClientExchange<T> {
    conn: Connection<T>,
}

impl<T> ClientExchange<T> {
    /// Begins an exchange. The first id is the configuration's `first_call`.
    pub const fn new(config: Config) -> Self {
        Self {
            conn: Connection::new(config.for_client_exchange()),
        }
    }

    /// Begins another exchange in the memory of this one, which has ended.
    pub fn renew(&mut self, config: Config) {
        self.conn.renew(config.for_client_exchange());
    }

    /// Makes the request a call.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub fn call(
        &mut self,
        method: &str,
        params: impl Payload,
        tag: T,
    ) -> Result<CallId, SendError> {
        let called = self.conn.call(method, params, None, tag);
        called.map_err(|rejected| rejected.error)
    }

    /// Makes the request a call with an id that the caller chose: see [`Connection::call_with_id`].
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub fn call_with_id(
        &mut self,
        id: Id<'_>,
        method: &str,
        params: impl Payload,
        tag: T,
    ) -> Result<CallId, SendError> {
        let called = self.conn.call_with_id(id, method, params, None, tag);
        called.map_err(|rejected| rejected.error)
    }

    /// Makes the request a notification.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub fn notify(&mut self, method: &str, params: impl Payload) -> Result<(), SendError> {
        self.conn.notify(method, params)
    }

    /// Makes the request a batch.
    pub fn batch(&mut self) -> Batch<'_, T> {
        self.conn.batch(None)
    }

    /// Takes the body of the request; empty if there are no messages, or if it was taken before.
    pub fn take_body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        self.conn.take_transmit(&mut body);
        body
    }

    /// The first number for the client's next exchange, so that ids do not repeat.
    pub fn next_call(&self) -> u64 {
        self.conn.next_number()
    }

    /// Takes the reply. `settle` is called with the outcome of every call: its answer, or
    /// [`Missing`](Outcome::Missing) if the reply has none. A body that is blank, `null` or `[]`
    /// answers nothing, which is right for notifications.
    ///
    /// # Errors
    /// The reply is no answer. Then the calls of the request have not ended; call
    /// [`fail`](Self::fail) to end them. There is one exception: if an invalid response comes with
    /// an error status, its call ends as [`Invalid`](Outcome::Invalid), and the status is the
    /// error.
    pub fn receive(
        &mut self,
        status: u16,
        body: &[u8],
        mut settle: impl FnMut(ResponseRef<'_, T>),
    ) -> Result<(), ReplyError> {
        let max_bytes = self.conn.config().limits.max_message_bytes;
        if body.len() > max_bytes {
            return Err(ReplyError::TooLarge { max_bytes });
        }
        let is_success = (200..300).contains(&status);
        let (mut is_answer, mut fault) = (false, None);
        let mut input = Input::message(body);
        while let Some(event) = self.conn.poll_event(&mut input) {
            match event {
                Event::Response(response) => {
                    // An invalid answer does not make up for an error status.
                    is_answer |= is_success || !matches!(response.outcome, Outcome::Invalid(_));
                    settle(response);
                }
                Event::Malformed(malformed) => fault = Some(malformed.cause),
                _ => {}
            }
        }
        if !is_success && !is_answer {
            let text = first_bytes(body, MAX_SNIPPET_BYTES);
            return Err(ReplyError::Status { status, text });
        }
        if let Some(cause) = fault.filter(|_| !is_answer && self.conn.calls_open() > 0) {
            let text = first_bytes(body, MAX_SNIPPET_BYTES);
            return Err(ReplyError::NoAnswer(BrokenReply { cause, text }));
        }
        self.conn.handle_eof();
        while let Some(event) = self.conn.poll_event(&mut Input::none()) {
            if let Event::Response(response) = event {
                settle(response);
            }
        }
        Ok(())
    }

    /// Whether a call of the request has no outcome yet.
    pub fn is_asked(&self) -> bool {
        self.conn.calls_open() > 0
    }

    /// Takes the data of one event of a reply that is a stream of events, and returns whether all calls of the
    /// request have ended, so that nothing more needs to be read. Other messages than answers to them are
    /// ignored.
    ///
    /// ```
    /// use antiphon::{Config, http::ClientExchange};
    /// let mut exchange = ClientExchange::new(Config::new());
    /// exchange.call("add", &(1, 2), ())?;
    /// let mut answers = 0;
    /// let step = br#"{"jsonrpc":"2.0","method":"step"}"#;
    /// assert!(!exchange.receive_event(step, |_| answers += 1));
    /// let answer = br#"{"jsonrpc":"2.0","result":3,"id":1}"#;
    /// assert!(exchange.receive_event(answer, |_| answers += 1) && answers == 1);
    /// # Ok::<(), antiphon::SendError>(())
    /// ```
    pub fn receive_event(
        &mut self,
        data: &[u8],
        mut settle: impl FnMut(ResponseRef<'_, T>),
    ) -> bool {
        let mut input = Input::message(data);
        while let Some(event) = self.conn.poll_event(&mut input) {
            if let Event::Response(response) = event {
                settle(response);
            }
        }
        // Nothing can be sent any more, such as the answer to a request of the server.
        self.conn.take_transmit(&mut Vec::new());
        self.conn.calls_open() == 0
    }

    /// Ends the request without a reply: it could not be sent, or no reply will answer it. `settle`
    /// is called with the outcome of every open call: [`Aborted`](Outcome::Aborted), because the
    /// server may have acted; or [`Unsent`](Outcome::Unsent) if no byte of the request was sent,
    /// which is the only outcome after which repeating is always safe. That is certain if
    /// `was_sent` is false, or if the body was never taken.
    ///
    /// ```
    /// use antiphon::{Config, Outcome, http::ClientExchange};
    /// let mut exchange = ClientExchange::new(Config::new());
    /// exchange.call("pay", &(1, 2), "the tag")?;
    /// let body = exchange.take_body();
    /// // The server cannot be reached:
    /// exchange.fail(false, |response| {
    ///     assert_eq!(response.tag, "the tag");
    ///     assert!(matches!(response.outcome, Outcome::Unsent));
    /// });
    /// # Ok::<(), antiphon::SendError>(())
    /// ```
    pub fn fail(&mut self, was_sent: bool, mut settle: impl FnMut(ResponseRef<'_, T>)) {
        self.conn.close(CloseReason::TransportFailed);
        while let Some(event) = self.conn.poll_event(&mut Input::none()) {
            let Event::Response(mut response) = event else {
                continue;
            };
            if !was_sent {
                response.outcome = Outcome::Unsent;
            }
            settle(response);
        }
    }
}

impl<T> fmt::Debug for ClientExchange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientExchange")
            .field("conn", &self.conn)
            .finish()
    }
}

/// Returns the URL to which a request is to be sent again, if the reply demands it: for 307 and
/// 308, within the origin of `from`. `from` is the absolute URL of the request, and `followed` says
/// how many redirects of it have been followed. A POST never becomes a GET, and is never sent to
/// another origin.
///
/// ```
/// use antiphon::http::redirect;
/// let moved = redirect(308, "https://a.example/rpc", Some("/v2/rpc"), 0);
/// assert_eq!(moved.unwrap().as_deref(), Some("https://a.example/v2/rpc"));
/// assert!(redirect(308, "https://a.example/rpc", Some("https://b.example/rpc"), 0).is_err());
/// assert!(redirect(302, "https://a.example/rpc", Some("/login"), 0).is_err());
/// assert_eq!(redirect(200, "https://a.example/rpc", None, 0), Ok(None));
/// ```
///
/// # Errors
/// [`ReplyError::Redirect`] for a redirect that is not followed.
pub fn redirect(
    status: u16,
    from: &str,
    location: Option<&str>,
    followed: u32,
) -> Result<Option<String>, ReplyError> {
    let (307 | 308, Some(location)) = (status, location) else {
        return match (status, location) {
            (301..=303, Some(location)) => Err(refused(status, location)),
            _ => Ok(None),
        };
    };
    let target = resolve(from, location).filter(|_| followed < MAX_REDIRECTS);
    let target = target.ok_or_else(|| refused(status, location))?;
    if !is_same(origin_of(from), origin_of(&target)) {
        return Err(refused(status, location));
    }
    Ok(Some(target))
}

fn refused(status: u16, location: &str) -> ReplyError {
    let location = location.chars().take(MAX_SNIPPET_BYTES).collect();
    ReplyError::Redirect { status, location }
}

/// Returns the scheme and authority of an absolute URL.
fn origin_of(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#', '\\']);
    end.map_or(url, |end| &url[..start + end])
}

/// Returns the absolute URL of a `Location` header (RFC 3986 clause 5), without a fragment. The
/// server resolves dot segments.
fn resolve(from: &str, location: &str) -> Option<String> {
    let location = location.trim().split('#').next().unwrap_or_default();
    // No URL has these characters. Parsers disagree on where a host ends before a backslash, so
    // another parser might see another origin.
    if location.contains(|letter: char| letter.is_ascii_control() || " \\".contains(letter)) {
        return None;
    }
    let is_absolute = location.split(['/', '?']).next()?.contains(':');
    if is_absolute {
        return Some(location.to_string());
    }
    let base = origin_of(from);
    let (scheme, _) = base.split_once("://")?;
    Some(match location.as_bytes() {
        [b'/', b'/', ..] => [scheme, ":", location].concat(),
        [b'/', ..] => [base, location].concat(),
        _ => {
            let path = from[base.len()..].split(['?', '#']).next()?;
            let folder = match location.as_bytes() {
                [] | [b'?', ..] => path,
                _ => &path[..path.rfind('/').map_or(0, |at| at + 1)],
            };
            let slash = if folder.is_empty() { "/" } else { "" };
            [base, slash, folder, location].concat()
        }
    })
}

/// Why a reply is no answer. An error of the peer is an [`Outcome`] instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// The status is an error, and the body is no answer.
    Status {
        /// The status.
        status: u16,
        /// The body's first 256 bytes, for a log.
        text: String,
    },
    /// The status is a success, but the body is no answer.
    NoAnswer(BrokenReply),
    /// The body, or an event of it, is larger than `max_message_bytes`.
    TooLarge {
        /// The limit, in bytes.
        max_bytes: usize,
    },
    /// A redirect that is not followed: to another origin, to a target that is not valid, too
    /// often, or one that would turn a POST into a GET.
    Redirect {
        /// The status.
        status: u16,
        /// The target.
        location: String,
    },
}

/// The fault of a body that is no answer, and the beginning of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokenReply {
    /// The fault of the body.
    pub cause: MalformedCause,
    /// The body's first 256 bytes, to be logged.
    pub text: String,
}

impl fmt::Display for BrokenReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, text } = self;
        match text.is_empty() {
            true => cause.fmt(f),
            false => write!(f, "{cause}: {text}"),
        }
    }
}

impl ReplyError {
    /// The status of the reply, if that was the error.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } | Self::Redirect { status, .. } => Some(*status),
            Self::NoAnswer(_) | Self::TooLarge { .. } => None,
        }
    }
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { status, text } if text.is_empty() => {
                write!(f, "the server answered with status {status}")
            }
            Self::Status { status, text } => {
                write!(f, "the server answered with status {status}: {text}")
            }
            Self::NoAnswer(broken) => write!(f, "the reply is no JSON-RPC answer: {broken}"),
            Self::TooLarge { max_bytes } => {
                write!(f, "the reply is larger than {max_bytes} bytes")
            }
            Self::Redirect { status, location } => {
                write!(f, "a redirect ({status}) that is not followed: {location}")
            }
        }
    }
}

impl core::error::Error for ReplyError {}
