//! The body of an answer: whole, or a stream of events that is made while it is read.
//!
//! ```text
//!   Exchange ──Reply first──▶ whole: JSON
//!      │
//!      └──Event or Silence first──▶ text/event-stream: each event when the client takes it, comments in
//!                                   silences, and the reply as the last event
//! ```
//!
//! Polling the body runs the handlers. So a client that does not read stops them, and no more than the output
//! of a session waits for it. There is no task and no channel.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::Instant;
use antiphon::http::{HttpAnswer, OnClose, SseEvent, write_comment};
use antiphon_shell::{Exchange, Output, SharedRuntime};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderValue;
use hyper::{Response, StatusCode};

use super::io::after;
use crate::server::{End, Ending};

/// The body of an answer of a web endpoint: one JSON text, or a stream of server-sent events. A stream runs the
/// handlers of its request while it is polled. Dropping it cancels them, or lets them go on, as
/// [`WebRules::on_close`](antiphon::http::WebRules::on_close) says.
pub struct WebBody(Content);

enum Content {
    /// Empty once it has been read.
    Whole(Bytes),
    Events(Box<dyn Events>),
}

/// A stream of events that is made while it is read.
trait Events: Send {
    /// Returns some bytes of it; `None` at the end.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>>;
    fn has_ended(&self) -> bool;
}

/// The connection that carries an exchange, as the exchange sees it.
pub(super) trait Carrier: Send + 'static {
    /// Whether all input was read up to its end: an incomplete body will never be complete.
    fn has_ended(&self) -> bool;

    /// How the server tells it to end.
    fn ending(&mut self) -> &mut Ending;

    /// Whether the client has gone. If not, it is the server that ends the connection.
    fn is_client_gone(&self) -> bool;

    /// Notes that a stream of events is made no further.
    fn stream_ended(&self);
}

/// Whether the server waits no longer for what runs. If not, the task is woken when it does.
fn must_end(carrier: &mut impl Carrier, cx: &mut Context<'_>) -> bool {
    carrier.ending().poll_beyond(End::Drain, cx).is_ready()
}

/// An exchange and its connection, up to the reply.
pub(super) struct Carried<C: Carrier> {
    /// `None` after the reply.
    exchange: Option<Exchange>,
    /// `None` if the answer is given as a whole.
    carrier: Option<C>,
    runtime: SharedRuntime,
    on_close: OnClose,
    /// How long nothing may come before that is told; `None` for ever.
    silence: Option<Duration>,
    silent_until: Instant,
}

impl<C: Carrier> Carried<C> {
    pub(super) fn new(
        exchange: Exchange,
        carrier: Option<C>,
        runtime: &SharedRuntime,
        silence: Option<Duration>,
        on_close: OnClose,
    ) -> Self {
        Self {
            exchange: Some(exchange),
            carrier,
            on_close,
            silence,
            silent_until: silence.map_or(Instant::FAR_FUTURE, |span| runtime.now() + span),
            runtime: runtime.clone(),
        }
    }

    /// Runs the handlers, and returns what comes next. Pending for ever after the reply.
    pub(super) fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Output> {
        let Some(exchange) = &mut self.exchange else {
            return Poll::Pending;
        };
        let carrier = self.carrier.as_mut();
        if carrier.is_some_and(|carrier| carrier.ending().poll_beyond(End::No, cx).is_ready()) {
            exchange.drain();
        }
        let output = ready!(exchange.poll_output(cx, self.silent_until));
        match output {
            Output::Reply(_) => self.exchange = None,
            _ => self.silent_until = after(self.runtime.now(), self.silence),
        }
        Poll::Ready(output)
    }
}

impl<C: Carrier> Drop for Carried<C> {
    fn drop(&mut self) {
        let is_gone = self.carrier.as_ref().is_some_and(C::is_client_gone);
        if let (Some(exchange), Some(mut carrier), OnClose::GoOn { at_most }, true) = (
            self.exchange.take(),
            self.carrier.take(),
            self.on_close,
            is_gone,
        ) {
            exchange.go_on(at_most, move |cx| must_end(&mut carrier, cx));
        }
    }
}

/// An exchange whose head has been sent.
struct Streamed<C: Carrier> {
    carried: Carried<C>,
    /// The answer if the handlers give none.
    unanswered: Vec<u8>,
    /// The beginning of the stream, until it is read.
    first: Option<Output>,
}

impl<C: Carrier> Events for Streamed<C> {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let output = match self.first.take() {
            Some(first) => first,
            None if self.has_ended() => return Poll::Ready(None),
            None => {
                let carrier = self.carried.carrier.as_mut();
                if carrier.is_some_and(|carrier| must_end(carrier, cx)) {
                    self.carried.exchange = None;
                    return Poll::Ready(None);
                }
                ready!(self.carried.poll_output(cx))
            }
        };
        let message = match output {
            Output::Event(message) | Output::Reply(Ok(Some(message))) => message,
            Output::Reply(Ok(None)) => return Poll::Ready(None),
            Output::Reply(Err(_)) => take(&mut self.unanswered),
            _ => {
                let mut comment = Vec::new();
                write_comment("", &mut comment);
                return Poll::Ready(Some(comment));
            }
        };
        let mut event = Vec::new();
        SseEvent::new(&message).write(&mut event);
        Poll::Ready(Some(event))
    }

    fn has_ended(&self) -> bool {
        self.first.is_none() && self.carried.exchange.is_none()
    }
}

impl<C: Carrier> Drop for Streamed<C> {
    fn drop(&mut self) {
        self.carried.carrier.iter().for_each(C::stream_ended);
    }
}

impl WebBody {
    /// Makes the body of an exchange that has brought something before its reply.
    pub(super) fn stream<C: Carrier>(
        carried: Carried<C>,
        unanswered: Vec<u8>,
        first: Output,
    ) -> Self {
        Self(Content::Events(Box::new(Streamed {
            carried,
            unanswered,
            first: Some(first),
        })))
    }

    /// Whether this is a stream of events, and not one JSON text or an empty body.
    pub fn is_stream(&self) -> bool {
        matches!(self.0, Content::Events(_))
    }
}

/// An empty body, as layers of tower want it.
impl Default for WebBody {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl From<Vec<u8>> for WebBody {
    fn from(whole: Vec<u8>) -> Self {
        Self(Content::Whole(whole.into()))
    }
}

impl Body for WebBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.0 {
            Content::Whole(whole) if whole.is_empty() => None,
            Content::Whole(whole) => Some(take(whole)),
            Content::Events(events) => ready!(events.poll_events(cx)).map(Bytes::from),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(whole) => whole.is_empty(),
            Content::Events(events) => events.has_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            Content::Events(_) => SizeHint::new(),
        }
    }
}

/// Makes the response of hyper.
pub(super) fn response<B: From<Vec<u8>>>(answer: HttpAnswer) -> Response<B> {
    let mut response = Response::new(B::from(answer.body));
    let status = StatusCode::from_u16(answer.status);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        let value = match value {
            Cow::Borrowed(value) => Bytes::from_static(value.as_bytes()),
            Cow::Owned(value) => value.into(),
        };
        match HeaderValue::from_maybe_shared(value) {
            Ok(value) => {
                response.headers_mut().append(name, value);
            }
            // An answer that HTTP cannot express is a fault of this side.
            Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
    response
}

impl fmt::Debug for WebBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebBody")
            .field("is_stream", &self.is_stream())
            .finish_non_exhaustive()
    }
}
