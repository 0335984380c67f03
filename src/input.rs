//! What the driver hands in: a cursor over bytes that belong to whoever reads the transport.
//!
//! The rule guarded here: the connection takes whole messages or nothing. What it did not take is
//! shown to it again, with more behind.

/// Received bytes, and how many of them the connection has taken.
///
/// ```
/// use antiphon::{Config, Connection, Event, Input};
/// let mut conn: Connection = Connection::new(Config::new());
/// let received = b"{\"jsonrpc\":\"2.0\",\"method\":\"tick\"}\n{\"jsonr";
/// let mut input = Input::stream(received);
/// assert!(matches!(conn.poll_event(&mut input), Some(Event::Notification(_))));
/// assert!(conn.poll_event(&mut input).is_none());
/// assert_eq!(&received[input.consumed()..], b"{\"jsonr"); // to be shown again
/// ```
#[derive(Clone, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    consumed: usize,
    kind: InputKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputKind {
    Stream,
    Message,
    Oversize(u64),
}

impl<'a> Input<'a> {
    /// Bytes of a stream: the oldest unconsumed byte first.
    pub fn stream(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            consumed: 0,
            kind: InputKind::Stream,
        }
    }

    /// One whole message, from a transport that keeps messages apart. It is read as such under
    /// every framing.
    pub fn message(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            consumed: 0,
            kind: InputKind::Message,
        }
    }

    /// One whole message as text, from a transport that gives strings.
    pub fn text(message: &'a str) -> Self {
        Self::message(message.as_bytes())
    }

    /// Stands for a message of `bytes` bytes that the transport refused to assemble. The
    /// connection answers it as it answers every message over its limit.
    pub fn oversize(bytes: u64) -> Self {
        Self {
            bytes: &[],
            consumed: 0,
            kind: InputKind::Oversize(bytes),
        }
    }

    /// No bytes: for a turn of the loop in which only time has passed.
    pub fn none() -> Self {
        Self::stream(&[])
    }

    /// How many bytes, from the first, were taken. The rest is to be shown again.
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// The bytes that are left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.consumed..).unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> InputKind {
        self.kind
    }

    pub(crate) fn take(&mut self, n: usize) {
        self.consumed = self.consumed.saturating_add(n).min(self.bytes.len());
    }

    /// Takes the message whole. What comes after it is a stream without bytes.
    pub(crate) fn take_message(&mut self) {
        self.consumed = self.bytes.len();
        self.kind = InputKind::Stream;
    }
}
