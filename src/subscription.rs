//! The shapes of notifications that carry the events of a stream, as data: in which members each
//! dialect sends the stream's id and the event, and where a request asks for the events.
//!
//! Progress of a request is such a stream. Its id is a token that the request has, a string or a
//! number. The token is sent back as it was written and never read as a number.

use alloc::vec::Vec;

use serde::ser::{Error as _, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::codes;
use crate::encode::{Encoded, Payload};
use crate::error_object::ErrorObject;
use crate::json::{EncodeError, Json, JsonKind, JsonString, OwnedJson, write_json, write_str};

/// How a dialect reports the progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgressStyle {
    /// The dialect has no progress.
    None,
    /// As [`Style::LSP_PROGRESS`] says.
    Lsp,
    /// As [`Style::MCP_PROGRESS`] says.
    Mcp,
}

impl ProgressStyle {
    /// How values of progress are sent; `None` if the dialect has no progress.
    // A configuration has this byte instead of the style, because small devices have one in RAM.
    pub const fn style(self) -> Option<Style> {
        match self {
            Self::None => None,
            Self::Lsp => Some(Style::LSP_PROGRESS),
            Self::Mcp => Some(Style::MCP_PROGRESS),
        }
    }
}

/// How the events of a stream are sent as notifications, and how a request asks for them: by a token of
/// its own, as a call whose answer is the id of the stream, or as a call whose own id is that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The notification.
    method: &'static str,
    /// Where its params have the id of the stream.
    id: Place,
    /// The member of its params that has the event; if there is none, the event's own members are
    /// there.
    event: Option<&'static str>,
    asked: Asked,
}

/// How a request asks for the events of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// It has the id, as a token of its own.
    Token(Place),
    /// The answer to this method is the id. The other method, with the id as its only parameter, ends the
    /// stream.
    Call {
        subscribe: &'static str,
        unsubscribe: &'static str,
    },
    /// The id of the request is that of the stream.
    Request,
}

/// The place of an id in params.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The member of the params, or of an object in them, that has the id.
    member: &'static str,
    /// The object in the params that has this member; if there is none, the params have it.
    around: Option<&'static str>,
}

impl Place {
    const fn of(member: &'static str) -> Self {
        let around = None;
        Self { member, around }
    }

    fn get(self, params: Json<'_>) -> Option<Json<'_>> {
        let object = match self.around {
            Some(around) => params.get(around)?,
            None => params,
        };
        object.get(self.member).filter(is_id)
    }

    /// Adds an id to the members of params. It replaces one that they have.
    fn put(self, id: Json<'_>, params: Option<Json<'_>>) -> Result<OwnedJson, EncodeError> {
        let mut object = Object::new();
        object.add(self.member, id);
        let Some(around) = self.around else {
            if let Some(params) = params {
                object.add_all(params, self.member);
            }
            return object.end();
        };
        if let Some(given) = params.and_then(|params| params.get(around)) {
            object.add_all(given, self.member);
        }
        let inner = object.end()?;
        let mut object = Object::new();
        object.add(around, inner.as_json());
        if let Some(params) = params {
            object.add_all(params, around);
        }
        object.end()
    }
}

impl Style {
    /// Progress in LSP: `$/progress` with `token` and `value`; the token is in the request's params as
    /// `workDoneToken` (LSP 3.17, *Work Done Progress*).
    pub const LSP_PROGRESS: Self = Self {
        method: "$/progress",
        id: Place::of("token"),
        event: Some("value"),
        asked: Asked::Token(Place::of("workDoneToken")),
    };

    /// Partial results in LSP: `$/progress` with `token` and `value`; the token is in the request's params
    /// as `partialResultToken` (LSP 3.17, *Partial Result Progress*).
    pub const LSP_PARTIAL_RESULTS: Self = Self {
        asked: Asked::Token(Place::of("partialResultToken")),
        ..Self::LSP_PROGRESS
    };

    /// Progress in MCP: `notifications/progress` with `progressToken` and the members of the value,
    /// which are `progress` and perhaps `total` and `message`; the token is in `_meta` of the request's
    /// params as `progressToken` (MCP, *Progress*).
    pub const MCP_PROGRESS: Self = Self {
        method: "notifications/progress",
        id: Place::of("progressToken"),
        event: None,
        asked: Asked::Token(Place {
            member: "progressToken",
            around: Some("_meta"),
        }),
    };

