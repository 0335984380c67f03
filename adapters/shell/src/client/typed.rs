//! Lets typed clients call through a peer, a client or a batch.

use std::borrow::Cow;

use antiphon::RpcError;
use antiphon::service::{Caller, Encoding};
use antiphon::{Config, Handle as Entry, Payload, SendError, VersionPolicy};
use serde::de::DeserializeOwned;

use crate::call::Call;
use crate::call::batch::BatchBuilder;
use crate::call::call_error::CallError;
use crate::call::call_request::CallRequest;
use crate::call::intercepted::unsent;
use crate::call::transmit::Transmit;
use crate::client::Client;
use crate::peer::Peer;
use crate::text::Text;
use crate::wait::Wait;

/// Returns the encoding of params that the configuration requires, if any: JSON-RPC 1.0 has no params
/// by name.
fn only_encoding(config: &Config) -> Option<Encoding> {
    let is_old = config.dialect.version == VersionPolicy::V1Only;
    is_old.then_some(Encoding::ByPosition)
}

impl Peer {
    pub(crate) fn notify_owned<'m>(
        &self,
        method: Cow<'m, str>,
        params: Result<Text, SendError>,
    ) -> Wait<'m, Result<(), SendError>> {
        let mut call = CallRequest::new(method, params, self.call_timeout());
        let Some(seen) = self.interception() else {
            return self.start_notification(call);
        };
        let (shown, peer) = (seen.notification(&mut call), self.to_unowned());
        shown.then(call, move |decided| match decided {
            Ok((call, intercepted)) => {
                let sending = peer.start_notification(call);
                sending.map(|sent| intercepted.end_sent(sent))
            }
            Err(answered) => Wait::known(unsent(answered)),
        })
    }

    /// Sends a notification, after the senders that wait for space already.
    fn start_notification<'m>(&self, call: CallRequest<'m>) -> Wait<'m, Result<(), SendError>> {
        match call.params {
            Ok(params) => self.in_turn(self.deadline(call.timeout), move |state| {
                state.conn.notify(&call.method, params.all())
            }),
            Err(error) => Wait::known(Err(error)),
        }
    }
}

/// Calls with [`Peer::call`], and notifies with [`Peer::notify`].
impl Caller for Peer {
    type Call<'c, R, E>
        = Call<'c, R, Self, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;
    type Notified<'c> = Wait<'c, Result<(), SendError>>;

    fn encoding(&self) -> Option<Encoding> {
        only_encoding(&self.session().options().config)
    }

    fn start<'c, R, E>(&'c self, method: Cow<'c, str>, params: impl Payload) -> Call<'c, R, Self, E>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        Call::new(self, self, method, params, CallError::read)
    }

    fn tell<'c>(
        &'c self,
        method: Cow<'c, str>,
        params: impl Payload,
    ) -> Wait<'c, Result<(), SendError>> {
        self.notify_owned(method, Text::of(params))
    }
}

/// Calls with [`Client::call`], and notifies with [`Client::notify`].
impl Caller for Client {
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
        Call::new(self, self.way(), method, params, CallError::read)
    }

    fn tell<'c>(
        &'c self,
        method: Cow<'c, str>,
        params: impl Payload,
    ) -> Wait<'c, Result<(), CallError>> {
        self.way().notify(method, Text::of(params))
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
