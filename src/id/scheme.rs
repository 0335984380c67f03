//! Writes the numbers of our own calls as ids, and reads them back.

use alloc::vec::Vec;

use super::IdScheme;
use super::digits::{MAX_CALL_NUMBER, MAX_SPELLED, read_canonical};
use crate::json::{self, Json, JsonKind, to_u64};
use crate::target::rare;

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
            IdScheme::Custom(make) => out.extend_from_slice(make(number).as_id().text().as_bytes()),
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
            // Such an id is in the table of ids that were chosen.
            IdScheme::Custom(_) => None,
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
