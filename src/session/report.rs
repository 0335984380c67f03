//! What went wrong in a session, for a log. The peer is sent less of it, or nothing.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::time::Duration;

use crate::admission::LimitReached;
use crate::connection::SendError;
use crate::error_object::OwnedError;
use crate::event::{
    CANCELLED, LATE, Malformed, MalformedCause, NULL_ID, OVER_LIMIT, Refused, RefusedCause,
    UNKNOWN, UNMATCHED_CANCEL, UnmatchedKind, UnmatchedResponse,
};
use crate::id::OwnedId;
use crate::json::{DecodeError, Reason};
use crate::owned::OwnedOutcome;
use crate::shared::{Arc, erased};

/// The most bytes of a malformed message that a report keeps.
const MAX_TEXT_BYTES: usize = 1024;

/// An error of the transport, or of a layer between it and the messages, as the driver got it.
#[derive(Clone)]
pub struct Fault(Arc<dyn Error + Send + Sync>);

impl Fault {
    /// The error itself.
    pub fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(erased(Box::new(error)))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something that went wrong, for a log. Of what the peer has sent, its text and debug output quote only
/// names of methods, ids and messages of errors, and nothing of a [malformed message](Self::Malformed).
#[derive(Clone)]
#[non_exhaustive]
pub enum Report {
    /// A message was not valid. See [`Malformed`].
    Malformed {
        /// What was wrong.
        cause: MalformedCause,
        /// The message, or its first 1024 bytes.
        text: Vec<u8>,
        /// Where in the message the cause was found, in bytes from its start.
        offset: usize,
        /// The id, where one was readable.
        id: Option<OwnedId>,
        /// The code of the error sent to the peer, if one was.
        answered: Option<i64>,
    },
    /// A valid message was over a limit. See [`Refused`].
    Refused {
        /// The limit.
        cause: RefusedCause,
        /// The method, where there was one.
        method: Option<String>,
        /// The id, where there was one.
        id: Option<OwnedId>,
        /// The code of the error sent to the peer, if one was.
        answered: Option<i64>,
    },
    /// A response or a cancel matched nothing that is open. See [`UnmatchedResponse`].
    UnmatchedResponse {
        /// Why it matched nothing.
        kind: UnmatchedDetails,
        /// Its id, where it had one.
        id: Option<OwnedId>,
    },
    /// A request was answered *busy*, because too many bytes wait for the service, under
    /// [`WhenFull::Drop`](super::WhenFull::Drop).
    QueueFull(RequestDetails),
    /// A request was answered *busy*, because the driver had no capacity to begin it: too many
    /// requests wait for a thread, or for their turn at the server.
    NoCapacity(RequestDetails),
    /// A handler dropped its request without an answer. The request was answered *internal error*.
    Unanswered(RequestDetails),
    /// The params of a request or a notification did not fit its handler. The answer to a request
    /// only says that they are invalid.
    InvalidParams(RequestDetails, DecodeError),
    /// A handler failed. If the error has a `source`, the peer was only sent *internal error*; or, if
    /// the source says that the data of an error was left out, that error without data. If the handler
    /// was that of a notification, the peer was sent nothing.
    Failed(RequestDetails, OwnedError),
    /// A handler's answer could not be sent, for this reason. The request was answered *internal
    /// error*.
    AnswerRefused(RequestDetails, SendError),
    /// An error was sent without its data, because they did not fit: they were over
    /// `max_error_data_bytes`, the answer of the batch would have been over `max_batch_reply_bytes`, or the
    /// output over `max_outbox_bytes`.
    DataDropped(RequestDetails),
    /// A handler panicked. If it served a request, that was answered *internal error*.
    Panicked(Option<RequestDetails>),
    /// The session was closed, because twice as much waits for the service as allowed while one of
    /// our calls was open: see [`WhenFull::Pause`](super::WhenFull::Pause).
    QueueOverflow,
    /// The service was too slow: this many notifications, beginnings of batches and reports were
    /// dropped, the first of them at the position of this report, under
    /// [`WhenFull::Drop`](super::WhenFull::Drop). (The inbox of an adapter also sends this at the end of
    /// the connection, if reports found it full.)
    Dropped {
        /// How many.
        messages: u64,
    },
    /// The reader of a stream was too slow: this many of its events were dropped, as the
    /// [`Bound`](super::Bound) of its route says. Reported once, when all others were read or the route was
    /// closed.
    EventsDropped {
        /// The notification that carries them.
        method: &'static str,
        /// How many.
        events: u64,
    },
    /// The peer reads too slowly what it has subscribed to: this many publications were dropped because of a limit, from
    /// the first one until nothing waited any more. Under
    /// [`FeedOverflow::DropConnection`](crate::pubsub::FeedOverflow::DropConnection) the connection was closed.
    PublicationsDropped {
        /// The limit that was reached first: the name of a field of
        /// [`FeedLimits`](crate::pubsub::FeedLimits), or `max_outbox_bytes` for publications that no output can
        /// hold.
        limit: &'static str,
        /// How many.
        publications: u64,
    },
    /// This many events came while the answer to a call that opens a stream was awaited, and belong to
    /// no stream: no answer brought their id, or more came than are kept.
    EventsUnmatched {
        /// The notification that carries them.
        method: &'static str,
        /// How many.
        events: u64,
    },
    /// The peer did not answer the call that unsubscribes a stream in time. Until then events of the stream
    /// were ignored; later ones are ordinary notifications.
    NotUnsubscribed {
        /// The method of the call.
        method: &'static str,
        /// How many events were ignored.
        events: u64,
    },
    /// Nobody serves the method of a request or a notification. A request was answered with an error,
    /// *method not found* in most cases; a notification was ignored. Each name is reported once on a
    /// connection, and 16 names at most; a longer one is cut to its first 256 bytes.
    /// [`report_unserved`](super::SessionConfig::report_unserved) turns this off.
    Unserved(RequestDetails),
    /// At the end of the connection: this many requests and notifications were not served either, and not
    /// reported by an [`Unserved`](Self::Unserved) of their own. Over HTTP, where each HTTP request is a
    /// connection, they are not counted.
    MoreUnserved {
        /// How many.
        messages: u64,
    },
    /// A handler holds up the messages after it for more than 5 s by now, because of the session's
    /// [`Order`](super::Order). It is reported once. On threads the report comes when the handler has
    /// ended.
    HoldsOrder(RequestDetails),
    /// The transport failed before this side had closed or drained the session.
    Transport(Fault),
    /// The layer between the transport and the messages, such as WebSocket, ended with a fault of
    /// the peer.
    Layer(Fault),
    /// A stream began like an HTTP request, and was closed before anything of it ran. See
    /// [`SessionConfig::refuse_http`](super::SessionConfig::refuse_http).
    HttpRequest,
    /// The driver refused a connection beyond a limit on connections, before it handled anything
    /// from it.
    LimitReached(LimitReached),
}

/// How much a [`Report`] matters to the people who run the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// A peer did something wrong, or has vanished. Any stranger can cause it, as often as it likes.
    Info,
    /// A limit was reached, or a handler took too long.
    Warning,
    /// Something in this program has to be mended.
    Error,
}

