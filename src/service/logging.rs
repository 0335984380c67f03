//! Passes every call to a logger.

use alloc::string::{String, ToString};
use core::net::SocketAddr;
use core::time::Duration;

use super::call_end::CallEnd;
use super::conventions::{
    JSONRPC_PROTOCOL_VERSION, JSONRPC_REQUEST_ID, NETWORK_PEER_ADDRESS, NETWORK_PEER_PORT, OTHER,
    RPC_METHOD, RPC_METHOD_ORIGINAL, RPC_SYSTEM_NAME, SERVER_ADDRESS, SERVER_PORT, SYSTEM_NAME,
};
use super::cx::{AnyRequest, Cx};
use super::decision::Decision;
use super::errors::NoAnswer;
use super::intercept::{Interceptor, Reply};
use crate::error_object::ErrorObject;
use crate::id::OwnedId;

/// A logger of calls. Each method does nothing unless you write it.
pub trait CallLog: Send + Sync + 'static {
    /// A call was received, or is sent. `params` are set only if payloads are wanted, and are
    /// redacted.
    fn request(&self, call: &LoggedCall<'_>, params: Option<&str>) {
        let _ = (call, params);
    }

    /// A call has a result. `result` is set only if payloads are wanted, and is redacted. It is `None` if
    /// the handler had returned before the call was answered.
    fn response(&self, call: &LoggedCall<'_>, duration: Duration, result: Option<&str>) {
        let _ = (call, duration, result);
    }

    /// A call of ours has ended without an answer.
    fn no_answer(&self, call: &LoggedCall<'_>, duration: Duration, why: NoAnswer) {
        let _ = (call, duration, why);
    }

    /// A call has ended without an answer of its handler: it was cancelled, its connection closed,
    /// or its handler panicked.
    fn given_up(&self, call: &LoggedCall<'_>) {
        let _ = call;
    }

    /// A call has failed. `error` is the error that the peer is sent, or has sent; `cause` is not sent. If
    /// the handler had returned before the call was answered, `error` has only the code, and `cause` is
    /// `None`.
    fn error(
        &self,
        call: &LoggedCall<'_>,
        duration: Duration,
        error: &ErrorObject<'_>,
        cause: Option<&dyn core::error::Error>,
    ) {
        let _ = (call, duration, error, cause);
    }
}

/// A call, as it is passed to a logger.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoggedCall<'c> {
    /// The method.
    pub method: &'c str,
    /// Whether the method is known, or this side calls it.
    pub is_registered: bool,
    /// Whether this side calls the peer.
    pub is_outgoing: bool,
    /// The id as the peer wrote it; `None` for a notification and for a call of ours. When the
    /// request was answered later or cancelled, only [`Logging`] still sets it.
    pub id: Option<OwnedId>,
    /// The number of the connection. Together with the id it identifies the call.
    pub connection: u32,
    /// The address at the other end, if it is known.
    pub peer_addr: Option<SocketAddr>,
    /// The address at this end of the connection, where it is known.
    pub local_addr: Option<SocketAddr>,
    /// The name or address and the port of the server that this side calls, where they are known.
    pub server: Option<(&'c str, u16)>,
    /// The version of JSON-RPC, if only one is allowed.
    pub version: Option<&'static str>,
}

/// How params and results are logged.
#[derive(Clone, Copy, Debug, Default)]
enum Payloads {
    /// Neither is logged.
    #[default]
    Hidden,
    /// What is logged is the text that this function makes of a method and its payload; nothing if
    /// it returns `None`.
    Redacted(fn(&str, &str) -> Option<String>),
}

/// An interceptor that passes every call to a logger: the peer's in a router, ours in a client. If a
/// handler returns before its call is answered, the end of the call is logged when it is answered.
#[derive(Clone, Debug)]
pub struct Logging<L> {
    log: L,
    payloads: Payloads,
}

impl<L: CallLog> Logging<L> {
    /// Passes every call to `log`, without params and results.
    pub const fn new(log: L) -> Self {
        let payloads = Payloads::Hidden;
        Self { log, payloads }
    }

    /// Logs the text that `redact` makes from params and results: it gets the method and the JSON, and
    /// returns `None` if nothing is to be logged. Without this they are never logged.
    #[must_use]
    pub fn with_payloads(mut self, redact: fn(&str, &str) -> Option<String>) -> Self {
        self.payloads = Payloads::Redacted(redact);
        self
    }

    /// Returns the call for the logger, with its id even after it was answered.
    fn call<'r, R: AnyRequest + ?Sized>(cx: &Cx, request: &'r R) -> LoggedCall<'r> {
        let mut call = LoggedCall::of(cx, request);
        if call.id.is_none() {
            let first = cx.attributes().get::<FirstId>();
            call.id = first.map(|FirstId(id)| id.clone());
        }
        call
    }

    /// Returns what is logged of a payload, if anything.
    fn shown(&self, method: &str, payload: Option<&str>) -> Option<String> {
        match self.payloads {
            Payloads::Hidden => None,
            Payloads::Redacted(redact) => redact(method, payload?),
        }
    }
}

/// The id of a call, stored in the call's attributes, because it is gone when the call is answered.
struct FirstId(OwnedId);

impl<'c> LoggedCall<'c> {
    /// Makes it from a call that an interceptor sees.
    pub fn of<R: AnyRequest + ?Sized>(cx: &Cx, request: &'c R) -> Self {
        Self {
            method: request.method(),
            is_registered: cx.is_registered(),
            is_outgoing: request.is_outgoing(),
            id: request.id(),
            connection: request.connection(),
            peer_addr: request.peer_addr(),
            local_addr: request.local_addr(),
            server: request.server(),
            version: request.version(),
        }
    }

