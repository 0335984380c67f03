//! Reading JSON token by token, and whole values with a stack of bits instead of frames.
//!
//! Lives here: blanks, strings, numbers, literals, and the loop that passes over one value of any
//! nesting. Does not live here: which member of a message is which (`scan`). Rules guarded: every
//! byte is judged by RFC 8259; nesting costs one bit, and one stack frame more after every 63 levels,
//! of which there are 128 at most.
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

use super::plain::{
    LONG, Stops, WIDTH, WINDOW, Windows, free_of_stops, long_stops_at, stops_behind, text_of,
};
use super::syntax::{SyntaxError, SyntaxErrorKind};
use crate::target::SMALL;

/// The deepest nesting ever allowed, whatever is configured.
pub(super) const DEPTH_MAX: u8 = 128;

pub(super) struct Cursor<'t> {
    text: &'t [u8],
    windows: Windows<'t>,
    depth_max: u32,
    line_breaks: bool,
    /// What went wrong, once something has.
    failure: SyntaxError,
}

/// The bracket that closes what `bracket` opens.
#[inline(always)]
fn closing(bracket: u8) -> u8 {
    // `[` and `]` as well as `{` and `}` have one character between them.
    bracket + 2
}

/// Behind a comma and a key, both plainly written: see [`plain_key`].
#[inline(always)]
fn plain_next_key(window: &[u8; WINDOW]) -> Option<(usize, u8)> {
    if window[0] != b',' {
        return None;
    }
    plain_key::<1>(window)
}

/// Behind a key whose quote is at `AT`, and its colon: where the value or a blank begins, and the byte
/// there. Only if the key is no longer than a block and has no escapes, and its colon follows at
/// once; else the long way knows.
#[inline(always)]
fn plain_key<const AT: usize>(window: &[u8; WINDOW]) -> Option<(usize, u8)> {
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
#[inline(always)]
fn leading_spaces(eight: &[u8; 8]) -> usize {
    let others = u64::from_le_bytes(*eight) ^ u64::from_le_bytes([b' '; 8]);
    (others.trailing_zeros() / 8) as usize
}

/// Whether a number may begin with a byte: a digit or a minus, and no value begins with the two that
/// stand between them in ASCII.
#[inline(always)]
pub(super) fn begins_number(byte: u8) -> bool {
    matches!(byte, b'-'..=b'9')
}

/// How the words begin, by [`word_place`].
const WORDS: [[u8; 4]; 4] = [*b"fals", *b"null", *b"true", [0; 4]];

/// Two bits in which the first letters of the words differ.
#[inline(always)]
fn word_place(first: u8) -> usize {
    usize::from(first >> 3 & 0b11)
}

/// Whether a byte behind a backslash is the whole escape.
#[inline(always)]
fn is_short_escape(byte: u8) -> bool {
    const fn is_one(byte: u8) -> bool {
        matches!(byte, b'n' | b'"' | b'\\' | b'/' | b't' | b'r' | b'b' | b'f')
    }
    // Which one it is nobody can foretell: a table has no branches.
    static TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = is_one(byte as u8);
            byte += 1;
        }
        table
    };
    if SMALL {
        return is_one(byte);
    }
    TABLE[usize::from(byte)]
}

