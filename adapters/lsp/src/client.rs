//! What a server knows of the editor at the other end of a connection.

use antiphon::Json;
use antiphon_net::Peer;
use gen_lsp_types::TraceValue;

/// Where a connection is in the life cycle of the protocol.
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

/// The editor at the other end of a connection, kept among what is known of the connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    pub(crate) trace: TraceValue,
    /// Whether it shows progress that the server begins by itself.
    pub(crate) shows_progress: bool,
    /// How often the server has begun some.
    pub(crate) begun: u64,
}

impl Client {
    /// Looks at the editor behind `peer`, or changes what is known of it.
    pub(crate) fn with<R>(peer: &Peer, look: impl FnOnce(&mut Self) -> R) -> R {
        let mut attributes = peer.session().attributes();
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

    /// Notes what `initialize` says that the server itself needs.
    pub(crate) fn begin(&mut self, params: Json<'_>) {
        self.phase = Phase::Running;
        let window = params.get("capabilities").and_then(|can| can.get("window"));
        let shows = window.and_then(|window| window.get("workDoneProgress"));
        self.shows_progress = shows.is_some_and(|shows| shows.as_str() == "true");
        self.set_trace(params.get("trace"));
    }

    /// Sets what is to be told. What is no such value changes nothing.
    pub(crate) fn set_trace(&mut self, value: Option<Json<'_>>) {
        match value.and_then(|value| value.decode().ok()) {
            None | Some(TraceValue::Custom(_)) => {}
            Some(value) => self.trace = value,
        }
    }
}
