//! A sender without a network, for the tests of HTTP clients. The crates whose tests use it have this file as a
//! module, and name their own types of a request beside it.
#![allow(dead_code, reason = "each of them uses a part of it")]

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use super::{HttpError, HttpRequest, HttpResponse};

/// Records the requests that are sent, and returns prepared replies in their order. After the last
/// one it returns status 204 without a body.
#[derive(Default)]
pub(crate) struct HttpMock {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    sent: Vec<HttpRequest>,
    replies: VecDeque<Result<HttpResponse, HttpError>>,
    is_disconnected: bool,
}

impl HttpMock {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("no test panics under it")
    }

    /// Makes a sender that has sent nothing and has no prepared replies.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a reply to the queue.
    pub(crate) fn reply(&self, status: u16, body: &str) {
        self.answer(Ok(HttpResponse::new(status, body)));
    }

    /// Adds a reply without a body (204) to the queue.
    pub(crate) fn no_reply(&self) {
        self.reply(204, "");
    }

    /// Adds any response or error of a transport to the queue.
    pub(crate) fn answer(&self, answer: Result<HttpResponse, HttpError>) {
        self.lock().replies.push_back(answer);
    }

    /// The requests that were sent so far.
    pub(crate) fn sent(&self) -> Vec<HttpRequest> {
        self.lock().sent.clone()
    }

    /// The bodies of the requests that were sent so far, as text.
    pub(crate) fn sent_bodies(&self) -> Vec<String> {
        let inside = self.lock();
        let bodies = inside.sent.iter();
        bodies
            .map(|request| String::from_utf8_lossy(&request.body).into_owned())
            .collect()
    }

    /// Whether requests can be sent. They can, until [`set_connected`](Self::set_connected) changes
    /// that.
    pub(crate) fn is_connected(&self) -> bool {
        !self.lock().is_disconnected
    }

    /// Says whether further requests get the prepared replies (`true`), or fail as if no connection
    /// could be made (`false`).
    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.lock().is_disconnected = !is_connected;
    }

    /// Records a request, and returns the next reply.
    ///
    /// # Errors
    /// The prepared error; [`HttpError::Connect`] while it is [not connected](Self::is_connected), and
    /// then the request is not recorded.
    pub(crate) fn exchange(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut inside = self.lock();
        if inside.is_disconnected {
            let refused = std::io::ErrorKind::ConnectionRefused;
            return Err(HttpError::Connect(refused.into()));
        }
        inside.sent.push(request.clone());
        let reply = inside.replies.pop_front();
        reply.unwrap_or_else(|| Ok(HttpResponse::new(204, "")))
    }
}
