//! Credentials of a client: a token that is asked for anew for each call.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

use super::cx::Cx;
use super::decision::Decision;
use super::intercept::Interceptor;

/// What a client says to prove who it is: the value of the header `authorization`. Left as an attribute
/// of a call, it is sent with its HTTP request. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization(String);

impl Authorization {
    /// Takes the value of the header.
    ///
    /// # Errors
    /// [`InvalidToken`] if a header cannot hold it: it has a line break or another control character, or
    /// is not ASCII.
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidToken> {
        let value = value.into();
        let is_sendable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        is_sendable.then_some(Self(value)).ok_or(InvalidToken)
    }

    /// Says `Bearer` and a token (RFC 6750 clause 2.1).
    ///
    /// # Errors
    /// [`InvalidToken`] if it is empty, has a blank or what [`new`](Self::new) refuses.
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

/// A token that no header can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidToken;

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the token is empty or has characters that a header cannot hold")
    }
}

impl Error for InvalidToken {}

type Failed = Box<dyn Error + Send + Sync>;

/// An interceptor that asks for a token at each call of ours, and leaves an [`Authorization`] with it.
///
/// An HTTP client sends that with the request of the call, before headers of the same name that it was
/// configured with. For a WebSocket, give it to the options of the client as well: it is asked at each
/// handshake then, and calls carry nothing. Where the source gives none, nothing is sent; where it
/// fails, the call is not made and ends with the reason.
///
/// The source is asked on the thread or task that calls, so it must not wait: keep a token in memory, and
/// have it renewed elsewhere.
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
    /// Asks `source` for tokens.
    pub fn new(
        source: impl Fn() -> Result<Option<String>, Failed> + Send + Sync + 'static,
    ) -> Self {
        Self {
            source: Arc::new(source),
        }
    }

    /// Asks for a token now. `None` if there is none.
    ///
    /// # Errors
    /// Why the source has failed, as it says itself; or [`InvalidToken`].
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
