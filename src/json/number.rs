//! Numbers of our own, written as decimal digits.
//!
//! Does not live here: numbers of a peer, which are never read or reprinted. Rules guarded: no
//! allocation; integers without the machinery of `core::fmt`; floats with the shortest digits
//! that read back the same, laid out exactly as serde_json lays them out.

use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::ops::RangeInclusive;

use crate::target::SMALL;

/// The pairs `00` to `99`.
const PAIRS: [[u8; 2]; 100] = pairs();

const fn pairs() -> [[u8; 2]; 100] {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
}

/// Writes an unsigned number.
#[inline]
pub(crate) fn write_u64(out: &mut Vec<u8>, n: u64) {
    match n {
        // What is short is copied at a fixed size.
        0..10 => out.push(b'0' + n as u8),
        10..100 if !SMALL => out.extend_from_slice(&PAIRS[n as usize]),
        _ => write_long_u64(out, n),
    }
}

fn write_long_u64(out: &mut Vec<u8>, n: u64) {
    let mut digits = [0u8; 20];
    let start = if SMALL {
        digits_one_by_one(&mut digits, n)
    } else {
        digits_by_pairs(&mut digits, n)
    };
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Puts the digits of a number at the end; gives where they begin.
#[inline(always)]
fn digits_by_pairs(digits: &mut [u8; 20], n: u64) -> usize {
    let mut rest = n;
    // 20 digits hold any u64, so `start` never passes 0 and every index below is good.
    let mut start = digits.len();
    while rest >= 100 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest >= 10 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[rest as usize]);
    } else {
        start -= 1;
        digits[start] = b'0' + rest as u8;
    }
    start
}

/// The same in steps that a small machine has an instruction for, and without a table: a library's
/// division of 64 bits is larger than all else that writes numbers.
fn digits_one_by_one(digits: &mut [u8; 20], n: u64) -> usize {
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
    start
}

/// Writes a signed number.
#[inline]
pub(crate) fn write_i64(out: &mut Vec<u8>, n: i64) {
    if n < 0 {
        out.push(b'-');
    }
    write_u64(out, n.unsigned_abs());
}

/// Ten to the nineteenth, the largest power of ten in a `u64`.
const CHUNK: u128 = 10_000_000_000_000_000_000;

