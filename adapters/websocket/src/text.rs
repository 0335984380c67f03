//! A text message as it came in.

use std::fmt;

use tungstenite::Utf8Bytes;

/// A whole text message. It holds the memory that the message was put together in; let go of it
/// before more input is taken.
pub struct Text(Kept);

enum Kept {
    /// It came in one piece.
    Whole(String),
    /// It was put together from several.
    Joined(Utf8Bytes),
}

impl Text {
    pub(super) fn whole(text: String) -> Self {
        Self(Kept::Whole(text))
    }

    pub(super) fn joined(text: Utf8Bytes) -> Self {
        Self(Kept::Joined(text))
    }

    /// The message.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Kept::Whole(text) => text,
            Kept::Joined(text) => text.as_str(),
        }
    }
}

/// Shows how long it is, for what it says may be a secret.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.as_str().len())
    }
}
