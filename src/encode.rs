//! Writes requests, notifications and responses as bytes, directly into the output.
//!
//! Members have a fixed order (`jsonrpc`, `method`, `params`, `id`; `jsonrpc`, `result` or `error`,
//! `id`). Absent members are left out, and JSON text is copied; only its line breaks become blanks.
//! Messages of 1.0 leave the version out and always have every other member.
//!
//! Functions that write are forced inline, here and in `outbox`, `frame::write` and the
//! connection's `commands` and `answers`. Otherwise a small request takes 24 % more instructions,
//! and encoding a small message alone 34 % (`benches/instructions/run.py`: `encode request` and
//! `encode small`).

use alloc::vec::Vec;
use core::ops::Range;

use serde::Serialize;

use crate::error_object::ErrorObject;
use crate::id::{Id, IdScheme};
use crate::json::{self, EncodeError, Json};
use crate::target::{SMALL, rare};

/// A value that can be sent as params, result or error data.
///
/// A reference to any serialisable value is written once, directly into the output. A [`Json`] is
/// copied; only its line breaks become blanks. `()` and `None` mean no value: no params, or the
/// result `null`.
///
/// ```
/// # use antiphon::{Config, Connection, Json};
/// # let mut conn: Connection = Connection::new(Config::new());
/// conn.notify("point", &(1, 2))?;                                  // by position
/// conn.notify("point", Json::parse_str(r#"{"x":1,"y":2}"#).unwrap())?; // text that is JSON
/// conn.notify("point", ())?;                                       // no params
/// // Three lines, and the empty rest after the last line feed.
/// assert_eq!(conn.poll_transmit().unwrap().split(|&b| b == b'\n').count(), 4);
/// # Ok::<(), antiphon::SendError>(())
/// ```
///
/// The trait is sealed: other types cannot implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no params, result or data: pass a reference to it",
    label = "write `&` before it",
    note = "what is sent is a reference to a value that implements `Serialize`, a `Json`, `()`, or an `Option` of these"
)]
pub trait Payload: sealed::Sealed {}

impl<P: sealed::Sealed> Payload for P {}

pub(crate) mod sealed {
    use super::{EncodeError, Json, Serialize, Vec, json};

    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no params, result or data: pass a reference to it",
        label = "write `&` before it",
        note = "what is sent is a reference to a value that implements `Serialize`, a `Json`, `()`, or an `Option` of these"
    )]
    pub trait Sealed {
        /// Writes the value, or nothing when there is none.
        fn write(self, out: &mut Vec<u8>) -> Result<(), EncodeError>;
        /// About how many bytes `write` will add.
        fn size_hint(&self) -> usize;
    }

    impl<S: Serialize + ?Sized> Sealed for &S {
        fn write(self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
            json::write_value(out, self)
        }

        fn size_hint(&self) -> usize {
            // As JSON a value takes about twice its memory, if it has numbers and short strings.
            // For longer text the buffer grows while it is written.
            size_of_val(*self).saturating_mul(2).min(1024)
        }
    }

    impl Sealed for Json<'_> {
        fn write(self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
            json::write_json(out, self);
            Ok(())
        }

        fn size_hint(&self) -> usize {
            self.len()
        }
    }

    impl Sealed for () {
        fn write(self, _: &mut Vec<u8>) -> Result<(), EncodeError> {
            Ok(())
        }

        fn size_hint(&self) -> usize {
            0
        }
    }

    impl<P: Sealed> Sealed for Option<P> {
        fn write(self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
            self.map_or(Ok(()), |payload| payload.write(out))
        }

        fn size_hint(&self) -> usize {
            self.as_ref().map_or(0, Sealed::size_hint)
        }
    }
}

/// A payload that has already been written as JSON text, or no value.
///
/// A driver that shares its connection writes values before it takes the connection's lock, so that
/// no code of the values runs under the lock:
///
/// ```
/// use antiphon::{Config, Connection, Encoded};
/// let mut text = Vec::new();
/// let params = Encoded::write(&[1, 2], &mut text)?;
/// // The connection's lock is taken here.
/// let mut conn: Connection = Connection::new(Config::new());
/// conn.notify("add", Encoded::part(&text, params))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'b>(&'b [u8]);

impl<'b> Encoded<'b> {
    /// Appends `payload` to `text`, and returns its position there.
    ///
    /// # Errors
    /// The value has no JSON form; then nothing is appended.
    pub fn write(payload: impl Payload, text: &mut Vec<u8>) -> Result<Range<usize>, EncodeError> {
        let start = text.len();
        text.reserve(payload.size_hint());
        payload.write(text)?;
        Ok(start..text.len())
    }

