//! What is right, by the core.

use antiphon::{Config, Connection, ErrorObject, Event, Framing, Input, McpRevision};

use crate::args::Preset;

/// What antiphon answers a message with, as a server without methods.
pub(crate) fn own_answer(message: &[u8], preset: Preset) -> Option<Vec<u8>> {
    let config = match preset {
        Preset::Strict => Config::strict(),
        Preset::Lsp => Config::lsp(),
        Preset::Mcp => Config::mcp(McpRevision::V2025_06_18),
    };
    let mut connection: Connection = Connection::new(config.framing(Framing::Messages));
    let mut input = Input::message(message);
    while let Some(event) = connection.poll_event(&mut input) {
        if let Event::Request(request) = event {
            let _ = connection.respond_err(request.token, &ErrorObject::method_not_found());
        }
    }
    let mut out = Vec::new();
    while connection.take_transmit(&mut out) {}
    (!out.is_empty()).then_some(out)
}
