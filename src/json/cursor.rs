//! Reads whole JSON values, and what is between tokens, with a stack of bits instead of recursion.
//!
//! This module reads blanks and keys, and skips arrays and objects of any nesting. Strings, numbers
//! and words are in `tokens`; which member of a message is which is decided in `scan`.
//!
//! Every byte is checked by RFC 8259. A level of nesting needs one bit. At most 128 levels are
//! allowed; a recursive call is needed after every 63 of them, and once if there are long strings.
//!
//! Each function takes a position and returns the next one, so the compiler keeps it in a register.
//! The cursor itself only stores what must be known about the whole text afterwards.
//!
//! Reading at or after the end yields a NUL byte. No valid token contains a raw NUL, so valid input
//! needs no check for the end; the error path finds out whether it was the end.
//!
//! Code for valid input is kept short. Whether the text is UTF-8 is checked once, before anything
//! else (`utf8`), so strings are only searched for stops. Only a text that has failed this check is
//! read although it is not UTF-8: `not_utf8` looks for another fault in it. Tokens without blanks
//! between them are read inline; blanks and errors are left to functions that are not inlined.
//!
//! Parts of the scanner are forced inline, here and in `grid`, `tokens`, `scan` and `simd`.
//! Otherwise an Ethereum block, which has many long strings, takes 37 % more instructions, and a
//! small request 6 % (`benches/instructions/run.py`: `parse 06` and `parse 01`).

use super::flags::TextFlags;
use super::grid::{Grid, HAS_GRID};
use super::judge::begins_number;
use super::plain::{WIDTH, WINDOW, Windows, short_string, stops_behind, text_of};
use super::reserved::{RESERVED, is_reserved};
use super::string::JsonString;
use super::syntax::{SyntaxError, SyntaxErrorKind};
use crate::target::rare;

/// The deepest nesting that is ever allowed, whatever the configuration says.
pub(super) const MAX_DEPTH: u8 = 128;

/// A text that is being validated.
pub(super) struct Cursor<'t> {
    pub(super) text: &'t [u8],
    pub(super) windows: Windows<'t>,
    max_depth: u32,
    /// Facts about the text read so far.
    flags: TextFlags,
    /// Whether any string so far had an escape.
    pub(super) has_escapes: bool,
    /// The error, once there is one.
    failure: SyntaxError,
}

/// The initial stack of a reader inside one array.
const IN_ARRAY: u64 = 0b10;

/// The bracket that closes what `bracket` opens.
#[inline]
fn closing(bracket: u8) -> u8 {
    // `[` and `]`, like `{` and `}`, have one character between them.
    bracket + 2
}

/// Skips a comma at `pos`, where the window begins, and a plain key after it: see [`plain_key`].
#[inline]
fn plain_next_key(window: &[u8; WINDOW], pos: usize) -> Option<(usize, u8)> {
    if window[0] != b',' {
        return None;
    }
    let (behind, byte) = plain_key::<1>(window)?;
    Some((pos + behind, byte))
}

/// Skips a key whose quote is at index `AT` of the window, 0 or 1, and its colon. Returns the index
/// of the value in the window, or of a blank before it, and the byte there. Returns `None` unless
/// the key is shorter than a block, has no escapes, and is followed directly by a colon; the
/// general code reads all others.
#[inline]
fn plain_key<const AT: usize>(window: &[u8; WINDOW]) -> Option<(usize, u8)> {
    // Keys with serde_json's private prefix are longer.
    const { assert!(WIDTH <= RESERVED.len()) };
    let n = match AT {
        0 => stops_behind::<1>(window).first()?,
        _ => stops_behind::<2>(window).first()?,
    };
    let quote = AT + 1 + n;
    let (end, colon) = (*window.get(quote)?, *window.get(quote + 1)?);
    let first = *window.get(quote + 2)?;
    (window[AT] == b'"' && end == b'"' && colon == b':').then_some((quote + 2, first))
}

/// Counts the spaces at the beginning of eight bytes.
#[inline]
fn leading_spaces(eight: &[u8; 8]) -> usize {
    let others = u64::from_le_bytes(*eight) ^ u64::from_le_bytes([b' '; 8]);
    (others.trailing_zeros() / 8) as usize
}

