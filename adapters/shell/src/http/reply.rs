//! The status and headers of an HTTP reply, apart from the JSON-RPC answer.

use crate::context::Headers;

/// The head of a reply, as plain data.
///
/// ```
/// use antiphon_shell::http::HttpReply;
/// let mut reply = HttpReply::default();
/// reply.status = 429;
/// reply.headers.push("Retry-After", b"7");
/// assert_eq!(reply.headers.get("retry-after"), Some("7"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HttpReply {
    /// The status; 0 if there was none.
    pub status: u16,
    /// The headers.
    pub headers: Headers,
    /// In [`HttpError::Reply`](super::HttpError::Reply) the first 512 bytes of the body as text, with
    /// control characters escaped; otherwise empty.
    pub text: String,
}