/// The names that have been reported, and how many messages have come besides.
#[derive(Default)]
pub(super) struct Unserved {
    pub(super) names: Vec<Box<str>>,
    pub(super) more: u64,
}

/// The request that a report is about.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RequestDetails {
    /// The method.
    pub method: String,
    /// The request's id as the peer wrote it. `None` for a notification.
    pub id: Option<OwnedId>,
    /// The time since the service was given the request; zero if it never was, and for a
    /// notification.
    pub duration: Duration,
}

impl RequestDetails {
    pub(super) fn new(method: &str, id: OwnedId, duration: Duration) -> Self {
        Self {
            method: method.into(),
            id: Some(id),
            duration,
        }
    }

    /// Returns the details of a notification.
    pub fn of_notification(method: &str) -> Self {
        Self {
            method: method.into(),
            id: None,
            duration: Duration::ZERO,
        }
    }
}

impl fmt::Display for RequestDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.duration.as_millis();
        match &self.id {
            Some(id) => write!(f, "{} (id {id}) after {millis} ms", self.method),
            None => write!(f, "{} (notification)", self.method),
        }
    }
}

/// Why a message matched nothing that is open. See [`UnmatchedKind`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum UnmatchedDetails {
    /// An answer to a call that had ended.
    Late(OwnedOutcome),
    /// The answer to a call that was cancelled at the peer. A session does not report it, because it is
    /// expected.
    Cancelled(OwnedOutcome),
    /// An answer with an id that was never sent.
    Unknown(OwnedOutcome),
    /// An answer without an id, or with a null id.
    NullId(OwnedOutcome),
    /// A cancel of a request that is not open.
    Cancel,
}

