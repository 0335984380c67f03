//! Whether a text is ASCII, as most are, or else UTF-8.
//!
//! Here: the verdict. Not here: what is wrong with a text that is not UTF-8; the library finds that again.
//! Rule guarded: the verdict is the library's (the tests compare them), for others rely on it.

use super::simd::{LONG, WIDTH, are_ascii, beyond_ascii};

/// Whether a text is ASCII. Whatever is left behind whole blocks is covered by blocks at the end, which may
/// overlap those before.
#[inline]
pub(super) fn is_ascii(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk::<{ 4 * WIDTH }>() {
        let mut blocks = bytes
            .chunks_exact(4 * WIDTH)
            .filter_map(<[u8]>::first_chunk);
        return blocks.all(are_ascii::<{ 4 * WIDTH }, 4>) && are_ascii::<{ 4 * WIDTH }, 4>(last);
    }
    const TWO: usize = 2 * WIDTH;
    let (first, last) = (bytes.first_chunk::<TWO>(), bytes.last_chunk::<TWO>());
    if let (Some(first), Some(last)) = (first, last) {
        return are_ascii::<TWO, 2>(first) && are_ascii::<TWO, 2>(last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<WIDTH>(), bytes.last_chunk::<WIDTH>()) {
        return are_ascii::<WIDTH, 1>(first) && are_ascii::<WIDTH, 1>(last);
    }
    bytes.iter().fold(0, |or, byte| or | byte) < 0x80
}

/// Whether a text is UTF-8. Characters beyond ASCII are found a block at a time, and only they are looked
/// at.
#[inline(never)]
pub(super) fn is_utf8(bytes: &[u8]) -> bool {
    let mut pos = 0;
    while let Some(block) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<LONG>) {
        let mut beyond = beyond_ascii(block);
        let mut next = pos + LONG;
        while beyond != 0 {
            let n = beyond.trailing_zeros();
            let at = pos + n as usize;
            let Some(len) = bytes.get(at..).and_then(character) else {
                return false;
            };
            // What of it is in the next block is passed over there.
            beyond &= !(((1 << len) - 1) << n);
            next = next.max(at + len);
        }
        pos = next;
    }
    let rest = bytes.get(pos..);
    rest.is_some_and(|rest| core::str::from_utf8(rest).is_ok())
}

/// How many bytes the character beyond ASCII has with which `bytes` begin, by the table of RFC 3629, clause
/// 4.
#[inline(always)]
fn character(bytes: &[u8]) -> Option<usize> {
    let continues = |byte: &u8| byte & 0xc0 == 0x80;
    match bytes {
        [0xc2..=0xdf, b, ..] if continues(b) => Some(2),
        [0xe0, 0xa0..=0xbf, c, ..] if continues(c) => Some(3),
        [0xed, 0x80..=0x9f, c, ..] if continues(c) => Some(3),
        [0xe1..=0xec | 0xee | 0xef, b, c, ..] if continues(b) && continues(c) => Some(3),
        [0xf0, 0x90..=0xbf, c, d, ..] if continues(c) && continues(d) => Some(4),
        [0xf1..=0xf3, b, c, d, ..] if continues(b) && continues(c) && continues(d) => Some(4),
        [0xf4, 0x80..=0x8f, c, d, ..] if continues(c) && continues(d) => Some(4),
        _ => None,
    }
}
