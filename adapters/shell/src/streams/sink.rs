//! Subscriptions of the peer: a handler sends the events into a sink.

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use antiphon::service::{Failure, Later};
use antiphon::session::{Report, RequestDetails};
use antiphon::{
    AnswerMark, FromCall, Internal, Json, OwnedError, Payload, SendError, Style, VersionPolicy,
};
use futures_util::Stream;
use serde::Serialize;

use crate::call::waiting_sender::WaitingSender;
use crate::guard::contained;
use crate::serve::request::Request;
use crate::session::{PeerStream, Session, SinkPhase, State};
use crate::text::Text;
use crate::wait::Wait;

/// Sends the events of a subscription of the peer. It is an argument of the handler that
/// [`Router::subscription`](crate::Routes::subscription) serves; `T` is the type of the events.
///
/// The events follow the answer to the request, in the order in which they are sent. When the last clone is
/// dropped, the subscription ends, and the peer is told so.
///
/// ```
/// use antiphon::{OwnedError, Style};
/// use antiphon_shell::{Router, SubscriptionSink};
///
/// let router = Router::new().subscription(
///     Style::named("subscribe", "tick", "unsubscribe"),
///     ["n"],
///     async |n: u32, sink: SubscriptionSink<u32>| {
///         for i in 0..n {
///             sink.send(&i).await?;
///         }
///         Ok::<_, OwnedError>(())
///     },
/// );
/// # let _: Router = router;
/// ```
pub struct SubscriptionSink<T: ?Sized> {
    stream: Arc<PeerStream>,
    event: PhantomData<fn(&T)>,
}

impl<T: ?Sized> SubscriptionSink<T> {
    /// Sends an event: at once, or as soon as there is space in the output and the peer has the answer to its request.
    /// Await it in a task, or [`wait`](Wait::wait) for it on a thread.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the peer has unsubscribed, [`SendError::Closed`] if the connection has ended, or why
    /// the event cannot be sent.
    pub fn send(&self, event: &T) -> Wait<'_, Result<(), SendError>>
    where
        T: Serialize,
    {
        let params = match self.stream.params(event) {
            Ok(params) => params,
            Err(error) => return Wait::known(Err(error)),
        };
        match self.stream.try_send(&params) {
            Err(SendError::Full) => Wait::on(self.stream.deliver(params)),
            sent => Wait::known(sent),
        }
    }

    /// Sends an event, and fails instead of waiting.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`SendError::Full`] if it would have to wait.
    pub fn try_send(&self, event: &T) -> Result<(), SendError>
    where
        T: Serialize,
    {
        let params = self.stream.params(event)?;
        self.stream.try_send(&params)
    }

    /// Sends the events of a stream, until that ends.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_all(&self, events: impl Stream<Item = T>) -> Result<(), SendError>
    where
        T: Serialize + Sized,
    {
        let mut events = pin!(events);
        while let Some(event) = poll_fn(|cx| events.as_mut().poll_next(cx)).await {
            self.send(&event).await?;
        }
        Ok(())
    }

    /// Waits until the subscription has ended: the peer has unsubscribed, or the connection has ended.
    pub fn closed(&self) -> Wait<'_, ()> {
        Wait::on(self.stream.closed())
    }

    /// Whether the subscription has ended.
    pub fn is_closed(&self) -> bool {
        self.stream.phase() == SinkPhase::Ended
    }

    /// The id by which the peer knows the subscription, as JSON.
    pub fn id(&self) -> Json<'_> {
        self.stream.id.as_json()
    }
}

impl PeerStream {
    fn params(&self, event: &(impl Serialize + ?Sized)) -> Result<Text, SendError> {
        Text::of(&self.style.event(self.id.as_json(), event))
    }

    fn phase(&self) -> SinkPhase {
        self.session.lock().sinks.phase(self.key)
    }

    /// Sends the params of a notification, if the subscription is open.
    fn notify(&self, state: &mut State, params: impl Payload) -> Result<(), SendError> {
        match state.sinks.phase(self.key) {
            SinkPhase::Open => state.conn.notify(self.style.method(), params),
            SinkPhase::Opening => Err(SendError::Full),
            SinkPhase::Ended if state.closed().is_some() => Err(SendError::Closed),
            SinkPhase::Ended => Err(SendError::NotOpen),
        }
    }

    fn try_send(&self, params: &Text) -> Result<(), SendError> {
        let mut send = |state: &mut State| self.notify(state, params.all());
        WaitingSender::new(&self.session).try_send(&mut send)
    }

    /// Sends the params of a notification as soon as the subscription is open and there is space.
    async fn deliver(&self, params: Text) -> Result<(), SendError> {
        self.until(|phase| phase != SinkPhase::Opening).await;
        let mut place = WaitingSender::new(&self.session);
        let mut send = |state: &mut State| self.notify(state, params.all());
        poll_fn(|cx| place.poll_send(cx.waker(), &mut send)).await
    }

    async fn closed(&self) {
        self.until(|phase| phase == SinkPhase::Ended).await;
    }