    /// Returns the payload that [`write`](Self::write) has written to `text` at `part`. The bytes
    /// are not checked again, so `part` must be a range that `write` has returned.
    pub fn part(text: &'b [u8], part: Range<usize>) -> Self {
        Self(text.get(part).unwrap_or_default())
    }
}

impl sealed::Sealed for Encoded<'_> {
    fn write(self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.0);
        Ok(())
    }

    fn size_hint(&self) -> usize {
        self.0.len()
    }
}

/// The version in which a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    V1,
    V2,
}

/// Why a message could not be written. Its bytes have been removed again.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The value has no JSON form.
    Encode(EncodeError),
    /// The params are a scalar.
    ParamsScalar,
    /// The params are by name and the message is of 1.0.
    ParamsByName,
}

/// Writes a request or notification up to its params, and returns where the method ends, for
/// [`end_params`].
#[inline(always)]
pub(crate) fn begin_params(out: &mut Vec<u8>, style: Style, method: &str) -> usize {
    match style {
        Style::V2 => out.extend_from_slice(CALL_V2),
        Style::V1 => {
            rare();
            out.extend_from_slice(CALL_V1);
        }
    }
    json::write_inside(out, method);
    let method_end = out.len();
    out.extend_from_slice(PARAMS);
    method_end
}

/// The beginning of a message, up to its method.
const CALL_V2: &[u8; 27] = b"{\"jsonrpc\":\"2.0\",\"method\":\"";
const CALL_V1: &[u8; 11] = b"{\"method\":\"";

/// The text between a method and its params.
const PARAMS: &[u8; 11] = b"\",\"params\":";

/// Checks the params that were written after the method, and replaces params that are no value.
#[inline]
pub(crate) fn end_params(
    out: &mut Vec<u8>,
    style: Style,
    method_end: usize,
) -> Result<(), WriteError> {
    let start = method_end + PARAMS.len();
    match out.get(start) {
        Some(b'[') => return Ok(()),
        Some(b'{') if style == Style::V2 => return Ok(()),
        _ => rare(),
    }
    match out.get(start..).unwrap_or_default() {
        // No value, unit or none: 2.0 leaves params out, 1.0 always has an array.
        b"" | b"null" => {
            out.truncate(method_end);
            match style {
                Style::V2 => out.push(b'"'),
                Style::V1 => out.extend_from_slice(b"\",\"params\":[]"),
            }
            Ok(())
        }
        [b'{', ..] => Err(WriteError::ParamsByName),
        _ => Err(WriteError::ParamsScalar),
    }
}

/// Ends a request with its id.
#[inline(always)]
pub(crate) fn end_request(out: &mut Vec<u8>, write_id: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b",\"id\":");
    write_id(out);
    out.push(b'}');
}

/// Ends a request of ours with the id of call `number`.
#[inline(always)]
pub(crate) fn end_own_request(out: &mut Vec<u8>, scheme: &IdScheme, number: u64) {
    if matches!(scheme, IdScheme::Sequential) && number < json::NINE_DIGITS && !SMALL {
        return end_numbered_request(out, number as u32);
    }
    rare();
    end_request(out, |out| scheme.write(number, out));
}

/// Ends a request with a number of at most eight digits. The number and the text around it fit into
/// sixteen bytes, which are copied in one step and then truncated.
#[inline(always)]
fn end_numbered_request(out: &mut Vec<u8>, number: u32) {
    const HEAD: u64 = u64::from_le_bytes(*b",\"id\":\0\0");
    let (digits, count) = json::short_digits(number);
    // After one digit the brace is the eighth byte of the text; each further digit moves it by one.
    let brace = u64::from(b'}') << (8 * (count - 1));
    let low = HEAD | digits << 48 | brace << 56;
    let high = digits >> 16 | brace >> 8;
    let text = u128::from(low) | u128::from(high) << 64;
    let end = out.len() + 7 + count;
    out.extend_from_slice(&text.to_le_bytes());
    out.truncate(end);
}

/// Ends a notification. In 1.0 it has a null id.
#[inline]
pub(crate) fn end_notification(out: &mut Vec<u8>, style: Style) {
    match style {
        Style::V2 => out.push(b'}'),
        Style::V1 => {
            rare();
            out.extend_from_slice(b",\"id\":null}");
        }
    }
}

