//! How a WebSocket ended.

use std::error::Error;
use std::fmt;
use std::io;

use antiphon::websocket::CloseCode;
use tungstenite::http::HeaderMap;

/// How a WebSocket ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebSocketEnd {
    /// This side closed it. Or the stream ended when no more was to be read, after a message that was
    /// too large.
    Local,
    /// The other side closed it, with a code or without.
    Peer {
        /// Its code; 1002 in place of a code that a close frame must not have.
        code: Option<CloseCode>,
        /// Its reason, to be logged.
        reason: String,
    },
    /// The other side broke a rule, and was sent this code.
    Broken {
        /// The code.
        code: CloseCode,
        /// The broken rule.
        reason: &'static str,
    },
    /// There was no handshake: a server refused it, or its answer was not valid.
    Refused {
        /// The HTTP status that was sent, or received; `None` if the answer was not HTTP or its head
        /// was too long.
        status: Option<u16>,
        /// The reason, from the server or about its answer.
        reason: String,
        /// The headers of the server's answer, for its client: `WWW-Authenticate`, `Retry-After`.
        headers: HeaderMap,
        /// The first 512 bytes of the answer's body as text, for its client, with control
        /// characters escaped.
        text: String,
    },
    /// The handshake did not end in time.
    HandshakeTimedOut,
    /// A ping was not answered in time.
    PingTimedOut,
    /// The stream ended without a close.
    Lost {
        /// Whether the handshake had ended.
        was_open: bool,
    },
}

impl WebSocketEnd {
    /// Returns how the WebSocket ended, if that is why connecting failed with `error`.
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
            Self::Peer { code, reason } => {
                f.write_str("the WebSocket was closed by the peer")?;
                code.map_or(Ok(()), |code| write!(f, " with {code} {reason:?}"))
            }
            Self::Broken { code, reason } => {
                write!(f, "the WebSocket was closed with {code}: {reason}")
            }
            Self::Refused {
                status,
                reason,
                text,
                ..
            } => {
                f.write_str("the WebSocket handshake ")?;
                match status {
                    Some(status) => write!(f, "was refused: {status} {reason}")?,
                    None => write!(f, "failed: {reason}")?,
                }
                let colon = if text.is_empty() { "" } else { ": " };
                write!(f, "{colon}{text}")
            }
            Self::HandshakeTimedOut => f.write_str("the WebSocket handshake took too long"),
            Self::PingTimedOut => f.write_str("the peer did not answer a ping in time"),
            Self::Lost { was_open } => f.write_str(match was_open {
                true => "the connection was lost: it ended without a WebSocket close",
                false => "the connection ended during the WebSocket handshake",
            }),
        }
    }
}
