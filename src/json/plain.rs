//! Passing over the inside of a string, many bytes at a time.
//!
//! This is the one loop that sees most bytes of most messages, kept alone so that a vector kernel
//! can replace it. Rule guarded: it stops at the first byte that is a quote, a backslash or a
//! control character, or at the end, and nowhere else.

/// Bytes compared at once where a string goes on for long. The compiler turns the loop over such
/// a block into vector code on every target that has any.
const BLOCK: usize = 32;

/// Finds the first `"`, `\` or control character at or after `pos`, or the end of `text`.
///
/// All bytes passed are or-ed into `seen`, so that its top bits tell whether any was not ASCII
/// (bytes behind the stop may be in it too: a false alarm costs one UTF-8 pass, nothing else).
#[inline(always)]
pub(super) fn skip_plain(text: &[u8], pos: usize, seen: &mut u64) -> usize {
    let mut pos = pos;
    // Most strings are short: two words decide them without entering a loop.
    for _ in 0..2 {
        let Some(word) = word_at(text, pos) else {
            return skip_plain_tail(text, pos, seen);
        };
        *seen |= word;
        let stops = stops_in(word);
        if stops != 0 {
            return pos + first_byte_of(stops);
        }
        pos += 8;
    }
    skip_plain_long(text, pos, seen)
}

#[inline(never)]
fn skip_plain_long(text: &[u8], mut pos: usize, seen: &mut u64) -> usize {
    while let Some(block) = text.get(pos..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        if has_stop(block) {
            break;
        }
        *seen |= or_of_words(block);
        pos += BLOCK;
    }
    while let Some(word) = word_at(text, pos) {
        *seen |= word;
        let stops = stops_in(word);
        if stops != 0 {
            return pos + first_byte_of(stops);
        }
        pos += 8;
    }
    skip_plain_tail(text, pos, seen)
}

/// Does the same within the last seven bytes.
#[inline(never)]
fn skip_plain_tail(text: &[u8], pos: usize, seen: &mut u64) -> usize {
    let left = text.len().saturating_sub(pos);
    if left == 0 {
        return pos;
    }
    if let Some(last) = text.last_chunk::<8>() {
        // Shifting out the bytes before `pos` shifts zeros in behind the end. They look like
        // control characters, so that the end is found as if it were a stop.
        let word = u64::from_le_bytes(*last) >> (64 - 8 * left.min(8));
        *seen |= word;
        return (pos + first_byte_of(stops_in(word))).min(text.len());
    }
    let mut pos = pos;
    while let Some(&byte) = text.get(pos) {
        if is_stop(byte) {
            return pos;
        }
        *seen |= u64::from(byte);
        pos += 1;
    }
    pos
}

/// Whether a block has a stop in it. All bytes are judged, none branched on, which lets the
/// compiler judge sixteen at a time.
#[inline(always)]
fn has_stop(block: &[u8; BLOCK]) -> bool {
    let mut stop = 0u8;
    for &byte in block {
        stop |= u8::from(is_stop(byte));
    }
    stop != 0
}

#[inline(always)]
fn or_of_words(block: &[u8; BLOCK]) -> u64 {
    let words = block.chunks_exact(8);
    words.fold(0, |or, word| or | word_at(word, 0).unwrap_or_default())
}

/// Flipping bit 1 maps `"` (0x22) to 0x20 and keeps the control characters below it, while space
/// and `!` move up to 0x22 and 0x23: one comparison covers quote and control characters.
#[inline(always)]
fn is_stop(byte: u8) -> bool {
    (byte ^ 0x02) < 0x21 || byte == b'\\'
}

#[inline(always)]
fn word_at(text: &[u8], pos: usize) -> Option<u64> {
    let bytes = text.get(pos..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// The same test on eight bytes: a set top bit marks a stop.
///
/// Subtracting borrows from the next higher byte only below a true stop, so marks above the first
/// may be wrong; the lowest, which is the first in the text, is always right.
#[inline(always)]
fn stops_in(word: u64) -> u64 {
    let quote_or_control = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let backslash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
    (quote_or_control | backslash) & !word & (ONES * 0x80)
}

#[inline(always)]
fn first_byte_of(stops: u64) -> usize {
    // At most 64, which fits any usize.
    (stops.trailing_zeros() / 8) as usize
}

/// The naive twin that tests compare with.
#[cfg(test)]
pub(super) fn skip_plain_naive(text: &[u8], pos: usize) -> usize {
    let mut pos = pos;
    while pos < text.len() && text[pos] != b'"' && text[pos] != b'\\' && text[pos] >= 0x20 {
        pos += 1;
    }
    pos
}
