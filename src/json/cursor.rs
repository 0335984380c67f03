//! Reading JSON token by token, and whole values without recursion.
//!
//! Lives here: blanks, strings, numbers, literals, and the loop that passes over one value of any
//! nesting. Does not live here: which member of a message is which (`scan`). Rules guarded: every
//! byte is judged by RFC 8259; nesting costs one bit, never a stack frame.
//!
//! A position is passed in and the next one comes back, so the compiler keeps it in a register;
//! the cursor itself only remembers what the whole text must be told about afterwards.
//!
//! Reading at or behind the end yields a NUL byte. No token begins with or holds a raw NUL, so the
//! end needs no test of its own on the good path; the failing path tells the two apart.

use super::plain::skip_plain;
use super::syntax::{SyntaxError, SyntaxErrorKind};

/// The deepest nesting ever allowed: one bit each in the loop's stack.
pub(super) const DEPTH_MAX: u8 = 128;

pub(super) struct Cursor<'t> {
    text: &'t [u8],
    depth_max: u32,
    /// The or of all bytes inside strings: the top bits tell whether UTF-8 must be checked.
    seen: u64,
    line_breaks: bool,
}

/// Where a string token ended, and whether it has escapes.
pub(super) struct StringToken {
    pub(super) end: usize,
    pub(super) escaped: bool,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t [u8], depth_max: u8) -> Self {
        Self {
            text,
            depth_max: u32::from(depth_max.clamp(1, DEPTH_MAX)),
            seen: 0,
            line_breaks: false,
        }
    }

    pub(super) fn text(&self) -> &'t [u8] {
        self.text
    }

    /// Whether a raw carriage return or line feed was passed over so far.
    pub(super) fn line_breaks(&self) -> bool {
        self.line_breaks
    }

    /// Begins anew with line breaks, for a caller that wants those inside the value only.
    pub(super) fn forget_line_breaks(&mut self) {
        self.line_breaks = false;
    }

    /// The position of the first byte of the value: behind one byte-order mark and blanks.
    ///
    /// RFC 8259, clause 8.1: a parser may ignore a byte-order mark rather than fail.
    pub(super) fn begin(&mut self) -> Result<usize, SyntaxError> {
        let start = if self.text.starts_with(b"\xEF\xBB\xBF") {
            3
        } else {
            0
        };
        let pos = self.skip_blanks(start);
        if pos >= self.text.len() {
            return Err(SyntaxError::new(SyntaxErrorKind::Empty, pos));
        }
        Ok(pos)
    }

    /// Checks what can be judged only once the value has ended at `pos`.
    pub(super) fn finish(&mut self, pos: usize) -> Result<(), SyntaxError> {
        let pos = self.skip_blanks(pos);
        if pos < self.text.len() {
            return Err(SyntaxError::new(SyntaxErrorKind::TrailingData, pos));
        }
        // Outside strings the grammar admits ASCII only, so this flag covers the whole text.
        if self.seen & 0x8080_8080_8080_8080 != 0 {
            if let Err(error) = core::str::from_utf8(self.text) {
                return Err(SyntaxError::new(
                    SyntaxErrorKind::InvalidUtf8,
                    error.valid_up_to(),
                ));
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn byte(&self, pos: usize) -> u8 {
        match self.text.get(pos) {
            Some(&byte) => byte,
            None => 0,
        }
    }

    #[inline(always)]
    pub(super) fn skip_blanks(&mut self, pos: usize) -> usize {
        if self.byte(pos) > b' ' {
            return pos;
        }
        self.skip_blanks_slowly(pos)
    }

    #[inline(never)]
    fn skip_blanks_slowly(&mut self, mut pos: usize) -> usize {
        loop {
            match self.byte(pos) {
                b' ' | b'\t' => {}
                b'\n' | b'\r' => self.line_breaks = true,
                _ => return pos,
            }
            pos += 1;
        }
    }

    /// Passes over the value that begins at `pos`, inside `open` containers.
    ///
    /// The stack holds one bit per open container, the innermost lowest: 1 an object, 0 an array.
    #[inline]
    pub(super) fn value(&mut self, pos: usize, open: u32) -> Result<usize, SyntaxError> {
        let mut pos = pos;
        let mut stack = 0u128;
        let mut depth = open;
        loop {
            match self.byte(pos) {
                b'"' => pos = self.string(pos)?.end,
                b'-' | b'0'..=b'9' => pos = self.number(pos)?,
                b'{' => {
                    self.enter(depth, pos)?;
                    pos = self.skip_blanks(pos + 1);
                    if self.byte(pos) == b'}' {
                        pos += 1;
                    } else {
                        stack = stack << 1 | 1;
                        depth += 1;
                        pos = self.key(pos)?;
                        continue;
                    }
                }
                b'[' => {
                    self.enter(depth, pos)?;
                    pos = self.skip_blanks(pos + 1);
                    if self.byte(pos) == b']' {
                        pos += 1;
                    } else {
                        stack <<= 1;
                        depth += 1;
                        continue;
                    }
                }
                b't' => pos = self.literal(pos, b"true")?,
                b'f' => pos = self.literal(pos, b"false")?,
                b'n' => pos = self.literal(pos, b"null")?,
                _ => return Err(self.unexpected(pos)),
            }
            // A value has ended; so may any number of the containers around it.
            loop {
                if depth == open {
                    return Ok(pos);
                }
                pos = self.skip_blanks(pos);
                let in_object = stack & 1 == 1;
                match self.byte(pos) {
                    b',' => {
                        pos = self.skip_blanks(pos + 1);
                        if in_object {
                            pos = self.key(pos)?;
                        }
                        break;
                    }
                    b'}' if in_object => {}
                    b']' if !in_object => {}
                    _ => return Err(self.unexpected(pos)),
                }
                pos += 1;
                depth -= 1;
                stack >>= 1;
            }
        }
    }

    /// Judges whether one more container may open at `pos` when `depth` are open already.
    #[inline(always)]
    pub(super) fn enter(&self, depth: u32, pos: usize) -> Result<(), SyntaxError> {
        if depth >= self.depth_max {
            return Err(SyntaxError::new(SyntaxErrorKind::TooDeep, pos));
        }
        Ok(())
    }

    /// Passes over a key and its colon, to the first byte of the member's value.
    #[inline(always)]
    fn key(&mut self, pos: usize) -> Result<usize, SyntaxError> {
        if self.byte(pos) != b'"' {
            return Err(self.unexpected(pos));
        }
        let end = self.string(pos)?.end;
        self.colon(end)
    }

    /// Passes over the colon behind a key, to the first byte of the member's value.
    #[inline(always)]
    pub(super) fn colon(&mut self, pos: usize) -> Result<usize, SyntaxError> {
        let pos = self.skip_blanks(pos);
        if self.byte(pos) != b':' {
            return Err(self.unexpected(pos));
        }
        Ok(self.skip_blanks(pos + 1))
    }

    /// Passes over the string whose opening quote is at `pos`.
    #[inline(always)]
    pub(super) fn string(&mut self, pos: usize) -> Result<StringToken, SyntaxError> {
        let mut pos = pos + 1;
        let mut escaped = false;
        loop {
            pos = skip_plain(self.text, pos, &mut self.seen);
            match self.byte(pos) {
                b'"' => {
                    return Ok(StringToken {
                        end: pos + 1,
                        escaped,
                    });
                }
                b'\\' => {
                    escaped = true;
                    pos = self.escape(pos)?;
                }
                _ => return Err(self.bad_string_byte(pos)),
            }
        }
    }

    /// Passes over the escape whose backslash is at `pos`. A lone surrogate is grammatical.
    #[inline(always)]
    fn escape(&self, pos: usize) -> Result<usize, SyntaxError> {
        match self.byte(pos + 1) {
            b'n' | b'"' | b'\\' | b'/' | b't' | b'r' | b'b' | b'f' => Ok(pos + 2),
            b'u' => self.unicode_escape(pos),
            _ => Err(self.bad_escape(pos)),
        }
    }

    fn unicode_escape(&self, pos: usize) -> Result<usize, SyntaxError> {
        let digits = self
            .text
            .get(pos + 2..)
            .and_then(|rest| rest.first_chunk::<4>());
        match digits {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(pos + 6),
            _ => Err(self.bad_escape(pos)),
        }
    }

    /// Passes over the number that begins at `pos`.
    #[inline(always)]
    fn number(&self, pos: usize) -> Result<usize, SyntaxError> {
        let mut pos = pos;
        if self.byte(pos) == b'-' {
            pos += 1;
        }
        match self.byte(pos) {
            b'0' => {
                pos += 1;
                // RFC 8259, clause 6: leading zeros are not allowed.
                if self.byte(pos).is_ascii_digit() {
                    return Err(SyntaxError::new(SyntaxErrorKind::BadNumber, pos));
                }
            }
            b'1'..=b'9' => pos = self.skip_digits(pos + 1),
            _ => return Err(self.missing_digit(pos)),
        }
        if self.byte(pos) == b'.' {
            pos = self.digits(pos + 1)?;
        }
        if matches!(self.byte(pos), b'e' | b'E') {
            pos += 1;
            if matches!(self.byte(pos), b'+' | b'-') {
                pos += 1;
            }
            pos = self.digits(pos)?;
        }
        Ok(pos)
    }

    /// Passes over one digit or more.
    #[inline(always)]
    fn digits(&self, pos: usize) -> Result<usize, SyntaxError> {
        if !self.byte(pos).is_ascii_digit() {
            return Err(self.missing_digit(pos));
        }
        Ok(self.skip_digits(pos + 1))
    }

    #[inline(always)]
    fn skip_digits(&self, mut pos: usize) -> usize {
        while self.byte(pos).is_ascii_digit() {
            pos += 1;
        }
        pos
    }

    #[inline(always)]
    fn literal<const N: usize>(&self, pos: usize, word: &[u8; N]) -> Result<usize, SyntaxError> {
        match self
            .text
            .get(pos..)
            .and_then(|rest| rest.first_chunk::<N>())
        {
            Some(found) if found == word => Ok(pos + N),
            _ => Err(self.bad_literal(pos, word)),
        }
    }

    // What follows is the failing path: it only finds out what to say.

    #[cold]
    #[inline(never)]
    pub(super) fn unexpected(&self, pos: usize) -> SyntaxError {
        self.wrong(SyntaxErrorKind::UnexpectedByte, pos)
    }

    #[cold]
    #[inline(never)]
    fn bad_string_byte(&self, pos: usize) -> SyntaxError {
        self.wrong(SyntaxErrorKind::ControlCharacter, pos)
    }

    #[cold]
    #[inline(never)]
    fn missing_digit(&self, pos: usize) -> SyntaxError {
        self.wrong(SyntaxErrorKind::BadNumber, pos)
    }

    #[cold]
    #[inline(never)]
    fn bad_escape(&self, pos: usize) -> SyntaxError {
        let digits = match self.text.get(pos + 1) {
            Some(b'u') => self.text.get(pos + 2..).unwrap_or_default(),
            Some(_) => return SyntaxError::new(SyntaxErrorKind::BadEscape, pos + 1),
            None => return SyntaxError::new(SyntaxErrorKind::UnexpectedEnd, pos + 1),
        };
        let good = digits
            .iter()
            .take(4)
            .take_while(|digit| digit.is_ascii_hexdigit())
            .count();
        self.wrong(SyntaxErrorKind::BadEscape, pos + 2 + good)
    }

    #[cold]
    #[inline(never)]
    fn bad_literal(&self, pos: usize, word: &[u8]) -> SyntaxError {
        let found = self.text.get(pos..).unwrap_or_default();
        let good = found.iter().zip(word).take_while(|(a, b)| a == b).count();
        self.wrong(SyntaxErrorKind::UnexpectedByte, pos + good)
    }

    /// Tells the end of the text from a bad byte: both read as something unexpected.
    fn wrong(&self, kind: SyntaxErrorKind, pos: usize) -> SyntaxError {
        if pos >= self.text.len() {
            return SyntaxError::new(SyntaxErrorKind::UnexpectedEnd, self.text.len());
        }
        SyntaxError::new(kind, pos)
    }
}
