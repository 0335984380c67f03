//! Tells a logger of every call.

use core::net::SocketAddr;
use core::time::Duration;

use super::conventions::{OTHER, SYSTEM_NAME};
use super::cx::{AnyRequest, Cx};
use super::decision::Decision;
use super::errors::NoAnswer;
use super::intercept::{Interceptor, Reply};
use crate::error_object::ErrorObject;
use crate::id::OwnedId;

/// What is told of calls. Everything does nothing unless it is written.
pub trait CallLog: Send + Sync + 'static {
    /// A call comes in, or goes out. `params` are there only if payloads are wanted, and as they were redacted.
    fn request(&self, call: &LoggedCall<'_>, params: Option<&str>) {
        let _ = (call, params);
    }

    /// It has a result. `result` is there only if payloads are wanted, and as it was redacted.
    fn response(&self, call: &LoggedCall<'_>, duration: Duration, result: Option<&str>) {
        let _ = (call, duration, result);
    }

    /// A call of ours has ended without an answer.
    fn no_answer(&self, call: &LoggedCall<'_>, duration: Duration, why: NoAnswer) {
        let _ = (call, duration, why);
    }

    /// It has ended unanswered: it was given up, the connection of its peer closed, or its handler panicked.
    fn given_up(&self, call: &LoggedCall<'_>) {
        let _ = call;
    }

    /// It has failed. `error` is what the peer is told, or has told; `cause` what is known here.
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

/// The call that a logger is told of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoggedCall<'c> {
    /// The method asked for.
    pub method: &'c str,
    /// Whether somebody serves it, or this side calls it.
    pub is_registered: bool,
    /// Whether this side calls the peer.
    pub is_outgoing: bool,
    /// The id as the peer wrote it; none for a notification, for a call of ours, and once the request is
    /// answered or given up.
    pub id: Option<OwnedId>,
    /// The number of the connection. With the id it names the call.
    pub connection: u32,
    /// The address at the other end, where it is known.
    pub peer_addr: Option<SocketAddr>,
    /// The name or address and the port of the server that this side calls, where they are known.
    pub server: Option<(&'c str, u16)>,
    /// The version of JSON-RPC, where only one is spoken.
    pub version: Option<&'static str>,
}

/// What is shown of params and results.
#[derive(Clone, Copy, Debug, Default)]
enum Payloads {
    /// Nothing.
    #[default]
    Hidden,
    /// What this makes of the method and its payload; nothing where it gives none.
    Redacted(fn(&str, &str) -> Option<alloc::string::String>),
}

/// An interceptor that tells a logger of every call: of the peer's in a router, of ours in a client.
#[derive(Clone, Debug)]
pub struct Logging<L> {
    log: L,
    payloads: Payloads,
}

impl<L: CallLog> Logging<L> {
    /// Reports to `log` every call, without params and results.
    pub const fn new(log: L) -> Self {
        let payloads = Payloads::Hidden;
        Self { log, payloads }
    }

    /// Shows what `redact` makes of params and results. Without this they are never shown.
    #[must_use]
    pub fn with_payloads(
        mut self,
        redact: fn(&str, &str) -> Option<alloc::string::String>,
    ) -> Self {
        self.payloads = Payloads::Redacted(redact);
        self
    }

    fn shown(&self, method: &str, payload: Option<&str>) -> Option<alloc::string::String> {
        match self.payloads {
            Payloads::Hidden => None,
            Payloads::Redacted(redact) => redact(method, payload?),
        }
    }
}

impl<'c> LoggedCall<'c> {
    /// Reads it off a call that an interceptor sees.
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

    /// The method, or `_OTHER` if nobody serves it: for what must not grow with the names that peers make
    /// up, such as the series of metrics.
    pub fn known_method(&self) -> &str {
        match self.is_registered {
            true => self.method,
            false => OTHER,
        }
    }

    /// The name of its span: the method, or the name of the protocol if nobody serves that.
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
        self.log
            .request(&LoggedCall::of(cx, request), params.as_deref());
        Decision::Continue
    }

    fn given_up(&self, cx: &Cx, request: &R) {
        self.log.given_up(&LoggedCall::of(cx, request));
    }

    fn response(&self, cx: &Cx, request: &R, reply: &mut Reply) {
        let (call, duration) = (LoggedCall::of(cx, request), reply.duration());
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
