//! The call that opens a stream, and that opens it again after a reconnect.

use std::sync::Arc;
use std::time::Duration;

use antiphon::pubsub::{Pattern, TopicMethod};
use antiphon::{EncodeError, JsonKind, OwnedJson, SendError, Style};
use serde::de::IgnoredAny;
use serde::ser::Error as _;

use crate::call::Call;
use crate::call::call_error::CallError;
use crate::call::route::{Route, Wanted};
use crate::client::Client;
use crate::text::Text;

/// What a stream is made of, once and after each reconnect.
pub(crate) struct Source {
    pub(crate) client: Client,
    pub(crate) asked: Asked,
    pub(crate) timeout: Option<Duration>,
}

/// What a stream has events of.
#[derive(Debug)]
pub(crate) enum Asked {
    /// What the method of a style and its params say.
    Stream(Style, Text),
    /// The topics that a pattern matches.
    Topic(Pattern),
}

/// The id of a stream, and the route by which its events come.
pub(crate) type Opened = (OwnedJson, Arc<Route>);

impl Source {
    /// Makes the call, and returns the stream that its answer has opened.
    pub(crate) async fn subscribe(&self) -> Result<Opened, CallError> {
        match &self.asked {
            Asked::Stream(style, params) => self.subscribe_to_stream(*style, params).await,
            Asked::Topic(pattern) => self.subscribe_to_topic(pattern).await,
        }
    }

    /// Makes the call on the connection that there is: its route is open before its answer, because publications may come
    /// in the same read.
    async fn subscribe_to_topic(&self, pattern: &Pattern) -> Result<Opened, CallError> {
        if self.client.peer().is_none() {
            self.client
                .wait_open(self.timeout.unwrap_or(Duration::MAX))
                .await?;
        }
        // Over HTTP there is no connection.
        let peer = self.client.peer().ok_or(SendError::NoPush)?;
        let method = TopicMethod::Subscribe;
        let params = method.params(std::slice::from_ref(pattern));
        let call = peer.call::<IgnoredAny>(method.name(), params.as_json());
        let mut call = call.timeout(self.timeout);
        let events = call.read_events(Wanted::Topic(pattern.clone()), None);
        call.await?;
        let id = OwnedJson::from_value(pattern.as_str()).map_err(SendError::Encode)?;
        // An interceptor may have answered in place of the peer, and then there is no stream.
        let route = events.take_route().ok_or(SendError::Interceptor)?;
        Ok((id, route))
    }

    async fn subscribe_to_stream(&self, style: Style, params: &Text) -> Result<Opened, CallError> {
        let no_method = || EncodeError::custom("the style has no method that subscribes");
        let method = style.subscribe_method();
        let method = method.ok_or_else(no_method).map_err(SendError::Encode)?;
        let client = &self.client;
        let call = Call::new(client, client.way(), method, params.all(), CallError::of);
        let mut call = call.timeout(self.timeout);
        let events = call.read_events(Wanted::Stream(style), None);
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