    /// Listening in MCP: the notifications of a `subscriptions/listen` request are of any method, and have the
    /// id of the request in `_meta` as `io.modelcontextprotocol/subscriptionId` (MCP 2026-07-28,
    /// *Subscriptions*). The answer to the request is the end. An event is an object with the `method` and the
    /// `params` of its notification.
    pub const MCP_LISTEN: Self = Self {
        method: "subscriptions/listen",
        id: Place {
            member: "io.modelcontextprotocol/subscriptionId",
            around: Some("_meta"),
        },
        event: None,
        asked: Asked::Request,
    };

    /// Subscriptions of Ethereum nodes: `eth_subscribe`, `eth_subscription`, `eth_unsubscribe`. The first
    /// parameter says to what, such as `newHeads`.
    pub const ETHEREUM: Self = Self::named("eth_subscribe", "eth_subscription", "eth_unsubscribe");

    /// New blocks of a Substrate node, also those that may be taken back.
    pub const SUBSTRATE_NEW_HEADS: Self = Self::named(
        "chain_subscribeNewHeads",
        "chain_newHead",
        "chain_unsubscribeNewHeads",
    );

    /// Final blocks of a Substrate node.
    pub const SUBSTRATE_FINALIZED_HEADS: Self = Self::named(
        "chain_subscribeFinalizedHeads",
        "chain_finalizedHead",
        "chain_unsubscribeFinalizedHeads",
    );

    /// Changes of an account on Solana.
    pub const SOLANA_ACCOUNT: Self = Self::named(
        "accountSubscribe",
        "accountNotification",
        "accountUnsubscribe",
    );

    /// The logs of transactions on Solana.
    pub const SOLANA_LOGS: Self =
        Self::named("logsSubscribe", "logsNotification", "logsUnsubscribe");

    /// Slots that a Solana node has processed.
    pub const SOLANA_SLOT: Self =
        Self::named("slotSubscribe", "slotNotification", "slotUnsubscribe");

    /// Subscriptions by the names of three methods, in the shape that Ethereum, Substrate and Solana nodes
    /// and jsonrpsee have in common: the answer to `subscribe` is an id, each event is a `notification` whose
    /// params have the id as `subscription` and the event as `result`, and `unsubscribe` with the id as its
    /// only parameter ends the stream.
    ///
    /// ```
    /// use antiphon::Style;
    ///
    /// const VOTES: Style = Style::named("voteSubscribe", "voteNotification", "voteUnsubscribe");
    /// assert_eq!(VOTES.subscribe_method(), Some("voteSubscribe"));
    /// ```
    pub const fn named(
        subscribe: &'static str,
        notification: &'static str,
        unsubscribe: &'static str,
    ) -> Self {
        Self {
            method: notification,
            id: Place::of("subscription"),
            event: Some("result"),
            asked: Asked::Call {
                subscribe,
                unsubscribe,
            },
        }
    }

    /// The notification that carries an event. [`MCP_LISTEN`](Self::MCP_LISTEN) has the request here, for any
    /// notification may carry one.
    pub const fn method(&self) -> &'static str {
        self.method
    }

