//! What a server knows about the editor at the other end of a connection.

use antiphon::Json;
use antiphon_net::Peer;
use gen_lsp_types::TraceValue;

/// The phase of a connection in the life cycle of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before `initialize`.
    #[default]
    New,
    /// From `initialize` on.
    Running,
    /// From `shutdown` on.
    Stopped,
}

/// What is known about the editor, stored in the connection's attributes.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    pub(crate) trace: TraceValue,
    /// Whether the editor shows progress under tokens that the server makes.
    pub(crate) shows_progress: bool,
    /// How often progress has begun without a token of the request. It numbers the server's own tokens.
    pub(crate) begun: u64,
}

impl Client {
    /// Reads or changes what is known about the editor of `peer`.
    pub(crate) fn with<R>(peer: &Peer, look: impl FnOnce(&mut Self) -> R) -> R {
        let mut attributes = peer.attributes();
        if let Some(client) = attributes.get_mut() {
            return look(client);
        }
        let mut client = Self {
            phase: Phase::New,
            trace: TraceValue::Off,
            shows_progress: false,
            begun: 0,
        };
        let looked = look(&mut client);
        attributes.insert(client);
        looked
    }

    /// Stores the parts of `initialize` that the server itself needs.
    pub(crate) fn begin(&mut self, params: Json<'_>) {
        self.phase = Phase::Running;
        let window = params.get("capabilities").and_then(|can| can.get("window"));
        let shows = window.and_then(|window| window.get("workDoneProgress"));
        self.shows_progress = shows.is_some_and(|shows| shows.as_str() == "true");
        self.set_trace(params.get("trace"));
    }

    /// Sets the trace level. An unknown value changes nothing.
    pub(crate) fn set_trace(&mut self, value: Option<Json<'_>>) {
        match value.and_then(|value| value.decode().ok()) {
            None | Some(TraceValue::Custom(_)) => {}
            Some(value) => self.trace = value,
        }
    }
}
