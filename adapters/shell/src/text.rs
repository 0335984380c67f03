//! JSON text of params and results, written before the lock of a session is taken.

use std::cell::Cell;
use std::ops::Range;

use antiphon::{Encoded, OwnedJson, Payload, SendError};

/// The largest buffer that a thread keeps for the next text, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Values written as JSON text, one after another.
#[derive(Debug, Default)]
pub struct Text(Vec<u8>);

impl Text {
    /// Writes one value.
    pub(crate) fn of(value: impl Payload) -> Result<Self, SendError> {
        let mut text = Self::default();
        text.add(value)?;
        Ok(text)
    }

    /// Appends a value, and returns its position.
    pub(crate) fn add(&mut self, value: impl Payload) -> Result<Range<usize>, SendError> {
        Encoded::write(value, self.as_mut()).map_err(SendError::Encode)
    }

    /// Returns a copy of the text as one value; `None` if it is empty.
    pub(crate) fn to_json(&self) -> Option<OwnedJson> {
        OwnedJson::of_parts(self.0.to_vec()).ok()
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the value at this position.
    pub(crate) fn part(&self, part: &Range<usize>) -> Encoded<'_> {
        Encoded::part(&self.0, part.clone())
    }

    /// Returns all of it, as one value.
    pub(crate) fn all(&self) -> Encoded<'_> {
        Encoded::part(&self.0, 0..self.0.len())
    }
}

/// Makes a text of bytes that are JSON already.
impl From<Vec<u8>> for Text {
    fn from(text: Vec<u8>) -> Self {
        Self(text)
    }
}

impl From<Text> for Vec<u8> {
    fn from(mut text: Text) -> Self {
        std::mem::take(&mut text.0)
    }
}

/// The buffer, for code that writes one value into it.
impl AsMut<Vec<u8>> for Text {
    fn as_mut(&mut self) -> &mut Vec<u8> {
        if self.0.capacity() == 0 {
            // A thread that ends keeps no buffer.
            self.0 = SPARE.try_with(Cell::take).unwrap_or_default();
            self.0.clear();
        }
        &mut self.0
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        if (1..=KEPT_BYTES).contains(&self.0.capacity()) {
            let spare = std::mem::take(&mut self.0);
            // A thread that ends keeps no buffer.
            let _ = SPARE.try_with(|kept| kept.set(spare));
        }
    }
}