    /// The method whose answer is the id of a stream; `None` if a request has the id, as a token.
    pub const fn subscribe_method(&self) -> Option<&'static str> {
        match self.asked {
            Asked::Call { subscribe, .. } => Some(subscribe),
            Asked::Token(_) | Asked::Request => None,
        }
    }

    /// The method that ends a stream; `None` if a stream ends with the request that asked for it.
    pub const fn unsubscribe_method(&self) -> Option<&'static str> {
        match self.asked {
            Asked::Call { unsubscribe, .. } => Some(unsubscribe),
            Asked::Token(_) | Asked::Request => None,
        }
    }

    /// Whether a request has the id of a stream, as a token.
    pub const fn has_token(&self) -> bool {
        self.place().is_some()
    }

    /// Where a request has its token.
    const fn place(&self) -> Option<Place> {
        match self.asked {
            Asked::Token(place) => Some(place),
            Asked::Call { .. } | Asked::Request => None,
        }
    }

    /// Returns the token in a request's params, if the request asks for events.
    ///
    /// ```
    /// use antiphon::{Json, Style};
    /// let params = Json::parse_str(r#"{"_meta":{"progressToken":1.0},"name":"wait"}"#).unwrap();
    /// assert_eq!(Style::MCP_PROGRESS.token(params).unwrap().as_str(), "1.0");
    /// assert_eq!(Style::LSP_PROGRESS.token(params), None);
    /// ```
    pub fn token<'a>(&self, params: Json<'a>) -> Option<Json<'a>> {
        self.place()?.get(params)
    }

    /// Returns the params of a request without the member for the token: for LSP `workDoneToken`,
    /// for MCP the whole `_meta`. The rest are the parameters of the method. `None` if there is no
    /// such member.
    ///
    /// ```
    /// use antiphon::{Json, Style};
    /// let params = Json::parse_str(r#"{"a":1,"workDoneToken":"t"}"#).unwrap();
    /// assert_eq!(Style::LSP_PROGRESS.without_token(params).unwrap().as_str(), r#"{"a":1}"#);
    /// assert_eq!(Style::MCP_PROGRESS.without_token(params), None);
    /// ```
    pub fn without_token(&self, params: Json<'_>) -> Option<OwnedJson> {
        let asked = self.place()?;
        let member = asked.around.unwrap_or(asked.member);
        params.get(member)?;
        let mut object = Object::new();
        object.add_all(params, member);
        object.end().ok()
    }

    /// Makes the params of a notification that carries an event.
    ///
    /// ```
    /// use antiphon::{Json, Style};
    /// let (token, done) = (Json::parse_str("7").unwrap(), [("progress", 50)]);
    /// let done = std::collections::BTreeMap::from(done);
    /// let params = Style::MCP_PROGRESS.params(token, &done)?;
    /// assert_eq!(params.as_str(), r#"{"progressToken":7,"progress":50}"#);
    /// # Ok::<(), antiphon::EncodeError>(())
    /// ```
    ///
    /// # Errors
    /// The event has no JSON form, or nests too deep; or it is not an object, and its members would
    /// stand beside the id, as in MCP.
    pub fn params<T>(&self, id: Json<'_>, event: &T) -> Result<OwnedJson, EncodeError>
    where
        T: Serialize + ?Sized,
    {
        let event = OwnedJson::from_value(event)?;
        let event = event.as_json();
        match self.event {
            Some(name) => {
                let mut object = Object::new();
                object.add(self.id.member, id);
                object.add(name, event);
                object.end()
            }
            None if event.kind() == JsonKind::Object => self.id.put(id, Some(event)),
            None => Err(EncodeError::custom("progress is told as an object")),
        }
    }

    /// These params as a value, which is written once, when it is sent.
    #[doc(hidden)]
    pub fn event<'a, T>(&self, id: Json<'a>, event: &'a T) -> impl Serialize + use<'a, T>
    where
        T: Serialize + ?Sized,
    {
        let style = *self;
        EventParams { style, id, event }
    }

    /// Makes the params of the last notification of a stream: they have its id and, as `error`, why it has ended.
    /// jsonrpsee sends the same.
    ///
    /// ```
    /// use antiphon::{ErrorObject, Json, Style};
    /// let (id, why) = (Json::parse_str("7").unwrap(), ErrorObject::new(-32000, "gone"));
    /// let params = Style::ETHEREUM.end_params(id, &why)?;
    /// assert_eq!(params.as_str(), r#"{"subscription":7,"error":{"code":-32000,"message":"gone"}}"#);
    /// # Ok::<(), antiphon::EncodeError>(())
    /// ```
    ///
    /// # Errors
    /// The data of the error nest too deep.
    pub fn end_params(
        &self,
        id: Json<'_>,
        why: &ErrorObject<'_>,
    ) -> Result<OwnedJson, EncodeError> {
        let mut object = Object::new();
        object.add(self.id.member, id);
        object.0.extend_from_slice(b",\"error\":");
        why.write(&mut object.0);
        object.end()
    }

    /// Returns the id and the event from the params of a notification. In MCP the event is the params
    /// themselves, with the id. `None` if the id or the event is missing.
    pub fn read<'a>(&self, params: Json<'a>) -> Option<(Json<'a>, Json<'a>)> {
        let id = self.id.get(params)?;
        let event = match self.event {
            Some(name) => params.get(name)?,
            None => params,
        };
        Some((id, event))
    }

    /// Returns the id and the reason from the params of a notification by which the peer gives a stream up:
    /// it has `error` in place of the event, as a jsonrpsee server sends it. `None` for other params, and if
    /// a stream ends with the request that asked for it.
    ///
    /// ```
    /// use antiphon::{Json, Style};
    /// let params = Json::parse_str(r#"{"subscription":7,"error":"too slow"}"#).unwrap();
    /// let (id, why) = Style::ETHEREUM.read_end(params).unwrap();
    /// assert_eq!((id.as_str(), why.as_str()), ("7", "\"too slow\""));
    /// ```
    pub fn read_end<'a>(&self, params: Json<'a>) -> Option<(Json<'a>, Json<'a>)> {
        self.unsubscribe_method()?;
        let is_event = self.event.is_none_or(|name| params.get(name).is_some());
        let id = self.id.get(params)?;
        let why = params.get("error").filter(|_| !is_event)?;
        Some((id, why))
    }

    /// Whether a stream has ended for this reason because it has no more events, as
    /// [`ErrorObject::stream_completed`] says.
    ///
    /// ```
    /// use antiphon::{Json, Style};
    /// let why = |text| Json::parse_str(text).unwrap();
    /// assert!(Style::is_completed(why(r#"{"code":-32001,"message":"Stream completed"}"#)));
    /// assert!(!Style::is_completed(why(r#"{"code":-32000,"message":"Stream completed"}"#)));
    /// assert!(!Style::is_completed(why(r#""too slow""#)));
    /// ```
    pub fn is_completed(why: Json<'_>) -> bool {
        let code = why.get("code").map(|code| code.decode());
        matches!(code, Some(Ok(codes::STREAM_COMPLETED)))
    }

    /// Adds a token to params, to ask for events. It replaces a token that they have.
    ///
    /// ```
    /// use antiphon::{Json, Style};
    /// let params = Json::parse_str(r#"{"command":"count"}"#).unwrap();
    /// let params = Style::LSP_PROGRESS.ask(params, "p1")?;
    /// assert_eq!(params.as_str(), r#"{"workDoneToken":"p1","command":"count"}"#);
    /// # Ok::<(), antiphon::EncodeError>(())
    /// ```
    ///
    /// # Errors
    /// The params have no JSON form, or are not an object, so that they have no place for a token;
    /// or requests of this style have no token.
    pub fn ask(&self, params: impl Payload, token: &str) -> Result<OwnedJson, EncodeError> {
        let no_token = || EncodeError::custom("a request has no token for such events");
        let asked = self.place().ok_or_else(no_token)?;
        let mut text = Vec::new();
        let written = Encoded::write(params, &mut text)?;
        // The text was just written as JSON, so parsing it does not fail.
        let params = match written.is_empty() {
            true => None,
            false => Json::parse(&text).ok(),
        };
        if params.is_some_and(|params| params.kind() != JsonKind::Object) {
            let why = "params in an array have no place for a progress token";
            return Err(EncodeError::custom(why));
        }
        let token = OwnedJson::of_str(token);
        asked.put(token.as_json(), params)
    }
}

