//! Ids. The peer's ids are kept as the bytes received. Our own ids are numbers, written in one of
//! three ways (`scheme`), or come from a generator of the program. The handles [`CallId`], [`RequestKey`] and [`ReplyToken`] identify open
//! calls and requests.
//!
//! An id is echoed byte for byte, and compared by type and value: strings after unescaping, numbers
//! by exact decimal value, never as floating point. So `1`, `1.0` and `1e0` are one id, and `"1"`
//! is another.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::json::{self, Decimal, Json, JsonKind, OwnedJson, TextFlags, to_u64};

mod digits;
mod scheme;

#[cfg(test)]
pub(crate) use digits::MAX_CALL_NUMBER;
pub(crate) use digits::MAX_SPELLED;
use digits::read_canonical;

/// An id as it is written in a message: null, a string, a number, or a boolean (in 1.0, and in 2.0
/// if the dialect allows it).
///
/// Two ids are equal if they have the same type and the same value, however they are written.
/// [`Id::text`] returns the id as it was written.
///
/// ```
/// use antiphon::{Id, Json};
/// let one = Id::new(Json::parse_str("1")?).unwrap();
/// let one_point_zero = Id::new(Json::parse_str("1.0")?).unwrap();
/// let text = Id::new(Json::parse_str("\"1\"")?).unwrap();
/// assert_eq!(one, one_point_zero);
/// assert_ne!(one, text);
/// assert_eq!(one_point_zero.text(), "1.0");
/// # Ok::<(), antiphon::SyntaxError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Id<'a> {
    json: Json<'a>,
}

impl<'a> Id<'a> {
    /// The null id.
    pub const NULL: Id<'static> = Id { json: Json::NULL };

    /// Reads a JSON scalar as an id; returns `None` for an object or an array.
    pub fn new(json: Json<'a>) -> Option<Self> {
        match json.kind() {
            JsonKind::Object | JsonKind::Array => None,
            _ => Some(Self { json }),
        }
    }

    /// Makes an id of a value that is known to be a scalar.
    #[inline]
    pub(crate) fn of_scalar(json: Json<'a>) -> Self {
        Self { json }
    }

    /// The id exactly as it was written, quotes included.
    pub fn text(&self) -> &'a str {
        self.json.as_str()
    }

    /// The id as JSON.
    pub fn json(&self) -> Json<'a> {
        self.json
    }

    /// The JSON type of the id.
    pub fn kind(&self) -> JsonKind {
        self.json.kind()
    }

    /// Whether this is the null id.
    pub fn is_null(&self) -> bool {
        self.json.is_null()
    }

    /// The value of an id that is a whole number from 0 to 2^64 − 1, whatever its spelling.
    pub fn as_u64(&self) -> Option<u64> {
        match self.kind() {
            JsonKind::Number => to_u64(self.json.as_bytes()),
            _ => None,
        }
    }

    /// The unescaped text of an id that is a string; `None` for other types, and for a string that
    /// has a lone surrogate escape.
    pub fn as_text(&self) -> Option<Cow<'a, str>> {
        self.json.as_string().and_then(|string| string.to_cow())
    }

    /// Copies the id, so that it outlives its message.
    pub fn into_owned(self) -> OwnedId {
        OwnedId {
            json: self.json.to_owned_json(),
        }
    }

    /// Returns a hash of type and value: equal ids have equal hashes. Ids with equal hashes may
    /// differ.
    pub(crate) fn value_hash(&self) -> u32 {
        if let Some(number) = read_canonical(self.json.as_bytes()) {
            return hash_of_number(number);
        }
        let mut hash = HashOfBytes::default();
        let number = self.feed(&mut |bytes| hash.push(bytes));
        number.map_or_else(|| hash.finish(), hash_of_number)
    }

    /// Writes type and value in a form in which two ids have the same bytes exactly if they are
    /// equal. Returns the id's [`value_hash`](Self::value_hash).
    pub(crate) fn normal_form(&self, out: &mut Vec<u8>) -> u32 {
        let mut hash = HashOfBytes::default();
        let number = self.feed(&mut |bytes| {
            hash.push(bytes);
            out.extend_from_slice(bytes);
        });
        number.map_or_else(|| hash.finish(), hash_of_number)
    }

    /// Whether two ids have the same text if quotes are left out, as `7` and `"7"` have. For
    /// `cancel_match = ExactThenText`.
    pub(crate) fn same_text(&self, other: &Id<'_>) -> bool {
        self.bare() == other.bare()
    }

    /// The text without its quotes, if it has quotes.
    pub(crate) fn bare(&self) -> &'a [u8] {
        bare(self.json.as_bytes())
    }

    /// Passes the bytes of the normal form to `push`. Returns the value of a number that can be
    /// written with at most 16 digits.
    fn feed(&self, push: &mut dyn FnMut(&[u8])) -> Option<u64> {
        match self.kind() {
            JsonKind::String => {
                match self.json.as_string() {
                    Some(string) if string.has_escapes() => {
                        string
                            .code_points()
                            .for_each(|point| push_utf8(point, push));
                    }
                    Some(string) => push(string.raw().as_bytes()),
                    None => {}
                }
                push(b"\"");
                None
            }
            JsonKind::Number => {
                let text = self.json.as_bytes();
                Decimal::read(text).feed(&mut |byte| push(&[byte]));
                to_u64(text).filter(|&number| number < DIGITS_16)
            }
            _ => {
                push(self.json.as_bytes());
                None
            }
        }
    }
}

