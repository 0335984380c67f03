//! The core's configuration of a session, and how its messages become bytes.

use std::io;
#[cfg(feature = "websocket")]
use std::sync::Arc;

use antiphon::Instant;
#[cfg(feature = "websocket")]
use antiphon::session::Handshake;
use antiphon::session::{SessionConfig, Wire};
#[cfg(feature = "websocket")]
use antiphon_websocket::WebSocket;

use crate::context::Context;
use crate::options::ConnectionConfig;

/// What a transport carries.
pub(crate) enum Carries {
    /// Bytes. The options say whether they are those of a WebSocket.
    Bytes,
    /// Whole messages.
    Messages,
    /// The frames of the options' WebSocket, after a handshake that was answered elsewhere.
    #[cfg(feature = "websocket")]
    Frames(Handshake),
}

/// Returns how messages become bytes. If the WebSocket cannot be made, also returns why not.
pub(super) fn wire(
    options: &ConnectionConfig,
    context: &Context,
    carries: Carries,
    now: Instant,
) -> (Wire, Option<io::Error>) {
    #[cfg(feature = "websocket")]
    if let Some(websocket) = &options.websocket {
        if let Carries::Frames(handshake) = carries {
            let websocket = Arc::clone(websocket);
            let websocket = WebSocket::accepted(websocket, &options.config, now, handshake);
            return (Wire::Layered(Box::new(websocket)), None);
        }
        return match WebSocket::new(Arc::clone(websocket), &options.config, now) {
            Ok(websocket) => {
                let is_http = context.check_http1();
                (Wire::Layered(Box::new(websocket)), is_http.err())
            }
            Err(error) => (Wire::Messages, Some(error)),
        };
    }
    let _ = (options, context, now);
    match carries {
        Carries::Bytes => (Wire::Stream, None),
        _ => (Wire::Messages, None),
    }
}

pub(super) fn session_config(options: &ConnectionConfig, is_accepted: bool) -> SessionConfig {
    let mut config = SessionConfig::new(options.config);
    config.max_queued_messages = options.max_queued_messages;
    config.max_queued_bytes = options.max_queued_bytes;
    config.when_full = options.when_full;
    config.order = options.order;
    config.linger = options.linger;
    config.report_unserved = options.report_unserved;
    config.refuse_http = is_accepted && options.refuse_http;
    config
}
