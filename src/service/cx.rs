//! A call on its way past interceptors: what adapters show of it, and what is known besides.

use alloc::string::String;
use core::net::SocketAddr;

use super::attributes::Attributes;
use super::call_end::CallEnd;
use crate::id::OwnedId;
use crate::json::{Json, OwnedJson};
use crate::time::Instant;

/// What an adapter shows of a call to interceptors that serve all adapters: a request or notification of
/// the peer's, or [one of ours](Self::is_outgoing).
pub trait AnyRequest {
    /// The method asked for.
    fn method(&self) -> &str;
    /// The params as they were written by the one who calls.
    fn params(&self) -> Option<Json<'_>>;
    /// The id as the peer wrote it; none for a notification, and for a call of ours, which gets its id
    /// when it is sent.
    fn id(&self) -> Option<OwnedId>;
    /// Whether nothing is answered.
    fn is_notification(&self) -> bool;
    /// The number of the connection; 0 for one that was made by itself, and for a call of ours that is
    /// bound to none.
    fn connection(&self) -> u32;
    /// The address at the other end, where it is known.
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
    /// The version of JSON-RPC, where only one is spoken.
    fn version(&self) -> Option<&'static str> {
        None
    }
    /// The time, by the clock that durations are measured with.
    fn now(&self) -> Instant;
    /// Whether its handler panics now.
    fn is_panicking(&self) -> bool {
        false
    }
    /// Whether this side calls the peer.
    fn is_outgoing(&self) -> bool {
        false
    }
}

/// A call on its way: since when, what is known of it, and what interceptors have left.
#[derive(Debug)]
pub struct Cx {
    began: Instant,
    is_registered: bool,
    attributes: Attributes,
    method: Option<String>,
    params: Option<OwnedJson>,
}

impl Cx {
    /// Makes one for a call that begins now. `is_registered` says whether somebody serves its method.
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

    /// Whether somebody serves the method, or this side calls it. Names that nobody serves are what the
    /// peer makes up: keep them out of the labels of metrics.
    pub const fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// What interceptors have left.
    pub const fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// What interceptors have left, to add to it.
    pub const fn attributes_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }

    /// How a call has ended that was given up, or whose handler panics.
    pub fn given_up<R: AnyRequest + ?Sized>(&self, request: &R) -> CallEnd {
        let why = match request.is_panicking() {
            true => "panicked",
            false => "cancelled",
        };
        let duration = request.now().saturating_since(self.began);
        CallEnd::new(duration, None, Some(why))
    }

    /// Has another method served, or called.
    pub fn set_method(&mut self, method: impl Into<String>) {
        self.method = Some(method.into());
    }

    /// Gives the handler other params, or the peer: an array or an object.
    pub fn set_params(&mut self, params: OwnedJson) {
        self.params = Some(params);
    }

    /// The method that is served or called instead of the one asked for.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// The params that take the place of those of the call.
    pub fn params(&self) -> Option<Json<'_>> {
        self.params.as_ref().map(OwnedJson::as_json)
    }
}
