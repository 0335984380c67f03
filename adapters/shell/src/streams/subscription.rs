//! An open stream of events.
//!
//! ```text
//!   Open ── connection lost, with `resubscribe` ──▶ Lost ── subscribed again, and told ──▶ Open
//!    │ end of the connection                         │ refused, or the client is closed
//!    ▼                                               ▼
//!   Over ◀───────────────────────────────────────────┘  with its reason as the last item
//! ```

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use antiphon::session::Routed;
use antiphon::{DecodeError, Json, OwnedJson, Style};
use futures_util::Stream;
use serde::de::DeserializeOwned;

use crate::call::call_error::CallError;
use crate::call::route::Route;
use crate::client::Client;
use crate::client::roster::lost_because;
use crate::runtime::threads::block_on;
use crate::streams::source::{Opened, Source};
use crate::wait::BoxFuture;

/// A stream of the events to which the program has subscribed: made by [`Peer::subscribe`](crate::Peer::subscribe)
/// or [`Client::subscribe`].
///
/// It is a `Stream` in tasks, and an iterator on threads: `for event in events`. Each item is a value of type
/// `T`, or a [`SubscriptionError`] that stands where something is missing; after most of these the stream
/// goes on. So a loop that returns the error by `?` never misses an event without knowing it.
///
/// Up to 1024 events wait for their reader, and at most as many bytes as
/// [`max_queued_bytes`](crate::ConnectionConfig::max_queued_bytes) says for all streams of the connection. Of
/// more the oldest are dropped.
///
/// Dropping it unsubscribes, without waiting. Events that come until the peer has answered that are ignored.
#[must_use = "dropping it unsubscribes"]
pub struct Subscription<T> {
    id: OwnedJson,
    state: State,
    /// What is subscribed again after a reconnect; `None` if the stream ends with its connection.
    again: Option<Arc<Source>>,
    /// Keeps the connection open.
    _client: Client,
    item: PhantomData<fn() -> T>,
}

enum State {
    /// Events come by this route.
    Open(Arc<Route>),
    /// The connection was lost, and the stream is being opened over the next one.
    Lost(BoxFuture<'static, Result<Opened, CallError>>),
    /// Nothing more comes.
    Over,
}

/// What a stream tells between its events.
#[derive(Debug)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// This many events were dropped at this place, because the reader is slow.
    Lagged(u64),
    /// The connection was lost, and the stream goes on over another one. Events between are missing.
    Resubscribed {
        /// The id that the server gave the stream before.
        old: OwnedJson,
        /// The id that it has now.
        new: OwnedJson,
    },
    /// An event does not have the type of the stream. Only this event is missing.
    Decode(DecodeError),
    /// The stream has ended: the last item.
    Ended(StreamEnd),
}

/// Why a stream has ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The connection has ended. The error says why; `None` if this side has ended it.
    Closed(Option<io::Error>),
    /// The peer has given the stream up, for this reason, as a jsonrpsee server may.
    GivenUp(OwnedJson),
    /// The peer has given the id of the stream to another one.
    IdReused,
    /// Another consumer has the durable subscription now.
    TakenOver,
    /// The call has failed: the one that should open the stream again, or the one whose results it has.
    Call(CallError),
}

impl<T> Subscription<T> {
    pub(crate) fn new(
        id: OwnedJson,
        route: Arc<Route>,
        client: Client,
        again: Option<Arc<Source>>,
    ) -> Self {
        Self {
            id,
            state: State::Open(route),
            again,
            _client: client,
            item: PhantomData,
        }
    }

    /// The id that the peer has given the stream, a string or a number. After a reconnect it is the new one.
    pub fn id(&self) -> Json<'_> {
        self.id.as_json()
    }
}

