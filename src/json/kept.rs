//! Text that is stored in place if it is short, and in an allocation of its exact size if not.
//!
//! Most ids, results and params are short. An allocation for each of them would be slow, and would
//! need memory besides its content.
//!
//! A short text is valid UTF-8, because it is copied from a `str`. It is still checked each time it
//! is read, which costs little for so few bytes.

use alloc::boxed::Box;
use alloc::string::String;

use super::plain::text_of;

/// A text, which needs no allocation up to `N - 1` bytes. `N` is 128 at most, and a multiple of 8.
#[derive(Clone)]
pub(crate) enum Kept<const N: usize> {
    Short(Short<N>),
    Long(Box<str>),
}

/// A text, zeros after it, and its length in the last byte.
///
/// It is one array of whole words, so it is always moved in pieces at the same positions. A read
/// that overlaps two recent writes would wait until both have reached the cache, which takes longer
/// than to scan a short answer.
#[derive(Clone)]
#[repr(align(8))]
pub(crate) struct Short<const N: usize>([u8; N]);

impl<const N: usize> Short<N> {
    /// Copies the parts into an empty text, one after another, if they are short enough. Returns
    /// whether they are; if not, the text is useless.
    #[inline]
    fn fill<const PARTS: usize>(&mut self, parts: [&str; PARTS]) -> bool {
        const { assert!(N % 8 == 0 && N <= 128) };
        let Self(bytes) = self;
        let mut len = 0;
        for part in parts {
            let rest = &mut bytes[len..N - 1];
            let Some(place) = rest.get_mut(..part.len()) else {
                return false;
            };
            place.copy_from_slice(part.as_bytes());
            len += part.len();
        }
        bytes[N - 1] = u8::try_from(len).unwrap_or_default();
        true
    }

    #[inline]
    fn as_str(&self) -> &str {
        let Self(bytes) = self;
        // The array is examined as a whole, without a loop; zeros and a length below 128 are ASCII
        // too.
        let text = text_of(bytes).unwrap_or_default();
        text.get(..usize::from(bytes[N - 1])).unwrap_or_default()
    }
}

impl<const N: usize> Kept<N> {
    /// An empty text, to be filled.
    pub(crate) const EMPTY: Self = Self::Short(Short([0; N]));

    /// Copies the parts into an empty text, one after another.
    #[inline]
    pub(crate) fn fill<const PARTS: usize>(&mut self, parts: [&str; PARTS]) {
        if let Self::Short(short) = self {
            if short.fill(parts) {
                return;
            }
        }
        let mut text = String::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| text.push_str(part));
        *self = Self::Long(text.into_boxed_str());
    }

    /// Makes a text of the parts, one after another.
    #[inline]
    pub(crate) fn new<const PARTS: usize>(parts: [&str; PARTS]) -> Self {
        let mut kept = Self::EMPTY;
        kept.fill(parts);
        kept
    }

    /// Returns the whole text.
    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Short(short) => short.as_str(),
            Self::Long(text) => text,
        }
    }

    pub(crate) fn into_string(self) -> String {
        match self {
            Self::Short(_) => String::from(self.as_str()),
            Self::Long(text) => text.into_string(),
        }
    }
}

impl<const N: usize> From<String> for Kept<N> {
    fn from(text: String) -> Self {
        if text.len() < N {
            return Self::new([text.as_str()]);
        }
        Self::Long(text.into_boxed_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;
    use alloc::string::String;

    #[test]
    fn what_was_put_in_comes_out_whatever_its_length() {
        for len in 0..300 {
            let text: String = ('a'..='z').cycle().take(len).collect();
            let whole = text + "ä€";
            let kept = Kept::<32>::new([whole.as_str()]);
            assert_eq!(matches!(kept, Kept::Short(_)), whole.len() <= 31);
            assert_eq!(kept.as_str(), whole);
            assert_eq!(kept.clone().into_string(), whole);
            assert_eq!(Kept::<32>::from(whole.clone()).as_str(), whole);
            assert_eq!(Kept::<128>::from(whole.clone()).into_string(), whole);
            let (first, rest) = whole.split_at(len / 3);
            let parts = [first, "", rest];
            assert_eq!(Kept::<32>::new(parts).as_str(), whole);
            assert_eq!(Kept::<128>::new(parts).as_str(), whole);
        }
    }
}
