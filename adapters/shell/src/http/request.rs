//! A client's requests and their responses, as plain data.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use antiphon::http::{ReplyError, SseReader};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use http::header::CONTENT_TYPE;

use super::body_text::first_bytes;
use super::error::HttpError;
use super::reply::HttpReply;
use super::url::HttpUrl;
use crate::context::Headers;
use crate::debug_fields;
use crate::runtime::{SharedRuntime, until};

/// How much a blocking reader is asked for at a time.
const MAX_PIECE_BYTES: usize = 8 << 10;

/// How long the end of a body is awaited after the answer.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// How many turns of the task the end of a body may take that has come with an answer.
const MAX_TURNS: usize = 8;

/// A request to be sent: always a POST.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The URL of the request.
    pub url: HttpUrl,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The media types of the reply that are accepted: the header `Accept`. One of them is that of a stream of
    /// events, whose body should be given [in pieces](HttpResponse::with_pieces).
    pub accept: &'static str,
    /// The configured headers, and those that interceptors have added. The sender adds those of HTTP
    /// itself, such as `Host`.
    pub headers: Arc<Vec<(String, String)>>,
    /// The body.
    pub body: Arc<Vec<u8>>,
    /// The largest accepted reply, in bytes. A larger one is refused.
    pub max_reply_bytes: usize,
    /// How much time the call has left; `None` for ever.
    pub timeout: Option<Duration>,
    /// How far the request is, for a sender that notes it.
    pub progress: Arc<SendProgress>,
}

/// How far a request is on its way to the server. A sender of the program's own may send it several times.
#[derive(Debug, Default)]
pub struct SendProgress {
    is_waiting: AtomicBool,
    may_be_read: AtomicBool,
}

impl SendProgress {
    /// Notes whether it waits for a connection.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Notes whether it was sent, so that the server may have read all of it. Returns what was noted before.
    pub fn set_may_be_read(&self, may_be_read: bool) -> bool {
        self.may_be_read.swap(may_be_read, Ordering::Relaxed)
    }

    /// Whether it waits for a connection, and was never sent.
    pub(crate) fn is_unsent(&self) -> bool {
        let may_be_read = self.may_be_read.load(Ordering::Relaxed);
        self.is_waiting.load(Ordering::Relaxed) && !may_be_read
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("url", &self.url)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A response.
#[derive(Debug)]
#[non_exhaustive]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The header `Location`: the target of a redirect.
    pub location: Option<String>,
    /// The headers, if the sender provides them. A sender that decodes a body leaves its
    /// `Content-Encoding` out.
    pub headers: Headers,
    /// The body; empty if there is none. What comes later is in the pieces.
    pub body: Vec<u8>,
    pieces: Pieces,
    /// Whether taking a piece blocks the thread.
    blocks: bool,
    drained_on: Option<SharedRuntime>,
}

/// The part of a body that is still to come.
#[derive(Default)]
struct Pieces(Option<BoxStream<'static, io::Result<Vec<u8>>>>);

debug_fields!(impl[] Pieces as "Pieces" {});

impl HttpResponse {
    /// Makes a response that is no redirect.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            location: None,
            headers: Headers::new(),
            body: body.into(),
            pieces: Pieces::default(),
            blocks: false,
            drained_on: None,
        }
    }