    /// Waits until the subscription is in such a phase.
    async fn until(&self, is_reached: impl Fn(SinkPhase) -> bool) {
        let mut place = Place {
            stream: self,
            number: None,
        };
        poll_fn(|cx| {
            // A waker that is not needed is dropped without the lock.
            let waker = cx.waker().clone();
            let mut state = self.session.lock();
            if is_reached(state.sinks.phase(self.key)) {
                return Poll::Ready(());
            }
            let _unneeded = state.wait_for_sink(self.key, &mut place.number, waker);
            drop(state);
            Poll::Pending
        })
        .await;
    }
}

/// The place of somebody who waits for a change of a subscription. Dropping it leaves it.
struct Place<'s> {
    stream: &'s PeerStream,
    number: Option<u64>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let PeerStream { session, key, .. } = self.stream;
            // The waker is dropped without the lock.
            let _waker = session.act(|state| state.leave_sink(*key, number));
        }
    }
}

/// Polls the handler of a subscription until it has ended, or the subscription has.
async fn sustained(stream: Arc<PeerStream>, mut events: Later<'static, Text>) {
    let session = &stream.session;
    let ended = {
        let mut closed = pin!(stream.closed());
        let step = |cx: &mut Context<'_>| {
            if closed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            // A panic is reported.
            match contained(Some(&**session), || events.as_mut().poll(cx)) {
                Some(polled) => polled.map(|ended| ended.map(drop).map_err(Some)),
                None => Poll::Ready(Err(None)),
            }
        };
        poll_fn(step).await
    };
    contained(Some(&**session), || drop(events));
    // If the peer has unsubscribed or is gone, the handler has seen that as an error of its sink.
    let Err(failure) = ended.or_else(|failure| match stream.phase() {
        SinkPhase::Ended => Ok(()),
        _ => Err(failure),
    }) else {
        return;
    };
    let failures = session.dialect().failures;
    let Some(failure) = failure else {
        return stream.end(&failures.error());
    };
    stream.end(&failure.told(failures).as_error());
    let about = RequestDetails::of_notification(stream.style.method());
    session.report(Report::Failed(about, failure.into_error()));
}

/// Clones send into the same subscription.
impl<T: ?Sized> Clone for SubscriptionSink<T> {
    fn clone(&self) -> Self {
        let stream = Arc::clone(&self.stream);
        Self {
            stream,
            event: PhantomData,
        }
    }
}

impl<T: ?Sized> fmt::Debug for SubscriptionSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SubscriptionSink")
            .field(&self.stream.key)
            .finish()
    }
}

impl<S, T: ?Sized> FromCall<Request, S> for SubscriptionSink<T> {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        let missing = "a sink is an argument of a handler of `Router::subscription`";
        let stream = request.sink.get().cloned().ok_or(missing).internal()?;
        Ok(Self {
            stream,
            event: PhantomData,
        })
    }
}

/// Begins a subscription for a request, and returns the request with it.
pub(crate) fn subscribe(request: &Request, style: Style) -> Result<Request, OwnedError> {
    let session = request.responder.session();
    if !can_push(request) {
        return Err(request.unknown_method());
    }
    let topics = session.feed().map_or(0, |feed| feed.topics());
    let max = session.options().max_subscriptions.saturating_sub(topics);
    let begun = session.act(|state| {
        let mark = state.conn.answer_mark(request.key())?;
        state.sinks.begin(request.key(), mark, style, max)
    });
    let Some(key) = begun else {
        let profile = session.dialect().error_profile;
        return Err(profile.too_many_subscriptions().into_owned());
    };
    let stream = PeerStream::new(session, key, style).internal()?;
    let own = request.clone();
    let stream = Arc::new(stream);
    // It is refused if the request fails after all. Neither has a sink before this.
    let _ = request.sink.set(Arc::clone(&stream));
    let _ = own.sink.set(stream);
    Ok(own)
}

/// Runs the handler of a subscription until it ends or the subscription does.
///
/// # Errors
/// It fails before it waits for the first time.
pub(crate) fn sustain(request: &Request, mut events: Later<'static, Text>) -> Result<(), Failure> {
    let Some(stream) = request.sink.get().cloned() else {
        return Ok(());
    };
    let session = Arc::clone(&stream.session);
    if begin(&session, &mut events)? {
        session.runtime().spawn(Box::pin(sustained(stream, events)));
    }
    Ok(())
}

/// Polls a handler for the first time, before the request is answered. Whether it waits, and is to go on as a task.
///
/// # Errors
/// It has failed, or panicked, which is reported.
pub(super) fn begin(
    session: &Session,
    handler: &mut Later<'static, Text>,
) -> Result<bool, Failure> {
    // The task polls it again, with a waker of its own.
    let mut cx = Context::from_waker(Waker::noop());
    match contained(Some(session), || handler.as_mut().poll(&mut cx)) {
        Some(Poll::Ready(ended)) => ended.map(|_| false),
        Some(Poll::Pending) => Ok(true),
        None => Err(session.dialect().failures.error().into_owned().into()),
    }
}

/// Whether events can be sent to the peer of a request: not over HTTP, nor in version 1.0.
pub(crate) fn can_push(request: &Request) -> bool {
    let session = request.responder.session();
    let is_old = match session.dialect().version {
        VersionPolicy::V1AndV2 => {
            let mark = session.lock().conn.answer_mark(request.key());
            mark.is_some_and(AnswerMark::is_v1)
        }
        version => version == VersionPolicy::V1Only,
    };
    session.options().config.can_call() && !is_old
}