/// Passes a code point to `push` as UTF-8. A lone surrogate is passed as the three bytes that UTF-8
/// would use for it.
fn push_utf8(point: u32, push: &mut dyn FnMut(&[u8])) {
    match char::from_u32(point) {
        Some(char) => push(char.encode_utf8(&mut [0; 4]).as_bytes()),
        None => push(&[
            0xe0 | (point >> 12) as u8,
            0x80 | (point >> 6 & 0x3f) as u8,
            0x80 | (point & 0x3f) as u8,
        ]),
    }
}

/// The first number of 17 digits: [`read_canonical`] reads all below it.
const DIGITS_16: u64 = 10_000_000_000_000_000;

/// Returns a hash that spreads numbers, which are often consecutive, over all bits. The factor is
/// 2^64 divided by the golden ratio.
fn hash_of_number(number: u64) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)) as u32
}

/// A hash of bytes, eight at a time; it does not depend on how the bytes are divided into pieces.
/// It is fast, and good enough to tell most different ids apart without comparing them.
#[derive(Default)]
struct HashOfBytes {
    hash: u64,
    /// The last bytes, which are fewer than eight and not mixed into `hash` yet.
    word: u64,
    /// How many bytes were pushed.
    len: u32,
}

impl HashOfBytes {
    fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.len % 8 == 0 {
            while let Some((eight, tail)) = rest.split_first_chunk() {
                self.mix(u64::from_le_bytes(*eight));
                self.len = self.len.wrapping_add(8);
                rest = tail;
            }
        }
        for &byte in rest {
            self.word |= u64::from(byte) << (8 * (self.len % 8));
            self.len = self.len.wrapping_add(1);
            if self.len % 8 == 0 {
                let word = core::mem::take(&mut self.word);
                self.mix(word);
            }
        }
    }

    /// Mixes eight bytes into the hash, by the factor of [`hash_of_number`].
    fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(32) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(mut self) -> u32 {
        // The last word has at most seven bytes, so its highest byte is free for the length.
        self.mix(self.word ^ u64::from(self.len) << 56);
        hash_of_number(self.hash)
    }
}

/// Returns the text between the quotes of a string, and any other text unchanged.
fn bare(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
        .unwrap_or(text)
}

impl PartialEq for Id<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.json.as_bytes() == other.json.as_bytes() {
            return true;
        }
        match (self.kind(), other.kind()) {
            (JsonKind::Number, JsonKind::Number) => {
                Decimal::read(self.json.as_bytes()).same(&Decimal::read(other.json.as_bytes()))
            }
            (JsonKind::String, JsonKind::String) => {
                match (self.json.as_string(), other.json.as_string()) {
                    (Some(ours), Some(theirs)) => ours.code_points().eq(theirs.code_points()),
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

impl Eq for Id<'_> {}

impl Hash for Id<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.value_hash());
    }
}

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.text())
    }
}

/// An [`Id`] that owns its text.
#[derive(Clone)]
pub struct OwnedId {
    json: OwnedJson,
}

impl OwnedId {
    /// Borrows the id, for code that reads an [`Id`].
    pub fn as_id(&self) -> Id<'_> {
        Id {
            json: self.json.as_json(),
        }
    }
}

impl OwnedId {
    /// Makes an owned id of a text that was just written here.
    fn from_written(text: &[u8]) -> Self {
        let text = core::str::from_utf8(text).unwrap_or("null");
        Self {
            json: OwnedJson::from(Json::from_scanned(text, TextFlags::NONE)),
        }
    }
}

