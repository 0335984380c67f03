//! Events as C reads them: a kind, numbers, and texts that the connection keeps until the next event.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::c_char;
use core::ptr;

use antiphon::{Event, Json, Origin, Outcome, ResponseRef};

/// What an event tells.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum antiphon_kind {
    /// There is none before more input arrives, a later time is set, or something is asked for.
    ANTIPHON_NOTHING = 0,
    /// The peer calls `method` with `value`, its params. Answer `request`, once.
    ANTIPHON_REQUEST = 1,
    /// The peer says `method` with `value`, its params.
    ANTIPHON_NOTIFICATION = 2,
    /// `call` has ended with the result `value`.
    ANTIPHON_RESULT = 3,
    /// `call` has ended with an error: `code`, `text` is its message, and `value` its data.
    ANTIPHON_ERROR = 4,
    /// `call` has ended with an answer that is not valid; `text` says why, and `value` is the answer.
    ANTIPHON_INVALID = 5,
    /// `call` has ended without an answer in time.
    ANTIPHON_TIMED_OUT = 6,
    /// `call` has ended because the answer to its batch had none for it.
    ANTIPHON_MISSING = 7,
    /// `call` has ended because its message was not sent.
    ANTIPHON_UNSENT = 8,
    /// `call` has ended because the connection did.
    ANTIPHON_ABORTED = 9,
    /// The peer gives up `request`, or the connection has ended. `owed` says whether it still has to be answered.
    ANTIPHON_CANCELLED = 10,
    /// A message was not valid; `text` says why, `code` is what the peer was answered, and 0 stands for no answer.
    ANTIPHON_MALFORMED = 11,
    /// A valid message was over a limit; `text` says which, `code` as for `ANTIPHON_MALFORMED`.
    ANTIPHON_REFUSED_MESSAGE = 12,
    /// A response or a cancel fits nothing; `text` says what it is.
    ANTIPHON_UNMATCHED = 13,
    /// Nothing more is read; `text` says why.
    ANTIPHON_ENDED = 14,
    /// Something that this version of the header does not know.
    ANTIPHON_OTHER = 15,
}

use antiphon_kind as Kind;

/// A text, UTF-8 and followed by a NUL that `len` does not count; `bytes` is NULL if there is none.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct antiphon_text {
    /// Where it is.
    pub bytes: *const c_char,
    /// How many bytes it has.
    pub len: usize,
}

/// An event. Fields that its kind does not mention are zero, and texts NULL.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct antiphon_event {
    /// What it tells, and so which fields count.
    pub kind: antiphon_kind,
    /// 1 if a request that was cancelled still has to be answered, otherwise 0.
    pub owed: u32,
    /// The number of a request, to answer it by.
    pub request: u64,
    /// The number that `antiphon_call` or `antiphon_batch_send` gave.
    pub call: u64,
    /// What `antiphon_call` was given for the call.
    pub tag: u64,
    /// An error's code.
    pub code: i64,
    /// The place in its batch; -1 if the message was no part of one.
    pub batch_index: i64,
    /// A method's name, with escapes resolved.
    pub method: antiphon_text,
    /// JSON: params, a result, or the data of an error.
    pub value: antiphon_text,
    /// JSON: the id of a request, and of a malformed or refused message if it could be read.
    pub id: antiphon_text,
    /// A message or reason.
    pub text: antiphon_text,
}

impl antiphon_event {
    pub(crate) const NOTHING: Self = Self {
        kind: Kind::ANTIPHON_NOTHING,
        owed: 0,
        request: 0,
        call: 0,
        tag: 0,
        code: 0,
        batch_index: -1,
        method: antiphon_text::NONE,
        value: antiphon_text::NONE,
        id: antiphon_text::NONE,
        text: antiphon_text::NONE,
    };
}

impl antiphon_text {
    const NONE: Self = Self {
        bytes: ptr::null(),
        len: 0,
    };
}

/// An event whose texts are owned. Numbers for requests and calls are set by the connection.
pub(crate) struct Told {
    pub(crate) event: antiphon_event,
    texts: [Option<Vec<u8>>; 4],
}

impl Told {
    pub(crate) const NOTHING: Self = Self {
        event: antiphon_event::NOTHING,
        texts: [const { None }; 4],
    };