impl Report {
    /// How much it matters: the level for a log.
    ///
    /// ```
    /// use antiphon::session::{Report, Severity};
    /// assert_eq!(Report::Panicked(None).severity(), Severity::Error);
    /// assert_eq!(Report::HttpRequest.severity(), Severity::Info);
    /// ```
    pub fn severity(&self) -> Severity {
        match self {
            Self::Panicked(_)
            | Self::Unanswered(_)
            | Self::AnswerRefused(_, SendError::Encode(_)) => Severity::Error,
            Self::Failed(_, error) if error.source().is_some() => Severity::Error,
            // An error that was made for the peer: an unauthorised notification, for example.
            Self::Failed(request, _) if request.id.is_none() => Severity::Info,
            Self::Failed(..)
            | Self::AnswerRefused(..)
            | Self::DataDropped(_)
            | Self::QueueFull(_)
            | Self::NoCapacity(_)
            | Self::QueueOverflow
            | Self::Dropped { .. }
            | Self::EventsDropped { .. }
            | Self::HoldsOrder(_)
            | Self::LimitReached(_) => Severity::Warning,
            Self::Malformed { .. }
            | Self::Refused { .. }
            | Self::UnmatchedResponse { .. }
            | Self::InvalidParams(..)
            | Self::EventsUnmatched { .. }
            | Self::PublicationsDropped { .. }
            | Self::NotUnsubscribed { .. }
            | Self::Unserved(_)
            | Self::MoreUnserved { .. }
            | Self::Transport(_)
            | Self::Layer(_)
            | Self::HttpRequest => Severity::Info,
        }
    }

    /// Returns the report, and how many of the peer's bytes it holds.
    pub(super) fn malformed(malformed: Malformed<'_>) -> (Self, usize) {
        let bytes = malformed.text.len().min(MAX_TEXT_BYTES);
        let report = Self::Malformed {
            cause: malformed.cause,
            text: malformed.text[..bytes].to_vec(),
            offset: malformed.offset,
            id: malformed.id.map(Into::into),
            answered: malformed.answered,
        };
        // The text is counted, and about as much again for the id.
        (report, malformed.origin.bytes.min(2 * MAX_TEXT_BYTES))
    }

    /// Returns the report, and how many of the peer's bytes it holds.
    pub(super) fn refused(refused: Refused<'_>) -> (Self, usize) {
        let method = refused.method.as_ref().map_or(0, |method| method.len());
        let id = refused.id.map_or(0, |id| id.text().len());
        let report = Self::Refused {
            cause: refused.cause,
            method: refused.method.map(|method| method.into_owned()),
            id: refused.id.map(Into::into),
            answered: refused.answered,
        };
        (report, method + id)
    }

