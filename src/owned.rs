//! Requests, notifications and outcomes that own their text, and so outlive their input.
//!
//! A copy takes one allocation at most, and none if the text is short. Moving a copy costs time
//! too, so the types are small, and `put_into` writes a copy where it is to stay.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use crate::error_object::OwnedError;
use crate::event::{
    INVALID_ANSWER, InvalidReason, InvalidResponse, NotificationRef, Origin, Outcome, RequestRef,
};
use crate::id::{Id, ReplyToken, RequestKey};
use crate::json::{Json, Kept, OwnedJson, TextFlags};

/// A [`RequestRef`] that owns its parts, in one allocation at most.
#[derive(Debug)]
pub struct OwnedRequest {
    message: OwnedNotification,
    token: ReplyToken,
}

impl OwnedRequest {
    /// A request that is not filled in yet: all its fields are replaced at once.
    const BLANK: Self = Self {
        message: OwnedNotification {
            parts: OwnedParts::BLANK,
            origin: Origin {
                bytes: 0,
                batch_index: None,
            },
        },
        token: ReplyToken {
            key: RequestKey {
                connection: 0,
                slot: 0,
                generation: 0,
            },
        },
    };

    /// The method.
    pub fn method(&self) -> &str {
        self.message.method()
    }

    /// The params, if there are any.
    pub fn params(&self) -> Option<Json<'_>> {
        self.message.params()
    }

    /// The request's id as the peer wrote it.
    pub fn id(&self) -> Id<'_> {
        Id::new(Json::from_scanned(self.message.parts.id(), TextFlags::NONE)).unwrap_or(Id::NULL)
    }

    /// The size of the request, and its position in a batch.
    pub fn origin(&self) -> Origin {
        self.message.origin
    }

    /// Identifies the request, to be compared with a cancel.
    pub fn key(&self) -> RequestKey {
        self.token.key()
    }

    /// Returns the right to answer.
    pub fn into_token(self) -> ReplyToken {
        self.token
    }

    /// Splits it into the right to answer, and the method and params.
    pub fn split(self) -> (ReplyToken, OwnedNotification) {
        (self.token, self.message)
    }
}

impl RequestRef<'_> {
    /// Copies the request in one allocation at most, to pass it to another thread or task.
    pub fn into_owned(self) -> OwnedRequest {
        let mut parts = OwnedParts::BLANK;
        parts.fill(&self.method, self.params, Some(self.id));
        let message = OwnedNotification {
            parts,
            origin: self.origin,
        };
        OwnedRequest {
            message,
            token: self.token,
        }
    }

    /// Copies the request directly into `place`, as [`into_owned`](Self::into_owned) does but
    /// without a move. Use it to store many requests.
    #[inline]
    pub fn put_into(self, place: &mut Option<OwnedRequest>) {
        // The copy is made in place: a request that is filled elsewhere and then moved is
        // written twice.
        *place = None;
        let owned = place.get_or_insert(OwnedRequest::BLANK);
        (owned.token, owned.message.origin) = (self.token, self.origin);
        let parts = &mut owned.message.parts;
        parts.fill(&self.method, self.params, Some(self.id));
    }
}

/// A [`NotificationRef`] that owns its parts, in one allocation at most.
#[derive(Clone, Debug)]
pub struct OwnedNotification {
    parts: OwnedParts,
    origin: Origin,
}

impl OwnedNotification {
    /// The method.
    pub fn method(&self) -> &str {
        self.parts.method()
    }

    /// The params, if there are any.
    pub fn params(&self) -> Option<Json<'_>> {
        self.parts.params()
    }

    /// The size of the notification, and its position in a batch.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns a copy with another method.
    #[must_use]
    pub fn with_method(&self, method: &str) -> Self {
        let mut parts = OwnedParts::BLANK;
        parts.fill(method, self.params(), None);
        Self {
            parts,
            origin: self.origin,
        }
    }
}

