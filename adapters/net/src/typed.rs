//! Lets typed clients call through a peer, a client or a batch.

use std::borrow::Cow;

use antiphon::RpcError;
use antiphon::service::{Caller, Encoding};
use antiphon::{Config, Handle as Entry, Payload, SendError, VersionPolicy};
use serde::de::DeserializeOwned;

use crate::batch::BatchBuilder;
use crate::call::Call;
use crate::call_error::CallError;
use crate::client::ReconnectingClient;
#[cfg(feature = "http")]
use crate::http::HttpClient;
use crate::peer::Peer;
use crate::text::Text;
#[cfg(feature = "http")]
use crate::wait::Wait;

/// Returns the encoding of params that the configuration requires, if any: JSON-RPC 1.0 has no params
/// by name.
fn only_encoding(config: &Config) -> Option<Encoding> {
    let is_old = config.dialect.version == VersionPolicy::V1Only;
    is_old.then_some(Encoding::ByPosition)
}

/// Calls with [`Peer::call`]; notifies with [`Peer::try_notify`], which never waits.
impl Caller for Peer {
    type Call<'c, R, E>
        = Call<'c, R, Self, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;
    type Notified<'c> = Result<(), SendError>;

    fn encoding(&self) -> Option<Encoding> {
        only_encoding(&self.session().options().config)
    }

    fn start<'c, R, E>(&'c self, method: Cow<'c, str>, params: impl Payload) -> Call<'c, R, Self, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        Call::new(self, method, Text::of(params), CallError::read)
    }

    fn tell(&self, method: Cow<'_, str>, params: impl Payload) -> Result<(), SendError> {
        self.try_notify(&method, params)
    }
}

/// Calls with [`ReconnectingClient::call`]; notifies with [`Peer::try_notify`], over an open
/// connection.
impl Caller for ReconnectingClient {
    type Call<'c, R, E>
        = Call<'c, R, Self, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;
    type Notified<'c> = Result<(), SendError>;

    /// The encoding of the open connection, if there is one.
    fn encoding(&self) -> Option<Encoding> {
        self.peer()?.encoding()
    }

    fn start<'c, R, E>(&'c self, method: Cow<'c, str>, params: impl Payload) -> Call<'c, R, Self, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        Call::new(self, method, Text::of(params), CallError::read)
    }

    fn tell(&self, method: Cow<'_, str>, params: impl Payload) -> Result<(), SendError> {
        let peer = self.peer().ok_or(SendError::Closed)?;
        peer.try_notify(&method, params)
    }
}

/// Calls with [`HttpClient::call`], and notifies with [`HttpClient::notify`].
#[cfg(feature = "http")]
impl Caller for HttpClient {
    type Call<'c, R, E>
        = Call<'c, R, Self, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;
    type Notified<'c> = Wait<'c, Result<(), CallError>>;

    fn encoding(&self) -> Option<Encoding> {
        only_encoding(self.config())
    }

    fn start<'c, R, E>(&'c self, method: Cow<'c, str>, params: impl Payload) -> Call<'c, R, Self, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        Call::new(self, method, Text::of(params), CallError::read)
    }

    fn tell<'c>(
        &'c self,
        method: Cow<'c, str>,
        params: impl Payload,
    ) -> Wait<'c, Result<(), CallError>> {
        self.notify_owned(method, Text::of(params))
    }
}

/// Adds an entry to the batch.
impl Caller for BatchBuilder {
    type Call<'c, R, E>
        = Result<Entry<R>, SendError>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;
    type Notified<'c> = Result<(), SendError>;

    fn start<'c, R, E>(
        &'c self,
        method: Cow<'c, str>,
        params: impl Payload,
    ) -> Result<Entry<R>, SendError>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        self.call(&method, params)
    }

    fn tell(&self, method: Cow<'_, str>, params: impl Payload) -> Result<(), SendError> {
        self.notify(&method, params)
    }
}
