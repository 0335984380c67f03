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
        // A thread that ends keeps none.
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

    /// Writes a value after the others, and says where it stands.
    pub(crate) fn add(&mut self, value: impl Payload) -> Result<Range<usize>, SendError> {
        Encoded::write(value, &mut self.0).map_err(SendError::Encode)
    }

    /// Text that is JSON already.
    pub(crate) fn of_json(text: Vec<u8>) -> Self {
        Self(text)
    }

    /// A copy of its value; none if there is nothing.
    pub(crate) fn to_json(&self) -> Option<OwnedJson> {
        OwnedJson::of_parts(self.0.to_vec()).ok()
    }

    /// The text of what is nothing.
    pub(crate) fn null() -> Self {
        let mut text = Self::new();
        text.0.extend_from_slice(b"null");
        text
    }

    /// The text itself.
    pub(crate) fn into_json(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    /// Where values are written by others. What they leave there is one value.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// The value that stands there.
    pub(crate) fn part(&self, part: &Range<usize>) -> Encoded<'_> {
        Encoded::part(&self.0, part.clone())
    }

    /// All of it, as one value.
    pub(crate) fn all(&self) -> Encoded<'_> {
        Encoded::part(&self.0, 0..self.0.len())
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        if self.0.capacity() <= KEPT_BYTES {
            let spare = std::mem::take(&mut self.0);
            // As above.
            let _ = SPARE.try_with(|kept| kept.set(spare));
        }
    }
}
