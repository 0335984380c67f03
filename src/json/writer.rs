//! The buffer of a serializer: it gets a whole value, or nothing of it.

use alloc::vec::Vec;

use serde::ser::{Error as _, Serialize};

use super::encode::EncodeError;

/// Writes one value, and removes what it wrote unless the whole value was written.
pub(super) struct Writer<'o> {
    pub(super) out: &'o mut Vec<u8>,
    len_before: usize,
    /// A part has failed. A `Serialize` may ignore that and go on; but half a value is in the
    /// buffer, so the result is an error.
    pub(super) failed: bool,
    complete: bool,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // The value is also incomplete if its own code panicked.
        if !self.complete {
            self.out.truncate(self.len_before);
        }
    }
}

impl<'o> Writer<'o> {
    pub(super) fn write<S: Serialize + ?Sized>(
        out: &'o mut Vec<u8>,
        value: &S,
    ) -> Result<(), EncodeError> {
        let len_before = out.len();
        let mut writer = Self {
            out,
            len_before,
            failed: false,
            complete: false,
        };
        value.serialize(&mut writer)?;
        if writer.failed {
            return Err(EncodeError::custom(
                "an error inside the value was passed over",
            ));
        }
        writer.complete = true;
        Ok(())
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    /// Writes a value inside another one.
    pub(super) fn inner<S: Serialize + ?Sized>(&mut self, value: &S) -> Result<(), EncodeError> {
        let done = value.serialize(&mut *self);
        self.failed |= done.is_err();
        done
    }

    pub(super) fn out_of_order(&mut self) -> EncodeError {
        self.failed = true;
        EncodeError::out_of_order()
    }
}
