//! Sends a client's requests with any HTTP client that a program already has.

use std::sync::Arc;
use std::time::Duration;

use antiphon_net::http::HttpSending;
use antiphon_net::http::{HttpError, HttpRequest, HttpResponse};

/// Sends a client's requests with any HTTP client that a program already has: see
/// [`with_send`](super::with_send). With most clients an implementation takes a dozen lines: post
/// `request.body` to `request.url` with `request.content_type` and `request.headers`, follow no
/// redirect, accept any status, and give the body [as a reader](HttpResponse::with_reader), or refuse one of more
/// than `request.max_reply_bytes` bytes. Send `request.accept` as `Accept`, too.
///
/// Never send a request a second time by yourself, and return [`HttpError::Connect`] or
/// [`HttpError::Unsent`] only if no byte of it was sent: the client may send the call again then. A
/// connection that is reset after that is [`HttpError::Lost`].
pub trait HttpSend: Send + Sync + 'static {
    /// Sends one request and reads its reply, within `timeout` from now; `None` waits for ever.
    ///
    /// # Errors
    /// How the transport failed.
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError>;
}

/// A shared sender can still be used after one of its clients is closed.
impl<T: HttpSend + ?Sized> HttpSend for Arc<T> {
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError> {
        (**self).send(request, timeout)
    }
}

/// A blocking sender as an async one: its future sends the request in one poll.
pub(super) struct AtOnce<T>(pub(super) T);

impl<T: HttpSend> antiphon_net::http::HttpSend for AtOnce<T> {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> HttpSending<'a> {
        Box::pin(async move {
            match request.timeout {
                Some(Duration::ZERO) => Err(HttpError::TimedOut),
                timeout => self.0.send(request, timeout),
            }
        })
    }
}
