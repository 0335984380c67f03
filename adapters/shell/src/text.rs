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
#[derive(Debug)]
pub(crate) struct Text(Vec<u8>);

impl Text {
    pub(crate) fn new() -> Self {
        // A thread that ends keeps no buffer.
        let mut spare = SPARE.try_with(Cell::take).unwrap_or_default();
        spare.clear();
        Self(spare)
    }

    /// Writes one value.
    pub(crate) fn of(value: impl Payload) -> Result<Self, SendError> {
        let mut text = Self::new();
        text.add(value)?;
        Ok(text)
    }

    /// Appends a value, and returns its position.
    pub(crate) fn add(&mut self, value: impl Payload) -> Result<Range<usize>, SendError> {
        Encoded::write(value, &mut self.0).map_err(SendError::Encode)
    }

    /// Makes a text of bytes that are JSON already.
    pub(crate) fn of_json(text: Vec<u8>) -> Self {
        Self(text)
    }

    /// Returns a copy of the text as one value; `None` if it is empty.
    pub(crate) fn to_json(&self) -> Option<OwnedJson> {
        OwnedJson::of_parts(self.0.to_vec()).ok()
    }

    /// Returns the text `null`.
    pub(crate) fn null() -> Self {
        let mut text = Self::new();
        text.0.extend_from_slice(b"null");
        text
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The text itself.
    pub(crate) fn into_json(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    /// The buffer, for code that writes one value into it.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.0
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

impl Drop for Text {
    fn drop(&mut self) {
        if self.0.capacity() <= KEPT_BYTES {
            let spare = std::mem::take(&mut self.0);
            // A thread that ends keeps no buffer.
            let _ = SPARE.try_with(|kept| kept.set(spare));
        }
    }
}
