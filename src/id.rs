//! Ids: theirs, kept as the bytes received; ours, a number in one of three spellings; and the
//! three small handles ([`CallId`], [`RequestKey`], [`ReplyToken`]) that name a conversation's
//! open work.
//!
//! The rule guarded here: an id never goes through a number type. It is echoed byte for byte and
//! compared by type and value — strings after unescaping, numbers by exact decimal value — so
//! that `1`, `1.0` and `1e0` are one id while `"1"` is another.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::json::{self, Decimal, Json, JsonKind, OwnedJson, TextFlags};
use crate::target::rare;

/// The largest call number: 2^53 − 1, the largest integer every JSON reader keeps exact.
pub(crate) const CALL_NUMBER_MAX: u64 = (1 << 53) - 1;

/// The last one that every spelling has room for.
pub(crate) const SPELLED_MAX: u64 = (1 << 48) - 1;

/// An id as it stood on the wire: null, a string, a number, or (in 1.0) a boolean.
///
/// Two ids are equal when they have the same type and the same value, whatever their spelling.
/// The spelling itself is never lost: [`Id::text`] gives it back.
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

    /// Reads a JSON scalar as an id; an object or an array is none.
    pub fn new(json: Json<'a>) -> Option<Self> {
        match json.kind() {
            JsonKind::Object | JsonKind::Array => None,
            _ => Some(Self { json }),
        }
    }

    /// An id whose kind is known already.
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
            JsonKind::Number => Decimal::read(self.json.as_bytes()).to_u64(),
            _ => None,
        }
    }

    /// The unescaped text of an id that is a string; none for other types, and none for a string
    /// that holds a lone surrogate escape.
    pub fn as_text(&self) -> Option<Cow<'a, str>> {
        self.json.as_string().and_then(|string| string.to_cow())
    }

    /// Copies the id, so that it outlives the message it came in.
    pub fn into_owned(self) -> OwnedId {
        OwnedId {
            json: self.json.to_owned_json(),
        }
    }

    /// A hash of type and value: equal ids have equal hashes. Never used to decide equality.
    pub(crate) fn value_hash(&self) -> u32 {
        if let Some(number) = read_canonical(self.json.as_bytes()) {
            return hash_of_number(number);
        }
        let mut hash = HashOfBytes::default();
        let number = self.feed(&mut |bytes| hash.push(bytes));
        number.map_or_else(|| hash.finish(), hash_of_number)
    }

    /// Writes type and value in a form in which equal ids, and only they, are the same bytes, and
    /// gives its [`value_hash`](Self::value_hash).
    pub(crate) fn normal_form(&self, out: &mut Vec<u8>) -> u32 {
        let mut hash = HashOfBytes::default();
        let number = self.feed(&mut |bytes| {
            hash.push(bytes);
            out.extend_from_slice(bytes);
        });
        number.map_or_else(|| hash.finish(), hash_of_number)
    }

    /// Whether a string id and a number id have the same text (`cancel_match = ExactThenText`).
    pub(crate) fn same_text(&self, other: &Id<'_>) -> bool {
        self.bare() == other.bare()
    }

    /// The text without its quotes, if it has any.
    pub(crate) fn bare(&self) -> &'a [u8] {
        bare(self.json.as_bytes())
    }

    /// Hands out the bytes of the normal form. Also gives the value of a number that is written with
    /// at most 16 digits, however it is written here.
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
                let decimal = Decimal::read(self.json.as_bytes());
                decimal.feed(&mut |byte| push(&[byte]));
                decimal.to_u64().filter(|&number| number < DIGITS_16)
            }
            _ => {
                push(self.json.as_bytes());
                None
            }
        }
    }
}

/// Hands out a code point in UTF-8, and a lone surrogate in the three bytes that it would have there.
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

/// Spreads numbers, which often follow each other, over all bits.
fn hash_of_number(number: u64) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)) as u32
}

