//! Passes every call to a logger.

use core::net::SocketAddr;
use core::time::Duration;

use super::call_end::CallEnd;
use super::conventions::{OTHER, SYSTEM_NAME};
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

    /// It has a result. `result` is there only if payloads are wanted, and as it was redacted; and not where
    /// the answer came after the handler had returned.
    fn response(&self, call: &LoggedCall<'_>, duration: Duration, result: Option<&str>) {
        let _ = (call, duration, result);
    }

    /// A call of ours has ended without an answer.
    fn no_answer(&self, call: &LoggedCall<'_>, duration: Duration, why: NoAnswer) {
        let _ = (call, duration, why);
    }

    /// The call ended without an answer: it was cancelled, the connection closed, or its handler
    /// panicked.
    fn given_up(&self, call: &LoggedCall<'_>) {
        let _ = call;
    }

    /// It has failed. `error` is what the peer is told, or has told; `cause` what is known here. Where the
    /// answer came after the handler had returned, `error` has the code only, and there is no cause.
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
    /// The id as the peer wrote it; none for a notification and for a call of ours. Once the request is
    /// answered or given up, only [`Logging`] still has it.
    pub id: Option<OwnedId>,
    /// The number of the connection. Together with the id it identifies the call.
    pub connection: u32,
    /// The address at the other end, if it is known.
    pub peer_addr: Option<SocketAddr>,
    /// The name or address and the port of the server that this side calls, if they are known.
    pub server: Option<(&'c str, u16)>,
    /// The version of JSON-RPC, if only one is allowed.
    pub version: Option<&'static str>,
}

/// How params and results are logged.
#[derive(Clone, Copy, Debug, Default)]
enum Payloads {
    /// They are not logged.
    #[default]
    Hidden,
    /// The function makes the text to log from the method and its payload; with `None` nothing is
    /// logged.
    Redacted(fn(&str, &str) -> Option<alloc::string::String>),
}

/// An interceptor that tells a logger of every call: of the peer's in a router, of ours in a client. A call
/// whose handler returns without an answer is told when the answer is given.
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

    /// Logs the text that `redact` makes from params and results. Without this they are never
    /// logged.
    #[must_use]
    pub fn with_payloads(
        mut self,
        redact: fn(&str, &str) -> Option<alloc::string::String>,
    ) -> Self {
        self.payloads = Payloads::Redacted(redact);
        self
    }

    /// The call, with the id that it came with also once it is answered.
    fn call<'r, R: AnyRequest + ?Sized>(cx: &Cx, request: &'r R) -> LoggedCall<'r> {
        let mut call = LoggedCall::of(cx, request);
        if call.id.is_none() {
            let first = cx.attributes().get::<FirstId>();
            call.id = first.map(|FirstId(id)| id.clone());
        }
        call
    }

    fn shown(&self, method: &str, payload: Option<&str>) -> Option<alloc::string::String> {
        match self.payloads {
            Payloads::Hidden => None,
            Payloads::Redacted(redact) => redact(method, payload?),
        }
    }
}

/// The id that a call came with, among its attributes.
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
            // It is told when it is answered.
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