impl NotificationRef<'_> {
    /// Copies the notification in one allocation at most, to pass it to another thread or task.
    pub fn into_owned(self) -> OwnedNotification {
        let mut parts = OwnedParts::BLANK;
        parts.fill(&self.method, self.params, None);
        OwnedNotification {
            parts,
            origin: self.origin,
        }
    }
}

/// The most bytes of an invalid answer that are kept.
const MAX_INVALID_TEXT_BYTES: usize = 256;

/// Why an answer is not a valid response, and its first bytes.
///
/// `Debug` prints how many bytes are kept, not which: they may be secrets. `Display` prints them.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedInvalid {
    reason: InvalidReason,
    text: Box<str>,
}

impl OwnedInvalid {
    fn of(invalid: &InvalidResponse<'_>) -> Self {
        Self {
            reason: invalid.reason,
            text: first_bytes(invalid.text.as_bytes(), MAX_INVALID_TEXT_BYTES).into_boxed_str(),
        }
    }

    /// The rule that the answer breaks.
    pub fn reason(&self) -> InvalidReason {
        self.reason
    }

    /// The answer, or its first 256 bytes, without blanks around it. Line breaks and other control
    /// characters are replaced by blanks. Empty if the answer was not kept.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Makes a reason without a text, for an answer that was not kept.
impl From<InvalidReason> for OwnedInvalid {
    fn from(reason: InvalidReason) -> Self {
        Self {
            reason,
            text: Box::default(),
        }
    }
}

impl PartialEq<InvalidReason> for OwnedInvalid {
    fn eq(&self, other: &InvalidReason) -> bool {
        self.reason == *other
    }
}

impl fmt::Debug for OwnedInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedInvalid")
            .field("reason", &self.reason)
            .field("bytes", &self.text.len())
            .finish()
    }
}

impl fmt::Display for OwnedInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.text {
            "" => self.reason.fmt(f),
            text => write!(f, "{}: {text}", self.reason),
        }
    }
}

/// Returns the first bytes of a peer's text, on one line, for the text of an error.
pub(crate) fn first_bytes(said: &[u8], max_bytes: usize) -> String {
    let cut = said.get(..max_bytes).unwrap_or(said);
    // A character that is cut in two is left out.
    let whole = match core::str::from_utf8(cut) {
        Err(error) if error.error_len().is_none() => {
            cut.get(..error.valid_up_to()).unwrap_or_default()
        }
        _ => cut,
    };
    let text = String::from_utf8_lossy(whole);
    let shown = text.trim().chars();
    shown
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// An [`Outcome`] that owns its parts. `Debug` prints the words of `Display`: what kind of outcome it is,
/// and nothing of a result, which may be a secret.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum OwnedOutcome {
    /// See [`Outcome::Ok`].
    Ok(OwnedJson),
    /// See [`Outcome::Err`].
    Err(OwnedError),
    /// See [`Outcome::Invalid`].
    Invalid(OwnedInvalid),
    /// See [`Outcome::TimedOut`].
    TimedOut,
    /// See [`Outcome::Missing`].
    Missing,
    /// See [`Outcome::Unsent`].
    Unsent,
    /// See [`Outcome::Aborted`].
    Aborted,
}

impl OwnedOutcome {
    /// Borrows the outcome, for code that reads an [`Outcome`].
    ///
    /// ```
    /// use antiphon::{Outcome, OwnedOutcome};
    /// let owned = Outcome::TimedOut.into_owned();
    /// assert!(matches!(owned.as_outcome(), Ok(Outcome::TimedOut)));
    /// ```
    ///
    /// # Errors
    /// The answer is invalid. Only its first bytes were kept, so it cannot be borrowed as a whole.
    pub fn as_outcome(&self) -> Result<Outcome<'_>, &OwnedInvalid> {
        Ok(match self {
            Self::Ok(result) => Outcome::Ok(result.as_json()),
            Self::Err(error) => Outcome::Err(error.as_error()),
            Self::Invalid(invalid) => return Err(invalid),
            Self::TimedOut => Outcome::TimedOut,
            Self::Missing => Outcome::Missing,
            Self::Unsent => Outcome::Unsent,
            Self::Aborted => Outcome::Aborted,
        })
    }
}