/// A hash of bytes, eight at a time, however they are handed over: small, and good enough to tell
/// ids apart before they are compared.
#[derive(Default)]
struct HashOfBytes {
    hash: u64,
    /// The last bytes, fewer than eight.
    word: u64,
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

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(32) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(mut self) -> u32 {
        self.mix(self.word ^ u64::from(self.len) << 56);
        hash_of_number(self.hash)
    }
}

/// The text between the quotes of a string, and any other text whole.
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
    /// The borrowed form, which has all the questions to ask of an id.
    pub fn as_id(&self) -> Id<'_> {
        Id {
            json: self.json.as_json(),
        }
    }
}

impl OwnedId {
    /// Keeps an id that was just written here.
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

/// How the ids of our own calls are spelled. All three spell one counter, so a reply is matched by
/// index whatever the spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdScheme {
    /// `1`, `2`, `3`, … (the default).
    Sequential,
    /// A fixed text and the counter: `"srv-1"`, `"srv-2"`, … For several clients on one queue.
    /// At most 64 bytes of the text are used.
    Prefixed(&'static str),
    /// A version 4 UUID whose last 48 bits are the counter. The driver supplies the random part;
    /// six of its bits are replaced by version and variant. At most 2^48 − 1 calls.
    Uuid([u8; 10]),
}

impl IdScheme {
    /// The last counter value the spelling has room for.
    pub(crate) fn number_max(&self) -> u64 {
        match self {
            IdScheme::Uuid(_) => SPELLED_MAX,
            _ => CALL_NUMBER_MAX,
        }
    }

    /// Writes the id of call `number`.
    #[inline]
    pub(crate) fn write(&self, number: u64, out: &mut Vec<u8>) {
        match self {
            IdScheme::Sequential => json::write_u64(out, number),
            IdScheme::Prefixed(prefix) => {
                json::write_str(out, prefix_used(prefix));
                out.pop();
                json::write_u64(out, number);
                out.push(b'"');
            }
            IdScheme::Uuid(random) => out.extend_from_slice(&uuid_text(random, number)),
        }
    }

    /// The call number that `id` spells; none for an id that this scheme would never write.
    /// Numbers match by value (`7.0` is `7`), strings in canonical spelling only.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    pub(crate) fn read(&self, id: Json<'_>) -> Option<u64> {
        match (self, read_canonical(id.as_bytes())) {
            (IdScheme::Sequential, Some(number)) => Some(number),
            _ => {
                rare();
                self.read_slowly(id)
            }
        }
    }

    #[inline(never)]
    fn read_slowly(&self, id: Json<'_>) -> Option<u64> {
        match self {
            IdScheme::Sequential => match id.kind() {
                JsonKind::Number => Decimal::read(id.as_bytes()).to_u64(),
                _ => None,
            },
            IdScheme::Prefixed(prefix) => {
                let string = id.as_string()?;
                let mut points = string.code_points();
                for expected in prefix_used(prefix).chars() {
                    if points.next()? != u32::from(expected) {
                        return None;
                    }
                }
                let mut digits = [0u8; 16];
                let mut len = 0;
                for point in points {
                    *digits.get_mut(len)? = u8::try_from(point).ok()?;
                    len += 1;
                }
                read_canonical(&digits[..len])
            }
            IdScheme::Uuid(random) => {
                let mut text = [0u8; 36];
                let string = id.as_string()?;
                let mut points = string.code_points();
                for slot in &mut text {
                    *slot = u8::try_from(points.next()?).ok()?;
                }
                if points.next().is_some() {
                    return None;
                }
                let number = text[24..].iter().try_fold(0u64, |number, &byte| {
                    let digit = (byte as char)
                        .to_digit(16)
                        .filter(|_| !byte.is_ascii_uppercase())?;
                    Some(number << 4 | u64::from(digit))
                })?;
                (uuid_text(random, number)[1..37] == text).then_some(number)
            }
        }
    }
}

