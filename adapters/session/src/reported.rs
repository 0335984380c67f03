//! The request that a report is about: what was asked, under which id, and how long ago it began.

use std::fmt;
use std::time::Duration;

use antiphon::OwnedId;

/// The request that a report is about.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReportedRequest {
    /// The method asked for.
    pub method: String,
    /// The request's id as the peer wrote it.
    pub id: OwnedId,
    /// How long the service has had it, in steps of some milliseconds; zero if it never had it.
    pub duration: Duration,
}

impl fmt::Display for ReportedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.duration.as_millis();
        write!(f, "{} (id {}) after {millis} ms", self.method, self.id)
    }
}

/// The longest method that is kept without an allocation, in bytes.
const INLINE: usize = 30;

/// A method's name, kept beside the right to answer it for a report that is seldom made.
#[derive(Clone, Debug)]
pub(crate) enum MethodName {
    /// As many bytes of it as are said.
    Short(u8, [u8; INLINE]),
    Long(Box<str>),
}

impl MethodName {
    #[inline]
    pub(crate) fn new(name: &str) -> Self {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..name.len()) {
            Some(place) => {
                place.copy_from_slice(name.as_bytes());
                // At most `INLINE`.
                Self::Short(name.len() as u8, bytes)
            }
            None => Self::Long(name.into()),
        }
    }

    pub(crate) fn into_string(self) -> String {
        match self {
            Self::Short(len, bytes) => {
                String::from_utf8_lossy(&bytes[..usize::from(len)]).into_owned()
            }
            Self::Long(name) => name.into_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MethodName;

    #[test]
    fn a_name_of_any_length_comes_out_as_it_was() {
        for len in 0..70 {
            let name: String = "äb".chars().cycle().take(len).collect();
            assert_eq!(MethodName::new(&name).into_string(), name);
        }
    }
}
