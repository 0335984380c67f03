//! Reading JSON: whole values with a stack of bits instead of frames, and what stands between
//! tokens.
//!
//! Here: blanks, keys, and the loop that passes over one array or object of any nesting. Not here:
//! strings, numbers and words (`tokens`), and which member of a message is which (`scan`).
//!
//! Every byte is judged by RFC 8259. Nesting costs one bit a level. It costs a stack frame more
//! after every 63 levels, of which there are 128 at most, and where long strings begin.
//!
//! Each function takes a position and returns the next one, so the compiler keeps it in a register.
//! The cursor itself only remembers what must be said of the whole text afterwards.
//!
//! Reading at or after the end yields a NUL byte. No token begins with or holds a raw NUL, so the
//! end needs no test of its own on the good path; the failing path tells the two apart.
//!
//! The good path is kept short. Whether the text is UTF-8 is found out once, before anything else
//! (`utf8`), so strings are only searched for their end. What stands between tokens is handled
//! inline if there are no blanks; everything else is a call away.
//!
//! Parts of the scanner are forced inline, here and in `grid`, `tokens`, `scan` and `simd`. Without
//! it a block of long strings takes 37 % more instructions, and a small request 6 %
//! (`benches/instructions/run.py`: `parse 06` and `parse 01`).

use super::flags::TextFlags;
use super::grid::{Grid, HAS_GRID};
use super::judge::begins_number;
use super::plain::{WIDTH, WINDOW, Windows, short_string, stops_behind, text_of};
use super::reserved::{RESERVED, is_reserved};
use super::string::JsonString;
use super::syntax::{SyntaxError, SyntaxErrorKind};
use crate::target::rare;

/// The deepest nesting ever allowed, whatever is configured.
pub(super) const MAX_DEPTH: u8 = 128;

pub(super) struct Cursor<'t> {
    pub(super) text: &'t [u8],
    pub(super) windows: Windows<'t>,
    max_depth: u32,
    /// What was passed over so far.
    flags: TextFlags,
    /// Whether any string so far had an escape.
    pub(super) has_escapes: bool,
    /// What went wrong, once something has.
    failure: SyntaxError,
}

/// The stack of a reader inside one array.
const IN_ARRAY: u64 = 0b10;

/// The bracket that closes what `bracket` opens.
#[inline]
fn closing(bracket: u8) -> u8 {
    // `[` and `]` as well as `{` and `}` have one character between them.
    bracket + 2
}

/// Behind a comma at `pos`, where the window is, and a key, both plainly written: see [`plain_key`].
#[inline]
fn plain_next_key(window: &[u8; WINDOW], pos: usize) -> Option<(usize, u8)> {
    if window[0] != b',' {
        return None;
    }
    let (behind, byte) = plain_key::<1>(window)?;
    Some((pos + behind, byte))
}

