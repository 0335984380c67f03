//! The call that opens a stream, and that opens it again after a reconnect.

use std::sync::Arc;
use std::time::Duration;

use antiphon::{EncodeError, JsonKind, OwnedJson, SendError, Style};
use serde::ser::Error as _;

use crate::call::Call;
use crate::call::call_error::CallError;
use crate::call::route::{Route, Wanted};
use crate::client::Client;
use crate::text::Text;

/// What a stream is made of, once and after each reconnect.
pub(crate) struct Source {
    pub(crate) client: Client,
    pub(crate) style: Style,
    pub(crate) params: Text,
    pub(crate) timeout: Option<Duration>,
}

/// The id of a stream, and the route by which its events come.
pub(crate) type Opened = (OwnedJson, Arc<Route>);

impl Source {
    /// Makes the call, and returns the stream that its answer has opened.
    pub(crate) async fn subscribe(&self) -> Result<Opened, CallError> {
        let no_method = || EncodeError::custom("the style has no method that subscribes");
        let method = self.style.subscribe_method();
        let method = method.ok_or_else(no_method).map_err(SendError::Encode)?;
        let (client, params) = (&self.client, Text::of(self.params.all()));
        let call = Call::new(client, client.way(), method, params, CallError::of);
        let mut call = call.timeout(self.timeout);
        let events = call.read_events(Wanted::Stream(self.style), None);
        let id: OwnedJson = call.await?;
        if !matches!(id.kind(), JsonKind::String | JsonKind::Number) {
            id.as_json().decode::<String>().map_err(CallError::Decode)?;
        }
        // An interceptor may have answered in place of the peer, and then there is no stream.
        let route = events.take_route().ok_or(SendError::Interceptor)?;
        Ok((id, route))
    }

    /// Makes the call over the next connection of the client, or over those that come after it.
    pub(crate) async fn subscribe_again(&self) -> Result<Opened, CallError> {
        loop {
            self.client.wait_open(Duration::MAX).await?;
            match self.subscribe().await {
                // The connection was lost again.
                Err(CallError::NoConnection(error)) if !error.is_final() => {}
                Err(CallError::Closed | CallError::Unsent) => {}
                Err(CallError::Rejected(SendError::Closed)) => {}
                subscribed => return subscribed,
            }
        }
    }
}