/// Whether these are the digits of `\u`.
fn is_hexadecimal(digits: &[u8; 4]) -> bool {
    digits.iter().all(u8::is_ascii_hexdigit)
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
            windows: Windows::of(text),
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
    #[inline]
    pub(super) fn begin(&mut self) -> Result<usize, Failed> {
        match self.text.first() {
            Some(b'{' | b'[') => Ok(0),
            _ => self.begin_slowly(),
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
        let pos = self.skip_blanks_slowly(pos);
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
        self.blanks_before(pos, self.byte(pos))
    }

    /// The same, with the byte at `pos` at hand.
    #[inline(always)]
    fn blanks_before(&mut self, pos: usize, byte: u8) -> (usize, u8) {
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
                b' ' => {
                    // Indentation is long, and seen eight spaces at a time.
                    let eight = self.windows.at(pos).and_then(|window| window.first_chunk());
                    pos += eight.map_or(1, leading_spaces);
                    continue;
                }
                b'\t' => {}
                b'\n' | b'\r' => self.line_breaks = true,
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

    /// Passes over the value that begins at `pos` with `first` and is no container.
    #[inline]
    fn scalar(&mut self, pos: usize, first: u8) -> Result<usize, Failed> {
        if first == b'"' {
            return self.string(pos).map(|string| string.end);
        }
        if begins_number(first) {
            return self.number(pos, first);
        }
        self.word(pos, first)
    }

    /// Passes over the array or object that begins at `pos` with `bracket`, inside `open` containers.
    ///
    /// The stack holds one bit per container that is open: 1 an object, 0 an array, the innermost
    /// lowest. The highest bit set stands for no container and says where the stack ends.
    pub(super) fn container(
        &mut self,
        pos: usize,
        bracket: u8,
        open: u32,
    ) -> Result<usize, Failed> {
        let windows = self.windows;
        let (mut pos, mut first) = (pos, bracket);
        let mut depth = open;
        let mut stack = 1_u64;
        loop {
            // What is frequent is asked for first.
            if first == b'"' {
                pos = self.string(pos)?.end;
            } else if begins_number(first) {
                pos = self.number(pos, first)?;
            } else if matches!(first, b'{' | b'[') {
                self.enter(depth, pos)?;
                let bracket = first;
                if stack.leading_zeros() == 0 {
                    // No bit is left: the rest of this value has a stack of its own.
                    pos = self.container(pos, bracket, depth)?;
                } else {
                    (pos, first) = self.token(pos + 1);
                    if first != closing(bracket) {
                        depth += 1;
                        stack <<= 1;
                        if bracket == b'{' {
                            stack |= 1;
                            (pos, first) = self.key(pos, first)?;
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
                    if let Some((behind, byte)) = windows.at(pos).and_then(plain_next_key) {
                        (pos, first) = self.blanks_before(pos + behind, byte);
                        break;
                    }
                }
                (pos, first) = self.token(pos);
                if first == b',' {
                    (pos, first) = self.token(pos + 1);
                    if in_object {
                        (pos, first) = self.key(pos, first)?;
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
        match self.windows.at(pos).and_then(plain_key::<0>) {
            Some((behind, byte)) => Ok(self.blanks_before(pos + behind, byte)),
            None => self.any_key(pos, first),
        }
    }

    /// Does the same for a key that is long, escaped or at the end of the text, has blanks behind
    /// it, or is none.
    #[inline(never)]
    fn any_key(&mut self, pos: usize, first: u8) -> Result<(usize, u8), Failed> {
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
        let mut pos = pos + 1;
        let Some(window) = self.windows.at(pos - 1) else {
            return self.long_string(pos);
        };
        let (mut stops, mut next) = (stops_behind::<1>(window), pos + WIDTH);
        if stops.first().is_none() {
            let rest = self.text.get(next..).unwrap_or_default();
            let Some(block) = rest.first_chunk() else {
                return self.long_string(next);
            };
            (pos, stops, next) = (next, Stops::of_long(block), next + LONG);
        }
        match stops.first() {
            Some(n) if self.text.get(pos + n) == Some(&b'"') => Ok(StringToken {
                end: pos + n + 1,
                escaped: false,
            }),
            _ => self.rest_of_string(pos, stops, next),
        }
    }

    /// Passes over what is left of a string from `pos` on; what stands in it before is plain.
    #[inline(never)]
    fn long_string(&mut self, pos: usize) -> Result<StringToken, Failed> {
        let (stops, next) = long_stops_at(self.text, pos);
        self.rest_of_string(pos, stops, next)
    }

    /// Does the same, with the stops at hand from `pos` up to `next`.
    #[inline(never)]
    fn rest_of_string(
        &mut self,
        mut pos: usize,
        mut stops: Stops,
        mut next: usize,
    ) -> Result<StringToken, Failed> {
        let text = self.text;
        let byte_at = |pos: usize| text.get(pos).copied().unwrap_or(0);
        let mut escaped = false;
        let mut plain_blocks = 0;
        loop {
            // All stops of a block are met before the next block is looked at.
            while let Some(n) = stops.first() {
                let at = pos + n;
                match byte_at(at) {
                    b'\\' => {
                        escaped = true;
                        if !is_short_escape(byte_at(at + 1)) {
                            self.unicode_escape(at)?;
                        }
                        // What is escaped may look like a stop, in the next block, too. What follows it
                        // does not: digits are none.
                        stops = stops.without_two(n);
                        next = next.max(at + 2);
                    }
                    b'"' => {
                        let end = at + 1;
                        return Ok(StringToken { end, escaped });
                    }
                    _ => return Err(self.bad_string_byte(at)),
                }
            }
            if next >= text.len() {
                return Err(self.bad_string_byte(text.len()));
            }
            pos = next;
            (stops, next) = long_stops_at(text, pos);
            plain_blocks = match stops.first() {
                Some(_) => 0,
                None => plain_blocks + 1,
            };
            // Only a string that has gone on for long is likely to go on for longer.
            if plain_blocks > 2 {
                next += free_of_stops(text, next);
            }
        }
    }

    /// Judges the escape of four digits whose backslash is at `pos`, if it is one. A lone surrogate is
    /// grammatical.
    #[inline(never)]
    fn unicode_escape(&mut self, pos: usize) -> Result<(), Failed> {
        let escape = self.text.get(pos + 1..).and_then(<[u8]>::first_chunk::<5>);
        match escape {
            Some([b'u', digits @ ..]) if is_hexadecimal(digits) => Ok(()),
            _ => Err(self.bad_escape(pos)),
        }
    }

    /// Passes over the number at `pos`, if there is one; it [begins](begins_number) with `first`. The byte
    /// at hand is always the one at `pos`, so that none but the sign is read twice.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    pub(super) fn number(&mut self, pos: usize, first: u8) -> Result<usize, Failed> {
        // Whether there is a sign nobody can foretell: it costs no branch.
        let digit = pos + usize::from(first == b'-');
        let first = self.byte(digit);
        if !first.is_ascii_digit() {
            return Err(self.no_number(pos));
        }
        let (mut pos, mut byte) = (digit + 1, self.byte(digit + 1));
        while byte.is_ascii_digit() {
            // RFC 8259, clause 6: leading zeros are not allowed.
            if first == b'0' {
                return Err(self.fail(SyntaxErrorKind::BadNumber, pos));
            }
            pos += 1;
            byte = self.byte(pos);
        }
        // A control character that looks like a dot here is none there.
        if matches!(byte | 0x20, b'.' | b'e') {
            return self.fraction(pos, byte);
        }
        Ok(pos)
    }

    /// Passes over what may stand behind a whole number; `byte` is the one at `pos`.
    #[inline(always)]
    fn fraction(&mut self, pos: usize, byte: u8) -> Result<usize, Failed> {
        let (mut pos, mut byte) = (pos, byte);
        if byte == b'.' {
            (pos, byte) = self.digits(pos + 1)?;
        }
        if byte | 0x20 == b'e' {
            let sign = matches!(self.byte(pos + 1), b'+' | b'-');
            (pos, _) = self.digits(pos + 1 + usize::from(sign))?;
        }
        Ok(pos)
    }

    /// Passes over one digit or more: where they end, and the byte there.
    #[inline(always)]
    fn digits(&mut self, mut pos: usize) -> Result<(usize, u8), Failed> {
        let mut byte = self.byte(pos);
        if !byte.is_ascii_digit() {
            return Err(self.missing_digit(pos));
        }
        while byte.is_ascii_digit() {
            pos += 1;
            byte = self.byte(pos);
        }
        Ok((pos, byte))
    }

    /// Passes over `true`, `false` or `null`, if one of them begins at `pos` with `first`. Which of them it
    /// is nobody can foretell: it costs no branch.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    fn word(&mut self, pos: usize, first: u8) -> Result<usize, Failed> {
        let word = WORDS[word_place(first)];
        let found = self.text.get(pos..).and_then(<[u8]>::first_chunk);
        let is_false = first == b'f';
        let end = pos + 4 + usize::from(is_false);
        let is_whole = !is_false | (self.byte(pos + 4) == b'e');
        if found == Some(&word) && is_whole {
            return Ok(end);
        }
        Err(self.bad_word(pos, first))
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
    fn no_number(&mut self, pos: usize) -> Failed {
        match self.byte(pos) {
            b'-' => self.missing_digit(pos + 1),
            _ => self.unexpected(pos),
        }
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
    fn bad_word(&mut self, pos: usize, first: u8) -> Failed {
        let word: &[u8] = match first {
            b't' => b"true",
            b'f' => b"false",
            b'n' => b"null",
            _ => return self.unexpected(pos),
        };
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