/// Appends a request or notification up to its params. On error `out` is unchanged.
fn write_call(
    out: &mut Vec<u8>,
    style: Style,
    method: &str,
    params: impl Payload,
) -> Result<(), WriteError> {
    let start = out.len();
    let method_end = begin_params(out, style, method);
    sealed::Sealed::write(params, out)
        .map_err(WriteError::Encode)
        .and_then(|()| end_params(out, style, method_end))
        .inspect_err(|_| out.truncate(start))
}

/// Appends a request with the id of call `number`. On error `out` is unchanged.
pub(crate) fn request(
    out: &mut Vec<u8>,
    style: Style,
    method: &str,
    params: impl Payload,
    id: Option<Id<'_>>,
    scheme: &IdScheme,
    number: u64,
) -> Result<(), WriteError> {
    write_call(out, style, method, params)?;
    match id {
        Some(id) => end_request(out, |out| json::write_json(out, id.json())),
        None => end_own_request(out, scheme, number),
    }
    Ok(())
}

/// Appends a notification. On error `out` is unchanged.
pub(crate) fn notification(
    out: &mut Vec<u8>,
    style: Style,
    method: &str,
    params: impl Payload,
) -> Result<(), WriteError> {
    write_call(out, style, method, params)?;
    end_notification(out, style);
    Ok(())
}

/// The beginning of a response, up to its result.
const RESULT_V2: &[u8; 26] = b"{\"jsonrpc\":\"2.0\",\"result\":";
const RESULT_V1: &[u8; 10] = b"{\"result\":";

/// Appends a response with a result. On error `out` is unchanged.
#[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
pub(crate) fn success(
    out: &mut Vec<u8>,
    style: Style,
    id: &[u8],
    result: impl Payload,
) -> Result<(), EncodeError> {
    let begin = out.len();
    match style {
        Style::V2 => out.extend_from_slice(RESULT_V2),
        Style::V1 => {
            rare();
            out.extend_from_slice(RESULT_V1);
        }
    }
    let start = out.len();
    sealed::Sealed::write(result, out).inspect_err(|_| out.truncate(begin))?;
    if out.len() == start {
        out.extend_from_slice(b"null");
    }
    if style == Style::V1 {
        rare();
        out.extend_from_slice(b",\"error\":null");
    }
    out.extend_from_slice(b",\"id\":");
    out.extend_from_slice(id);
    out.push(b'}');
    Ok(())
}

/// How many bytes [`failure`] adds to an error and an id.
pub(crate) const FAILURE_BYTES: usize = r#"{"jsonrpc":"2.0","error":,"id":}"#.len();

/// Appends a response with an error. If there is no id, the member is left out.
pub(crate) fn failure(out: &mut Vec<u8>, style: Style, id: Option<&[u8]>, error: &ErrorObject<'_>) {
    out.extend_from_slice(match style {
        Style::V2 => b"{\"jsonrpc\":\"2.0\",\"error\":",
        Style::V1 => b"{\"result\":null,\"error\":",
    });
    error.write(out);
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id);
    }
    out.push(b'}');
}

/// Encodes a 2.0 response with a result, for programs and tests that have no connection.
///
/// ```
/// use antiphon::{Id, encode_response};
/// assert_eq!(encode_response(Id::NULL, &[1]).unwrap(), br#"{"jsonrpc":"2.0","result":[1],"id":null}"#);
/// ```
///
/// # Errors
/// The result has no JSON form.
pub fn encode_response(id: Id<'_>, result: impl Payload) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    success(&mut out, Style::V2, id.json().as_bytes(), result)?;
    Ok(out)
}

/// Encodes a 2.0 response with an error, for programs and tests that have no connection.
pub fn encode_error(id: Id<'_>, error: &ErrorObject<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    failure(&mut out, Style::V2, Some(id.json().as_bytes()), error);
    out
}

/// Encodes the answer to text that is not JSON: −32700 with a null id.
pub fn encode_parse_error() -> Vec<u8> {
    encode_error(Id::NULL, &ErrorObject::parse_error())
}

