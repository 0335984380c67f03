//! Bytes judged by themselves, or eight of them in a word: what every search in a text asks.

use crate::target::SMALL;

/// Whether a byte is a quote, a backslash or a control character.
pub(super) const fn is_stop(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Whether a byte after a backslash is the whole escape: any but `u`.
#[inline]
pub(super) fn is_short_escape(byte: u8) -> bool {
    // No function: where there is a table, none would be called.
    macro_rules! is_one {
        ($byte:expr) => {
            matches!(
                $byte,
                b'n' | b'"' | b'\\' | b'/' | b't' | b'r' | b'b' | b'f'
            )
        };
    }
    // Which one it is cannot be predicted, and a table has no branches.
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

/// Whether a number may begin with a byte: a digit or a minus, and no value begins with the two that
/// stand between them in ASCII.
#[inline]
pub(super) fn begins_number(byte: u8) -> bool {
    matches!(byte, b'-'..=b'9')
}

/// What a [window](super::plain::Windows) has beside a block: a comma and a quote before it, and after a name in it a quote, a
/// colon and the first byte of a value.
pub(super) const BESIDE: usize = 5;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = ONES * 0x80;

/// The high bit of every stop in a word.
///
/// Flipping bit 1 maps `"` (0x22) to 0x20 and keeps the control characters below it, while space and `!` move up to
/// 0x22 and 0x23: one comparison covers quote and control characters. Each addition is to the low seven bits of a byte,
/// so that no byte carries into its neighbour.
#[inline]
pub(super) fn marks(word: u64) -> u64 {
    let low_bits = !HIGH;
    let flipped = word ^ (ONES * 0x02);
    let above_quote = ((flipped & low_bits) + ONES * (0x80 - 0x21)) | flipped;
    let difference = word ^ (ONES * 0x5c);
    let not_backslash = ((difference & low_bits) + low_bits) | difference;
    !(above_quote & not_backslash) & HIGH
}
