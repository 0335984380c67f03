//! What went wrong without the peer being told, or fully told, for a log.

use std::fmt;
use std::io;

use antiphon::session;
pub use antiphon::session::{RequestReport as ReportedRequest, StrayReport};
use antiphon::{MalformedCause, NoRoom, OwnedId, RefusedCause};

use crate::fault::to_error;
#[cfg(feature = "websocket")]
use antiphon_websocket::WebSocketEnd;

/// Something that went wrong, for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Report {
    /// A message was not valid. See [`antiphon::Malformed`].
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
    /// A valid message was over a limit. See [`antiphon::Refused`].
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
    /// A message fitted nothing open. See [`antiphon::Stray`].
    Stray {
        /// Why it fitted nothing, and what it said.
        kind: StrayReport,
        /// Its id, where it had one.
        id: Option<OwnedId>,
    },
    /// A request was answered *busy*, because too many bytes wait for the service, under
    /// [`WhenFull::Drop`](crate::WhenFull::Drop).
    QueueFull(ReportedRequest),
    /// A request was answered *busy*, because too much waits for a thread of the
    /// [`Pool`](crate::Pool).
    PoolFull(ReportedRequest),
    /// A handler has dropped its [`Responder`](crate::Responder) without an answer. The request has
    /// been answered *internal error*.
    Unanswered(ReportedRequest),
    /// The connection was ended, because twice as much waits for the service as may, while a call of
    /// ours was open: see [`WhenFull::Pause`](crate::WhenFull::Pause).
    QueueOverflow,
    /// The service was too slow: this many notifications and reports were dropped here, under
    /// [`WhenFull::Drop`](crate::WhenFull::Drop).
    Dropped {
        /// How many.
        messages: u64,
    },
    /// The transport failed. A failure after the connection was meant to end is not reported.
    Io(io::Error),
    /// A WebSocket ended otherwise than it should, by the other side's doing.
    #[cfg(feature = "websocket")]
    WebSocket(WebSocketEnd),
    /// A connection of a listener that speaks no HTTP began like an HTTP request, as a browser sends
    /// it for a page. It was ended before anything of it ran. See
    /// [`Options::refuse_http`](crate::Options::refuse_http).
    HttpRequest,
    /// An HTTP connection was beyond the server's limit: it was answered 503, or closed where many
    /// are being answered so.
    NoRoom(NoRoom),
    /// The service panicked. The request, if it was one, has been answered *internal error*.
    Panicked {
        /// The request whose answer the panic has taken along, if it was one.
        request: Option<ReportedRequest>,
    },
}

impl From<session::Report> for Report {
    fn from(report: session::Report) -> Self {
        match report {
            session::Report::Malformed {
                cause,
                text,
                offset,
                id,
                answered,
            } => Self::Malformed {
                cause,
                text,
                offset,
                id,
                answered,
            },
            session::Report::Refused {
                cause,
                method,
                id,
                answered,
            } => Self::Refused {
                cause,
                method,
                id,
                answered,
            },
            session::Report::Stray { kind, id } => Self::Stray { kind, id },
            session::Report::QueueFull(request) => Self::QueueFull(request),
            session::Report::NoCapacity(request) => Self::PoolFull(request),
            session::Report::Unanswered(request) => Self::Unanswered(request),
            session::Report::Panicked(request) => Self::Panicked { request },
            session::Report::QueueOverflow => Self::QueueOverflow,
            session::Report::Dropped { messages } => Self::Dropped { messages },
            #[cfg(feature = "websocket")]
            session::Report::Layer(fault) => match fault.as_error().downcast_ref() {
                Some(end) => Self::WebSocket(WebSocketEnd::clone(end)),
                None => Self::Io(to_error(&fault)),
            },
            session::Report::Transport(fault) => Self::Io(to_error(&fault)),
            session::Report::HttpRequest => Self::HttpRequest,
            // What a later core may add is told as an error of its own.
            other => Self::Io(io::Error::other(other.to_string())),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
            Self::Stray { kind, id } => {
                write!(f, "a stray message: {kind}")?;
                match id {
                    Some(id) => write!(f, " (id {id})"),
                    None => Ok(()),
                }
            }
            Self::QueueFull(request) => {
                write!(f, "a request was refused, because too many bytes wait: {request}")
            }
            Self::PoolFull(request) => {
                write!(f, "a request was refused, because too much waits for a thread: {request}")
            }
            Self::Unanswered(request) => {
                write!(f, "a handler gave no answer: {request}")
            }
            Self::QueueOverflow => f.write_str(
                "too much waits for the service while a call is open: the connection was ended",
            ),
            Self::Dropped { messages } => write!(f, "{messages} messages dropped"),
            Self::Io(error) => write!(f, "the transport failed: {error}"),
            #[cfg(feature = "websocket")]
            Self::WebSocket(end) => end.fmt(f),
            Self::HttpRequest => f.write_str(
                "an HTTP request where no HTTP is spoken: the connection was ended, and nothing of it ran",
            ),
            Self::NoRoom(why) => write!(f, "a connection refused: {why}"),
            Self::Panicked { request: None } => f.write_str("the service panicked"),
            Self::Panicked {
                request: Some(request),
            } => write!(f, "the service panicked: {request}"),
        }
    }
}
