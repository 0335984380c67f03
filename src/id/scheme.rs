//! Writes the numbers of our own calls as ids, and reads them back.

use alloc::vec::Vec;

use crate::json::{self, Json, JsonKind, to_u64};
use crate::target::rare;

/// The largest call number: 2^53 − 1, the largest integer that every JSON reader keeps exact.
pub(crate) const MAX_CALL_NUMBER: u64 = (1 << 53) - 1;

/// The last number that every scheme can write.
pub(crate) const MAX_SPELLED: u64 = (1 << 48) - 1;

/// How the ids of our own calls are written. Every scheme writes the call number in the id, so a
/// reply's call is found by its number, without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdScheme {
    /// `1`, `2`, `3`, … (the default).
    Sequential,
    /// A fixed text and the counter: `"srv-1"`, `"srv-2"`, … For several clients on one queue. Only
    /// the first 64 bytes of the text are used.
    Prefixed(&'static str),
    /// A version 4 UUID whose last 48 bits are the counter. The driver passes the random part; six
    /// of its bits are replaced by version and variant. At most 2^48 − 1 calls.
    Uuid([u8; 10]),
}

impl IdScheme {
    /// The last number that this scheme can write.
    pub(crate) fn max_number(&self) -> u64 {
        match self {
            IdScheme::Uuid(_) => MAX_SPELLED,
            _ => MAX_CALL_NUMBER,
        }
    }

    /// Writes the id of call `number`.
    #[inline]
    pub(crate) fn write(&self, number: u64, out: &mut Vec<u8>) {
        match self {
            IdScheme::Sequential => json::write_u64(out, number),
            IdScheme::Prefixed(prefix) => {
                json::write_str(out, prefix_used(prefix));
                out.pop();
                json::write_u64(out, number);
                out.push(b'"');
            }
            IdScheme::Uuid(random) => out.extend_from_slice(&uuid_text(random, number)),
        }
    }

    /// Returns the call number of an id; `None` if it has none. A number counts by its value (`7.0`
    /// is `7`); a string must have the characters that this scheme writes, escaped or not.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    pub(crate) fn read(&self, id: Json<'_>) -> Option<u64> {
        match (self, read_canonical(id.as_bytes())) {
            (IdScheme::Sequential, Some(number)) => Some(number),
            _ => {
                rare();
                self.read_slowly(id)
            }
        }
    }

    #[inline(never)]
    fn read_slowly(&self, id: Json<'_>) -> Option<u64> {
        match self {
            IdScheme::Sequential => match id.kind() {
                JsonKind::Number => to_u64(id.as_bytes()),
                _ => None,
            },
            IdScheme::Prefixed(prefix) => {
                let string = id.as_string()?;
                let mut points = string.code_points();
                for expected in prefix_used(prefix).chars() {
                    if points.next()? != u32::from(expected) {
                        return None;
                    }
                }
                let mut digits = [0u8; 16];
                let mut len = 0;
                for point in points {
                    *digits.get_mut(len)? = u8::try_from(point).ok()?;
                    len += 1;
                }
                read_canonical(&digits[..len])
            }
            IdScheme::Uuid(random) => {
                let mut text = [0u8; 36];
                let string = id.as_string()?;
                let mut points = string.code_points();
                for slot in &mut text {
                    *slot = u8::try_from(points.next()?).ok()?;
                }
                if points.next().is_some() {
                    return None;
                }
                let number = text[24..].iter().try_fold(0u64, |number, &byte| {
                    let digit = (byte as char)
                        .to_digit(16)
                        .filter(|_| !byte.is_ascii_uppercase())?;
                    Some(number << 4 | u64::from(digit))
                })?;
                (uuid_text(random, number)[1..37] == text).then_some(number)
            }
        }
    }
}

/// The part of a prefix that is used: at most 64 bytes, cut at a character.
fn prefix_used(prefix: &'static str) -> &'static str {
    let mut end = prefix.len().min(64);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    &prefix[..end]
}

/// Reads `0` or a number without leading zeros, of at most 16 digits: all numbers that a scheme
/// writes.
#[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
pub(super) fn read_canonical(text: &[u8]) -> Option<u64> {
    let (&first, rest) = text.split_first()?;
    let mut number = u64::from(first.wrapping_sub(b'0'));
    if number > 9 || rest.len() > 15 || (number == 0 && !rest.is_empty()) {
        rare();
        return None;
    }
    for &byte in rest {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            rare();
            return None;
        }
        number = number * 10 + digit;
    }
    Some(number)
}

/// Returns the quoted UUID of call `number`: 10 random bytes with version 4 and the RFC variant,
/// then the counter in the last 6 bytes.
fn uuid_text(random: &[u8; 10], number: u64) -> [u8; 38] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = [0u8; 16];
    bytes[..10].copy_from_slice(random);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes[10..].copy_from_slice(&number.to_be_bytes()[2..]);
    let mut text = [b'"'; 38];
    let mut at = 1;
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text[at] = b'-';
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    text
}
