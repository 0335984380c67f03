//! Reads strings, numbers and words (`true`, `false`, `null`): the tokens that are values
//! themselves.
//!
//! This module finds where a token ends, and checks every byte of it by RFC 8259, clauses 3, 6 and
//! 7. The text between tokens is read in `cursor`.
//!
//! Code for valid input is kept short. A string without escapes that ends in the first blocks of
//! vector code is handled inline. The code does not branch on what cannot be predicted, such as
//! whether a number has a sign or which word comes: a wrong prediction costs the processor more
//! than the rest of the work.

use super::cursor::{Cursor, Failed};
use super::grid::{Grid, HAS_GRID};
use super::judge::{begins_number, is_short_escape};
use super::plain::{
    LONG, Stops, WIDTH, escaped_stops_at, free_of_stops, long_stops_at, stops_behind,
};
use super::syntax::SyntaxErrorKind;
use crate::target::rare;

/// The end of a string token, and whether it has escapes.
pub(super) struct StringToken {
    pub(super) end: usize,
    pub(super) escaped: bool,
}

/// How many long strings of a value are read before the rest of the value is read on a
/// [grid](super::grid).
const FEW: u32 = 4;

/// The first four bytes of each word, indexed by [`word_place`]. The last index has no word.
const WORDS: [[u8; 4]; 4] = [*b"fals", *b"null", *b"true", [0; 4]];

/// Returns two bits in which the first letters of the words differ.
#[inline]
fn word_place(first: u8) -> usize {
    usize::from(first >> 3 & 0b11)
}

/// Whether these are four hexadecimal digits.
fn is_hexadecimal(digits: &[u8; 4]) -> bool {
    digits.iter().all(u8::is_ascii_hexdigit)
}