    fn new(kind: Kind, origin: Option<Origin>) -> Self {
        let index = origin.and_then(|origin| origin.batch_index);
        let mut told = Self::NOTHING;
        told.event.kind = kind;
        told.event.batch_index = index.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1);
        told
    }

    /// Copies what an event tells.
    pub(crate) fn of(event: &Event<'_, u64>) -> Self {
        match event {
            Event::Request(request) => Self::new(Kind::ANTIPHON_REQUEST, Some(request.origin))
                .method(Some(&request.method))
                .value(request.params)
                .id(Some(request.id.json())),
            Event::Notification(said) => Self::new(Kind::ANTIPHON_NOTIFICATION, Some(said.origin))
                .method(Some(&said.method))
                .value(said.params),
            Event::Response(response) => Self::of_response(response),
            Event::Cancelled(cancelled) => {
                let mut told = Self::new(Kind::ANTIPHON_CANCELLED, None).value(cancelled.reason);
                told.event.owed = cancelled.answer_owed.into();
                told
            }
            Event::Malformed(malformed) => {
                Self::new(Kind::ANTIPHON_MALFORMED, Some(malformed.origin))
                    .id(malformed.id.map(|id| id.json()))
                    .code(malformed.answered)
                    .text(malformed.cause.to_string())
            }
            Event::Refused(refused) => {
                Self::new(Kind::ANTIPHON_REFUSED_MESSAGE, Some(refused.origin))
                    .method(refused.method.as_deref())
                    .id(refused.id.map(|id| id.json()))
                    .code(refused.answered)
                    .text(refused.cause.to_string())
            }
            Event::UnmatchedResponse(unmatched) => {
                Self::new(Kind::ANTIPHON_UNMATCHED, Some(unmatched.origin))
                    .text(unmatched.kind.to_string())
            }
            Event::Closed(why) => Self::new(Kind::ANTIPHON_ENDED, None).text(why.to_string()),
            _ => Self::new(Kind::ANTIPHON_OTHER, None),
        }
    }

    fn of_response(response: &ResponseRef<'_, u64>) -> Self {
        let new = |kind| Self::new(kind, response.origin);
        let mut told = match &response.outcome {
            Outcome::Ok(result) => new(Kind::ANTIPHON_RESULT).value(Some(*result)),
            Outcome::Err(error) => new(Kind::ANTIPHON_ERROR)
                .code(Some(error.code()))
                .text(error.message().to_string())
                .value(error.data()),
            Outcome::Invalid(invalid) => new(Kind::ANTIPHON_INVALID)
                .text(invalid.to_string())
                .value(Some(invalid.text)),
            Outcome::TimedOut => new(Kind::ANTIPHON_TIMED_OUT),
            Outcome::Missing => new(Kind::ANTIPHON_MISSING),
            Outcome::Unsent => new(Kind::ANTIPHON_UNSENT),
            Outcome::Aborted => new(Kind::ANTIPHON_ABORTED),
            _ => new(Kind::ANTIPHON_OTHER),
        };
        told.event.tag = response.tag;
        told
    }

    fn code(mut self, code: Option<i64>) -> Self {
        self.event.code = code.unwrap_or(0);
        self
    }

    fn method(self, method: Option<&str>) -> Self {
        self.keep(0, method.map(String::from))
    }

    fn value(self, value: Option<Json<'_>>) -> Self {
        self.keep(1, value.map(|json| json.as_str().into()))
    }

    fn id(self, id: Option<Json<'_>>) -> Self {
        self.keep(2, id.map(|json| json.as_str().into()))
    }

    fn text(self, text: String) -> Self {
        self.keep(3, Some(text))
    }

    fn keep(mut self, place: usize, text: Option<String>) -> Self {
        self.texts[place] = text.map(|text| {
            let mut text = text.into_bytes();
            text.push(0);
            text
        });
        self
    }

    /// The event, with pointers to its texts, which stay where they are while `self` lives.
    pub(crate) fn shown(&self) -> antiphon_event {
        let [method, value, id, text] = self.texts.each_ref().map(|text| {
            text.as_ref()
                .map_or(antiphon_text::NONE, |text| antiphon_text {
                    bytes: text.as_ptr().cast(),
                    len: text.len() - 1,
                })
        });
        antiphon_event {
            method,
            value,
            id,
            text,
            ..self.event
        }
    }
}