/// Behind a key whose quote is at `AT`, and its colon: where the value or a blank begins, and the byte
/// there. Only if the key is no longer than a block and has no escapes, and its colon follows at
/// once; else the long way knows.
#[inline]
fn plain_key<const AT: usize>(window: &[u8; WINDOW]) -> Option<(usize, u8)> {
    // Those that have to be noted are longer.
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

/// How many of eight bytes are spaces, before one that is none.
#[inline]
fn leading_spaces(eight: &[u8; 8]) -> usize {
    let others = u64::from_le_bytes(*eight) ^ u64::from_le_bytes([b' '; 8]);
    (others.trailing_zeros() / 8) as usize
}

/// A failure whose cause the cursor knows. It is so small that a result with a position comes back
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

    /// What went wrong, after a method has said that something did.
    pub(super) fn failure(&self) -> SyntaxError {
        self.failure
    }

    pub(super) fn text(&self) -> &'t [u8] {
        self.text
    }

    /// What was passed over so far: raw line breaks, keys that serde_json treats in secret ways.
    pub(super) fn flags(&self) -> TextFlags {
        self.flags
    }

    /// Begins again with the flags, for a caller that wants those inside the value only.
    pub(super) fn forget_flags(&mut self) {
        self.flags = TextFlags::NONE;
    }

    /// The position of the first byte of the value: after one byte-order mark and blanks.
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

    /// Passes over blanks: where the next token begins, and its first byte.
    #[inline]
    pub(super) fn token(&mut self, pos: usize) -> (usize, u8) {
        self.blanks_before(pos, self.byte(pos))
    }

    /// Passes over blanks from `pos` on, given the byte there. Returns where the next token begins,
    /// and its first byte.
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
                    // Indentation is long, and seen eight spaces at a time.
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

    /// Passes over the value that begins at `pos`, inside `open` containers.
    #[inline]
    pub(super) fn value(&mut self, pos: usize, open: u32) -> Result<usize, Failed> {
        match self.byte(pos) {
            bracket @ (b'{' | b'[') => self.container(pos, bracket, open),
            first => self.scalar(pos, first),
        }
    }

    /// Passes over the array or object that begins at `pos` with `bracket`, inside `open` containers.
    #[inline]
    pub(super) fn container(
        &mut self,
        pos: usize,
        bracket: u8,
        open: u32,
    ) -> Result<usize, Failed> {
        self.values::<false>(pos, bracket, open, 1)
    }

    /// Passes over an array that probably holds only a few strings and numbers, as positional
    /// params do. `values` reads the rest from the first element that is neither, or after a few
    /// long strings.
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

    /// Passes over the value that begins at `pos` with `first`, inside `open` containers, and over the
    /// rest of those that the stack knows of.
    ///
    /// The stack holds one bit per container that is open: 1 an object, 0 an array, the innermost
    /// lowest. The highest bit set stands for no container and says where the stack ends.
    ///
    /// A value with long strings goes on being read `ON_GRID`, which loses where tokens are short.
    #[inline(never)]
    fn values<const ON_GRID: bool>(
        &mut self,
        mut pos: usize,
        mut first: u8,
        open: u32,
        mut stack: u64,
    ) -> Result<usize, Failed> {
        let windows = self.windows;
        // `ON_GRID` is known when the program is built, so no code is left for the other case.
        let mut grid = if ON_GRID {
            Some(Grid::at(self.text, pos))
        } else {
            None
        };
        let mut depth = open;
        let mut long_strings = 0;
        loop {
            // The frequent kinds are tested first.
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
                    // No bit is left: the rest of this value has a stack of its own.
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
            // A value has ended; so may any number of the containers around it.
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

    /// Judges whether one more container may open at `pos` when `depth` are open already.
    #[inline]
    pub(super) fn enter(&mut self, depth: u32, pos: usize) -> Result<(), Failed> {
        if depth >= self.max_depth {
            return Err(self.fail(SyntaxErrorKind::TooDeep, pos));
        }
        Ok(())
    }

    /// Passes over a key, which begins with `first`, and its colon: where the member's value
    /// begins, and its first byte.
    #[inline]
    fn key(&mut self, pos: usize, first: u8) -> Result<(usize, u8), Failed> {
        match self.windows.at(pos).and_then(plain_key::<0>) {
            Some((behind, byte)) => Ok(self.blanks_before(pos + behind, byte)),
            None => self.any_key(pos, first),
        }
    }

    /// Passes over a key as [`key`](Self::key) does, on the grid if there is one.
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

    /// Passes over a key and its colon if the key is long, escaped or at the end of the text, or
    /// has blanks after it. Fails if there is no key.
    #[inline(never)]
    fn any_key(&mut self, pos: usize, first: u8) -> Result<(usize, u8), Failed> {
        if first != b'"' {
            return Err(self.unexpected(pos));
        }
        let end = self.string(pos)?.end;
        if end - pos > RESERVED.len() + 1 {
            // A tail call, so that shorter keys save no registers for it.
            return self.long_key(pos, end);
        }
        self.colon(end)
    }

    /// Passes over the colon of a key from `start` to `end`, and notes whether serde_json treats
    /// the key in secret ways. Such keys are too long for the short cuts, so all of them come here.
    #[inline(never)]
    fn long_key(&mut self, start: usize, end: usize) -> Result<(usize, u8), Failed> {
        self.note_key(start, end);
        self.colon(end)
    }

    /// Remembers whether a key, whose quotes are at `start` and before `end`, is one that serde_json
    /// treats in secret ways.
    pub(super) fn note_key(&mut self, start: usize, end: usize) {
        if matches!(self.byte(start + 1), b'$' | b'\\') {
            rare();
            let token = self.text.get(start..end).unwrap_or_default();
            // It is cut from a text that is UTF-8, at quotes.
            let token = core::str::from_utf8(token).unwrap_or_default();
            if is_reserved(JsonString::of_token(token)) {
                self.flags.note_reserved_key();
            }
        }
    }

    /// Passes over the colon after a key: where the member's value begins, and its first byte.
    #[inline]
    pub(super) fn colon(&mut self, pos: usize) -> Result<(usize, u8), Failed> {
        let (pos, byte) = self.token(pos);
        if byte != b':' {
            return Err(self.unexpected(pos));
        }
        Ok(self.token(pos + 1))
    }

    // What follows is the failing path: it only finds out what to say.

    #[cold]
    #[inline(never)]
    pub(super) fn unexpected(&mut self, pos: usize) -> Failed {
        self.wrong(SyntaxErrorKind::UnexpectedByte, pos)
    }

    /// Tells the end of the text from a bad byte: both read as something unexpected.
    pub(super) fn wrong(&mut self, kind: SyntaxErrorKind, pos: usize) -> Failed {
        if pos >= self.text.len() {
            return self.fail(SyntaxErrorKind::UnexpectedEnd, self.text.len());
        }
        self.fail(kind, pos)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn fail(&mut self, kind: SyntaxErrorKind, pos: usize) -> Failed {
        self.failure = SyntaxError::new(kind, pos);
        Failed
    }
}
