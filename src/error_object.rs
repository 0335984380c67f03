//! The error object: the part of a response that replaces the result.
//!
//! A received error is passed on unchanged, including unknown members. An error made here has
//! `code` and `message`, and `data` only if there is any. JSON-RPC 2.0 §5.1.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::Serialize;

use crate::codes::{self, ErrorKind};
use crate::json::{self, EncodeError, Json, JsonKind, OwnedJson, whole_number};
use crate::shared::Arc;

/// An error object, borrowed from a message or made for an answer.
///
/// ```
/// use antiphon::{ErrorObject, codes};
/// let error = ErrorObject::new(codes::INVALID_PARAMS, "Division by zero");
/// assert_eq!(error.code(), -32602);
/// assert_eq!(error.kind(), codes::ErrorKind::InvalidParams);
/// assert!(error.data().is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorObject<'a> {
    code: i64,
    message: Cow<'a, str>,
    data: Option<Json<'a>>,
    /// The object as it was received.
    text: Option<Json<'a>>,
}

impl<'a> ErrorObject<'a> {
    /// Makes an error without data.
    pub fn new(code: i64, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
            text: None,
        }
    }

    /// Makes the error of a code with its standard message, or `"Error"` if it has none.
    pub const fn of(code: i64) -> ErrorObject<'static> {
        let message = match codes::message(code) {
            Some(message) => message,
            None => "Error",
        };
        Self::fixed(code, message)
    }

    /// Makes an error without data at compile time.
    pub(crate) const fn fixed(code: i64, message: &'static str) -> ErrorObject<'static> {
        ErrorObject {
            code,
            message: Cow::Borrowed(message),
            data: None,
            text: None,
        }
    }

    /// −32700. It is sent without the id of a request, because none could be read.
    pub const fn parse_error() -> ErrorObject<'static> {
        Self::of(codes::PARSE_ERROR)
    }

    /// −32600.
    pub const fn invalid_request() -> ErrorObject<'static> {
        Self::of(codes::INVALID_REQUEST)
    }

    /// −32601. It does not name the method, which the peer knows.
    pub const fn method_not_found() -> ErrorObject<'static> {
        Self::of(codes::METHOD_NOT_FOUND)
    }

    /// −32602.
    pub const fn invalid_params() -> ErrorObject<'static> {
        Self::of(codes::INVALID_PARAMS)
    }

    /// −32603. It has no details of the fault.
    pub const fn internal_error() -> ErrorObject<'static> {
        Self::of(codes::INTERNAL_ERROR)
    }

    /// −32001. A server answers a cancelled request with
    /// [`respond_cancelled`](crate::Connection::respond_cancelled), which has the dialect's code.
    pub const fn request_cancelled() -> ErrorObject<'static> {
        Self::of(codes::REQUEST_CANCELLED)
    }

    /// −32002. [`ErrorProfile::busy`](crate::ErrorProfile::busy) has the dialect's code.
    pub const fn server_busy() -> ErrorObject<'static> {
        Self::of(codes::SERVER_BUSY)
    }

    /// Why a stream has ended that has no more events: in the last notification of a subscription.
    pub const fn stream_completed() -> ErrorObject<'static> {
        ErrorObject::fixed(codes::STREAM_COMPLETED, "Stream completed")
    }

    /// −32003, with the limit in items.
    pub fn batch_too_large(max_items: usize) -> ErrorObject<'static> {
        let message = with_number("Batch too large, limit: ", max_items, "");
        ErrorObject::new(codes::BATCH_TOO_LARGE, message)
    }

    /// −32004, with the limit in bytes.
    pub fn request_too_large(max_bytes: usize) -> ErrorObject<'static> {
        let message = with_number("Request too large, limit: ", max_bytes, "");
        ErrorObject::new(codes::REQUEST_TOO_LARGE, message)
    }

    /// −32005. [`ErrorProfile::timeout`](crate::ErrorProfile::timeout) has the dialect's code.
    pub const fn timeout() -> ErrorObject<'static> {
        Self::of(codes::TIMEOUT)
    }

    /// Adds data. `Json::NULL` is data too: it is sent as null.
    pub fn with_data(mut self, data: Json<'a>) -> Self {
        self.data = Some(data);
        self.text = None;
        self
    }

    /// The error with its code and its message alone.
    pub(crate) fn without_data(self) -> Self {
        Self {
            data: None,
            text: None,
            ..self
        }
    }

    /// The number of the kind of failure.
    pub fn code(&self) -> i64 {
        self.code
    }

    /// The code's kind, by its number alone.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::of(self.code)
    }

    /// The one-sentence description. Lone surrogate escapes are replaced by the replacement
    /// character; [`text`](Self::text) has them unchanged.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The additional data; `None` when the member is absent, `Json::NULL` when it is null.
    pub fn data(&self) -> Option<Json<'a>> {
        self.data
    }

    /// The object as it was received, including unknown members; `None` if it was not received, or
    /// is no error object of 2.0.
    pub fn text(&self) -> Option<Json<'a>> {
        self.text
    }

    /// Copies the error, so that it outlives the message it came in.
    #[inline(never)]
    pub fn into_owned(self) -> OwnedError {
        OwnedError(Box::new(OwnedParts {
            code: self.code,
            message: self.message.into_owned(),
            data: self.data.map(Json::to_owned_json),
            text: self.text.map(Json::to_owned_json),
            cause: Cause::default(),
            lost: Lost::default(),
        }))
    }

    /// Makes an error of its parts, which have been read already, and its text.
    pub(crate) fn of_parts(
        code: i64,
        message: &'a str,
        data: Option<Json<'a>>,
        text: Json<'a>,
    ) -> Self {
        Self {
            code,
            message: Cow::Borrowed(message),
            data,
            text: Some(text),
        }
    }

    /// Reads a 2.0 error object: an integer code within 64 bits and a string message are
    /// required. JSON-RPC 2.0 §5.1.
    pub(crate) fn read(json: Json<'a>) -> Option<Self> {
        let (mut code, mut message, mut data) = (None, None, None);
        for (name, value) in json.members() {
            if name.eq_str("code") {
                code = code.or_else(|| read_integer(value));
            } else if name.eq_str("message") {
                message = message.or_else(|| value.as_string());
            } else if name.eq_str("data") {
                data = data.or(Some(value));
            }
        }
        let (code, message) = (code?, message?);
        Some(Self {
            code,
            message: message.to_cow_lossy(),
            data,
            text: Some(json),
        })
    }

    /// Reads the error of a 1.0 peer: any value but null. If it is no 2.0 error object, it becomes
    /// the data; its `message` and integer `code` are used if it has them. Otherwise the code is
    /// −32000, and the message is the value itself if it is a string, else `Error`.
    pub(crate) fn read_v1(json: Json<'a>) -> Self {
        if let Some(error) = Self::read(json) {
            return error;
        }
        let code = json.get("code").and_then(read_integer).unwrap_or(-32000);
        let message = json
            .get("message")
            .and_then(Json::as_string)
            .or(json.as_string());
        let message = message.map_or(Cow::Borrowed("Error"), |text| text.to_cow_lossy());
        Self {
            code,
            message,
            data: Some(json),
            text: None,
        }
    }

    /// Whether this error means that a message was too large for its receiver: −32004, or −32600
    /// with a number of bytes in its message or in the text that is its data.
    ///
    /// ```
    /// use antiphon::ErrorObject;
    /// assert!(ErrorObject::request_too_large(1024).is_over_limit());
    /// assert!(ErrorObject::new(-32600, "at most 1024 bytes").is_over_limit());
    /// assert!(!ErrorObject::invalid_request().is_over_limit());
    /// ```
    pub fn is_over_limit(&self) -> bool {
        /// Whether a sentence has a number and the word bytes.
        fn names_bytes(sentence: &str) -> bool {
            sentence.contains("byte") && sentence.bytes().any(|byte| byte.is_ascii_digit())
        }
        match self.code {
            codes::REQUEST_TOO_LARGE => true,
            codes::INVALID_REQUEST => {
                let data = self.data.and_then(Json::as_string);
                names_bytes(&self.message) || data.is_some_and(|data| names_bytes(data.raw()))
            }
            _ => false,
        }
    }

    /// The length of the error as JSON, in bytes.
    ///
    /// ```
    /// use antiphon::ErrorObject;
    /// let error = ErrorObject::new(-1, "no");
    /// assert_eq!(error.encoded_len(), r#"{"code":-1,"message":"no"}"#.len());
    /// ```
    pub fn encoded_len(&self) -> usize {
        let mut text = Vec::with_capacity(self.size_hint());
        self.write(&mut text);
        text.len()
    }

    /// How many bytes `write` will add, if the code has six characters and the message no escape.
    pub(crate) fn size_hint(&self) -> usize {
        let data = self.data.map_or(0, |data| r#","data":"#.len() + data.len());
        let parts = r#"{"code":-32000,"message":""}"#.len() + self.message.len() + data;
        self.text.map_or(parts, Json::len)
    }

    /// Writes the object as it was received; if it was not, in the order code, message, data.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if let Some(text) = self.text {
            return json::write_json(out, text);
        }
        out.extend_from_slice(b"{\"code\":");
        json::write_i64(out, self.code);
        out.extend_from_slice(b",\"message\":");
        json::write_str(out, &self.message);
        if let Some(data) = self.data {
            out.extend_from_slice(b",\"data\":");
            json::write_json(out, data);
        }
        out.push(b'}');
    }
}

