//! Text that is kept: in place if it is short, in an allocation of its size if not.
//!
//! Most ids, results and params are shorter than the memory that an allocation costs beside its
//! content, and a burst of them is what an allocator is slowest at.
//!
//! The rule guarded here: a short text is whole UTF-8, because it is copied from a `str`; it is
//! still judged again each time it is looked at, which for so few bytes costs less than it sounds.

use alloc::boxed::Box;
use alloc::string::String;
use core::ops::Range;

use super::plain::text_of;

/// A text; up to `N` bytes of it need no allocation. `N` is 255 at most.
#[derive(Clone)]
pub(crate) enum Kept<const N: usize> {
    Short { len: u8, bytes: [u8; N] },
    Long(Box<str>),
}

impl<const N: usize> Kept<N> {
    #[inline]
    pub(crate) fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(text.as_bytes());
                Self::Short { len, bytes }
            }
            _ => Self::Long(text.into()),
        }
    }

    /// Texts behind each other.
    pub(crate) fn of_parts(parts: [&str; 3]) -> Self {
        let len = parts.iter().map(|part| part.len()).sum();
        let Some(short) = u8::try_from(len).ok().filter(|_| len <= N) else {
            let mut text = String::with_capacity(len);
            parts.iter().for_each(|part| text.push_str(part));
            return Self::Long(text.into_boxed_str());
        };
        let mut bytes = [0; N];
        let mut rest = bytes.as_mut_slice();
        for part in parts {
            // Their sum fits, so each does.
            let Some((place, behind)) = rest.split_at_mut_checked(part.len()) else {
                break;
            };
            place.copy_from_slice(part.as_bytes());
            rest = behind;
        }
        Self::Short { len: short, bytes }
    }

    /// All of it.
    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Short { len, bytes } => short_text(bytes, 0..usize::from(*len)),
            Self::Long(text) => text,
        }
    }

    pub(crate) fn into_string(self) -> String {
        match self {
            Self::Short { .. } => String::from(self.as_str()),
            Self::Long(text) => text.into_string(),
        }
    }
}

impl<const N: usize> From<String> for Kept<N> {
    fn from(text: String) -> Self {
        if text.len() <= N {
            return Self::new(&text);
        }
        Self::Long(text.into_boxed_str())
    }
}

/// A part of `bytes`, into which texts were copied and nothing else: they are UTF-8 up to where the
/// part ends. Judged as a whole, for that takes no loop.
#[inline]
pub(crate) fn short_text<const N: usize>(bytes: &[u8; N], part: Range<usize>) -> &str {
    let text = text_of(bytes).ok().and_then(|text| text.get(part.clone()));
    let part = || core::str::from_utf8(bytes.get(part).unwrap_or_default());
    text.unwrap_or_else(|| part().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{Kept, short_text};
    use alloc::string::String;

    #[test]
    fn what_was_put_in_comes_out_whatever_its_length() {
        for len in 0..300 {
            let text: String = ('a'..='z').cycle().take(len).collect();
            let whole = text + "ä€";
            let kept = Kept::<30>::new(&whole);
            assert_eq!(matches!(kept, Kept::Short { .. }), whole.len() <= 30);
            assert_eq!(kept.as_str(), whole);
            assert_eq!(kept.clone().into_string(), whole);
            assert_eq!(Kept::<30>::from(whole.clone()).as_str(), whole);
            assert_eq!(Kept::<255>::from(whole.clone()).into_string(), whole);
            let (first, rest) = whole.split_at(len / 3);
            let parts = [first, "", rest];
            assert_eq!(Kept::<30>::of_parts(parts).as_str(), whole);
            assert_eq!(Kept::<255>::of_parts(parts).as_str(), whole);
        }
    }

    #[test]
    fn a_part_is_found_beside_others_of_any_kind() {
        let mut bytes = [0; 20];
        bytes[..12].copy_from_slice("plainäß€".as_bytes());
        assert_eq!(short_text(&bytes, 0..5), "plain");
        assert_eq!(short_text(&bytes, 5..9), "äß");
        assert_eq!(short_text(&bytes, 9..12), "€");
        bytes[5..].fill(b'.');
        assert_eq!(short_text(&bytes, 3..6), "in.");
        assert_eq!(short_text(&bytes, 20..20), "");
    }
}
