//! Facts about a text that are noted while it is scanned, so that it need not be searched again.

/// Facts about a text. A flag that is set may be due to a larger text around the value; a flag that
/// is not set is always right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextFlags(u8);

impl TextFlags {
    /// No flags.
    pub(crate) const NONE: Self = Self(0);
    /// Nothing is known of the text, so every flag is set.
    pub(crate) const UNKNOWN: Self =
        Self(Self::LINE_BREAKS | Self::RESERVED_KEY | Self::WHOLE_FLOAT);
    /// Those that a text may have that this side writes.
    pub(super) const WRITTEN: Self = Self(Self::WHOLE_FLOAT);
    const LINE_BREAKS: u8 = 1;
    const RESERVED_KEY: u8 = 2;
    const WHOLE_FLOAT: u8 = 4;

    #[inline]
    pub(super) fn note_line_break(&mut self) {
        self.0 |= Self::LINE_BREAKS;
    }

    pub(super) fn note_reserved_key(&mut self) {
        self.0 |= Self::RESERVED_KEY;
    }

    #[inline]
    pub(super) fn note_whole_float(&mut self) {
        self.0 |= Self::WHOLE_FLOAT;
    }

    /// Whether a number may have an exponent, or a fraction that begins with zero: then it may be whole.
    #[inline]
    pub(crate) fn has_whole_float(self) -> bool {
        self.0 & Self::WHOLE_FLOAT != 0
    }

    /// Whether a text may have what serde_json would read otherwise than it should be.
    #[inline]
    pub(super) fn needs_care(self) -> bool {
        self.0 & (Self::RESERVED_KEY | Self::WHOLE_FLOAT) != 0
    }

    /// Whether a raw carriage return or line feed may be between tokens.
    #[inline]
    pub(super) fn has_line_breaks(self) -> bool {
        self.0 & Self::LINE_BREAKS != 0
    }

    /// Whether an object may have a key with serde_json's private prefix.
    #[inline]
    pub(super) fn has_reserved_key(self) -> bool {
        self.0 & Self::RESERVED_KEY != 0
    }
}
