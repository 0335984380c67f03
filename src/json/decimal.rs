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
    /// exponent does not fit an `i128`: such a number, unless it is zero, equals only its own
    /// spelling.
    point: Option<i128>,
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
            .and_then(|e| e.checked_add(whole.len() as i128))
            .and_then(|e| e.checked_sub(leading_zeros as i128));
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

    /// The value, if it is a whole number that fits a `u64`.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        let mut digits = self.digits();
        let Some(first) = digits.next() else {
            return Some(0);
        };
        let point = self.point.filter(|point| (1..=20).contains(point))?;
        let mut value = u64::from(first - b'0');
        for _ in 1..point {
            let digit = digits.next().map_or(0, |b| b - b'0');
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        }
        let is_whole = digits.next().is_none() && !self.negative;
        is_whole.then_some(value)
    }
}

/// Reads an exponent such as `+05`; an absent exponent is 0, and one that does not fit an `i128` is
/// `None`.
fn read_exponent(text: &[u8]) -> Option<i128> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut value: i128 = 0;
    for byte in digits {
        value = value
            .checked_mul(10)?
            .checked_add(i128::from(byte.wrapping_sub(b'0')))?;
    }
    Some(if negative { -value } else { value })
}
