//! `$/logTrace`, for editors that show what a server does.

use antiphon::{FromCall, OwnedError};
use antiphon_net::{Peer, Request};
use gen_lsp_types::{LogTraceNotification, LogTraceParams, TraceValue};

use crate::client::Client;
use crate::typed::LspPeer;

/// Sends log messages to the editor, if it has asked for them by `initialize` or `$/setTrace`. A handler takes it as an argument, or by
/// [`extract`](antiphon_net::RequestContext::extract).
#[derive(Clone, Debug)]
pub struct Trace(Peer);

impl Trace {
    /// Makes the trace of a connection.
    pub fn of(peer: &Peer) -> Self {
        Self(peer.to_unowned())
    }

    /// Sends a message, and with it the details if the editor wants them. If the editor does not
    /// read, the message is dropped.
    pub fn log(&self, message: impl Into<String>, details: impl FnOnce() -> Option<String>) {
        let verbose = match Client::with(&self.0, |client| client.trace.clone()) {
            TraceValue::Messages => None,
            TraceValue::Verbose => details(),
            _ => return,
        };
        let message = message.into();
        let params = LogTraceParams { message, verbose };
        let _ = self.0.notification::<LogTraceNotification>(&params);
    }
}

impl<S> FromCall<Request, S> for Trace {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        Ok(Self(request.peer()))
    }
}