pub(super) fn write_u128(out: &mut Vec<u8>, n: u128) {
    let Ok(small) = u64::try_from(n) else {
        // At most three chunks of nineteen digits: this calls itself twice at the most.
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

/// Writes nineteen digits, zeros in front.
fn write_padded(out: &mut Vec<u8>, n: u64) {
    let mut divisor = 1_000_000_000_000_000_000u64;
    while divisor > 0 {
        out.push(b'0' + (n / divisor % 10) as u8);
        divisor /= 10;
    }
}

/// What sets the two sizes of float apart.
struct Format {
    /// Decimal exponents for which serde_json writes no exponent.
    plain: RangeInclusive<i32>,
    /// From so many decimal places on, a power of two that lies halfway between two candidates
    /// reads back from the lower one, too: 5^places ≥ 2^(mantissa bits + 1).
    tie_places: i32,
}

const F64: Format = Format {
    plain: -5..=15,
    tie_places: 24,
};
const F32: Format = Format {
    plain: -6..=12,
    tie_places: 11,
};

/// Writes a finite number; anything else would not be JSON and is the caller's to handle.
pub(super) fn write_f64(out: &mut Vec<u8>, n: f64) {
    let bits = n.to_bits();
    let fraction = bits & (u64::MAX >> 12);
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let odd_power = exponent - 1075 + (fraction | 1 << 52).trailing_zeros() as i32;
    write_float(out, format_args!("{n:e}"), odd_power, fraction == 0, &F64);
}

/// The same for `f32`, whose shortest digits are fewer.
pub(super) fn write_f32(out: &mut Vec<u8>, n: f32) {
    let bits = n.to_bits();
    let fraction = bits & (u32::MAX >> 9);
    let exponent = (bits >> 23 & 0xff) as i32;
    let odd_power = exponent - 150 + (fraction | 1 << 23).trailing_zeros() as i32;
    write_float(out, format_args!("{n:e}"), odd_power, fraction == 0, &F32);
}

/// Takes a float apart that `core` has written as `-d.ddde-x`, and lays it out anew.
///
/// The number is an odd integer times 2^`odd_power`. It lies exactly halfway between two decimals
/// of p places if and only if that power is −(p+1): times 10^p it is an odd number of halves. In
/// that case `core` takes the upper one, serde_json the even one, so an odd last digit steps down.
/// The interval that reads back as a power of two is shorter below, hence the further condition.
/// (Numbers too small to be normal have too many places ever to be halfway.)
fn write_float(
    out: &mut Vec<u8>,
    scientific: fmt::Arguments<'_>,
    odd_power: i32,
    power_of_two: bool,
    format: &Format,
) {
    let mut float = Scientific::default();
    // The writer never fails.
    let _ = float.write_fmt(scientific);
    if float.negative {
        out.push(b'-');
    }
    let exponent = if float.exponent_negative {
        -float.exponent
    } else {
        float.exponent
    };
    let places = float.len as i32 - 1 - exponent;
    let halfway = places >= 0 && odd_power == -(places + 1);
    if halfway && (!power_of_two || places >= format.tie_places) {
        // Digits are odd when their codes are: `0` is 0x30.
        if let Some(last) = float.digits.get_mut(..float.len).and_then(<[u8]>::last_mut) {
            *last &= !1;
        }
    }
    let digits = float.digits.get(..float.len).unwrap_or_default();
    let exponent = if float.exponent_negative {
        -float.exponent
    } else {
        float.exponent
    };
    let (first, others) = digits.split_at(digits.len().min(1));
    if !format.plain.contains(&exponent) {
        out.extend_from_slice(first);
        if !others.is_empty() {
            out.push(b'.');
            out.extend_from_slice(others);
        }
        out.extend_from_slice(if exponent < 0 { b"e" } else { b"e+" });
        write_i64(out, i64::from(exponent));
        return;
    }
    // Plain exponents are small, so these conversions and paddings are, too.
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        push_zeros(out, -exponent as usize - 1);
        out.extend_from_slice(digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        push_zeros(out, whole - digits.len());
        out.extend_from_slice(b".0");
        return;
    }
    let (whole, fraction) = digits.split_at(whole);
    out.extend_from_slice(whole);
    out.push(b'.');
    out.extend_from_slice(fraction);
}

fn push_zeros(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, b'0');
}

/// Receives the pieces in which `core` writes a float, and sorts them.
#[derive(Default)]
struct Scientific {
    negative: bool,
    /// Shortest digits number at most 17.
    digits: [u8; 20],
    len: usize,
    in_exponent: bool,
    exponent_negative: bool,
    exponent: i32,
}

impl Write for Scientific {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        for byte in piece.bytes() {
            match byte {
                b'-' if self.in_exponent => self.exponent_negative = true,
                b'-' => self.negative = true,
                b'e' => self.in_exponent = true,
                b'0'..=b'9' if self.in_exponent => {
                    self.exponent = self.exponent * 10 + i32::from(byte - b'0');
                }
                b'0'..=b'9' => {
                    if let Some(slot) = self.digits.get_mut(self.len) {
                        *slot = byte;
                        self.len += 1;
                    }
                }
                // The point stands behind the first digit always.
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{digits_by_pairs, digits_one_by_one};

    #[test]
    fn digits_one_by_one_are_those_by_pairs() {
        for shift in 0..64 {
            for n in [
                u64::MAX >> shift,
                1 << shift,
                0xfedc_ba98_7654_3210 >> shift,
                shift,
            ] {
                let (mut ours, mut pairs) = ([b' '; 20], [b' '; 20]);
                let start = digits_one_by_one(&mut ours, n);
                assert_eq!(start, digits_by_pairs(&mut pairs, n));
                assert_eq!(ours, pairs, "{n}");
            }
        }
    }
}
