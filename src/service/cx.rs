//! A call as interceptors see it: the adapter's view of it, and the context that interceptors add
//! to.

use alloc::string::String;
use core::net::SocketAddr;

use super::attributes::Attributes;
use super::call_end::CallEnd;
use crate::id::OwnedId;
use crate::json::{Json, OwnedJson};
use crate::time::Instant;

/// A call as it is shown to interceptors that work with all adapters: a request or notification of
/// the peer's, or [one of ours](Self::is_outgoing).
pub trait AnyRequest {
    /// The method.
    fn method(&self) -> &str;
    /// The params as their sender wrote them.
    fn params(&self) -> Option<Json<'_>>;
    /// The id as the peer wrote it; `None` for a notification, and for a call of ours, which gets
    /// its id when it is sent.
    fn id(&self) -> Option<OwnedId>;
    /// Whether it is a notification.
    fn is_notification(&self) -> bool;
    /// The number of the connection; 0 if there is no connection, and for a call of ours that is
    /// not bound to one.
    fn connection(&self) -> u32;
    /// The address at the other end, if it is known.
    fn peer_addr(&self) -> Option<SocketAddr> {
        None
    }
    /// The address at this end of the connection, where it is known.
    fn local_addr(&self) -> Option<SocketAddr> {
        None
    }
    /// The name or address and the port of the server that this side calls, where they are known.
    fn server(&self) -> Option<(&str, u16)> {
        None
    }
    /// A header of the HTTP request, or of the handshake of the WebSocket, that a call came with.
    fn header(&self, name: &str) -> Option<&str> {
        let _ = name;
        None
    }
    /// The version of JSON-RPC, if only one is allowed.
    fn version(&self) -> Option<&'static str> {
        None
    }
    /// The current time, by the clock with which durations are measured.
    fn now(&self) -> Instant;
    /// Whether its handler is panicking.
    fn is_panicking(&self) -> bool {
        false
    }
    /// Whether this side calls the peer.
    fn is_outgoing(&self) -> bool {
        false
    }
}

/// The context of a call: when it began, what is known of it, and the attributes that interceptors
/// have added.
#[derive(Debug)]
pub struct Cx {
    began: Instant,
    is_registered: bool,
    attributes: Attributes,
    method: Option<String>,
    params: Option<OwnedJson>,
}

impl Cx {
    /// Makes the context of a call that begins now. `is_registered` says whether its method is
    /// known.
    pub const fn new(now: Instant, is_registered: bool) -> Self {
        Self {
            began: now,
            is_registered,
            attributes: Attributes::new(),
            method: None,
            params: None,
        }
    }

    /// When the call began.
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// Whether the method is known, or this side calls it. Peers may invent unknown names: do not
    /// use them as labels of metrics.
    pub const fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// The attributes that interceptors have added.
    pub const fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The attributes, to add to them.
    pub const fn attributes_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }

    /// Returns the end of a call that was cancelled, or whose handler is panicking.
    pub fn given_up<R: AnyRequest + ?Sized>(&self, request: &R) -> CallEnd {
        let why = match request.is_panicking() {
            true => "panicked",
            false => "cancelled",
        };
        let duration = request.now().saturating_since(self.began);
        CallEnd::new(duration, None, Some(why))
    }

    /// Replaces the method that is served, or called.
    pub fn set_method(&mut self, method: impl Into<String>) {
        self.method = Some(method.into());
    }

    /// Replaces the params that are passed to the handler, or sent to the peer: an array or an
    /// object.
    pub fn set_params(&mut self, params: OwnedJson) {
        self.params = Some(params);
    }

    /// The method that replaces that of the call, if it was set.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// The params that replace those of the call, if they were set.
    pub fn params(&self) -> Option<Json<'_>> {
        self.params.as_ref().map(OwnedJson::as_json)
    }
}