impl fmt::Debug for OwnedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedOutcome({self})")
    }
}

impl fmt::Display for OwnedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_outcome() {
            Ok(outcome) => outcome.fmt(f),
            Err(invalid) => write!(f, "{INVALID_ANSWER}{invalid}"),
        }
    }
}

impl Outcome<'_> {
    /// Copies the outcome directly into `place`, as [`into_owned`](Self::into_owned) does but
    /// without a move. Use it to store many outcomes.
    #[inline]
    pub fn put_into(self, place: &mut Option<OwnedOutcome>) {
        match self {
            Outcome::Ok(result) => {
                let empty = OwnedOutcome::Ok(OwnedJson::EMPTY);
                if let OwnedOutcome::Ok(owned) = place.insert(empty) {
                    owned.fill(result);
                }
            }
            other => *place = Some(other.into_owned()),
        }
    }

    /// Copies the outcome, so that it outlives the message it came in.
    #[inline]
    pub fn into_owned(self) -> OwnedOutcome {
        match self {
            Outcome::Ok(result) => OwnedOutcome::Ok(result.to_owned_json()),
            Outcome::Err(error) => OwnedOutcome::Err(error.into_owned()),
            Outcome::Invalid(invalid) => OwnedOutcome::Invalid(OwnedInvalid::of(&invalid)),
            Outcome::TimedOut => OwnedOutcome::TimedOut,
            Outcome::Missing => OwnedOutcome::Missing,
            Outcome::Unsent => OwnedOutcome::Unsent,
            Outcome::Aborted => OwnedOutcome::Aborted,
        }
    }
}

/// Method, params and id, one after another: in place up to 39 bytes, otherwise in one allocation.
///
/// ```text
/// │ method │ params │ id │
/// 0        a        b    end      a: method_end, b: params_end; a = b without params
/// ```
#[derive(Clone)]
struct OwnedParts {
    text: Kept<40>,
    method_end: usize,
    params_end: usize,
    has_params: bool,
    flags: TextFlags,
}

impl OwnedParts {
    /// Parts without text, which is [filled in](Self::fill) in place.
    const BLANK: Self = Self {
        text: Kept::EMPTY,
        method_end: 0,
        params_end: 0,
        has_params: false,
        flags: TextFlags::NONE,
    };

    /// Fills blank parts.
    #[inline]
    fn fill(&mut self, method: &str, params: Option<Json<'_>>, id: Option<Id<'_>>) {
        self.has_params = params.is_some();
        self.flags = params.map_or(TextFlags::NONE, Json::flags);
        let params = params.map_or("", Json::as_str);
        self.method_end = method.len();
        self.params_end = method.len() + params.len();
        let id = id.map_or("", |id| id.text());
        self.text.fill([method, params, id]);
    }

    fn method(&self) -> &str {
        &self.text.as_str()[..self.method_end]
    }

    fn params(&self) -> Option<Json<'_>> {
        let text = &self.text.as_str()[self.method_end..self.params_end];
        self.has_params
            .then(|| Json::from_scanned(text, self.flags))
    }

    fn id(&self) -> &str {
        &self.text.as_str()[self.params_end..]
    }
}

impl fmt::Debug for OwnedParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("method", &self.method())
            .field("params", &self.params())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::first_bytes;

    #[test]
    fn the_first_bytes_of_what_was_said_are_text_on_one_line() {
        assert_eq!(first_bytes(b" a\r\nb ", 9), "a  b");
        assert_eq!(first_bytes("a\u{e9}b".as_bytes(), 3), "a\u{e9}");
        assert_eq!(first_bytes("a\u{e9}b".as_bytes(), 2), "a");
        assert_eq!(first_bytes(b"a\xffb", 9), "a\u{fffd}b");
    }
}