impl<T: DeserializeOwned> Subscription<T> {
    /// Waits for the next event; `None` after the end. If it is dropped before, nothing is lost.
    pub async fn next(&mut self) -> Option<Result<T, SubscriptionError>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, SubscriptionError>>> {
        loop {
            match &mut self.state {
                State::Open(route) => match ready!(route.poll(cx.waker())) {
                    Some(Routed::GivenUp(why)) if Style::is_completed(why.as_json()) => {
                        self.state = State::Over;
                        return Poll::Ready(None);
                    }
                    Some(Routed::GivenUp(why)) => return self.end(StreamEnd::GivenUp(why)),
                    Some(routed) => return Poll::Ready(Some(item(routed))),
                    None => {
                        let end = end_of(route);
                        self.state = match &self.again {
                            Some(again) if matches!(end, StreamEnd::Closed(_)) => {
                                let again = Arc::clone(again);
                                State::Lost(Box::pin(async move { again.subscribe_again().await }))
                            }
                            _ => return self.end(end),
                        };
                    }
                },
                State::Lost(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok((id, route)) => {
                        self.state = State::Open(route);
                        let new = id.clone();
                        let old = std::mem::replace(&mut self.id, id);
                        let told = SubscriptionError::Resubscribed { old, new };
                        return Poll::Ready(Some(Err(told)));
                    }
                    Err(error) => return self.end(StreamEnd::Call(error)),
                },
                State::Over => return Poll::Ready(None),
            }
        }
    }

    fn end(&mut self, end: StreamEnd) -> Poll<Option<Result<T, SubscriptionError>>> {
        self.state = State::Over;
        Poll::Ready(Some(Err(SubscriptionError::Ended(end))))
    }
}

/// Decodes what a route has brought.
pub(crate) fn item<T: DeserializeOwned>(routed: Routed) -> Result<T, SubscriptionError> {
    match routed {
        Routed::Event(event) => event.as_json().decode().map_err(SubscriptionError::Decode),
        Routed::Lost(events) => Err(SubscriptionError::Lagged(events)),
        Routed::GivenUp(why) => Err(SubscriptionError::Ended(StreamEnd::GivenUp(why))),
        // A later version of the core may have other items, which count as one event.
        _ => Err(SubscriptionError::Lagged(1)),
    }
}

/// Returns why a route has ended.
pub(crate) fn end_of(route: &Route) -> StreamEnd {
    let state = route.session().lock();
    let Some(why) = state.closed() else {
        return StreamEnd::IdReused;
    };
    StreamEnd::Closed(state.fault().or_else(|| lost_because(Ok(why))))
}

impl<T: DeserializeOwned> Stream for Subscription<T> {
    type Item = Result<T, SubscriptionError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}

/// Blocks this thread until the next event. In a task await [`next`](Subscription::next) instead.
impl<T: DeserializeOwned> IntoIterator for Subscription<T> {
    type Item = Result<T, SubscriptionError>;
    type IntoIter = SubscriptionItems<T>;

    fn into_iter(self) -> SubscriptionItems<T> {
        SubscriptionItems(self)
    }
}

/// The events of a [`Subscription`], on a thread. Dropping it unsubscribes.
#[derive(Debug)]
#[must_use = "dropping it unsubscribes"]
pub struct SubscriptionItems<T>(Subscription<T>);

impl<T: DeserializeOwned> Iterator for SubscriptionItems<T> {
    type Item = Result<T, SubscriptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.0.next())
    }
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.id).finish()
    }
}

impl fmt::Display for SubscriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lagged(events) => write!(f, "{events} events were dropped: the reader is slow"),
            Self::Resubscribed { .. } => {
                f.write_str("the connection was lost, and events until it was replaced are missing")
            }
            Self::Decode(error) => write!(f, "an event is not what was expected: {error}"),
            Self::Ended(end) => write!(f, "the stream has ended: {end}"),
        }
    }
}

impl std::error::Error for SubscriptionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Ended(StreamEnd::Closed(Some(error))) => error.source(),
            Self::Ended(StreamEnd::Call(error)) => error.source(),
            _ => None,
        }
    }
}

impl fmt::Display for StreamEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(Some(error)) => error.fmt(f),
            Self::Closed(None) => f.write_str("this side has ended the connection"),
            Self::GivenUp(why) => write!(f, "the peer has given it up: {}", why.as_str()),
            Self::IdReused => f.write_str("the peer has given its id to another stream"),
            Self::TakenOver => f.write_str("another consumer has the subscription"),
            Self::Call(error) => error.fmt(f),
        }
    }
}