impl Cursor<'_> {
    /// Skips the value that begins at `pos` with `first` and is no array or object.
    #[inline]
    pub(super) fn scalar(&mut self, pos: usize, first: u8) -> Result<usize, Failed> {
        if first == b'"' {
            return self.string(pos).map(|string| string.end);
        }
        if begins_number(first) {
            return self.number(pos, first);
        }
        self.word(pos, first)
    }

    /// Skips the string whose opening quote is at `pos`.
    #[inline]
    pub(super) fn string(&mut self, pos: usize) -> Result<StringToken, Failed> {
        // `string_of_few` returns `None` only after several long strings, so not here.
        let none = StringToken {
            end: pos,
            escaped: false,
        };
        Ok(self.string_of_few(pos, &mut 0)?.unwrap_or(none))
    }

    /// Skips the string whose opening quote is at `pos`, and counts strings longer than a block.
    /// Returns `None` for a long string after the first few.
    #[inline]
    pub(super) fn string_of_few(
        &mut self,
        pos: usize,
        long_strings: &mut u32,
    ) -> Result<Option<StringToken>, Failed> {
        let mut pos = pos + 1;
        let Some(window) = self.windows.at(pos - 1) else {
            rare();
            return self.long_string(pos).map(Some);
        };
        let (mut stops, mut next) = (stops_behind::<1>(window), pos + WIDTH);
        if stops.first().is_none() {
            *long_strings += 1;
            if HAS_GRID && *long_strings > FEW {
                rare();
                return Ok(None);
            }
            let rest = self.text.get(next..).unwrap_or_default();
            let Some(block) = rest.first_chunk() else {
                return self.long_string(next).map(Some);
            };
            (pos, stops, next) = (next, Stops::of_long(block), next + LONG);
        }
        self.end_of_string(pos, stops, next).map(Some)
    }

    /// Skips the string whose opening quote is at `pos`, on a grid. Returns where it ends.
    #[inline]
    pub(super) fn string_on(&mut self, grid: &mut Grid<'_>, pos: usize) -> Result<usize, Failed> {
        let stop = grid.stop_from(pos + 1);
        if self.text.get(stop) == Some(&b'"') {
            return Ok(stop + 1);
        }
        rare();
        Ok(self.long_string(pos + 1)?.end)
    }

    /// Skips the rest of a string from `pos` on; the part before has no escapes.
    #[inline(never)]
    fn long_string(&mut self, pos: usize) -> Result<StringToken, Failed> {
        let (stops, next) = long_stops_at(self.text, pos);
        self.end_of_string(pos, stops, next)
    }

    /// Skips the rest of a string, given the stops of the bytes from `pos` up to `next`. The first
    /// stop usually is the quote that ends the string.
    #[inline]
    fn end_of_string(
        &mut self,
        pos: usize,
        stops: Stops,
        next: usize,
    ) -> Result<StringToken, Failed> {
        match stops.first() {
            Some(n) if self.text.get(pos + n) == Some(&b'"') => Ok(StringToken {
                end: pos + n + 1,
                escaped: false,
            }),
            _ => {
                rare();
                self.rest_of_string(pos, stops, next)
            }
        }
    }

    /// Skips the rest of a string whose first stop is no quote, or that has no stop from `pos` up
    /// to `next`.
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
        let mut plain_blocks = u32::from(stops.first().is_none());
        loop {
            // All stops of a block are handled before the next block is read.
            while let Some(n) = stops.first() {
                let at = pos + n;
                match byte_at(at) {
                    b'\\' => {
                        escaped = true;
                        if !is_short_escape(byte_at(at + 1)) {
                            self.unicode_escape(at)?;
                        }
                        // The escaped byte may look like a stop, even in the next block. The digits
                        // that may follow it never look like stops.
                        stops = stops.without_two(n);
                        next = next.max(at + 2);
                    }
                    b'"' => {
                        self.has_escapes |= escaped;
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
            let has_stops;
            if plain_blocks == 0 {
                // A string with one escape usually has more.
                (stops, next, has_stops) = escaped_stops_at(text, pos);
            } else {
                (stops, next) = long_stops_at(text, pos);
                has_stops = stops.first().is_some();
            }
            plain_blocks = if has_stops { 0 } else { plain_blocks + 1 };
            // Only a string that has gone on for long is likely to go on for longer.
            if plain_blocks > 2 {
                next += free_of_stops(text, next);
            }
        }
    }

    /// Checks that an escape of four digits begins with the backslash at `pos`. A lone surrogate is
    /// allowed by the grammar.
    #[inline(never)]
    fn unicode_escape(&mut self, pos: usize) -> Result<(), Failed> {
        let escape = self.text.get(pos + 1..).and_then(<[u8]>::first_chunk::<5>);
        match escape {
            Some([b'u', digits @ ..]) if is_hexadecimal(digits) => Ok(()),
            _ => Err(self.bad_escape(pos)),
        }
    }

    /// Skips the number at `pos`, if there is one; `first` is the byte there, with which numbers
    /// [begin](begins_number).
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    pub(super) fn number(&mut self, pos: usize, first: u8) -> Result<usize, Failed> {
        // Whether there is a sign cannot be predicted, so there is no branch on it.
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
        // With this bit set, a control character may look like a dot; `fraction` finds that it is
        // none.
        if matches!(byte | 0x20, b'.' | b'e') {
            rare();
            return self.fraction(pos, byte);
        }
        Ok(pos)
    }

    /// Skips a fraction and an exponent after a whole number, if there are any; `byte` is the one
    /// at `pos`.
    #[inline(always)]
    fn fraction(&mut self, pos: usize, byte: u8) -> Result<usize, Failed> {
        let (mut pos, mut byte) = (pos, byte);
        if byte == b'.' {
            if self.byte(pos + 1) == b'0' {
                self.note_whole_float();
            }
            (pos, byte) = self.digits(pos + 1)?;
        }
        if byte | 0x20 == b'e' {
            self.note_whole_float();
            let sign = matches!(self.byte(pos + 1), b'+' | b'-');
            (pos, _) = self.digits(pos + 1 + usize::from(sign))?;
        }
        Ok(pos)
    }

    /// Skips one digit or more. Returns where they end, and the byte there.
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

    /// Skips `true`, `false` or `null`, if one of them begins at `pos` with `first`. Which of them
    /// it is cannot be predicted, so there is no branch on it.
    #[inline]
    pub(super) fn word(&mut self, pos: usize, first: u8) -> Result<usize, Failed> {
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

    // The rest is the error path, which only finds the right error.

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
}