    /// Returns the report, and how many of the peer's bytes it holds.
    pub(super) fn unmatched(unmatched: UnmatchedResponse<'_>) -> (Self, usize) {
        let report = Self::UnmatchedResponse {
            kind: unmatched.kind.into(),
            id: unmatched.id.map(Into::into),
        };
        (report, unmatched.origin.bytes)
    }
}

impl From<UnmatchedKind<'_>> for UnmatchedDetails {
    fn from(kind: UnmatchedKind<'_>) -> Self {
        match kind {
            UnmatchedKind::Late(outcome) => Self::Late(outcome.into_owned()),
            UnmatchedKind::Cancelled(outcome) => Self::Cancelled(outcome.into_owned()),
            UnmatchedKind::Unknown(outcome) => Self::Unknown(outcome.into_owned()),
            UnmatchedKind::NullId(outcome) => Self::NullId(outcome.into_owned()),
            UnmatchedKind::Cancel => Self::Cancel,
        }
    }
}

impl fmt::Display for UnmatchedDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(outcome) => write!(f, "{LATE}{outcome}"),
            Self::Cancelled(outcome) => write!(f, "{CANCELLED}{outcome}"),
            Self::Unknown(outcome) => write!(f, "{UNKNOWN}{outcome}"),
            Self::NullId(outcome) => {
                let over = match outcome {
                    OwnedOutcome::Err(error) if error.as_error().is_over_limit() => OVER_LIMIT,
                    _ => "",
                };
                write!(f, "{NULL_ID}{outcome}{over}")
            }
            Self::Cancel => f.write_str(UNMATCHED_CANCEL),
        }
    }
}

