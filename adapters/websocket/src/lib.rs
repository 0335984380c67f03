//! WebSocket without a socket: bytes in, messages out; messages in, bytes out; the present in,
//! deadlines out.
//!
//! A [`WebSocketLayer`] is a layer of one [`Session`](antiphon::session::Session), so the code that
//! moves the bytes, over TCP or TLS, on a thread or a task, need not know of it. The wire format is tungstenite's; whom to let in, the limits and the
//! codes are [`antiphon::websocket`]'s.
//!
//! ```text
//!   handshake ──Opened──▶ open ──close()──▶ closing ──their close, close_time_max──▶ closed
//!       │                   ├──Oversize──▶ deaf ──close()──▶ closed
//!       └──refused, late──▶ └──their close, a broken rule, no pong, the end──▶ closed
//! ```
//!
//! # Memory
//!
//! An open WebSocket that is idle holds about 3 KiB: a buffer of 2 KiB for input and what is
//! counted. While a message comes in it holds what has come of it, `message_bytes_max` at most, and
//! as much again for the moment in which it is read. A handshake holds `header_bytes_max`. Of pings
//! only the last is answered. Output waits in the connection, within its own limits.

#![forbid(unsafe_code)]

mod client;
mod codec;
mod frames;
mod head;
mod layer;
mod options;
mod refusal;
mod server;
mod text;
mod url;
mod write;

use std::error::Error;
use std::fmt;
use std::io;

use antiphon::session::Handshake;
use antiphon::websocket::CloseCode;
use tungstenite::http::HeaderMap;

pub use client::WebSocketRequest;
pub use codec::WebSocket;
pub use layer::WebSocketLayer;
pub use options::WebSocketOptions;
pub use text::Text;
pub use url::WebSocketUrl;

/// What happens on a WebSocket.
#[derive(Debug)]
pub enum WebSocketEvent {
    /// The handshake is done: messages may go both ways. Once, before any message.
    Opened(Handshake),
    /// A message came in.
    Message(Text),
    /// A message over the limit began to come in; this many bytes of it have been announced.
    /// Nothing more is read. It is to be answered, and the WebSocket to be closed.
    Oversize(u64),
    /// It is over, and nothing more is read. There may be output left. Once, the last event.
    Closed(WebSocketEnd),
}

/// How a WebSocket ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebSocketEnd {
    /// This side closed it.
    Local,
    /// The other side closed it, with a code or without.
    Peer {
        /// Its code.
        code: Option<CloseCode>,
        /// Its words, for a log.
        reason: String,
    },
    /// The other side broke a rule, and was told so with this code.
    Broken {
        /// The code.
        code: CloseCode,
        /// What was wrong.
        reason: &'static str,
    },
    /// There was no handshake: a server refused it.
    Refused {
        /// The HTTP status that was sent, or received; none for what was no HTTP.
        status: Option<u16>,
        /// What was wrong, in the server's words or about them.
        reason: String,
        /// The headers of the server's answer, for its client: `WWW-Authenticate`, `Retry-After`.
        headers: HeaderMap,
        /// The first 512 bytes of the answer's body as text, for its client, control characters
        /// escaped.
        text: String,
    },
    /// The handshake was not done in time.
    HandshakeTimedOut,
    /// A ping was not answered in time.
    PingTimedOut,
    /// The stream ended without a close.
    Lost {
        /// The handshake had been done.
        was_open: bool,
    },
}

impl WebSocketEnd {
    /// How the WebSocket ended, where that is why connecting failed with `error`.
    pub fn of(error: &io::Error) -> Option<&Self> {
        let mut cause: &(dyn Error + 'static) = error.get_ref()?;
        loop {
            if let Some(end) = cause.downcast_ref() {
                return Some(end);
            }
            cause = match cause.downcast_ref::<io::Error>() {
                Some(error) => error.get_ref()?,
                None => cause.source()?,
            };
        }
    }
}

impl Error for WebSocketEnd {}

impl fmt::Display for WebSocketEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("the WebSocket was closed by this side"),
            Self::Peer { code: None, .. } => f.write_str("the WebSocket was closed by the peer"),
            Self::Peer {
                code: Some(code),
                reason,
            } => write!(
                f,
                "the WebSocket was closed by the peer with {code} {reason:?}"
            ),
            Self::Broken { code, reason } => {
                write!(f, "the WebSocket was closed with {code}: {reason}")
            }
            Self::Refused {
                status: Some(status),
                reason,
                text,
                ..
            } => {
                let colon = if text.is_empty() { "" } else { ": " };
                write!(
                    f,
                    "the WebSocket handshake was refused: {status} {reason}{colon}{text}"
                )
            }
            Self::Refused {
                status: None,
                reason,
                ..
            } => write!(f, "the WebSocket handshake failed: {reason}"),
            Self::HandshakeTimedOut => f.write_str("the WebSocket handshake took too long"),
            Self::PingTimedOut => f.write_str("the peer did not answer a ping in time"),
            Self::Lost { was_open: true } => {
                f.write_str("the connection was lost: it ended without a WebSocket close")
            }
            Self::Lost { was_open: false } => {
                f.write_str("the connection ended during the WebSocket handshake")
            }
        }
    }
}
