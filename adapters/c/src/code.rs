//! What functions return, and its text.

use core::ffi::CStr;

use antiphon::SendError;

/// What a function returns. A function that does not return `ANTIPHON_OK` has done nothing.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[non_exhaustive]
pub enum antiphon_code {
    /// It is done.
    ANTIPHON_OK = 0,
    /// A pointer that is needed is NULL.
    ANTIPHON_NULL = 1,
    /// A text is not UTF-8.
    ANTIPHON_NOT_UTF8 = 2,
    /// A text is not one JSON value.
    ANTIPHON_NOT_JSON = 3,
    /// A length is larger than any block of memory.
    ANTIPHON_BAD_LENGTH = 4,
    /// There is no preset of this name.
    ANTIPHON_NO_PRESET = 5,
    /// There is no setting of this name.
    ANTIPHON_NO_SETTING = 6,
    /// The setting cannot have this value.
    ANTIPHON_BAD_VALUE = 7,
    /// The request was answered already, or has ended, or the call has ended, or neither ever was.
    ANTIPHON_NOT_OPEN = 8,
    /// The request or call is one of another connection.
    ANTIPHON_OTHER_CONNECTION = 9,
    /// Input that was given before has not been read yet: take all events first.
    ANTIPHON_UNREAD_INPUT = 10,
    /// No batch was begun.
    ANTIPHON_NO_BATCH = 11,
    /// The array has too few entries.
    ANTIPHON_NO_SPACE = 12,
    /// The connection has ended, or is about to.
    ANTIPHON_CLOSED = 20,
    /// Too much output waits: send it first.
    ANTIPHON_FULL = 21,
    /// Too many calls are open.
    ANTIPHON_TOO_MANY_CALLS = 22,
    /// The message is over a limit.
    ANTIPHON_TOO_LARGE = 23,
    /// The method is blank.
    ANTIPHON_BLANK_METHOD = 24,
    /// The params are neither an array nor an object.
    ANTIPHON_PARAMS_SCALAR = 25,
    /// Version 1.0 has no params by name.
    ANTIPHON_PARAMS_BY_NAME = 26,
    /// The dialect has no batches.
    ANTIPHON_BATCHES_OFF = 27,
    /// The batch has too many entries.
    ANTIPHON_BATCH_TOO_LONG = 28,
    /// The batch has no entries.
    ANTIPHON_BATCH_EMPTY = 29,
    /// The connection cannot carry this message now, or the dialect has no such message.
    ANTIPHON_NOT_SENT = 30,
    /// The error code is reserved.
    ANTIPHON_RESERVED_CODE = 31,
    /// Anything else that the core refuses.
    ANTIPHON_REFUSED = 32,
}

use antiphon_code as Code;

impl From<SendError> for Code {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Closed => Self::ANTIPHON_CLOSED,
            SendError::Full => Self::ANTIPHON_FULL,
            SendError::TooManyCalls => Self::ANTIPHON_TOO_MANY_CALLS,
            SendError::TooLarge => Self::ANTIPHON_TOO_LARGE,
            SendError::BlankMethod => Self::ANTIPHON_BLANK_METHOD,
            SendError::ParamsScalar => Self::ANTIPHON_PARAMS_SCALAR,
            SendError::ParamsByName => Self::ANTIPHON_PARAMS_BY_NAME,
            SendError::NotOpen => Self::ANTIPHON_NOT_OPEN,
            SendError::NoPush => Self::ANTIPHON_NOT_SENT,
            SendError::BatchesOff => Self::ANTIPHON_BATCHES_OFF,
            SendError::BatchTooLong => Self::ANTIPHON_BATCH_TOO_LONG,
            SendError::BatchEmpty => Self::ANTIPHON_BATCH_EMPTY,
            SendError::ReservedCode => Self::ANTIPHON_RESERVED_CODE,
            _ => Self::ANTIPHON_REFUSED,
        }
    }
}

/// The text of a code, for any number.
pub(crate) fn text(code: i32) -> &'static CStr {
    match code {
        0 => c"done",
        1 => c"a pointer is NULL",
        2 => c"the text is not UTF-8",
        3 => c"the text is not one JSON value",
        4 => c"the length is larger than any block of memory",
        5 => c"there is no preset of this name",
        6 => c"there is no setting of this name",
        7 => c"the setting cannot have this value",
        8 => c"the request or call is not open",
        9 => c"the request or call is one of another connection",
        10 => c"input that was given before has not been read yet",
        11 => c"no batch was begun",
        12 => c"the array has too few entries",
        20 => c"the connection is closed",
        21 => c"too much output waits",
        22 => c"too many calls are open",
        23 => c"the message is too large",
        24 => c"the method is blank",
        25 => c"the params are neither an array nor an object",
        26 => c"version 1.0 has no params by name",
        27 => c"batches are switched off",
        28 => c"the batch has too many entries",
        29 => c"the batch has no entries",
        30 => c"this connection cannot carry the message",
        31 => c"the error code is reserved",
        32 => c"the core refuses it",
        _ => c"there is no such code",
    }
}
