//! A transport without a network, for tests of programs that call over HTTP.

use std::collections::VecDeque;
use std::fmt;

use super::error::HttpError;
use super::request::{HttpRequest, HttpResponse};

use crate::lock::Lock;

/// Records the requests that are sent, and returns prepared replies in their order. After the last
/// one it returns status 204 without a body.
///
/// ```
/// use antiphon_shell::http::HttpMock;
/// let mock = HttpMock::new();
/// mock.reply(200, r#"{"jsonrpc":"2.0","result":3,"id":1}"#);
/// mock.no_reply();
/// assert!(mock.is_connected() && mock.sent().is_empty());
/// ```
#[derive(Default)]
pub struct HttpMock {
    inside: Lock<Inside>,
}

#[derive(Default)]
struct Inside {
    sent: Vec<HttpRequest>,
    replies: VecDeque<Result<HttpResponse, HttpError>>,
    is_disconnected: bool,
}

impl HttpMock {
    /// Makes a transport that has sent nothing and has no prepared replies.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a reply to the queue.
    pub fn reply(&self, status: u16, body: &str) {
        self.answer(Ok(HttpResponse::new(status, body)));
    }

    /// Adds a reply without a body (204) to the queue.
    pub fn no_reply(&self) {
        self.reply(204, "");
    }

    /// Adds any response or error of a transport to the queue.
    pub fn answer(&self, answer: Result<HttpResponse, HttpError>) {
        self.inside.lock().replies.push_back(answer);
    }

    /// The requests that were sent so far.
    pub fn sent(&self) -> Vec<HttpRequest> {
        self.inside.lock().sent.clone()
    }

    /// The bodies of the requests that were sent so far, as text.
    pub fn sent_bodies(&self) -> Vec<String> {
        let inside = self.inside.lock();
        let bodies = inside.sent.iter();
        bodies
            .map(|request| String::from_utf8_lossy(&request.body).into_owned())
            .collect()
    }

    /// Whether requests can be sent. They can, until [`set_connected`](Self::set_connected) changes
    /// that.
    pub fn is_connected(&self) -> bool {
        !self.inside.lock().is_disconnected
    }

    /// Says whether further requests get the prepared replies (`true`), or fail as if no connection
    /// could be made (`false`).
    pub fn set_connected(&self, is_connected: bool) {
        self.inside.lock().is_disconnected = !is_connected;
    }

    /// Records a request, and returns the next reply.
    ///
    /// # Errors
    /// The prepared error; [`HttpError::Connect`] while it is [not connected](Self::is_connected), and
    /// then the request is not recorded.
    pub fn exchange(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut inside = self.inside.lock();
        if inside.is_disconnected {
            let refused = std::io::ErrorKind::ConnectionRefused;
            return Err(HttpError::Connect(refused.into()));
        }
        inside.sent.push(request.clone());
        let reply = inside.replies.pop_front();
        reply.unwrap_or_else(|| Ok(HttpResponse::new(204, "")))
    }
}

impl fmt::Debug for HttpMock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = self.inside.lock();
        f.debug_struct("HttpMock")
            .field("sent", &inside.sent.len())
            .field("replies", &inside.replies.len())
            .finish_non_exhaustive()
    }
}
