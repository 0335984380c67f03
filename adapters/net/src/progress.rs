//! Progress of a request, told before its answer.

use std::fmt;
use std::marker::PhantomData;

use antiphon::{FromCall, Json, OwnedError, OwnedJson, SendError};
use serde::Serialize;

use crate::peer::Peer;
use crate::request::Request;

/// Tells the peer of the progress of its request, if it has asked for that: with `$/progress` in the
/// dialect of LSP, with `notifications/progress` in that of MCP. `T` is what is told: in MCP an object
/// with `progress` and perhaps `total` and `message`.
///
/// It is an argument of a handler. Where the request has no progress token, or the dialect no
/// progress, [`send`](Self::send) does nothing.
///
/// ```
/// use antiphon::OwnedError;
/// use antiphon_net::{Progress, Router};
///
/// #[derive(serde::Serialize)]
/// struct Step { progress: u32, total: u32 }
///
/// let router = Router::new().method("count", ["to"], async |to: u32, done: Progress<Step>| {
///     for progress in 0..to {
///         // A peer that does not read misses a step.
///         let _ = done.send(&Step { progress, total: to });
///     }
///     Ok::<_, OwnedError>(to)
/// });
/// # let _: Router = router;
/// ```
pub struct Progress<T> {
    peer: Peer,
    token: Option<OwnedJson>,
    told: PhantomData<fn(&T)>,
}

impl<T: Serialize> Progress<T> {
    /// Tells of progress under a token: one that was agreed on before. `None` tells nothing.
    pub fn new(peer: Peer, token: Option<OwnedJson>) -> Self {
        let (peer, told) = (peer.to_unowned(), PhantomData);
        Self { peer, token, told }
    }

    /// Tells of progress, and fails instead of waiting if the output is full.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room now; otherwise what is wrong with the value, or that
    /// the connection has ended.
    pub fn send(&self, value: &T) -> Result<(), SendError> {
        let style = self.peer.session().options().config.dialect.progress;
        let (Some(token), Some(method)) = (&self.token, style.method()) else {
            return Ok(());
        };
        let params = style.params(token.as_json(), value);
        let params = params.map_err(SendError::Encode)?;
        self.peer.try_notify(method, params.as_json())
    }
}

impl<T> Progress<T> {
    /// The token as the peer wrote it, if it wants to hear of the progress.
    pub fn token(&self) -> Option<Json<'_>> {
        self.token.as_ref().map(OwnedJson::as_json)
    }
}

impl<S, T: Serialize> FromCall<Request, S> for Progress<T> {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        let params = request.raw_params();
        let token = params.and_then(|params| request.progress_style().token(params));
        Ok(Self::new(request.peer(), token.map(Json::to_owned_json)))
    }
}

/// Several tasks may tell of one request's progress.
impl<T> Clone for Progress<T> {
    fn clone(&self) -> Self {
        Self {
            peer: self.peer.clone(),
            token: self.token.clone(),
            told: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Progress<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("is_wanted", &self.token.is_some())
            .finish_non_exhaustive()
    }
}
