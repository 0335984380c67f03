//! A whole reply as a value, and the refusal that a program's own check gives.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

/// The media type of requests and replies.
pub const MEDIA_TYPE: &str = "application/json";

/// A whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values. The length of the body is not among them.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
}

impl HttpAnswer {
    /// Makes an answer without headers and body.
    pub const fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Makes an answer whose body is plain text.
    pub fn text(status: u16, text: &str) -> Self {
        Self::new(status).with_body("text/plain; charset=utf-8", text)
    }

    /// Sets the body and its media type.
    #[must_use]
    pub fn with_body(mut self, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        self.headers.retain(|(name, _)| *name != "content-type");
        self.headers.push(("content-type", content_type.into()));
        self.body = body.into();
        self
    }

    /// Adds a header, by its name in lower case.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(found, value)| (*found == name).then_some(&**value))
    }

    /// The body as text, as most hosts need it; `None` if it is empty.
    pub fn body_text(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.body);
        (!text.is_empty()).then(|| text.into_owned())
    }
}

/// Why a program's own check does not let a request in: a status, headers and a body.
///
/// ```
/// use antiphon::http::{HttpAnswer, Refusal};
/// use core::time::Duration;
/// let answer: HttpAnswer = Refusal::unauthorized("Bearer realm=\"api\"").into();
/// assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer realm=\"api\"")));
/// let busy: HttpAnswer = Refusal::new(429, "too many requests").retry_after(Duration::from_secs(2)).into();
/// assert_eq!(busy.header("retry-after"), Some("2"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(HttpAnswer);

impl Refusal {
    /// Makes a refusal with this status, whose body is the reason as plain text.
    pub fn new(status: u16, reason: &str) -> Self {
        Self(HttpAnswer::text(status, &[reason, "\n"].concat()))
    }

    /// Makes a 401 with this `WWW-Authenticate`, such as `Bearer`.
    pub fn unauthorized(challenge: impl Into<Cow<'static, str>>) -> Self {
        Self::new(401, "unauthorized").with_header("www-authenticate", challenge)
    }

    /// Says after how long the client may try again, in whole seconds, rounded up.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        self.with_header("retry-after", seconds.to_string())
    }

    /// Adds a header, by its name in lower case. If HTTP does not allow the value, the answer is a 500.
    #[must_use]
    pub fn with_header(self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        Self(self.0.with_header(name, value))
    }

    /// Sets another body, and its media type.
    #[must_use]
    pub fn with_body(self, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self(self.0.with_body(content_type, body))
    }
}

impl From<Refusal> for HttpAnswer {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}
