//! The ways in which HTTP can fail.

use std::fmt;
use std::io;

use antiphon::http::ReplyError;

use super::reply::HttpReply;

/// A failure of the transport. Errors in the peer's answer are [`CallError`](crate::CallError)s.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpError {
    /// The reply is not an answer: an error status, an HTML page, a redirect to another origin, or
    /// too many bytes.
    Reply(ReplyError, HttpReply),
    /// The reply has this content coding, which the request did not accept.
    Coding(String, HttpReply),
    /// No connection could be made: nothing was sent.
    Connect(io::Error),
    /// No byte of the request was sent: every connection ended before, or the call's time ended while it
    /// waited for a connection.
    Unsent(io::Error),
    /// Bytes of the request were sent, and the connection ended, in whatever way, before the whole reply
    /// came, or a reply that is a stream of events ended without the answer. The server may or may not have acted: a reset does not show that it has read nothing.
    Lost(io::Error),
    /// No reply came in time. The server may still be working. The call then ends as
    /// [`CallError::TimedOut`](crate::CallError::TimedOut).
    TimedOut,
    /// The client has been closed: nothing was sent.
    Closed,
    /// The URL is not valid for requests.
    Url(&'static str),
    /// A configured header is not valid.
    Header(String),
}

impl HttpError {
    /// Whether repeating the call is safe, because no byte of its request was sent.
    pub fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Connect(_) | Self::Unsent(_) | Self::Closed | Self::Url(_) | Self::Header(_)
        )
    }

    /// The status of the server's reply, if one came.
    pub fn status(&self) -> Option<u16> {
        self.reply().map(|reply| reply.status)
    }

    /// The status and headers of the reply, if one came that is not a valid answer: for `Retry-After`,
    /// for example.
    pub fn reply(&self) -> Option<&HttpReply> {
        match self {
            Self::Reply(_, reply) | Self::Coding(_, reply) => Some(reply),
            _ => None,
        }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The reply's text is more useful than the position of the parse error.
            Self::Reply(ReplyError::NoAnswer(_), HttpReply { status, text, .. })
                if !text.is_empty() =>
            {
                write!(
                    f,
                    "the reply with status {status} is no JSON-RPC answer: {text}"
                )
            }
            Self::Reply(ReplyError::Status { status, .. }, HttpReply { text, .. })
                if !text.is_empty() =>
            {
                write!(f, "the server answered with status {status}: {text}")
            }
            Self::Reply(error, _) => error.fmt(f),
            Self::Coding(coding, _) => write!(
                f,
                "the reply has the content coding {coding:?}, which was not asked for"
            ),
            Self::Connect(error) => write!(f, "the server cannot be reached: {error}"),
            Self::Unsent(error) => write!(f, "the request was not sent: {error}"),
            Self::Lost(error) => write!(f, "the connection was lost: {error}"),
            Self::TimedOut => f.write_str("there was no reply in time"),
            Self::Closed => f.write_str("the client has been closed"),
            Self::Url(why) => write!(f, "the URL is of no use: {why}"),
            Self::Header(name) => write!(f, "the header {name} cannot be sent"),
        }
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text of the error is part of the text of this one already.
            Self::Connect(error) | Self::Unsent(error) | Self::Lost(error) => error.source(),
            _ => None,
        }
    }
}
