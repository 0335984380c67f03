//! A client's requests and their responses, as plain data.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon::http::ReplyError;

use super::body_text::first_bytes;
use super::error::HttpError;
use super::reply::HttpReply;
use super::url::HttpUrl;
use crate::context::Headers;

/// A request to be sent: always a POST.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The URL of the request.
    pub url: HttpUrl,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The configured headers, and those that interceptors have added. The sender adds those of HTTP
    /// itself, such as `Host` and `Accept`.
    pub headers: Arc<Vec<(String, String)>>,
    /// The body.
    pub body: Arc<Vec<u8>>,
    /// The largest accepted reply, in bytes. A larger one is refused.
    pub max_reply_bytes: usize,
    /// How much time the call has left; `None` for ever.
    pub timeout: Option<Duration>,
    /// How far the request is, for a sender that notes it.
    pub progress: Arc<SendProgress>,
}

/// How far a request is on its way to the server. A sender of the program's own may send it several times.
#[derive(Debug, Default)]
pub struct SendProgress {
    is_waiting: AtomicBool,
    may_be_read: AtomicBool,
}

impl SendProgress {
    /// Notes whether it waits for a connection.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Notes whether it was sent, so that the server may have read all of it. Returns what was noted before.
    pub fn set_may_be_read(&self, may_be_read: bool) -> bool {
        self.may_be_read.swap(may_be_read, Ordering::Relaxed)
    }

    /// Whether it waits for a connection, and was never sent.
    pub(crate) fn is_unsent(&self) -> bool {
        let may_be_read = self.may_be_read.load(Ordering::Relaxed);
        self.is_waiting.load(Ordering::Relaxed) && !may_be_read
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("url", &self.url)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The header `Location`: the target of a redirect.
    pub location: Option<String>,
    /// The headers, if the sender provides them. A sender that decodes a body leaves its
    /// `Content-Encoding` out.
    pub headers: Headers,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Makes a response that is no redirect.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            location: None,
            headers: Headers::new(),
            body: body.into(),
        }
    }

    /// Returns the error for a sender that has read this much of a reply and finds that it is
    /// larger than `max_bytes`.
    pub fn too_large(self, max_bytes: usize) -> HttpError {
        let reply = HttpReply {
            text: first_bytes(&self.body),
            status: self.status,
            headers: self.headers,
        };
        HttpError::Reply(ReplyError::TooLarge { max_bytes }, reply)
    }
}