/// Rewrites the braces inside the strings of the message at `start` as `\u007b` and `\u007d`.
pub(crate) fn escape_braces(out: &mut Vec<u8>, start: usize) {
    let body = out.split_off(start);
    let (mut inside, mut escaped) = (false, false);
    for byte in body {
        match byte {
            b'{' if inside => out.extend_from_slice(b"\\u007b"),
            b'}' if inside => out.extend_from_slice(b"\\u007d"),
            _ => out.push(byte),
        }
        inside ^= byte == b'"' && !escaped;
        escaped = inside && byte == b'\\' && !escaped;
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Id, IdScheme, Style, WriteError, encode_error, encode_parse_error, encode_response,
        escape_braces, failure, notification, request, success,
    };
    use crate::error_object::ErrorObject;
    use crate::json::Json;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    const SEQUENTIAL: IdScheme = IdScheme::Sequential;

    const SEVEN: u64 = 7;

    #[test]
    fn a_request_ends_by_its_number_however_long_it_is() {
        let powers = (0..20).map(|zeros| 10_u64.pow(zeros));
        for number in powers.flat_map(|power| [power - 1, power, power + 1]) {
            let mut out = b"{".to_vec();
            super::end_own_request(&mut out, &SEQUENTIAL, number);
            let expected = alloc::format!("{{,\"id\":{number}}}");
            assert_eq!(out, expected.as_bytes());
        }
    }

    // SER-09 MSG-17 ONE-07 ONE-11
    #[test]
    fn members_stand_in_one_order_and_absent_ones_are_left_out() {
        let v2 =
            text(|out| request(out, Style::V2, "m", &[1, 2], None, &SEQUENTIAL, SEVEN).unwrap());
        assert_eq!(
            v2,
            r#"{"jsonrpc":"2.0","method":"m","params":[1,2],"id":7}"#
        );
        let v1 = text(|out| request(out, Style::V1, "m", (), None, &SEQUENTIAL, SEVEN).unwrap());
        assert_eq!(v1, r#"{"method":"m","params":[],"id":7}"#);
        let v2 = text(|out| notification(out, Style::V2, "m", ()).unwrap());
        assert_eq!(v2, r#"{"jsonrpc":"2.0","method":"m"}"#);
        let v1 = text(|out| notification(out, Style::V1, "m", &[1]).unwrap());
        assert_eq!(v1, r#"{"method":"m","params":[1],"id":null}"#);
        let v2 = text(|out| success(out, Style::V2, b"\"a\"", ()).unwrap());
        assert_eq!(v2, r#"{"jsonrpc":"2.0","result":null,"id":"a"}"#);
        let v1 = text(|out| success(out, Style::V1, b"1", &5).unwrap());
        assert_eq!(v1, r#"{"result":5,"error":null,"id":1}"#);
        let error = ErrorObject::method_not_found();
        let v2 = text(|out| failure(out, Style::V2, Some(b"null"), &error));
        assert_eq!(
            v2,
            r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":null}"#
        );
        let v1 = text(|out| failure(out, Style::V1, Some(b"1"), &error));
        assert_eq!(
            v1,
            r#"{"result":null,"error":{"code":-32601,"message":"Method not found"},"id":1}"#
        );
        let omitted = text(|out| failure(out, Style::V2, None, &error));
        assert_eq!(
            omitted,
            r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}"#
        );
    }

    // MSG-15
    #[test]
    fn responses_can_be_made_without_a_connection() {
        let id = Id::new(Json::parse_str("7").unwrap()).unwrap();
        let ok = encode_response(id, ()).unwrap();
        assert_eq!(ok, br#"{"jsonrpc":"2.0","result":null,"id":7}"#);
        let error = encode_error(id, &ErrorObject::new(1, "m"));
        assert_eq!(
            error,
            br#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"},"id":7}"#
        );
        let parse =
            br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;
        assert_eq!(encode_parse_error(), parse);
    }

    // SER-10
    #[test]
    fn params_are_an_array_an_object_or_nothing() {
        let mut out = b"kept".to_vec();
        assert!(matches!(
            request(&mut out, Style::V2, "m", &1, None, &SEQUENTIAL, SEVEN),
            Err(WriteError::ParamsScalar)
        ));
        assert!(matches!(
            notification(&mut out, Style::V2, "m", "s"),
            Err(WriteError::ParamsScalar)
        ));
        let named = Json::parse_str("{}").unwrap();
        assert!(matches!(
            request(&mut out, Style::V1, "m", named, None, &SEQUENTIAL, SEVEN),
            Err(WriteError::ParamsByName)
        ));
        assert_eq!(out, b"kept");
        let nothing = [
            text(|out| notification(out, Style::V2, "m", ()).unwrap()),
            text(|out| notification(out, Style::V2, "m", None::<&[u8]>).unwrap()),
            text(|out| notification(out, Style::V2, "m", &None::<u8>).unwrap()),
        ];
        assert_eq!(nothing, [r#"{"jsonrpc":"2.0","method":"m"}"#; 3]);
    }

    #[test]
    fn braces_inside_strings_can_be_escaped() {
        let mut out = br#"x{"a{":"\"}\\","b":{}}"#.to_vec();
        escape_braces(&mut out, 1);
        assert_eq!(out, br#"x{"a\u007b":"\"\u007d\\","b":{}}"#);
    }
}