/// Prints the text of `Display` instead of the fields, because messages may be secrets.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Report")
            .field(&format_args!("{self}"))
            .finish()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The text of a syntax error has the position already.
            Self::Malformed { cause, .. } if matches!(cause, MalformedCause::Syntax(_)) => {
                write!(f, "a malformed message: {cause}")
            }
            Self::Malformed { cause, offset, .. } => {
                write!(f, "a malformed message: {cause}, at byte {offset}")
            }
            Self::Refused { cause, method, .. } => {
                write!(f, "a refused message: {cause}")?;
                match method {
                    Some(method) => write!(f, " ({method})"),
                    None => Ok(()),
                }
            }
            Self::UnmatchedResponse { kind, id } => {
                write!(f, "an unmatched message: {kind}")?;
                match id {
                    Some(id) => write!(f, " (id {id})"),
                    None => Ok(()),
                }
            }
            Self::QueueFull(request) => {
                write!(f, "a request was refused, because too many bytes wait: {request}")
            }
            Self::NoCapacity(request) => {
                write!(f, "a request was refused, because the service has no capacity: {request}")
            }
            Self::Unanswered(request) => write!(f, "a handler gave no answer: {request}"),
            Self::InvalidParams(request, error) => {
write!(f, "invalid params: {}: {request}", Reason(error))
            }
            Self::Failed(request, error) => match error.source() {
                Some(cause) => write!(f, "a handler failed: {cause}: {request}"),
                None => write!(f, "a handler failed: {error}: {request}"),
            },
            Self::AnswerRefused(request, error) => {
                write!(f, "an answer could not be sent: {error}: {request}")
            }
            Self::DataDropped(request) => {
                write!(f, "an error was sent without its data, which did not fit: {request}")
            }
            Self::Panicked(None) => f.write_str("the service panicked"),
            Self::Panicked(Some(request)) => write!(f, "the service panicked: {request}"),
            Self::QueueOverflow => f.write_str(
                "too much waits for the service while a call is open: the connection was ended",
            ),
            Self::Dropped { messages } => write!(f, "{messages} messages dropped"),
            Self::PublicationsDropped {
                limit,
                publications,
            } => write!(
                f,
                "{publications} publications were dropped: the peer reads too slowly ({limit})"
            ),
            Self::EventsDropped { method, events } => {
                write!(f, "{events} events dropped, because their reader is slow: {method}")
            }
            Self::EventsUnmatched { method, events } => {
                write!(f, "{events} events that belong to no stream: {method}")
            }
            Self::NotUnsubscribed { method, events } => {
                write!(f, "{method} was not answered in time, and {events} events were ignored")
            }
            Self::Unserved(request) => write!(f, "nobody serves it: {request}"),
            Self::MoreUnserved { messages } => {
                write!(f, "{messages} more messages that nobody serves")
            }
            Self::HoldsOrder(request) => {
                let (method, millis) = (&request.method, request.duration.as_millis());
                write!(f, "a handler holds up the messages after it for {millis} ms: {method}")
            }
            Self::Transport(fault) => write!(f, "the transport failed: {fault}"),
            Self::Layer(fault) => fault.fmt(f),
            Self::HttpRequest => f.write_str(
                "an HTTP request where no HTTP is spoken: the connection was ended, and nothing of it ran",
            ),
            Self::LimitReached(why) => write!(f, "a connection refused: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::{Report, RequestDetails, Severity, UnmatchedDetails};
    use crate::error_object::OwnedError;
    use crate::event::{InvalidReason, MalformedCause};
    use crate::{ErrorObject, Outcome, OwnedOutcome, UnmatchedKind};

    // SEC-15
    #[test]
    fn what_is_printed_of_a_report_has_no_text_of_its_message() {
        let cause = MalformedCause::Call(InvalidReason::ErrorShape);
        let report = Report::Malformed {
            cause,
            text: b"secret".to_vec(),
            offset: 3,
            id: None,
            answered: None,
        };
        let words = format!("a malformed message: {cause}, at byte 3");
        assert_eq!(report.to_string(), words);
        assert_eq!(format!("{report:?}"), format!("Report({words})"));
    }

    // USE-37
    #[test]
    fn a_client_that_vanished_was_an_error() {
        let fault = || super::Fault::from(core::fmt::Error);
        for report in [Report::Transport(fault()), Report::Layer(fault())] {
            assert_eq!(report.severity(), Severity::Info);
        }
        // What is made for the peer is no fault of the program; what is hidden from it is.
        let about = RequestDetails::of_notification("n");
        let refused = OwnedError::new(1, "no");
        let failed = OwnedError::internal(core::fmt::Error.into());
        for (error, severity) in [(refused, Severity::Info), (failed, Severity::Error)] {
            let report = Report::Failed(about.clone(), error);
            assert_eq!(report.severity(), severity);
        }
    }

    // OBS-01
    #[test]
    fn a_message_that_is_no_json_is_reported_with_its_position_once() {
        let error = crate::Json::parse_str("hello").unwrap_err();
        let report = Report::Malformed {
            cause: MalformedCause::Syntax(error),
            text: b"hello".to_vec(),
            offset: error.offset(),
            id: None,
            answered: None,
        };
        let expected = "a malformed message: unexpected byte at byte 0";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    fn an_unmatched_response_is_told_in_the_words_of_its_event() {
        let over = ErrorObject::new(-32600, "at most 7 bytes");
        let other = ErrorObject::new(1, "none");
        for outcome in [Outcome::TimedOut, Outcome::Err(over), Outcome::Err(other)] {
            for kind in [
                UnmatchedKind::Late(outcome.clone()),
                UnmatchedKind::Cancelled(outcome.clone()),
                UnmatchedKind::Unknown(outcome.clone()),
                UnmatchedKind::NullId(outcome.clone()),
                UnmatchedKind::Cancel,
            ] {
                let said = kind.to_string();
                assert_eq!(UnmatchedDetails::from(kind).to_string(), said);
            }
        }
        // An invalid answer whose text was not kept is described by its reason.
        let invalid = OwnedOutcome::Invalid(InvalidReason::ErrorShape.into());
        let said = UnmatchedDetails::Late(invalid).to_string();
        assert!(
            said.starts_with("an answer to a call that is over: an invalid answer: "),
            "{said}"
        );
    }
}
