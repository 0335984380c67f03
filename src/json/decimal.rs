//! The exact value of a number, to compare two spellings of it, not to calculate.
//!
//! Numbers are not expanded or converted to floating point, so a short text with a huge exponent
//! costs no more than its length.

/// The exact value of a JSON number, read off its text without expanding anything:
/// `0.d₁d₂d₃… × 10^point`, where the digits have no zero at either end.
pub(crate) struct Decimal<'a> {
    text: &'a [u8],
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// The position of the decimal point, counted from the first significant digit. `None` when the
    /// exponent does not fit an `i64`: such a number, unless it is zero, equals only its own
    /// spelling.
    point: Option<i64>,
}

impl<'a> Decimal<'a> {
    pub(crate) fn read(text: &'a [u8]) -> Self {
        let (negative, unsigned) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(at) => (&unsigned[..at], &unsigned[at + 1..]),
            None => (unsigned, &unsigned[..0]),
        };
        let (whole, fraction) = match mantissa.iter().position(|&b| b == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &mantissa[..0]),
        };
        let leading_zeros = whole
            .iter()
            .chain(fraction)
            .take_while(|&&b| b == b'0')
            .count();
        let point = read_exponent(exponent)
            .and_then(|e| e.checked_add(whole.len() as i64))
            .and_then(|e| e.checked_sub(leading_zeros as i64));
        Self {
            text,
            negative,
            whole,
            fraction,
            point,
        }
    }

    /// The digits without the zeros at either end; empty for zero.
    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        let all = || self.whole.iter().chain(self.fraction).copied();
        let first = all().take_while(|&b| b == b'0').count();
        let last = self.fraction.iter().rev().chain(self.whole.iter().rev());
        let trailing = last.take_while(|&&b| b == b'0').count();
        let end = (self.whole.len() + self.fraction.len()).saturating_sub(trailing);
        all().take(end).skip(first)
    }

    /// The value, if it is a whole number of at most 128 bits: whether it has a minus, and its size
    /// without it.
    pub(crate) fn whole(&self) -> Option<(bool, u128)> {
        let (mut size, mut places) = (0_u128, 0_i64);
        for digit in self.digits() {
            size = size
                .checked_mul(10)?
                .checked_add(u128::from(digit - b'0'))?;
            places += 1;
        }
        if size > 0 {
            // After thirty-nine steps at most it does not fit any more.
            let zeros = self
                .point?
                .checked_sub(places)
                .filter(|zeros| *zeros >= 0)?;
            for _ in 0..zeros {
                size = size.checked_mul(10)?;
            }
        }
        Some((self.negative, size))
    }

    /// Whether the values are equal.
    pub(crate) fn same(&self, other: &Decimal<'_>) -> bool {
        if self.digits().next().is_none() || other.digits().next().is_none() {
            return self.digits().next().is_none() && other.digits().next().is_none();
        }
        match (self.point, other.point) {
            (Some(ours), Some(theirs)) => {
                self.negative == other.negative
                    && ours == theirs
                    && self.digits().eq(other.digits())
            }
            _ => self.text == other.text,
        }
    }

    /// Passes bytes to `push`, the same bytes for equal values, to be hashed or compared.
    pub(crate) fn feed(&self, push: &mut dyn FnMut(u8)) {
        if self.digits().next().is_none() {
            return push(b'0');
        }
        let Some(point) = self.point else {
            return self.text.iter().copied().for_each(push);
        };
        push(if self.negative { b'-' } else { b'+' });
        self.digits().for_each(&mut *push);
        push(b'e');
        point.to_le_bytes().into_iter().for_each(push);
    }
}

/// Reads a JSON number, if its exact value is a whole number that fits a `u64`.
pub(crate) fn to_u64(text: &[u8]) -> Option<u64> {
    let (is_negative, size) = whole_number(text)?;
    (size == 0 || !is_negative).then_some(size)
}

/// Reads a JSON number whose exact value is a whole number: whether it has a minus, and its size
/// without it, if that fits a `u64`.
pub(crate) fn whole_number(text: &[u8]) -> Option<(bool, u64)> {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    // The digits so far are `number * 10^zeros`; zeros count once another digit follows them.
    let (mut number, mut zeros) = (0_u64, 0_i64);
    let (mut is_fraction, mut shift) = (false, 0_i64);
    for (at, byte) in unsigned.iter().enumerate() {
        match byte {
            b'.' => is_fraction = true,
            b'e' | b'E' => {
                // With an exponent that does not fit, no number is whole and fits, except zero.
                let exponent = read_exponent(&unsigned[at + 1..]);
                shift = shift.saturating_add(exponent.unwrap_or(i64::MAX));
                break;
            }
            digit => {
                shift -= i64::from(is_fraction);
                zeros += 1;
                if *digit != b'0' {
                    number = scaled(number, zeros)?.checked_add(u64::from(digit - b'0'))?;
                    zeros = 0;
                }
            }
        }
    }
    let size = scaled(number, shift.saturating_add(zeros))?;
    Some((unsigned.len() < text.len(), size))
}

/// Returns `number * 10^zeros`, if that is a whole number that fits; the last digit of `number` is not zero,
/// unless it is the only one.
fn scaled(mut number: u64, zeros: i64) -> Option<u64> {
    if number == 0 {
        return Some(0);
    }
    if zeros < 0 {
        return None;
    }
    // After twenty steps at most it does not fit any more.
    for _ in 0..zeros {
        number = number.checked_mul(10)?;
    }
    Some(number)
}

/// Reads an exponent such as `+05`; an absent exponent is 0, and one that does not fit an `i64` is
/// `None`.
fn read_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut value: i64 = 0;
    for byte in digits {
        value = value
            .checked_mul(10)?
            .checked_add(i64::from(byte.wrapping_sub(b'0')))?;
    }
    Some(if negative { -value } else { value })
}
