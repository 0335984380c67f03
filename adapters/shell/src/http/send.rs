//! Sends a client's requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::error::HttpError;
use super::request::{HttpRequest, HttpResponse};

/// A request that is being sent.
pub type HttpSending<'a> =
    Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

/// Sends requests: over the connections of an adapter, or by any HTTP client that a program already has. With
/// most clients an implementation takes a dozen lines: post
/// `request.body` to `request.url` with `request.content_type` and `request.headers`, follow no
/// redirect, accept any status, and give the body [in pieces](HttpResponse::with_pieces), or refuse one of more
/// than `request.max_reply_bytes` bytes. Send `request.accept` as `Accept`, too.
///
/// Never send a request a second time by yourself, and return [`HttpError::Connect`] or
/// [`HttpError::Unsent`] only if no byte of it was sent: the client may send the call again then. A
/// connection that is reset after that is [`HttpError::Lost`].
///
/// Dropping the future cancels the request.
pub trait HttpSend: Send + Sync + 'static {
    /// Sends one request and reads its reply.
    fn send<'a>(&'a self, request: &'a HttpRequest) -> HttpSending<'a>;
}

/// Several clients may share a sender; a client that is closed does not close it for the others.
impl<T: HttpSend + ?Sized> HttpSend for Arc<T> {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> HttpSending<'a> {
        (**self).send(request)
    }
}
