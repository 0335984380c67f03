//! Results of a call that come one by one, before its answer; and notifications for which a call listens.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use antiphon::Style;
use antiphon::session::Routed;
use futures_util::Stream;
use serde::de::DeserializeOwned;

use crate::call::Call;
use crate::call::call_error::CallError;
use crate::call::route::{CallEvents, Wanted};
use crate::runtime::threads::block_on;
use crate::streams::subscription::{StreamEnd, SubscriptionError, item};

/// An item of [`PartialResults`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialResult<T, R> {
    /// A part of the result, or a notification, before the answer.
    Part(T),
    /// The result of the answer: the last item. If parts came, a language server leaves it empty; if none
    /// came, it has all.
    Result(R),
}

impl<'p, R, C> Call<'p, R, C> {
    /// Asks a language server for the result in parts of type `T` (LSP 3.17, *Partial Result Progress*),
    /// and returns them as a stream, which ends with the result of the call. The params must be an object or
    /// absent. Dropping the stream cancels the call.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), Box<dyn std::error::Error>> {
    /// use antiphon_shell::PartialResult;
    ///
    /// let call = peer.call::<Option<Vec<String>>>("workspace/symbol", ());
    /// let mut symbols = call.partial_results::<Vec<String>>();
    /// let mut all = Vec::new();
    /// while let Some(symbol) = symbols.next().await {
    ///     all.extend(match symbol? {
    ///         PartialResult::Part(part) => part,
    ///         PartialResult::Result(rest) => rest.unwrap_or_default(),
    ///     });
    /// }
    /// # Ok(()) }
    /// ```
    pub fn partial_results<T>(self) -> PartialResults<'p, T, R, C> {
        self.parts(Style::LSP_PARTIAL_RESULTS)
    }

    /// Listens for the notifications of an MCP server that have the id of this call (MCP 2026-07-28,
    /// *Subscriptions*), and returns them as a stream, which ends with the result of the call. `T` is read from
    /// an object with the `method` and the `params` of a notification. The call has no timeout, and is not sent
    /// again over another connection, for what was told between would be missing. Dropping the stream cancels
    /// the call.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), Box<dyn std::error::Error>> {
    /// use antiphon::{Json, OwnedJson};
    /// use antiphon_shell::PartialResult;
    ///
    /// #[derive(serde::Deserialize)]
    /// #[serde(tag = "method", content = "params")]
    /// enum Change {
    ///     #[serde(rename = "notifications/subscriptions/acknowledged")]
    ///     Acknowledged { notifications: OwnedJson },
    ///     #[serde(rename = "notifications/resources/updated")]
    ///     Updated { uri: String },
    /// }
    ///
    /// let filter = Json::parse_str(r#"{"notifications":{"resourceSubscriptions":["file:///a"]}}"#)?;
    /// let call = peer.call::<OwnedJson>("subscriptions/listen", filter);
    /// let mut changes = call.listen::<Change>();
    /// let mut updated = Vec::new();
    /// while let Some(change) = changes.next().await {
    ///     match change? {
    ///         // What the server has agreed to tell.
    ///         PartialResult::Part(Change::Acknowledged { notifications }) => drop(notifications),
    ///         PartialResult::Part(Change::Updated { uri }) => updated.push(uri),
    ///         // The server has ended it.
    ///         PartialResult::Result(_) => break,
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn listen<T>(self) -> PartialResults<'p, T, R, C> {
        self.no_timeout().only_once().parts(Style::MCP_LISTEN)
    }

    fn parts<T>(mut self, style: Style) -> PartialResults<'p, T, R, C> {
        let events = self.read_events(Wanted::Stream(style), None);
        PartialResults {
            call: Some(self),
            events,
            waiting: VecDeque::new(),
            part: PhantomData,
        }
    }
}

/// The result of a call in parts: a `Stream` in tasks, and an iterator on threads. Made by
/// [`Call::partial_results`] and [`Call::listen`]. If more than 1024 parts wait, the oldest are dropped, which
/// the stream tells as [`SubscriptionError::Lagged`]. If the call fails, that is the last item.
#[must_use = "nothing is sent before it is polled"]
pub struct PartialResults<'p, T, R, C> {
    /// `None` after its end.
    call: Option<Call<'p, R, C>>,
    events: Arc<CallEvents>,
    /// What was taken, and after it the end.
    waiting: VecDeque<Waiting<R>>,
    part: PhantomData<fn() -> T>,
}

enum Waiting<R> {
    Routed(Routed),
    Ended(Result<R, CallError>),
}

type Part<T, R> = Result<PartialResult<T, R>, SubscriptionError>;

impl<T: DeserializeOwned, R, C> PartialResults<'_, T, R, C> {
    /// Waits for the next part, or the result; `None` after the end. If it is dropped before, nothing is lost.
    pub async fn next(&mut self) -> Option<Part<T, R>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Part<T, R>>> {
        if self.waiting.is_empty() {
            let Some(call) = &mut self.call else {
                return Poll::Ready(None);
            };
            // The end is polled first: the parts that came before it can be taken by then.
            let ended = Pin::new(call).poll(cx);
            let taken = self.events.take(cx.waker()).into_iter();
            self.waiting.extend(taken.map(Waiting::Routed));
            if let Poll::Ready(ended) = ended {
                self.call = None;
                self.waiting.push_back(Waiting::Ended(ended));
            }
        }
        let Some(next) = self.waiting.pop_front() else {
            return Poll::Pending;
        };
        Poll::Ready(Some(match next {
            Waiting::Routed(routed) => item(routed).map(PartialResult::Part),
            Waiting::Ended(Ok(result)) => Ok(PartialResult::Result(result)),
            Waiting::Ended(Err(error)) => Err(SubscriptionError::Ended(StreamEnd::Call(error))),
        }))
    }
}

/// None of its fields has to be pinned.
impl<T, R, C> Unpin for PartialResults<'_, T, R, C> {}

impl<T: DeserializeOwned, R, C> Stream for PartialResults<'_, T, R, C> {
    type Item = Part<T, R>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}

/// Blocks this thread until the next part. In a task await [`next`](PartialResults::next) instead.
impl<'p, T: DeserializeOwned, R, C> IntoIterator for PartialResults<'p, T, R, C> {
    type Item = Part<T, R>;
    type IntoIter = PartialItems<'p, T, R, C>;

    fn into_iter(self) -> PartialItems<'p, T, R, C> {
        PartialItems(self)
    }
}

/// The items of [`PartialResults`], on a thread. Dropping it cancels the call.
#[derive(Debug)]
#[must_use = "nothing is sent before the first item is taken"]
pub struct PartialItems<'p, T, R, C>(PartialResults<'p, T, R, C>);

impl<T: DeserializeOwned, R, C> Iterator for PartialItems<'_, T, R, C> {
    type Item = Part<T, R>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.0.next())
    }
}

impl<T, R, C> fmt::Debug for PartialResults<'_, T, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartialResults").field(&self.call).finish()
    }
}
