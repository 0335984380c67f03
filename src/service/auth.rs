//! Credentials of a client: a token, which a function returns for each call.

use crate::shared::{Arc, erased};
use alloc::boxed::Box;
use alloc::string::String;
use core::error::Error;
use core::fmt;
use core::future::Future;
use core::pin::Pin;

use super::cx::Cx;
use super::decision::{Decision, Deferred};
use super::intercept::Interceptor;

/// The credentials of a client: the value of the header `authorization`. As an attribute of a call
/// it is sent with the call's HTTP request. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization(String);

impl Authorization {
    /// Makes it from the header's value.
    ///
    /// # Errors
    /// [`InvalidToken`] if a header cannot have this value: it has a line break or another control
    /// character, or is not ASCII.
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidToken> {
        let value = value.into();
        let is_sendable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        is_sendable.then_some(Self(value)).ok_or(InvalidToken)
    }

    /// Makes the value `Bearer` and a token (RFC 6750 clause 2.1).
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
type Token = Result<Option<String>, Failed>;
type Fetching<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An interceptor that gets a token for each of our calls, and adds an [`Authorization`] with it to
/// the call's attributes.
///
/// An HTTP client sends it with the request of the call; it replaces a configured header of the
/// same name. For a WebSocket, pass it to the options of the client instead: then the token is sent
/// with each handshake, and calls carry none. If the function returns no token, none is sent; if it
/// fails, the call is not sent and ends with the reason.
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
    source: Source,
}

#[derive(Clone)]
enum Source {
    AtOnce(Arc<dyn Fn() -> Token + Send + Sync>),
    Awaited(Arc<dyn Fn() -> Fetching<Token> + Send + Sync>),
}

impl BearerAuth {
    /// Asks `source` for tokens. It runs on the thread or task that makes the call, so it must not wait.
    /// Use it for a token that is kept in memory.
    pub fn new(source: impl Fn() -> Token + Send + Sync + 'static) -> Self {
        Self {
            source: Source::AtOnce(erased(Box::new(source))),
        }
    }

    /// Asks `source` for tokens, and awaits them. Use it for a token that is fetched, and renewed
    /// when it expires. A call waits for its token until the call's deadline; then the future is
    /// dropped, and the call is not sent. Calls that cannot wait, such as `try_notify`, fail.
    /// Several calls may ask at the same time; it is up to `source` to let them share one fetch.
    ///
    /// ```
    /// use antiphon::service::BearerAuth;
    /// let auth = BearerAuth::from_async(|| async {
    ///     // Fetch it here.
    ///     Ok(Some("s3cret".into()))
    /// });
    /// # drop(auth);
    /// ```
    pub fn from_async<F>(source: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Token> + Send + 'static,
    {
        Self {
            source: Source::Awaited(erased(Box::new(move || Box::pin(source())))),
        }
    }

    /// Gets a token now, without waiting. `None` if the source has none.
    ///
    /// # Errors
    /// Why the source has failed, as it says itself; [`InvalidToken`]; or that it has to be
    /// [awaited](Self::fetch).
    pub fn authorization(&self) -> Result<Option<Authorization>, Failed> {
        match &self.source {
            Source::AtOnce(source) => bearer(source()),
            Source::Awaited(_) => Err("the source of tokens has to be awaited".into()),
        }
    }

    /// Asks for a token, and awaits it if the source is [`from_async`](Self::from_async).
    ///
    /// # Errors
    /// Why the source has failed, as it says itself; or [`InvalidToken`].
    pub async fn fetch(&self) -> Result<Option<Authorization>, Failed> {
        bearer(match &self.source {
            Source::AtOnce(source) => source(),
            Source::Awaited(source) => source().await,
        })
    }
}

fn bearer(token: Token) -> Result<Option<Authorization>, Failed> {
    let bearer = token?.map(|token| Authorization::bearer(&token));
    Ok(bearer.transpose()?)
}

/// Stores the token in the call's attributes. If there is none, removes an earlier one.
fn leave(found: Result<Option<Authorization>, Failed>, cx: &mut Cx) -> Decision {
    match found {
        Ok(Some(authorization)) => cx.attributes_mut().insert(authorization),
        Ok(None) => drop(cx.attributes_mut().remove::<Authorization>()),
        Err(cause) => return Decision::Fail(cause),
    }
    Decision::Continue
}

impl fmt::Debug for BearerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerAuth").finish_non_exhaustive()
    }
}

impl<R: ?Sized> Interceptor<R> for BearerAuth {
    fn request(&self, cx: &mut Cx, _: &R) -> Decision {
        match &self.source {
            Source::AtOnce(source) => leave(bearer(source()), cx),
            Source::Awaited(source) => {
                let fetching = source();
                Decision::Defer(Deferred::deciding(async {
                    let found = bearer(fetching.await);
                    |cx: &mut Cx| leave(found, cx)
                }))
            }
        }
    }
}
