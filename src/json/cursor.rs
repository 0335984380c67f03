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
//!
//! How the good path is kept short: whether the text is UTF-8 is found out once, before anything
//! else (`utf8`), so that strings are only searched for their end. A string that ends, without
//! escapes, in the first block of vector code is done with inline, and so is what stands between
//! tokens when there are no blanks; everything else is a call away.

use super::plain::{Stops, block_at, free_of_stops, long_stops_at, text_of};
use super::syntax::{SyntaxError, SyntaxErrorKind};

/// The deepest nesting ever allowed: one bit each in the loop's stack.
pub(super) const DEPTH_MAX: u8 = 128;

pub(super) struct Cursor<'t> {
    text: &'t [u8],
    depth_max: u32,
    line_breaks: bool,
    /// What went wrong, once something has.
    failure: SyntaxError,
}

/// Something went wrong; the cursor knows what. So small that a position or this comes back in
/// registers.
#[derive(Debug)]
pub(super) struct Failed;

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
            line_breaks: false,
            failure: SyntaxError::NONE,
        }
    }

    /// What went wrong, after a method has said that something did.
    pub(super) fn failure(&self) -> SyntaxError {
        self.failure
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
    pub(super) fn begin(&mut self) -> Result<usize, Failed> {
        let start = if self.text.starts_with(b"\xEF\xBB\xBF") {
            3
        } else {
            0
        };
        let pos = self.skip_blanks(start);
        if pos >= self.text.len() {
            return Err(self.fail(SyntaxErrorKind::Empty, pos));
        }
        Ok(pos)
    }

    /// The text as a string.
    ///
    /// # Errors
    ///
    /// What is wrong with the text otherwise comes first, so only a text that is JSON in all else
    /// is found not to be UTF-8.
    #[inline]
    pub(super) fn utf8(&mut self) -> Result<&'t str, Failed> {
        match text_of(self.text) {
            Ok(text) => Ok(text),
            Err(error) => Err(self.not_utf8(error.valid_up_to())),
        }
    }

    #[cold]
    #[inline(never)]
    fn not_utf8(&mut self, valid_up_to: usize) -> Failed {
        let whole = self.begin().and_then(|start| self.value(start, 0));
        match whole.and_then(|end| self.finish(end)) {
            Ok(()) => self.fail(SyntaxErrorKind::InvalidUtf8, valid_up_to),
            Err(failed) => failed,
        }
    }

    /// Checks what can be judged only once the value has ended at `pos`.
    #[inline]
    pub(super) fn finish(&mut self, pos: usize) -> Result<(), Failed> {
        let pos = self.skip_blanks(pos);
        if pos < self.text.len() {
            return Err(self.fail(SyntaxErrorKind::TrailingData, pos));
        }
        Ok(())
    }

    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    pub(super) fn byte(&self, pos: usize) -> u8 {
        match self.text.get(pos) {
            Some(&byte) => byte,
            None => 0,
        }
    }

    #[inline(always)]
    pub(super) fn skip_blanks(&mut self, pos: usize) -> usize {
        self.token(pos).0
    }

    /// Passes over blanks: where the next token begins, and its first byte.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    pub(super) fn token(&mut self, pos: usize) -> (usize, u8) {
        let byte = self.byte(pos);
        if byte > b' ' {
            return (pos, byte);
        }
        let pos = self.skip_blanks_slowly(pos);
        (pos, self.byte(pos))
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
    /// The stack holds one bit per open container around the innermost: 1 an object, 0 an array.
    pub(super) fn value(&mut self, pos: usize, open: u32) -> Result<usize, Failed> {
        let mut pos = pos;
        let mut stack = 0u128;
        let mut in_object = false;
        let mut depth = open;
        let mut first = self.byte(pos);
        loop {
            match first {
                b'"' => pos = self.string(pos)?.end,
                b'-' | b'0'..=b'9' => pos = self.number(pos, first)?,
                b'{' => {
                    self.enter(depth, pos)?;
                    (pos, first) = self.token(pos + 1);
                    if first == b'}' {
                        pos += 1;
                    } else {
                        stack = stack << 1 | u128::from(in_object);
                        in_object = true;
                        depth += 1;
                        (pos, first) = self.key(pos, first)?;
                        continue;
                    }
                }
                b'[' => {
                    self.enter(depth, pos)?;
                    (pos, first) = self.token(pos + 1);
                    if first == b']' {
                        pos += 1;
                    } else {
                        stack = stack << 1 | u128::from(in_object);
                        in_object = false;
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
                (pos, first) = self.token(pos);
                match first {
                    b',' => {
                        (pos, first) = self.token(pos + 1);
                        if in_object {
                            (pos, first) = self.key(pos, first)?;
                        }
                        break;
                    }
                    b'}' if in_object => {}
                    b']' if !in_object => {}
                    _ => return Err(self.unexpected(pos)),
                }
                pos += 1;
                depth -= 1;
                in_object = stack & 1 == 1;
                stack >>= 1;
            }
        }
    }

    /// Judges whether one more container may open at `pos` when `depth` are open already.
    #[inline(always)]
    pub(super) fn enter(&mut self, depth: u32, pos: usize) -> Result<(), Failed> {
        if depth >= self.depth_max {
            return Err(self.fail(SyntaxErrorKind::TooDeep, pos));
        }
        Ok(())
    }

    /// Passes over a key, which begins with `first`, and its colon: where the member's value
    /// begins, and its first byte.
    #[inline(always)]
    fn key(&mut self, pos: usize, first: u8) -> Result<(usize, u8), Failed> {
        if first != b'"' {
            return Err(self.unexpected(pos));
        }
        let end = self.string(pos)?.end;
        self.colon(end)
    }

    /// Passes over the colon behind a key: where the member's value begins, and its first byte.
    #[inline(always)]
    pub(super) fn colon(&mut self, pos: usize) -> Result<(usize, u8), Failed> {
        let (pos, byte) = self.token(pos);
        if byte != b':' {
            return Err(self.unexpected(pos));
        }
        Ok(self.token(pos + 1))
    }

    /// Passes over the string whose opening quote is at `pos`.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    pub(super) fn string(&mut self, pos: usize) -> Result<StringToken, Failed> {
        let start = pos + 1;
        if let Some(block) = block_at(self.text, start) {
            if let Some(n) = Stops::of(block).first() {
                if block.get(n) == Some(&b'"') {
                    let end = start + n + 1;
                    let escaped = false;
                    return Ok(StringToken { end, escaped });
                }
            }
        }
        self.long_string(start)
    }

    /// Does the same for a string that is longer than a block, has escapes, or stands at the end
    /// of the text. Its first byte is at `pos`.
    #[inline(never)]
    fn long_string(&mut self, mut pos: usize) -> Result<StringToken, Failed> {
        let mut escaped = false;
        let mut plain_blocks = 0;
        loop {
            let (mut stops, mut next) = long_stops_at(self.text, pos);
            plain_blocks = if stops.first().is_none() {
                plain_blocks + 1
            } else {
                0
            };
            // All stops of a block are met before the next block is looked at.
            while let Some(n) = stops.first() {
                let at = pos + n;
                match self.byte(at) {
                    b'"' => {
                        let end = at + 1;
                        return Ok(StringToken { end, escaped });
                    }
                    b'\\' => {
                        escaped = true;
                        let behind = self.escape(at)?;
                        stops = stops.from(behind - pos);
                        next = next.max(behind);
                    }
                    _ => return Err(self.bad_string_byte(at)),
                }
            }
            if next >= self.text.len() {
                return Err(self.bad_string_byte(self.text.len()));
            }
            pos = next;
            // Only a string that has gone on for long is likely to go on for longer.
            if plain_blocks > 2 {
                pos += free_of_stops(self.text, pos);
            }
        }
    }

    /// Passes over the escape whose backslash is at `pos`. A lone surrogate is grammatical.
    #[inline(always)]
    fn escape(&mut self, pos: usize) -> Result<usize, Failed> {
        match self.byte(pos + 1) {
            b'n' | b'"' | b'\\' | b'/' | b't' | b'r' | b'b' | b'f' => Ok(pos + 2),
            b'u' => self.unicode_escape(pos),
            _ => Err(self.bad_escape(pos)),
        }
    }

    fn unicode_escape(&mut self, pos: usize) -> Result<usize, Failed> {
        let digits = self
            .text
            .get(pos + 2..)
            .and_then(|rest| rest.first_chunk::<4>());
        match digits {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(pos + 6),
            _ => Err(self.bad_escape(pos)),
        }
    }

    /// Passes over the number that begins at `pos` with `first`. The byte at hand is always the one
    /// at `pos`, so that none is read twice.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    pub(super) fn number(&mut self, pos: usize, first: u8) -> Result<usize, Failed> {
        let (mut pos, mut byte) = (pos, first);
        if byte == b'-' {
            pos += 1;
            byte = self.byte(pos);
        }
        if byte == b'0' {
            pos += 1;
            byte = self.byte(pos);
            // RFC 8259, clause 6: leading zeros are not allowed.
            if byte.is_ascii_digit() {
                return Err(self.fail(SyntaxErrorKind::BadNumber, pos));
            }
        } else {
            (pos, byte) = self.digits(pos, byte)?;
        }
        if byte == b'.' {
            let first = self.byte(pos + 1);
            (pos, byte) = self.digits(pos + 1, first)?;
        }
        if byte | 0x20 == b'e' {
            pos += 1;
            byte = self.byte(pos);
            if matches!(byte, b'+' | b'-') {
                pos += 1;
                byte = self.byte(pos);
            }
            (pos, _) = self.digits(pos, byte)?;
        }
        Ok(pos)
    }

    /// Passes over one digit or more, of which `first` is to be the first: where they end, and the
    /// byte there.
    #[inline(always)]
    fn digits(&mut self, mut pos: usize, first: u8) -> Result<(usize, u8), Failed> {
        let mut byte = first;
        if !byte.is_ascii_digit() {
            return Err(self.missing_digit(pos));
        }
        while byte.is_ascii_digit() {
            pos += 1;
            byte = self.byte(pos);
        }
        Ok((pos, byte))
    }

    #[inline(always)]
    fn literal<const N: usize>(&mut self, pos: usize, word: &[u8; N]) -> Result<usize, Failed> {
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
    pub(super) fn unexpected(&mut self, pos: usize) -> Failed {
        self.wrong(SyntaxErrorKind::UnexpectedByte, pos)
    }

    #[cold]
    #[inline(never)]
    fn bad_string_byte(&mut self, pos: usize) -> Failed {
        self.wrong(SyntaxErrorKind::ControlCharacter, pos)
    }

    #[cold]
    #[inline(never)]
    fn missing_digit(&mut self, pos: usize) -> Failed {
        self.wrong(SyntaxErrorKind::BadNumber, pos)
    }

    #[cold]
    #[inline(never)]
    fn bad_escape(&mut self, pos: usize) -> Failed {
        let digits = match self.text.get(pos + 1) {
            Some(b'u') => self.text.get(pos + 2..).unwrap_or_default(),
            Some(_) => return self.fail(SyntaxErrorKind::BadEscape, pos + 1),
            None => return self.fail(SyntaxErrorKind::UnexpectedEnd, pos + 1),
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
    fn bad_literal(&mut self, pos: usize, word: &[u8]) -> Failed {
        let found = self.text.get(pos..).unwrap_or_default();
        let good = found.iter().zip(word).take_while(|(a, b)| a == b).count();
        self.wrong(SyntaxErrorKind::UnexpectedByte, pos + good)
    }

    /// Tells the end of the text from a bad byte: both read as something unexpected.
    fn wrong(&mut self, kind: SyntaxErrorKind, pos: usize) -> Failed {
        if pos >= self.text.len() {
            return self.fail(SyntaxErrorKind::UnexpectedEnd, self.text.len());
        }
        self.fail(kind, pos)
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, kind: SyntaxErrorKind, pos: usize) -> Failed {
        self.failure = SyntaxError::new(kind, pos);
        Failed
    }
}