impl From<u64> for OwnedId {
    fn from(number: u64) -> Self {
        let mut text = Vec::with_capacity(20);
        json::write_u64(&mut text, number);
        Self::from_written(&text)
    }
}

impl From<&str> for OwnedId {
    fn from(text: &str) -> Self {
        let mut quoted = Vec::with_capacity(text.len() + 2);
        json::write_str(&mut quoted, text);
        Self::from_written(&quoted)
    }
}

impl From<String> for OwnedId {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Id<'_>> for OwnedId {
    fn from(id: Id<'_>) -> Self {
        id.into_owned()
    }
}

impl PartialEq for OwnedId {
    fn eq(&self, other: &Self) -> bool {
        self.as_id() == other.as_id()
    }
}

impl Eq for OwnedId {}

impl Hash for OwnedId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_id().hash(state);
    }
}

impl fmt::Display for OwnedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_id().fmt(f)
    }
}

impl fmt::Debug for OwnedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_id(), f)
    }
}

/// How the ids of our own calls are written. Every scheme but [`Custom`](Self::Custom) writes the call
/// number in the id, so a reply's call is found by its number, without a search.
#[allow(
    unpredictable_function_pointer_comparisons,
    reason = "configurations with one generator may differ, which harms nobody"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdScheme {
    /// `1`, `2`, `3`, … (the default).
    Sequential,
    /// A fixed text and the counter: `"srv-1"`, `"srv-2"`, … For several clients on one queue. Only
    /// the first 64 bytes of the text are used.
    Prefixed(&'static str),
    /// A version 4 UUID whose last 48 bits are the counter. The driver passes the random part; six
    /// of its bits are replaced by version and variant. At most 2^48 − 1 calls.
    Uuid([u8; 10]),
    /// A generator of your own, which is given a number that counts up from 1 and returns the id, a
    /// string or a number. If that id belongs to an open call, it is asked again with the next
    /// numbers; a call for which it returns nothing but such ids is refused as
    /// [`IdInUse`](crate::SendError::IdInUse). Calls allocate memory for their ids, and an answer that
    /// comes late is reported as unknown. It runs while its connection is locked, so it must not use
    /// one.
    ///
    /// ```
    /// use antiphon::{Config, IdScheme};
    /// let config = Config::new().id_scheme(IdScheme::Custom(|number| format!("web/{number}").into()));
    /// # drop(config);
    /// ```
    Custom(fn(u64) -> OwnedId),
}

/// Identifies one of our calls on one connection, from
/// [`Connection::call`](crate::Connection::call) to its
/// [`Event::Response`](crate::Event::Response).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    pub(crate) connection: u32,
    pub(crate) number: u64,
}

impl CallId {
    /// Makes an id for a [`Collector`](crate::Collector) of the caller's own, with a number that
    /// the caller chooses. `connection` distinguishes the call from calls of other connections. No
    /// connection knows this id.
    pub const fn new(connection: u32, number: u64) -> Self {
        Self { connection, number }
    }

    /// The number of the call's connection ([`Config::connection`](crate::Config::connection)).
    pub fn connection(&self) -> u32 {
        self.connection
    }

    /// The number of the call in the sequence of calls of its connection. Under
    /// [`IdScheme::Sequential`] this is the id in the message.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Identifies one of the peer's open requests, as in [`Event::Cancelled`](crate::Event::Cancelled).
/// Unlike a [`ReplyToken`] it can be copied, and gives no right to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey {
    pub(crate) connection: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// The right to answer one request, once.
///
/// It is moved into [`respond`](crate::Connection::respond) or
/// [`respond_err`](crate::Connection::respond_err), and returned if they fail. The core does not
/// notice that a token is dropped: the peer then waits until the connection closes. So keep tokens
/// in a guard that answers on drop, as the adapters do.
#[must_use = "a request that is never answered leaves the peer waiting"]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ReplyToken {
    pub(crate) key: RequestKey,
}

impl RequestKey {
    /// Identifies no request: for code that handles a notification like a request.
    pub const NONE: Self = Self {
        connection: 0,
        slot: u32::MAX,
        generation: u32::MAX,
    };
}

impl ReplyToken {
    /// The request this token answers.
    pub fn key(&self) -> RequestKey {
        self.key
    }
}

#[cfg(test)]
mod tests;
