//! Numbers of calls: their ends, and how they are read.

use crate::target::rare;

/// The largest call number: 2^53 − 1, the largest integer that every JSON reader keeps exact.
pub(crate) const MAX_CALL_NUMBER: u64 = (1 << 53) - 1;

/// The last number that every scheme can write.
pub(crate) const MAX_SPELLED: u64 = (1 << 48) - 1;

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
