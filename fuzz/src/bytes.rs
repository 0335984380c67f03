//! Turns the bytes of a case into choices, from the front to the back.
//!
//! Rule: a choice, but for a text, uses a fixed, small number of bytes from the front, so that a
//! changed byte changes one choice and little else.

/// What is left of a case.
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte; 0 once there is none.
    pub(crate) fn byte(&mut self) -> u8 {
        self.some().unwrap_or(0)
    }

    /// The next byte; `None` once there is none.
    pub(crate) fn some(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn bit(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// One of `n`, which is not 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    /// One of these; the first once there are no bytes.
    pub(crate) fn one<'v, V>(&mut self, of: &'v [V]) -> &'v V {
        &of[self.below(of.len())]
    }

    /// As many of the bytes that follow as the next byte says.
    pub(crate) fn some_bytes(&mut self) -> &'a [u8] {
        let n = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(n);
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// A number that names a thing: three times of four one of the four from `hot` on, so that few
    /// things are used often.
    pub(crate) fn place(&mut self, hot: u8) -> u8 {
        match self.byte() {
            byte @ 0xC0.. => byte.wrapping_mul(37),
            byte => hot.wrapping_add(byte % 4),
        }
    }
}