    /// Adds a body that comes in pieces, after what is there already. So progress and other events of a call
    /// are read as soon as they come; a reply that is no stream of events is collected, up to
    /// [`max_reply_bytes`](HttpRequest::max_reply_bytes). The client drops the stream when it needs no more of
    /// it, which must end the exchange. While the caller does not poll its call, the stream is not polled
    /// either.
    #[must_use]
    pub fn with_pieces<P, E>(
        mut self,
        pieces: impl Stream<Item = Result<P, E>> + Send + 'static,
    ) -> Self
    where
        P: Into<Vec<u8>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let pieces = pieces.map(|piece| piece.map(Into::into).map_err(io::Error::other));
        self.pieces = Pieces(Some(pieces.boxed()));
        self
    }

    /// Adds a body that is read from `reader`, as [`with_pieces`](Self::with_pieces) does: for senders that
    /// block. A read may take no longer than the request's [`timeout`](HttpRequest::timeout).
    #[must_use]
    pub fn with_reader(self, mut reader: impl io::Read + Send + 'static) -> Self {
        let read = move || {
            let mut piece = vec![0; MAX_PIECE_BYTES];
            let read = reader.read(&mut piece);
            piece.truncate(*read.as_ref().unwrap_or(&0));
            read.map(|_| Some(piece).filter(|piece| !piece.is_empty()))
                .transpose()
        };
        let blocks = true;
        let pieces = stream::iter(std::iter::from_fn(read));
        let response = self.with_pieces(pieces);
        Self { blocks, ..response }
    }

    /// Has `runtime` read the end of a body in pieces, if it comes within a second after the answer, so that an
    /// adapter can use the connection again.
    #[must_use]
    pub fn drained_on(mut self, runtime: &SharedRuntime) -> Self {
        self.drained_on = Some(runtime.clone());
        self
    }

    /// Waits for the next piece of the body; `None` after the last one.
    pub(crate) async fn next_piece(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        let Some(pieces) = &mut self.pieces.0 else {
            return Ok(None);
        };
        let piece = poll_fn(|cx| pieces.as_mut().poll_next(cx)).await;
        piece.transpose().map_err(HttpError::Lost)
    }

    /// Takes the end of the body, of which nothing more is needed: then the connection can be used again. What
    /// reads the connection may have to run before. If the end has not come by then, it is awaited apart.
    pub(crate) async fn take_end(mut self) {
        let mut turns = MAX_TURNS;
        let has_ended = poll_fn(|cx| {
            turns -= 1;
            let Some(pieces) = self.pieces.0.as_mut().filter(|_| turns > 0) else {
                return Poll::Ready(false);
            };
            if let Poll::Ready(None | Some(Err(_))) = pieces.as_mut().poll_next(cx) {
                return Poll::Ready(true);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        if self.blocks || has_ended.await {
            return;
        }
        if let Some(runtime) = self.drained_on.take() {
            let on = runtime.clone();
            on.spawn(Box::pin(async move {
                let rest = self.collect(MAX_PIECE_BYTES);
                let _ = until(&*runtime, runtime.now() + END_TIMEOUT, rest).await;
            }));
        }
    }

    /// Reads the body to its end.
    pub(crate) async fn collect(mut self, max_bytes: usize) -> Result<Self, HttpError> {
        while let Some(piece) = self.next_piece().await? {
            if self.body.len() + piece.len() > max_bytes {
                return Err(self.too_large(max_bytes));
            }
            self.body.extend_from_slice(&piece);
        }
        Ok(self)
    }

    /// Whether the body is a stream of events that is to be read as such.
    pub(crate) fn has_events(&self) -> bool {
        let media_type = self.headers.text(CONTENT_TYPE).unwrap_or_default();
        (200..300).contains(&self.status) && SseReader::is_named_by(media_type)
    }

    /// The status and the headers.
    pub(crate) fn head(&self) -> HttpReply {
        HttpReply {
            status: self.status,
            headers: self.headers.clone(),
            text: String::new(),
        }
    }

    /// The error for a reply that is no answer.
    pub(crate) fn refused(&self, error: ReplyError) -> HttpError {
        let text = first_bytes(&self.body);
        HttpError::Reply(
            error,
            HttpReply {
                text,
                ..self.head()
            },
        )
    }

    /// Returns the error for a sender that has read this much of a reply and finds that it is
    /// larger than `max_bytes`.
    pub fn too_large(self, max_bytes: usize) -> HttpError {
        self.refused(ReplyError::TooLarge { max_bytes })
    }
}