/// Returns a sentence with a number in it. `format!` would add more code than this whole file.
pub(crate) fn with_number(before: &str, number: usize, behind: &str) -> String {
    let mut sentence = Vec::with_capacity(64);
    sentence.extend_from_slice(before.as_bytes());
    json::write_u64(&mut sentence, number as u64);
    sentence.extend_from_slice(behind.as_bytes());
    // The parts are strings and digits, so the text is valid.
    String::from_utf8(sentence).unwrap_or_default()
}

/// Reads a JSON number whose exact value is a whole number within 64 bits, however it is written:
/// languages without integers write `-32000.0`.
fn read_integer(json: Json<'_>) -> Option<i64> {
    if json.kind() != JsonKind::Number {
        return None;
    }
    match whole_number(json.as_bytes())? {
        (true, size) => 0_i64.checked_sub_unsigned(size),
        (false, size) => i64::try_from(size).ok(),
    }
}

impl fmt::Display for ErrorObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl core::error::Error for ErrorObject<'_> {}

/// An [`ErrorObject`] that owns its parts.
///
/// It is as small as a pointer: most calls succeed, and code that moves an outcome always moves the
/// space for an error.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedError(Box<OwnedParts>);

#[derive(Clone, Debug, PartialEq)]
struct OwnedParts {
    code: i64,
    message: String,
    data: Option<OwnedJson>,
    text: Option<OwnedJson>,
    cause: Cause,
    lost: Lost,
}

