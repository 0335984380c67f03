//! The searches of the framings: for the next line feed or line break, and for the end of blanks or of plain text
//! in a string. The tests below compare them with simple versions.

use crate::target::SMALL;

/// How many new bytes count as few. `goes_on` examines them in a simple loop, and `cut` may examine
/// them once more.
const FEW: usize = 16;

/// Returns the bytes of `unread` after the first `seen`, if they are few.
#[inline]
pub(super) fn few_new(unread: &[u8], seen: usize) -> Option<&[u8]> {
    let new = unread.get(seen..);
    new.filter(|new| new.len() <= FEW)
}

/// Whether one of few bytes is `byte`.
#[expect(
    clippy::manual_contains,
    reason = "`contains` calls a search that is made for many"
)]
#[inline]
pub(super) fn is_in(byte: u8, few: &[u8]) -> bool {
    few.iter().any(|&other| other == byte)
}

/// Whether a byte is white space of JSON. Only such bytes are skipped between frames.
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// How many blanks `bytes` begins with.
pub(super) fn blanks(bytes: &[u8]) -> usize {
    let count = bytes
        .iter()
        .position(|&byte| !is_blank(byte))
        .unwrap_or(bytes.len());
    note_examined(count);
    count
}

/// The index of the first line feed.
pub(crate) fn line_feed(bytes: &[u8]) -> Option<usize> {
    let found = first_of([b'\n'], bytes);
    note_examined(found.map_or(bytes.len(), |n| n + 1));
    found
}

/// The index of the first line feed or carriage return.
pub(crate) fn line_break(bytes: &[u8]) -> Option<usize> {
    first_of([b'\n', b'\r'], bytes)
}

/// Counts the bytes at the beginning of `bytes`, a part of a JSON string, up to the first quote or
/// backslash.
pub(super) fn plain_text(bytes: &[u8]) -> usize {
    first_of([b'"', b'\\'], bytes).unwrap_or(bytes.len())
}

/// The index of the first byte that is one of `needles`.
///
/// Long inputs are read 32 bytes at a time, in a form that compilers turn into vector comparisons.
/// The block with the hit, and short inputs, are read in words of 8 bytes.
#[inline]
fn first_of<const N: usize>(needles: [u8; N], bytes: &[u8]) -> Option<usize> {
    if SMALL {
        return bytes.iter().position(|byte| needles.contains(byte));
    }
    let mut rest = bytes;
    while let Some((block, tail)) = rest.split_first_chunk::<32>() {
        let hit = block.iter().fold(0, |hit, &byte| {
            needles
                .iter()
                .fold(hit, |hit, &needle| hit | u8::from(byte == needle))
        });
        if hit != 0 {
            break;
        }
        rest = tail;
    }
    let hits = |word: u64| {
        let of = |needle| zero_bytes(word ^ repeat(needle));
        needles.iter().fold(0, |hits, &needle| hits | of(needle))
    };
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        let hits = hits(u64::from_le_bytes(*word));
        if hits != 0 {
            let before = bytes.len() - rest.len();
            return Some(before + (hits.trailing_zeros() / 8) as usize);
        }
        rest = tail;
    }
    if rest.is_empty() {
        return None;
    }
    if let Some(word) = bytes.last_chunk::<8>() {
        // The last eight bytes overlap bytes that were examined already and have no needle.
        let hits = hits(u64::from_le_bytes(*word));
        return (hits != 0).then(|| bytes.len() - 8 + (hits.trailing_zeros() / 8) as usize);
    }
    rest.iter().position(|byte| needles.contains(byte))
}

/// A word with `byte` in all eight places.
const fn repeat(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

/// Returns a word with the high bit of every zero byte set. The borrow of the subtraction may set
/// wrong bits above the lowest zero byte, so only the lowest set bit may be used.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeat(0x01)) & !word & repeat(0x80)
}

/// Counts the bytes that a codec examines. Tests use it to check that the cost of split input is
/// linear; otherwise it does nothing.
pub(super) fn note_examined(_bytes: usize) {
    #[cfg(test)]
    tests::EXAMINED.with(|examined| examined.set(examined.get() + _bytes as u64));
}

#[cfg(test)]
pub(super) mod tests {
    use super::{blanks, line_feed, plain_text};
    use alloc::vec;
    use core::cell::Cell;
    use proptest::prelude::{any, proptest};

    std::thread_local! {
        /// Bytes examined by this test's thread so far.
        pub(in crate::frame) static EXAMINED: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn the_first_line_feed_is_found_wherever_it_stands() {
        for len in 0..100 {
            for at in 0..len {
                let mut bytes = vec![b'x'; len];
                bytes[at] = b'\n';
                // A later line feed must not matter, nor a byte that a borrow could take for one.
                if at + 1 < len {
                    bytes[at + 1] = 0x0b;
                    bytes[len - 1] = b'\n';
                }
                assert_eq!(line_feed(&bytes), Some(at), "{at} of {len}");
            }
            assert_eq!(line_feed(&vec![0x0b; len]), None);
        }
    }

    proptest! {
        #[test]
        fn the_fast_search_agrees_with_the_naive_one(bytes in proptest::collection::vec(8..12_u8, 0..200)) {
            assert_eq!(line_feed(&bytes), bytes.iter().position(|&byte| byte == b'\n'));
        }

        #[test]
        fn the_fast_search_agrees_with_the_naive_one_on_any_bytes(bytes: std::vec::Vec<u8>, at in any::<usize>()) {
            let bytes = &bytes[at % (bytes.len() + 1)..];
            assert_eq!(line_feed(bytes), bytes.iter().position(|&byte| byte == b'\n'));
        }

        #[test]
        fn text_ends_where_the_naive_search_says(
            bytes in proptest::collection::vec(proptest::sample::select(&b"\"\\#]\x21\x5dx\xdc\xa2"[..]), 0..20),
            gap in 0..70_usize,
        ) {
            let bytes = [vec![b'x'; gap], bytes].concat();
            let naive = bytes.iter().position(|&byte| byte == b'"' || byte == b'\\');
            assert_eq!(plain_text(&bytes), naive.unwrap_or(bytes.len()));
        }
    }

    #[test]
    fn only_the_four_blanks_of_json_are_blank() {
        assert_eq!(blanks(b" \t\r\n\x0b"), 4);
        assert_eq!(blanks(b"\0 "), 0);
        assert_eq!(blanks(b"\xC2\xA0"), 0);
        assert_eq!(blanks(b""), 0);
    }
}
