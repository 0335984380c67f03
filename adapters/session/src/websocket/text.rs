//! A text message as it came in.

use std::fmt;

use tungstenite::Utf8Bytes;

/// A whole text message. It holds the memory that the message was put together in; let go of it
/// before more input is taken.
pub struct Text(Utf8Bytes);

impl Text {
    pub(super) fn new(text: Utf8Bytes) -> Self {
        Self(text)
    }

    /// The message.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// Shows how long it is, for what it says may be a secret.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.as_str().len())
    }
}
