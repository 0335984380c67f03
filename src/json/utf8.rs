//! Checks whether a text is ASCII, as most texts are, or else UTF-8.
//!
//! The vector code examines single blocks; this module combines the results. If a text is not
//! UTF-8, the standard library reads it again and returns the error. The two must never differ,
//! because `simd` makes a `str` of the text without another check; tests compare them.

/// Whether a text is ASCII, by functions that examine four, two and one block of sixteen bytes.
/// Bytes after the last whole block are examined in a block at the end, which may overlap the one
/// before.
#[inline]
pub(super) fn is_ascii(
    bytes: &[u8],
    are_four: impl Fn(&[u8; 64]) -> bool,
    are_two: impl Fn(&[u8; 32]) -> bool,
    is_one: impl Fn(&[u8; 16]) -> bool,
) -> bool {
    if let Some(last) = bytes.last_chunk() {
        let mut blocks = bytes.chunks_exact(64).filter_map(<[u8]>::first_chunk);
        return blocks.all(&are_four) && are_four(last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return are_two(first) && are_two(last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return is_one(first) && is_one(last);
    }
    bytes.iter().fold(0, |or, byte| or | byte) < 0x80
}

/// Whether a text is UTF-8. A bit for each byte of a block marks characters beyond ASCII, and only
/// these are decoded.
#[inline(never)]
pub(super) fn is_utf8(bytes: &[u8], beyond_ascii: impl Fn(&[u8; 64]) -> u64) -> bool {
    let mut pos = 0;
    while let Some(block) = bytes.get(pos..).and_then(<[u8]>::first_chunk) {
        let mut beyond = beyond_ascii(block);
        let mut next = pos + 64;
        while beyond != 0 {
            let n = beyond.trailing_zeros();
            let at = pos + n as usize;
            let Some(len) = bytes.get(at..).and_then(character) else {
                return false;
            };
            // If the character goes on in the next block, its bytes are skipped there.
            beyond &= !(((1 << len) - 1) << n);
            next = next.max(at + len);
        }
        pos = next;
    }
    let rest = bytes.get(pos..);
    rest.is_some_and(|rest| core::str::from_utf8(rest).is_ok())
}

/// Returns how many bytes the character beyond ASCII at the beginning of `bytes` has, by the table
/// of RFC 3629, clause 4.
#[inline]
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