/// The part of a prefix that is used: at most 64 bytes, cut at a character.
fn prefix_used(prefix: &'static str) -> &'static str {
    let mut end = prefix.len().min(64);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    &prefix[..end]
}

/// Reads `0` or a number without leading zero, of at most 16 digits: all that a scheme writes.
#[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
fn read_canonical(text: &[u8]) -> Option<u64> {
    if let 4..=8 = text.len() {
        return read_digits(text);
    }
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

/// The same of four to eight digits, all at once: put into a word, behind as many zeros as are missing, and put
/// together in pairs.
#[inline]
fn read_digits(text: &[u8]) -> Option<u64> {
    let (first, last) = (text.first_chunk()?, text.last_chunk()?);
    let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
    let missing = 8 * (8 - text.len());
    let zeros = 0x3030_3030 & ((1 << missing) - 1);
    let front = (u64::from(first) << missing) & 0xffff_ffff | zeros;
    let word = front | u64::from(last) << 32;
    let digits = word ^ 0x3030_3030_3030_3030;
    // A digit leaves nothing in the upper half of its byte, and no more with six added.
    let is_other = (digits | digits.wrapping_add(0x0606_0606_0606_0606)) & 0xf0f0_f0f0_f0f0_f0f0;
    if is_other != 0 || text.first() == Some(&b'0') {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

/// The quoted UUID of call `number`: 10 random bytes with version 4 and the RFC variant put in,
/// then the counter in the last 6 bytes.
fn uuid_text(random: &[u8; 10], number: u64) -> [u8; 38] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = [0u8; 16];
    bytes[..10].copy_from_slice(random);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes[10..].copy_from_slice(&number.to_be_bytes()[2..]);
    let mut text = [b'"'; 38];
    let mut at = 1;
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text[at] = b'-';
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    text
}

/// Names one of our calls on one connection, from [`Connection::call`](crate::Connection::call)
/// until its [`Event::Response`](crate::Event::Response).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    pub(crate) connection: u32,
    pub(crate) number: u64,
}

impl CallId {
    /// Names a call by a number of the caller's choosing, for a [`Collector`](crate::Collector) of
    /// its own. `connection` sets it apart from the calls of others. No connection knows it.
    pub const fn new(connection: u32, number: u64) -> Self {
        Self { connection, number }
    }

    /// The number of its connection, which sets it apart from the calls of others.
    pub fn connection(&self) -> u32 {
        self.connection
    }

    /// The call's place in the sequence of calls of its connection. Under
    /// [`IdScheme::Sequential`] this is the id on the wire.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Names one of the peer's open requests. Unlike a [`ReplyToken`] it can be copied, and it
/// answers nothing: it is what [`Event::Cancelled`](crate::Event::Cancelled) speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey {
    pub(crate) connection: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// The right to answer one request, once.
///
/// It is moved into [`respond`](crate::Connection::respond) or
/// [`respond_err`](crate::Connection::respond_err), and comes back if they refuse. The core cannot
/// see a token dropped: the peer then waits until the connection closes, so hold tokens in a guard
/// that answers on drop, as the adapters do.
#[must_use = "a request that is never answered leaves the peer waiting"]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ReplyToken {
    pub(crate) key: RequestKey,
}

impl ReplyToken {
    /// The request this token answers.
    pub fn key(&self) -> RequestKey {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use super::{HashOfBytes, Id, IdScheme, OwnedId};
    use crate::json::Json;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn id(text: &str) -> Id<'_> {
        Id::new(Json::parse_str(text).unwrap()).unwrap()
    }

    fn normal(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        id(text).normal_form(&mut out);
        out
    }

    #[test]
    fn a_number_is_read_as_it_is_spelled_and_nothing_else_is_one() {
        let naive = |text: &str| {
            let is_plain = text.len() == 1 || !text.starts_with('0');
            let is_number = is_plain && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten()
        };
        let powers = (0..16).map(|zeros| 10_u64.pow(zeros));
        for number in powers.flat_map(|power| [power - 1, power, power + 1, power * 9 + power / 7])
        {
            let text = alloc::format!("{number}");
            if text.len() <= 16 {
                assert_eq!(super::read_canonical(text.as_bytes()), Some(number));
            }
            for at in 0..text.len() {
                for byte in 0..=0x7f {
                    let mut other = text.clone().into_bytes();
                    other[at] = byte;
                    let other = alloc::string::String::from_utf8(other).unwrap();
                    let expected = naive(&other).filter(|_| other.len() <= 16);
                    assert_eq!(super::read_canonical(other.as_bytes()), expected, "{other}");
                }
                for byte in 0x80..=0xff {
                    let mut other = text.clone().into_bytes();
                    other[at] = byte;
                    assert_eq!(super::read_canonical(&other), None);
                }
            }
        }
        assert_eq!(super::read_canonical(b""), None);
    }

    // MSG-06
    #[test]
    fn ids_compare_by_type_and_exact_value() {
        let classes: &[&[&str]] = &[
            &[
                "1", "1.0", "1e0", "10e-1", "0.1e1", "1.000", "1E+0", "0.01e2",
            ],
            &["-1", "-1.0", "-10e-1"],
            &[
                "0",
                "-0",
                "0.0",
                "0e5",
                "-0.00e-7",
                "0e999999999999999999999999999999999999999999",
            ],
            &["1.9"],
            &["1.1"],
            &["18446744073709551616", "18446744073709551616.0"],
            &["18446744073709551615"],
            &["1e400", "10e399"],
            &["1e999999999999", "0.1e1000000000000"],
            &["\"1\"", "\"\\u0031\""],
            &["\"1.0\""],
            &["\"\""],
            &["\"\\ud83d\\ude00\"", "\"😀\""],
            &["\"\\ud83d\"", "\"\\uD83D\""],
            &["null"],
            &["true"],
            &["false"],
        ];
        for (i, left) in classes.iter().enumerate() {
            for (j, right) in classes.iter().enumerate() {
                for a in *left {
                    for b in *right {
                        assert_eq!(id(a) == id(b), i == j, "{a} and {b}");
                        assert_eq!(normal(a) == normal(b), i == j, "{a} and {b}");
                        if i == j {
                            assert_eq!(id(a).value_hash(), id(b).value_hash(), "{a} and {b}");
                        }
                    }
                }
            }
        }
    }

    // MSG-06 SEC-11
    #[test]
    fn an_exponent_beyond_all_bounds_equals_its_own_spelling_only() {
        let huge = "1e99999999999999999999999999999999999999999999999999";
        let huger = "10e99999999999999999999999999999999999999999999999998";
        assert_eq!(id(huge), id(huge));
        assert_ne!(id(huge), id(huger));
    }

    // MSG-29
    #[test]
    fn ids_convert_and_print() {
        assert_eq!(OwnedId::from(7).as_id(), id("7.0"));
        assert_eq!(OwnedId::from("a\"b").as_id().text(), "\"a\\\"b\"");
        assert_eq!(alloc::format!("{}", Id::NULL), "null");
        assert_eq!(id("3e0").as_u64(), Some(3));
        assert_eq!(id("\"3\"").as_u64(), None);
        assert_eq!(id("18446744073709551616").as_u64(), None);
        assert_eq!(id("18446744073709551615").as_u64(), Some(u64::MAX));
    }

    // CLI-04
    #[test]
    fn every_scheme_reads_back_what_it_writes_and_nothing_else() {
        let schemes = [
            IdScheme::Sequential,
            IdScheme::Prefixed("srv-"),
            IdScheme::Uuid([0xab; 10]),
        ];
        for scheme in schemes {
            for number in [0, 1, 9, 10, 99, 12_345, scheme.number_max()] {
                let mut text = Vec::new();
                scheme.write(number, &mut text);
                assert_eq!(scheme.read(Json::parse(&text).unwrap()), Some(number));
            }
        }
        let read = |scheme: IdScheme, text: &str| scheme.read(Json::parse_str(text).unwrap());
        assert_eq!(read(IdScheme::Sequential, "7.0"), Some(7));
        assert_eq!(read(IdScheme::Sequential, "\"7\""), None);
        assert_eq!(read(IdScheme::Sequential, "true"), None);
        assert_eq!(read(IdScheme::Prefixed("srv-"), "\"srv-7\""), Some(7));
        assert_eq!(read(IdScheme::Prefixed("srv-"), "\"\\u0073rv-7\""), Some(7));
        assert_eq!(read(IdScheme::Prefixed("srv-"), "\"srv-07\""), None);
        assert_eq!(read(IdScheme::Prefixed("srv-"), "\"srv-\""), None);
        assert_eq!(read(IdScheme::Prefixed("srv-"), "7"), None);
        let uuid = IdScheme::Uuid([0xab; 10]);
        assert_eq!(
            read(uuid, "\"abababab-abab-4bab-abab-00000000000f\""),
            Some(15)
        );
        assert_eq!(read(uuid, "\"ABABABAB-abab-4bab-abab-00000000000f\""), None);
        assert_eq!(read(uuid, "\"abababab-abab-4bab-abab-00000000000F\""), None);
    }

    /// How many of 4096 buckets these ids fall into.
    fn spread(ids: impl Iterator<Item = String>) -> usize {
        let mut buckets: Vec<u32> = ids.map(|text| id(&text).value_hash() % 4096).collect();
        buckets.sort_unstable();
        buckets.dedup();
        buckets.len()
    }

    // SEC-11
    #[test]
    fn ids_that_differ_little_are_spread_wherever_they_differ() {
        // So many ids drawn by chance fall into 2589 of the buckets.
        let (ids, least) = (0..4096u64, 2300);
        for distance in [1, 2, 1000, 4096, 1 << 31] {
            let spread = spread(ids.clone().map(|n| format!("{}", n * distance)));
            assert!(spread >= least, "{spread} of numbers {distance} apart");
        }
        for before in [
            "",
            "a",
            "req-",
            "call-",
            "client-0007/",
            "a/prefix/that/is/not/short/",
        ] {
            for behind in ["", "z", "/done", "-behind-it"] {
                let spread = spread(ids.clone().map(|n| format!("\"{before}{n}{behind}\"")));
                assert!(spread >= least, "{spread} of \"{before}N{behind}\"");
            }
        }
    }

    #[test]
    fn a_hash_does_not_depend_on_how_the_bytes_were_handed_over() {
        let bytes: Vec<u8> = (1..=40).collect();
        for len in 0..bytes.len() {
            let hash_of = |parts: &[&[u8]]| {
                let mut hash = HashOfBytes::default();
                parts.iter().for_each(|part| hash.push(part));
                hash.finish()
            };
            let whole = &bytes[..len];
            let one_by_one: Vec<&[u8]> = whole.chunks(1).collect();
            assert_eq!(hash_of(&[whole]), hash_of(&one_by_one), "{len}");
            for at in 0..len {
                let (head, tail) = whole.split_at(at);
                assert_eq!(hash_of(&[whole]), hash_of(&[head, tail]), "{at} of {len}");
            }
        }
    }

    #[test]
    fn every_byte_of_an_id_counts_in_its_hash() {
        let text: String = ('a'..='z').collect();
        let mut hashes: Vec<u32> = (0..=text.len())
            .map(|at| {
                let mut text = text.clone();
                if at < text.len() {
                    text.replace_range(at..=at, "_");
                }
                id(&format!("\"{text}\"")).value_hash()
            })
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), text.len() + 1);
    }

    #[test]
    fn a_lone_surrogate_stands_in_the_normal_form_as_its_three_bytes() {
        assert_eq!(normal("\"\\ud800\""), b"\xed\xa0\x80\"");
        assert_eq!(normal("\"a\\udbff.\""), b"a\xed\xaf\xbf.\"");
        assert_eq!(normal("\"\\udc05\""), b"\xed\xb0\x85\"");
        assert_eq!(normal("\"\\udfff\""), b"\xed\xbf\xbf\"");
    }

    // CAN-07
    #[test]
    fn a_string_and_a_number_have_the_same_text_or_not() {
        assert!(id("\"7\"").same_text(&id("7")));
        assert!(id("7").same_text(&id("7")));
        assert!(!id("\"7\"").same_text(&id("7.0")));
        assert!(!id("\"7\"").same_text(&id("8")));
    }
}
