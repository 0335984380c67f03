//! Methods by the types of the protocol.

use std::fmt;
use std::marker::PhantomData;

use antiphon::{Method, OwnedError, SendError};
use antiphon_net::{Call, Peer};
use gen_lsp_types::{Notification, Request};

/// A request of the protocol as a [`Method`].
pub struct LspRequest<R>(PhantomData<fn() -> R>);

impl<R: Request> Method for LspRequest<R> {
    const NAME: &'static str = R::METHOD.as_str();
    type Params = R::Params;
    type Result = R::Result;
    type Error = OwnedError;
}

/// A notification of the protocol as a [`Method`], which has no result.
pub struct LspNotification<N>(PhantomData<fn() -> N>);

impl<N: Notification> Method for LspNotification<N> {
    const NAME: &'static str = N::METHOD.as_str();
    type Params = N::Params;
    type Result = ();
    type Error = OwnedError;
}

impl<R> fmt::Debug for LspRequest<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LspRequest")
    }
}

impl<N> fmt::Debug for LspNotification<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LspNotification")
    }
}

/// Calls the other side, an editor or a server, with the types of the protocol.
///
/// ```no_run
/// # use antiphon_net::{CallError, Peer};
/// use antiphon_lsp::LspPeer;
/// use antiphon_lsp::types::{ApplyWorkspaceEditParams, ApplyWorkspaceEditRequest};
///
/// # async fn example(peer: Peer, params: ApplyWorkspaceEditParams) -> Result<(), CallError> {
/// let applied = peer.request::<ApplyWorkspaceEditRequest>(&params).await?.applied;
/// # let _: bool = applied;
/// # Ok(()) }
/// ```
pub trait LspPeer {
    /// Calls a method. It waits as [`Peer::call`] does.
    fn request<R: Request>(&self, params: &R::Params) -> Call<'_, R::Result, Peer>;

    /// Sends a notification, and fails instead of waiting if the output is full.
    ///
    /// # Errors
    /// As [`Peer::try_notify`].
    fn notification<N: Notification>(&self, params: &N::Params) -> Result<(), SendError>;
}

impl LspPeer for Peer {
    fn request<R: Request>(&self, params: &R::Params) -> Call<'_, R::Result, Peer> {
        self.send::<LspRequest<R>>(params)
    }

    fn notification<N: Notification>(&self, params: &N::Params) -> Result<(), SendError> {
        self.try_notify(N::METHOD.as_str(), params)
    }
}
