//! How messages become bytes: in a stream, as separate messages, or through a layer such as
//! WebSocket.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::report::Fault;
use crate::event::Closed;
use crate::time::Instant;
use crate::websocket::Heartbeat;

/// The form of the transport. It decides the framing, see [`Session::new`](super::Session::new).
#[derive(Debug)]
pub enum Wire {
    /// A stream of bytes, split into messages by the configured framing.
    Stream,
    /// Whole messages, as in a queue or an HTTP exchange.
    Messages,
    /// A stream of bytes in which another protocol carries whole messages.
    Layered(Box<dyn Layer>),
}

/// The fault of a session over a stream whose framing is whole messages: see
/// [`Session::new`](super::Session::new).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FramingMismatch;

impl fmt::Display for FramingMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream of bytes needs a framing other than `Framing::Messages`")
    }
}

impl core::error::Error for FramingMismatch {}

/// A protocol between messages and bytes, with its own handshake and close, such as WebSocket. Like
/// a session it does no I/O: bytes go in, events come out.
pub trait Layer: fmt::Debug + Send {
    /// Sets the current time, and ends nothing.
    fn handle_time(&mut self, now: Instant);

    /// Sets the current time, after all input that has arrived was given, so deadlines may take
    /// effect.
    fn handle_timeout(&mut self, now: Instant);

    /// Reports that nothing was read for a while: the peer's time limits start again.
    fn restart_times(&mut self, now: Instant);

    /// Takes the next event out of `input`, and moves the start of `input` past the bytes taken.
    /// Returns `None` if there is no event.
    fn poll_event(&mut self, input: &mut &[u8]) -> Option<LayerEvent>;

    /// Reports that the input has ended. An end without a close of the layer's own is the end of the
    /// connection: nobody waits for answers.
    fn handle_eof(&mut self);

    /// Whether the end of the stream, or its failure, is expected because the layer was closed
    /// before.
    fn is_closed(&self) -> bool;

    /// Says whether a notification is one of the layer's own heartbeats, which the service does not
    /// see.
    fn hear(&mut self, method: &str) -> Heartbeat;

    /// Whether a message may be sent now.
    fn may_send(&self) -> bool;

    /// Appends a message as bytes. Returns false if it can no longer be sent.
    fn send(&mut self, message: &[u8], into: &mut Vec<u8>) -> bool;

    /// Begins to close, after all messages have been sent. A second call does nothing.
    fn close(&mut self, why: Closed);

    /// Appends the bytes that the layer itself wants to send.
    fn take_transmit(&mut self, into: &mut Vec<u8>);

    /// Whether the layer itself has bytes to send.
    fn has_transmit(&self) -> bool;

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether the stream can be dropped.
    fn is_over(&self) -> bool;
}

/// An event of a [`Layer`].
pub enum LayerEvent {
    /// The handshake has ended.
    Opened(Handshake),
    /// A whole message.
    Message(String),
    /// A message of this many bytes, or more, that is over the limit. The layer closes.
    Oversize(u64),
    /// The layer wants this notification sent, without params.
    Notify(&'static str),
    /// The layer has ended.
    Ended(LayerEnd),
}

/// Prints how long a message is, but not its text, which may be a secret.
impl fmt::Debug for LayerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened(handshake) => write!(f, "Opened({handshake:?})"),
            Self::Message(text) => write!(f, "Message({} bytes)", text.len()),
            Self::Oversize(bytes) => write!(f, "Oversize({bytes})"),
            Self::Notify(method) => write!(f, "Notify({method:?})"),
            Self::Ended(end) => write!(f, "Ended({end:?})"),
        }
    }
}

/// How a [`Layer`] has ended.
#[derive(Debug)]
pub enum LayerEnd {
    /// This side closed, and the peer agreed.
    Local,
    /// The peer closed; with a fault to be reported, if it was a failure.
    Peer(Option<Fault>),
    /// The peer broke a rule.
    Misbehaved(Fault),
    /// The stream was lost, or the peer let a deadline pass.
    Lost(Fault),
}

/// The data of a handshake. Empty if there was none.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Handshake {
    /// The request's path and query.
    pub target: Option<String>,
    /// The peer's header lines, as they were received.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The subprotocol that both sides agreed on.
    pub subprotocol: Option<String>,
}

impl Handshake {
    /// Returns an empty handshake.
    pub const fn new() -> Self {
        Self {
            target: None,
            headers: Vec::new(),
            subprotocol: None,
        }
    }
}

/// Prints how many headers there are, but neither them nor the query, which may be secrets.
impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("headers", &self.headers.len())
            .field("subprotocol", &self.subprotocol)
            .finish_non_exhaustive()
    }
}
