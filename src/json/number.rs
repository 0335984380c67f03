//! Writes our own numbers as decimal digits.
//!
//! A peer's numbers do not come here: they are passed on as text. Integers are written without
//! `core::fmt`. Floats have the shortest digits that are read back as the same number; serde_json
//! writes them. Writing allocates nothing but the output; without the feature `std`, which
//! serde_json's formatter needs, also the text of a float.

use alloc::vec::Vec;

#[cfg(feature = "std")]
use serde_json::ser::{CompactFormatter, Formatter};

/// Writes an unsigned number.
#[inline]
pub(crate) fn write_u64(out: &mut Vec<u8>, n: u64) {
    match n {
        0..10 => out.push(b'0' + n as u8),
        #[cfg(not(any(target_os = "none", antiphon_small)))]
        10..100 => {
            let tens = (n / 10) as u8;
            out.extend_from_slice(&[b'0' + tens, b'0' + (n as u8 - 10 * tens)]);
        }
        _ => write_digits(out, n),
    }
}

/// Writes a number of more than two digits.
#[cfg(not(any(target_os = "none", antiphon_small)))]
#[inline(never)]
fn write_digits(out: &mut Vec<u8>, n: u64) {
    match n {
        0..NINE_DIGITS => write_up_to_eight(out, n as u32),
        _ => write_by_eights(out, n),
    }
}

#[cfg(any(target_os = "none", antiphon_small))]
use write_one_by_one as write_digits;

/// Writes the digits eight at a time.
#[cfg(not(any(target_os = "none", antiphon_small)))]
fn write_by_eights(out: &mut Vec<u8>, n: u64) {
    if n < NINE_DIGITS {
        return write_up_to_eight(out, n as u32);
    }
    write_by_eights(out, n / NINE_DIGITS);
    let digits = eight_digits((n % NINE_DIGITS) as u32);
    out.extend_from_slice(&(digits | ZEROS).to_le_bytes());
}

/// Writes a number below 10⁸, without leading zeros.
#[cfg(not(any(target_os = "none", antiphon_small)))]
fn write_up_to_eight(out: &mut Vec<u8>, n: u32) {
    let (digits, count) = short_digits(n);
    let end = out.len() + count;
    // A fixed number of bytes is copied, and then truncated.
    out.extend_from_slice(&digits.to_le_bytes());
    out.truncate(end);
}

/// Returns the digits of a number below 10⁸ without leading zeros, the first one's byte lowest, and
/// how many there are.
#[inline]
pub(crate) fn short_digits(n: u32) -> (u64, usize) {
    // The length is computed separately from the digits, so that the next byte can be written
    // without waiting for them.
    let longer = [10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
    let count = longer
        .iter()
        .fold(1, |count, &least| count + usize::from(n >= least));
    ((eight_digits(n) | ZEROS) >> (64 - 8 * count), count)
}

/// The first number of more than eight digits.
pub(crate) const NINE_DIGITS: u64 = 100_000_000;

/// `0` in each byte.
const ZEROS: u64 = 0x30 * ONES;

/// One in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Returns the digits of a number below 10⁸, a byte each, the first one's lowest.
///
/// All digits are computed together in one word: the number is split into two halves of four
/// digits, the halves into pairs, the pairs into digits. Dividing by 100 and by 10 is done by
/// multiplying and shifting; the products of neighbours do not overlap.
fn eight_digits(n: u32) -> u64 {
    let halves = u64::from(n / 10_000) | u64::from(n % 10_000) << 32;
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (halves - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (pairs - 10 * tens) << 8
}

/// Writes a number digit by digit, with steps for which a small machine has an instruction, and
/// without a table. A library's division of 64 bits would be larger than all other code that writes
/// numbers.
#[cfg(any(target_os = "none", antiphon_small, test))]
fn write_one_by_one(out: &mut Vec<u8>, n: u64) {
    let mut digits = [0; 20];
    let mut number = n.to_be_bytes();
    let mut start = digits.len();
    for digit in digits.iter_mut().rev() {
        let mut rest = 0;
        for byte in &mut number {
            // The rest is below 10, so the quotient fits a byte.
            let part = rest << 8 | u32::from(*byte);
            *byte = (part / 10) as u8;
            rest = part % 10;
        }
        *digit = b'0' + rest as u8;
        start -= 1;
        if number == [0; 8] {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Writes a signed number.
#[inline]
pub(crate) fn write_i64(out: &mut Vec<u8>, n: i64) {
    match u64::try_from(n) {
        Ok(n) => write_u64(out, n),
        Err(_) => write_negative(out, n.unsigned_abs()),
    }
}

#[inline(never)]
fn write_negative(out: &mut Vec<u8>, n: u64) {
    out.push(b'-');
    write_u64(out, n);
}

/// Ten to the nineteenth, the largest power of ten in a `u64`.
const CHUNK: u128 = 10_000_000_000_000_000_000;

pub(super) fn write_u128(out: &mut Vec<u8>, n: u128) {
    let Ok(small) = u64::try_from(n) else {
        // A number has at most three parts of nineteen digits, so this recurses at most twice.
        write_u128(out, n / CHUNK);
        write_padded(out, (n % CHUNK) as u64);
        return;
    };
    write_u64(out, small);
}

pub(super) fn write_i128(out: &mut Vec<u8>, n: i128) {
    if n < 0 {
        out.push(b'-');
    }
    write_u128(out, n.unsigned_abs());
}

/// Writes nineteen digits, with leading zeros.
fn write_padded(out: &mut Vec<u8>, n: u64) {
    let mut divisor = 1_000_000_000_000_000_000u64;
    while divisor > 0 {
        out.push(b'0' + (n / divisor % 10) as u8);
        divisor /= 10;
    }
}

/// Writes a finite number. The caller handles infinities and not-a-number, which have no JSON form.
pub(super) fn write_f64(out: &mut Vec<u8>, n: f64) {
    // Writing into memory never fails.
    #[cfg(feature = "std")]
    let _ = CompactFormatter.write_f64(out, n);
    #[cfg(not(feature = "std"))]
    out.extend(serde_json::to_string(&n).unwrap_or_default().bytes());
}

/// Writes a finite `f32` as [`write_f64`] writes an `f64`; its shortest digits are fewer.
pub(super) fn write_f32(out: &mut Vec<u8>, n: f32) {
    #[cfg(feature = "std")]
    let _ = CompactFormatter.write_f32(out, n);
    #[cfg(not(feature = "std"))]
    out.extend(serde_json::to_string(&n).unwrap_or_default().bytes());
}

#[cfg(test)]
mod tests {
    use super::{write_one_by_one, write_u64};
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn both_ways_write_digits_as_the_standard_library_does() {
        let shifted = (0..64).flat_map(|shift| {
            let all = [u64::MAX, 1 << 63, 0xfedc_ba98_7654_3210];
            all.map(|n| n >> shift)
        });
        let powers = (0..20).flat_map(|zeros| {
            let power = 10_u64.pow(zeros);
            [power - 1, power, power + 1, power.wrapping_mul(9)]
        });
        for n in shifted.chain(powers).chain(0..20_000) {
            for write in [write_u64, write_one_by_one] {
                let mut out = Vec::from(*b"before");
                write(&mut out, n);
                assert_eq!(out.strip_prefix(b"before"), Some(n.to_string().as_bytes()));
            }
        }
    }
}