/// Params with an id and an event, each in a member of its own.
struct EventParams<'a, T: ?Sized> {
    style: Style,
    id: Json<'a>,
    event: &'a T,
}

impl<T: Serialize + ?Sized> Serialize for EventParams<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let no_member = || S::Error::custom("such events have no member of their own");
        let name = self.style.event.ok_or_else(no_member)?;
        let mut params = serializer.serialize_struct("params", 2)?;
        params.serialize_field(self.style.id.member, &self.id)?;
        params.serialize_field(name, self.event)?;
        params.end()
    }
}

/// Whether a JSON value can be the id of a stream.
pub(crate) fn is_id(json: &Json<'_>) -> bool {
    matches!(json.kind(), JsonKind::String | JsonKind::Number)
}

/// The text of an object, member by member.
pub(crate) struct Object(Vec<u8>);

impl Object {
    pub(crate) fn new() -> Self {
        Self(Vec::from(*b"{"))
    }

    /// The text of an event that has its method with it.
    pub(crate) fn of_notification(
        method: &str,
        params: Json<'_>,
    ) -> Result<OwnedJson, EncodeError> {
        let mut object = Self::new();
        object.add("method", OwnedJson::of_str(method).as_json());
        object.add("params", params);
        object.end()
    }

    fn add(&mut self, name: &str, value: Json<'_>) {
        self.next();
        write_str(&mut self.0, name);
        self.0.push(b':');
        write_json(&mut self.0, value);
    }

    /// Adds the members of another object, except those named `but`.
    fn add_all(&mut self, object: Json<'_>, but: &str) {
        self.add_some(object, |name| !name.eq_str(but));
    }

    /// Adds the members of another object whose names `keeps` accepts.
    pub(crate) fn add_some(&mut self, object: Json<'_>, keeps: impl Fn(&JsonString<'_>) -> bool) {
        for (name, value) in object.members() {
            if !keeps(&name) {
                continue;
            }
            self.next();
            self.0.push(b'"');
            self.0.extend_from_slice(name.raw().as_bytes());
            self.0.extend_from_slice(b"\":");
            write_json(&mut self.0, value);
        }
    }

    fn next(&mut self) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
    }

    pub(crate) fn end(mut self) -> Result<OwnedJson, EncodeError> {
        self.0.push(b'}');
        OwnedJson::of_parts(self.0)
    }
}

#[cfg(test)]
mod tests;