    /// The method, or `_OTHER` if it is unknown: for labels of metrics, whose number must not grow
    /// with names that peers invent.
    pub fn known_method(&self) -> &str {
        match self.is_registered {
            true => self.method,
            false => OTHER,
        }
    }

    /// The name of the call's span: the method, or the name of the protocol if the method is
    /// unknown.
    pub fn span_name(&self) -> &str {
        match self.is_registered {
            true => self.method,
            false => SYSTEM_NAME,
        }
    }
}

/// The value of a field of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'f> {
    /// A text.
    Text(&'f str),
    /// A number.
    Number(i64),
}

impl LoggedCall<'_> {
    /// Passes the fields that the span of the call has from the beginning to `put`, in their order: for a
    /// [`Tracer`](super::Tracer). The names are those of [`conventions`](super::conventions). The server's
    /// address is that of the server that is called, or of this end of the connection if the peer calls.
    /// Params are in no field.
    pub fn fields(&self, put: &mut dyn FnMut(&'static str, FieldValue<'_>)) {
        use FieldValue::{Number, Text};
        put(RPC_SYSTEM_NAME, Text(SYSTEM_NAME));
        put(RPC_METHOD, Text(self.known_method()));
        if !self.is_registered {
            put(RPC_METHOD_ORIGINAL, Text(self.method));
        }
        if let Some(id) = &self.id {
            put(JSONRPC_REQUEST_ID, Text(&id.to_string()));
        }
        if let Some(version) = self.version {
            put(JSONRPC_PROTOCOL_VERSION, Text(version));
        }
        match (self.server, self.local_addr) {
            (Some((name, port)), _) => {
                put(SERVER_ADDRESS, Text(name));
                put(SERVER_PORT, Number(port.into()));
            }
            (None, Some(own)) if !self.is_outgoing => {
                put(SERVER_ADDRESS, Text(&own.ip().to_string()));
                put(SERVER_PORT, Number(own.port().into()));
            }
            _ => {}
        }
        if let Some(peer) = self.peer_addr {
            put(NETWORK_PEER_ADDRESS, Text(&peer.ip().to_string()));
            put(NETWORK_PEER_PORT, Number(peer.port().into()));
        }
    }
}

impl<R: AnyRequest + ?Sized, L: CallLog> Interceptor<R> for Logging<L> {
    fn request(&self, cx: &mut Cx, request: &R) -> Decision {
        let params = request.params().map(crate::Json::as_str);
        let params = self.shown(request.method(), params);
        let call = LoggedCall::of(cx, request);
        self.log.request(&call, params.as_deref());
        if let Some(id) = call.id {
            cx.attributes_mut().insert(FirstId(id));
        }
        Decision::Continue
    }

    fn answered(&self, cx: &Cx, request: &R, end: &CallEnd) {
        let call = Self::call(cx, request);
        match (end.code, end.instead) {
            (Some(code), _) => {
                let error = ErrorObject::new(code, "");
                self.log.error(&call, end.duration, &error, None);
            }
            (None, Some(_)) => self.log.given_up(&call),
            (None, None) => self.log.response(&call, end.duration, None),
        }
    }

    fn given_up(&self, cx: &Cx, request: &R) {
        self.log.given_up(&Self::call(cx, request));
    }

    fn response(&self, cx: &Cx, request: &R, reply: &mut Reply) {
        if reply.is_deferred() {
            // `answered` logs its end.
            return;
        }
        let (call, duration) = (Self::call(cx, request), reply.duration());
        if let Some(why) = reply.no_answer() {
            return self.log.no_answer(&call, duration, why);
        }
        match (reply.error(), reply.failure()) {
            (Some(error), Some(failure)) => {
                self.log.error(&call, duration, &error, failure.cause())
            }
            _ => {
                let result = self.shown(call.method, reply.result());
                self.log.response(&call, duration, result.as_deref());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::{FieldValue, LoggedCall};

    // OBS-04
    #[test]
    fn a_span_has_the_fields_of_the_conventions_in_one_order() {
        let peer = "192.0.2.1:5000".parse().unwrap();
        let own = "[2001:db8::1]:80".parse().unwrap();
        let call = LoggedCall {
            method: "none",
            is_registered: false,
            is_outgoing: false,
            id: None,
            connection: 1,
            peer_addr: Some(peer),
            local_addr: Some(own),
            server: None,
            version: Some("2.0"),
        };
        let fields = |call: &LoggedCall<'_>| {
            let mut all = Vec::new();
            call.fields(&mut |name, value| {
                all.push(match value {
                    FieldValue::Text(text) => format!("{name}={text}"),
                    FieldValue::Number(number) => format!("{name}={number}i"),
                });
            });
            all
        };
        let expected = [
            "rpc.system.name=jsonrpc",
            "rpc.method=_OTHER",
            "rpc.method_original=none",
            "jsonrpc.protocol.version=2.0",
            "server.address=2001:db8::1",
            "server.port=80i",
            "network.peer.address=192.0.2.1",
            "network.peer.port=5000i",
        ];
        assert_eq!(fields(&call), expected);
        // The server of a call of ours is the one that is called, if it is known.
        let mut ours = LoggedCall {
            is_registered: true,
            is_outgoing: true,
            server: Some(("example.org", 8080)),
            version: None,
            ..call
        };
        let expected = ["server.address=example.org", "server.port=8080i"];
        assert_eq!(fields(&ours)[2..4], expected);
        ours.server = None;
        assert!(fields(&ours)[2].starts_with("network.peer"));
    }
}
