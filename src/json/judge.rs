//! Checks of a single byte, or of eight bytes in a word, that several searches share.

use crate::target::SMALL;

/// Whether a byte is a quote, a backslash or a control character.
pub(super) const fn is_stop(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Whether a byte after a backslash completes the escape: each letter of an escape but `u`.
#[inline]
pub(super) fn is_short_escape(byte: u8) -> bool {
    // A macro, because a function would run only at compile time where there is a table, and
    // coverage would count it as never called.
    macro_rules! is_one {
        ($byte:expr) => {
            matches!(
                $byte,
                b'n' | b'"' | b'\\' | b'/' | b't' | b'r' | b'b' | b'f'
            )
        };
    }
    // Which of these bytes it is cannot be predicted, and a table needs no branches.
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = is_one!(byte as u8);
            byte += 1;
        }
        table
    };
    if SMALL {
        return is_one!(byte);
    }
    TABLE[usize::from(byte)]
}

/// Whether a number may begin with a byte: a digit, a minus, or one of the two characters between
/// them in ASCII, with which no value begins.
#[inline]
pub(super) fn begins_number(byte: u8) -> bool {
    matches!(byte, b'-'..=b'9')
}

/// How many bytes a [window](super::plain::Windows) has besides a block: a comma and a quote before
/// it; and after a block that ends with the quote of a name, a colon and the first byte of a value.
pub(super) const BESIDE: usize = 4;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = ONES * 0x80;

/// Returns a word with the high bit of each byte set that is a stop.
///
/// Flipping bit 1 maps `"` (0x22) to 0x20 and keeps the control characters below it, while space
/// and `!` become 0x22 and 0x23: so one comparison finds the quote and control characters. Only the
/// low seven bits of each byte are added, so that no byte carries into its neighbour.
#[inline]
pub(super) fn marks(word: u64) -> u64 {
    let low_bits = !HIGH;
    let flipped = word ^ (ONES * 0x02);
    let above_quote = ((flipped & low_bits) + ONES * (0x80 - 0x21)) | flipped;
    let difference = word ^ (ONES * 0x5c);
    let not_backslash = ((difference & low_bits) + low_bits) | difference;
    !(above_quote & not_backslash) & HIGH
}