/// Why the data of an error was left out. It is never sent to the peer.
#[derive(Clone, Debug, Default)]
struct Lost(Option<EncodeError>);

/// Errors are compared by what the peer sees.
impl PartialEq for Lost {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The cause of an error here, and the name of its type; it is never sent to the peer unless
/// [`Failures`](crate::Failures) say so.
#[derive(Clone, Debug, Default)]
struct Cause(
    Option<Arc<dyn core::error::Error + Send + Sync>>,
    &'static str,
);

/// Errors are compared by what the peer sees.
impl PartialEq for Cause {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl OwnedError {
    /// Makes an *internal error* (−32603). The cause is the error's `source`, which is not sent to
    /// the peer unless [`Failures`](crate::Failures) say so.
    pub fn internal(cause: Box<dyn core::error::Error + Send + Sync>) -> Self {
        Self::internal_of(cause, "Error")
    }

    /// Makes an *internal error* whose cause has a type of this name.
    pub(crate) fn internal_of(
        cause: Box<dyn core::error::Error + Send + Sync>,
        type_name: &'static str,
    ) -> Self {
        let mut error = ErrorObject::internal_error().into_owned();
        error.0.cause = Cause(Some(cause.into()), type_name);
        error
    }

    /// The name of the type of the cause.
    pub(crate) fn cause_type(&self) -> &'static str {
        self.0.cause.1
    }

    /// Takes the cause of another error.
    pub(crate) fn with_cause_of(mut self, other: Self) -> Self {
        self.0.cause = other.0.cause;
        self
    }

    /// Makes an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self(Box::new(OwnedParts {
            code,
            message: message.into(),
            data: None,
            text: None,
            cause: Cause::default(),
            lost: Lost::default(),
        }))
    }

    /// Adds data of any serialisable type.
    ///
    /// # Errors
    /// [`EncodeError`] if the value has no JSON form.
    pub fn with_data<S: Serialize + ?Sized>(mut self, data: &S) -> Result<Self, EncodeError> {
        self.0.data = Some(OwnedJson::from_value(data)?);
        self.0.text = None;
        Ok(self)
    }

    /// Notes that its data has no JSON form.
    pub(crate) fn losing_data(mut self, why: EncodeError) -> Self {
        self.0.lost = Lost(Some(why));
        self
    }

    /// Why its data was left out, if a typed error had data without a JSON form. The peer gets code and
    /// message alone; adapters report the reason on this side.
    pub fn lost_data(&self) -> Option<&EncodeError> {
        self.0.lost.0.as_ref()
    }

    /// Borrows the error, for code that reads an [`ErrorObject`].
    pub fn as_error(&self) -> ErrorObject<'_> {
        let parts = &*self.0;
        ErrorObject {
            code: parts.code,
            message: Cow::Borrowed(&parts.message),
            data: parts.data.as_ref().map(OwnedJson::as_json),
            text: parts.text.as_ref().map(OwnedJson::as_json),
        }
    }

    /// The number of the kind of failure.
    pub fn code(&self) -> i64 {
        self.0.code
    }

    /// The one-sentence description.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<ErrorObject<'_>> for OwnedError {
    fn from(error: ErrorObject<'_>) -> Self {
        error.into_owned()
    }
}

impl fmt::Display for OwnedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_error().fmt(f)
    }
}

impl core::error::Error for OwnedError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        let cause = self.0.cause.0.as_deref()?;
        Some(cause)
    }
}

#[cfg(test)]
mod tests;
