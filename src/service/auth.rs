//! Credentials of a client: a token, which a function returns for each call.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

use super::cx::Cx;
use super::decision::Decision;
use super::intercept::Interceptor;

/// The credentials of a client: the value of the header `authorization`. As an attribute of a call
/// it is sent with the call's HTTP request. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization(String);

impl Authorization {
    /// Makes it of the header's value.
    ///
    /// # Errors
    /// [`InvalidToken`] if a header cannot have this value: it has a line break or another control
    /// character, or is not ASCII.
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidToken> {
        let value = value.into();
        let is_sendable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        is_sendable.then_some(Self(value)).ok_or(InvalidToken)
    }

    /// Makes it of `Bearer` and a token (RFC 6750 clause 2.1).
    ///
    /// # Errors
    /// [`InvalidToken`] if the token is empty, has a blank or is refused by [`new`](Self::new).
    pub fn bearer(token: &str) -> Result<Self, InvalidToken> {
        match token.is_empty() || token.contains(' ') {
            true => Err(InvalidToken),
            false => Self::new(alloc::format!("Bearer {token}")),
        }
    }

    /// The value, which is a secret.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").finish_non_exhaustive()
    }
}

/// The error for a token that no header can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidToken;

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the token is empty or has characters that a header cannot hold")
    }
}

impl Error for InvalidToken {}

type Failed = Box<dyn Error + Send + Sync>;

/// An interceptor that gets a token for each of our calls, and adds an [`Authorization`] with it to
/// the call's attributes.
///
/// An HTTP client sends it with the request of the call; it replaces a configured header of the
/// same name. For a WebSocket, pass it to the options of the client instead: then the token is sent
/// with each handshake, and calls carry none. If the function returns no token, none is sent; if it
/// fails, the call is not sent and ends with the reason.
///
/// The function runs on the thread or task that calls, so it must not block: keep the token in
/// memory, and renew it elsewhere.
///
/// ```
/// use antiphon::service::BearerAuth;
/// let auth = BearerAuth::new(|| Ok(Some("s3cret".into())));
/// assert_eq!(auth.authorization()?.unwrap().as_str(), "Bearer s3cret");
/// assert!(!format!("{auth:?}").contains("s3cret"));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone)]
pub struct BearerAuth {
    source: Arc<dyn Fn() -> Result<Option<String>, Failed> + Send + Sync>,
}

impl BearerAuth {
    /// Gets tokens from the function `source`.
    pub fn new(
        source: impl Fn() -> Result<Option<String>, Failed> + Send + Sync + 'static,
    ) -> Self {
        Self {
            source: Arc::new(source),
        }
    }

    /// Gets a token now. `None` if there is none.
    ///
    /// # Errors
    /// The error of the function; or [`InvalidToken`].
    pub fn authorization(&self) -> Result<Option<Authorization>, Failed> {
        let token = (self.source)()?;
        let bearer = token.map(|token| Authorization::bearer(&token));
        Ok(bearer.transpose()?)
    }
}

impl fmt::Debug for BearerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerAuth").finish_non_exhaustive()
    }
}

impl<R: ?Sized> Interceptor<R> for BearerAuth {
    fn request(&self, cx: &mut Cx, _: &R) -> Decision {
        match self.authorization() {
            Ok(Some(authorization)) => cx.attributes_mut().insert(authorization),
            Ok(None) => drop(cx.attributes_mut().remove::<Authorization>()),
            Err(cause) => return Decision::Fail(cause),
        }
        Decision::Continue
    }
}