/// A failure whose cause the cursor stores. It has no size, so a result with a position is returned
/// in registers.
#[derive(Debug)]
pub(super) struct Failed;

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t [u8], max_depth: u8) -> Self {
        Self {
            text,
            windows: Windows::of(text),
            max_depth: u32::from(max_depth.clamp(1, MAX_DEPTH)),
            flags: TextFlags::NONE,
            has_escapes: false,
            failure: SyntaxError::NONE,
        }
    }

    /// The error, after a method has failed.
    pub(super) fn failure(&self) -> SyntaxError {
        self.failure
    }

    pub(super) fn text(&self) -> &'t [u8] {
        self.text
    }

    /// Facts about the text read so far: raw line breaks, keys with serde_json's private prefix,
    /// numbers that may be whole in the spelling of a float.
    pub(super) fn flags(&self) -> TextFlags {
        self.flags
    }

    /// Notes a number that may be whole in the spelling of a float.
    pub(super) fn note_whole_float(&mut self) {
        self.flags.note_whole_float();
    }

    /// Clears the flags, for a caller that needs the flags of the following value only.
    pub(super) fn forget_flags(&mut self) {
        self.flags = TextFlags::NONE;
    }

    /// Returns the position of the first byte of the value: after one byte-order mark and blanks.
    ///
    /// RFC 8259, clause 8.1: a parser may ignore a byte-order mark rather than fail.
    #[inline]
    pub(super) fn begin(&mut self) -> Result<usize, Failed> {
        match self.text.first() {
            Some(b'{' | b'[') => Ok(0),
            _ => {
                rare();
                self.begin_slowly()
            }
        }
    }

    #[inline(never)]
    fn begin_slowly(&mut self) -> Result<usize, Failed> {
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

    /// Returns the text as a string.
    ///
    /// # Errors
    ///
    /// Any other fault of the text is reported instead, so `InvalidUtf8` means that the text would
    /// be valid JSON if it were UTF-8.
    #[inline]
    pub(super) fn utf8(&mut self) -> Result<&'t str, Failed> {
        match text_of(self.text) {
            Ok(text) => Ok(text),
            Err(error) => Err(self.not_utf8(error.valid_up_to())),
        }
    }

    /// Returns the failure of a text that is not UTF-8: another fault of the text, if there is one.
    #[cold]
    #[inline(never)]
    fn not_utf8(&mut self, valid_up_to: usize) -> Failed {
        let whole = self.begin().and_then(|start| self.value(start, 0));
        match whole.and_then(|end| self.finish(end)) {
            Ok(()) => self.fail(SyntaxErrorKind::InvalidUtf8, valid_up_to),
            Err(failed) => failed,
        }
    }

    /// Checks that only blanks follow the value, which has ended at `pos`.
    #[inline]
    pub(super) fn finish(&mut self, pos: usize) -> Result<(), Failed> {
        if pos == self.text.len() {
            return Ok(());
        }
        rare();
        let pos = self.skip_blanks_slowly(pos);
        if pos < self.text.len() {
            return Err(self.fail(SyntaxErrorKind::TrailingData, pos));
        }
        Ok(())
    }

    /// Returns the byte at `pos`; NUL at or after the end.
    #[inline]
    pub(super) fn byte(&self, pos: usize) -> u8 {
        match self.text.get(pos) {
            Some(&byte) => byte,
            None => {
                rare();
                0
            }
        }
    }

    #[inline]
    pub(super) fn skip_blanks(&mut self, pos: usize) -> usize {
        self.token(pos).0
    }

    /// Skips blanks. Returns where the next token begins, and its first byte.
    #[inline]
    pub(super) fn token(&mut self, pos: usize) -> (usize, u8) {
        self.blanks_before(pos, self.byte(pos))
    }

    /// Skips blanks from `pos` on, given the byte there. Returns where the next token begins, and
    /// its first byte.
    #[inline]
    fn blanks_before(&mut self, pos: usize, byte: u8) -> (usize, u8) {
        if byte > b' ' {
            return (pos, byte);
        }
        rare();
        let pos = self.skip_blanks_slowly(pos);
        (pos, self.byte(pos))
    }

    #[inline(never)]
    fn skip_blanks_slowly(&mut self, mut pos: usize) -> usize {
        loop {
            match self.byte(pos) {
                b' ' => {
                    // Indentation is long, so eight spaces are compared at a time.
                    let eight = self.windows.at(pos).and_then(|window| window.first_chunk());
                    pos += eight.map_or(1, leading_spaces);
                    continue;
                }
                b'\t' => {}
                b'\n' | b'\r' => self.flags.note_line_break(),
                _ => return pos,
            }
            pos += 1;
        }
    }

    /// Skips the value that begins at `pos`, inside `open` containers.
    #[inline]
    pub(super) fn value(&mut self, pos: usize, open: u32) -> Result<usize, Failed> {
        match self.byte(pos) {
            bracket @ (b'{' | b'[') => self.container(pos, bracket, open),
            first => self.scalar(pos, first),
        }
    }

    /// Skips the array or object that begins at `pos` with `bracket`, inside `open` containers.
    #[inline]
    pub(super) fn container(
        &mut self,
        pos: usize,
        bracket: u8,
        open: u32,
    ) -> Result<usize, Failed> {
        self.values::<false>(pos, bracket, open, 1)
    }

    /// Skips an array that probably has only a few strings and numbers, as positional params do.
    /// `values` reads the rest from the first element that does not begin with a quote or a digit,
    /// or after a few long strings.
    #[inline]
    pub(super) fn plain_array(&mut self, start: usize, open: u32) -> Result<usize, Failed> {
        self.enter(open, start)?;
        let mut long_strings = 0;
        let (mut pos, mut first) = self.token(start + 1);
        if first == b']' {
            return Ok(pos + 1);
        }
        loop {
            let plain = match first {
                b'"' => {
                    let string = self.string_of_few(pos, &mut long_strings)?;
                    string.map(|string| string.end)
                }
                b'0'..=b'9' => Some(self.number(pos, first)?),
                _ => None,
            };
            let Some(end) = plain else {
                rare();
                return self.values::<false>(pos, first, open + 1, IN_ARRAY);
            };
            (pos, first) = self.token(end);
            match first {
                b',' => (pos, first) = self.token(pos + 1),
                b']' => return Ok(pos + 1),
                _ => return Err(self.unexpected(pos)),
            }
        }
    }

    /// Skips the value that begins at `pos` with `first`, inside `open` containers, and the rest of
    /// the containers on the stack.
    ///
    /// The stack has one bit per open container: 1 for an object, 0 for an array, the innermost
    /// lowest. The highest bit set is not a container, but marks the end of the stack.
    ///
    /// A value with long strings is read further with `ON_GRID`, which is slower for short tokens.
    #[inline(never)]
    fn values<const ON_GRID: bool>(
        &mut self,
        mut pos: usize,
        mut first: u8,
        open: u32,
        mut stack: u64,
    ) -> Result<usize, Failed> {
        let windows = self.windows;
        // `ON_GRID` is a constant, so the compiler removes the code of the other case.
        let mut grid = if ON_GRID {
            Some(Grid::at(self.text, pos))
        } else {
            None
        };
        let mut depth = open;
        let mut long_strings = 0;
        loop {
            // The most frequent kinds are tested first.
            if first == b'"' {
                pos = match &mut grid {
                    Some(grid) if ON_GRID => self.string_on(grid, pos)?,
                    _ => {
                        // A text with one escape usually has more.
                        let window = windows.at(pos).filter(|_| self.has_escapes);
                        if let Some(len) = window.and_then(short_string) {
                            pos + len
                        } else if let Some(string) = self.string_of_few(pos, &mut long_strings)? {
                            string.end
                        } else {
                            rare();
                            return self.values::<HAS_GRID>(pos, first, depth, stack);
                        }
                    }
                };
            } else if begins_number(first) {
                pos = self.number(pos, first)?;
            } else if matches!(first, b'{' | b'[') {
                self.enter(depth, pos)?;
                let bracket = first;
                if stack.leading_zeros() == 0 {
                    // No bit is left: the rest of this value gets a stack of its own.
                    pos = self.values::<ON_GRID>(pos, bracket, depth, 1)?;
                } else {
                    (pos, first) = self.token(pos + 1);
                    if first != closing(bracket) {
                        depth += 1;
                        stack <<= 1;
                        if bracket == b'{' {
                            stack |= 1;
                            (pos, first) = self.key_on::<ON_GRID>(&mut grid, pos, first)?;
                        }
                        continue;
                    }
                    pos += 1;
                }
            } else {
                pos = self.word(pos, first)?;
            }
            // A value has ended, and perhaps some of the containers around it.
            loop {
                if stack == 1 {
                    return Ok(pos);
                }
                let in_object = stack & 1 == 1;
                if in_object {
                    let next = match &mut grid {
                        Some(grid) if ON_GRID => grid.next_key(pos),
                        _ => windows
                            .at(pos)
                            .and_then(|window| plain_next_key(window, pos)),
                    };
                    if let Some((behind, byte)) = next {
                        (pos, first) = self.blanks_before(behind, byte);
                        break;
                    }
                }
                (pos, first) = self.token(pos);
                if first == b',' {
                    (pos, first) = self.token(pos + 1);
                    if in_object {
                        (pos, first) = self.key_on::<ON_GRID>(&mut grid, pos, first)?;
                    }
                    break;
                }
                if first != closing(if in_object { b'{' } else { b'[' }) {
                    return Err(self.unexpected(pos));
                }
                pos += 1;
                depth -= 1;
                stack >>= 1;
            }
        }
    }

    /// Checks whether one more container may open at `pos` when `depth` are open already.
    #[inline]
    pub(super) fn enter(&mut self, depth: u32, pos: usize) -> Result<(), Failed> {
        if depth >= self.max_depth {
            return Err(self.fail(SyntaxErrorKind::TooDeep, pos));
        }
        Ok(())
    }

    /// Skips a key, which begins with `first`, and its colon. Returns where the member's value
    /// begins, and its first byte.
    #[inline]
    fn key(&mut self, pos: usize, first: u8) -> Result<(usize, u8), Failed> {
        match self.windows.at(pos).and_then(plain_key::<0>) {
            Some((behind, byte)) => Ok(self.blanks_before(pos + behind, byte)),
            None => self.any_key(pos, first),
        }
    }

    /// Skips a key as [`key`](Self::key) does, on the grid if there is one.
    #[inline(always)]
    fn key_on<const ON_GRID: bool>(
        &mut self,
        grid: &mut Option<Grid<'_>>,
        pos: usize,
        first: u8,
    ) -> Result<(usize, u8), Failed> {
        let plain = match grid {
            Some(grid) if ON_GRID => grid.key(pos),
            _ => None,
        };
        match plain {
            Some((behind, byte)) => Ok(self.blanks_before(behind, byte)),
            None => self.key(pos, first),
        }
    }

    /// Skips any key and its colon, after [`plain_key`] has found none: the key is long, has
    /// escapes or is at the end of the text, or blanks follow it. Fails if there is no key.
    #[inline(never)]
    fn any_key(&mut self, pos: usize, first: u8) -> Result<(usize, u8), Failed> {
        if first != b'"' {
            return Err(self.unexpected(pos));
        }
        let end = self.string(pos)?.end;
        if end - pos > RESERVED.len() + 1 {
            // It is a tail call, so that shorter keys need not save registers for it.
            return self.long_key(pos, end);
        }
        self.colon(end)
    }

    /// Skips the colon of a key from `start` to `end`, and notes whether the key has serde_json's
    /// private prefix. All such keys are too long for the fast paths. (`scan` notes those of an
    /// envelope itself.)
    #[inline(never)]
    fn long_key(&mut self, start: usize, end: usize) -> Result<(usize, u8), Failed> {
        self.note_key(start, end);
        self.colon(end)
    }

    /// Notes whether the key, whose quotes are at `start` and before `end`, has serde_json's
    /// private prefix.
    pub(super) fn note_key(&mut self, start: usize, end: usize) {
        if matches!(self.byte(start + 1), b'$' | b'\\') {
            rare();
            let token = self.text.get(start..end).unwrap_or_default();
            // The token was cut at quotes. It is UTF-8, or `not_utf8` reads a text that is refused
            // anyway.
            let token = core::str::from_utf8(token).unwrap_or_default();
            if is_reserved(JsonString::of_token(token)) {
                self.flags.note_reserved_key();
            }
        }
    }

    /// Skips the colon after a key. Returns where the member's value begins, and its first byte.
    #[inline]
    pub(super) fn colon(&mut self, pos: usize) -> Result<(usize, u8), Failed> {
        let (pos, byte) = self.token(pos);
        if byte != b':' {
            return Err(self.unexpected(pos));
        }
        Ok(self.token(pos + 1))
    }

    // The rest is the error path, which only finds the right error.

    /// Fails because of the byte at `pos`, or because the text ends there.
    #[cold]
    #[inline(never)]
    pub(super) fn unexpected(&mut self, pos: usize) -> Failed {
        self.wrong(SyntaxErrorKind::UnexpectedByte, pos)
    }

    /// Fails at `pos`: as `UnexpectedEnd` at the end of the text, where [`byte`](Self::byte) has
    /// returned a NUL; otherwise as `kind`.
    pub(super) fn wrong(&mut self, kind: SyntaxErrorKind, pos: usize) -> Failed {
        if pos >= self.text.len() {
            return self.fail(SyntaxErrorKind::UnexpectedEnd, self.text.len());
        }
        self.fail(kind, pos)
    }

    /// Stores the error.
    #[cold]
    #[inline(never)]
    pub(super) fn fail(&mut self, kind: SyntaxErrorKind, pos: usize) -> Failed {
        self.failure = SyntaxError::new(kind, pos);
        Failed
    }
}
