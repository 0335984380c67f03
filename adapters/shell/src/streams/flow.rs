//! Flows as values: those of the peer, pulled item by item, and those that this end produces.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use antiphon::flow::{ConsumerId, FlowError, OpenFlowError, PullOptions};
use antiphon::service::FlowParameter;
use antiphon::{DecodeError, Json, OwnedError, OwnedJson, Payload, SendError};
use futures_util::stream::{Stream, StreamExt};
use serde::de::DeserializeOwned;
use serde::ser::{Error, Serialize, Serializer};

use crate::call::Call;
use crate::call::call_error::CallError;
use crate::call::passed;
use crate::client::Client;
use crate::lock::Lock;
use crate::peer::Peer;
use crate::runtime::threads::block_on;
use crate::serve::request::Request;
use crate::session::Session;
use crate::streams::{iterated, produced};
use crate::text::Text;
use crate::wait::BoxFuture;

/// The time for one wait for a connection, if calls have no timeout.
const LONG: Duration = Duration::from_secs(60 * 60);

impl Peer {
    /// Returns a flow of the peer: the stream of values that `method` with these params produces, pulled item by
    /// item. Nothing is sent before it is polled for the first time. It keeps the connection open, as a clone of
    /// the peer does.
    ///
    /// Both ends need [`flows`](crate::ConnectionConfig::flows).
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), antiphon_shell::PullError> {
    /// let mut primes = peer.flow::<u64>("primes", &[100]).window(8);
    /// while let Some(prime) = primes.next().await {
    ///     let prime: u64 = prime?;
    ///     assert!(prime > 1);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn flow<T: DeserializeOwned>(
        &self,
        method: impl Into<String>,
        params: impl Payload,
    ) -> Flow<T> {
        Client::from(self.clone()).flow(method, params)
    }
}

impl Client {
    /// Returns a flow of the server, as [`Peer::flow`] does. Over HTTP it ends with [`SendError::NoPush`], and
    /// nothing is sent. It ends with its connection, also if the client reconnects.
    pub fn flow<T: DeserializeOwned>(
        &self,
        method: impl Into<String>,
        params: impl Payload,
    ) -> Flow<T> {
        Flow {
            source: Some(Arc::new(Source {
                client: self.clone(),
                method: method.into(),
                params: Text::of(params),
                decode: |item| item.decode(),
            })),
            options: PullOptions::default(),
            state: State::Cold,
        }
    }
}

/// A stream of values that one side of a connection produces and the other one pulls, item by item. A slow reader
/// holds up nothing but the producer.
///
/// Made by [`Peer::flow`] or [`Client::flow`], it is a flow of the peer: a `Stream`, and on threads an iterator.
/// It is cold: the call that opens it is made when it is first polled. Each
/// one is one flow, with a call of its own. Dropping it cancels it at the peer, without waiting.
///
/// As a parameter of a handler it is a flow of the caller, whose id stands in the params. It ends with the request: a
/// pull after the answer fails.
///
/// Made by [`of`](Self::of), it is a flow that this end produces: what a handler returns, or an argument of a call.
#[must_use = "nothing is sent before it is polled"]
pub struct Flow<T> {
    /// The call that opens it, if there is one.
    source: Option<Arc<Source<T>>>,
    options: PullOptions,
    state: State<T>,
}

/// What a flow of the peer is made of.
struct Source<T> {
    client: Client,
    method: String,
    params: Result<Text, SendError>,
    decode: Decode<T>,
}

enum State<T> {
    Cold,
    Opening(BoxFuture<'static, Result<Opened, PullError>>),
    Open(Opened, Decode<T>),
    /// `None` after it was passed on.
    Given(Lock<Option<Items<T>>>),
    Over,
}

/// Reads an item.
type Decode<T> = fn(Json<'_>) -> Result<T, DecodeError>;

/// What this end produces.
type Items<T> = Pin<Box<dyn Stream<Item = Result<T, OwnedError>> + Send>>;

/// Why an item of a flow is missing.
#[derive(Debug)]
#[non_exhaustive]
pub enum PullError {
    /// The call that opens the flow has failed: the last item.
    Call(CallError),
    /// Flows are off on this connection, or it cannot carry them: the last item. See
    /// [`ConnectionConfig::flows`](crate::ConnectionConfig::flows).
    Off,
    /// The call has opened no flow that can be read: the last item.
    NotOpened(OpenFlowError),
    /// An item does not have the type of the flow. Only this item is missing.
    Decode(DecodeError),
    /// The flow has ended before its producer had no more items: the last item.
    Ended(FlowError),
}

impl<T> Flow<T> {
    /// Makes a flow of a stream, for a handler to return or as an argument of a call. The stream is polled by a task
    /// while the peer waits for an item, and dropped when the peer wants no more, or the connection ends. If it yields
    /// an error, the flow ends with it.
    ///
    /// An argument is a value among the params, alone or in a struct: it is sent as the id of the flow. The flow ends
    /// with its call, however that ends. Such a call is sent once, also by a client that reconnects. It fails as
    /// [`SendError::FlowsOff`] without [`flows`](crate::ConnectionConfig::flows), as [`SendError::NoPush`] over HTTP,
    /// and as [`SendError::TooManyFlows`] beyond their limit; then nothing is sent. Notifications and entries of a batch
    /// have no flows.
    ///
    /// ```
    /// use antiphon::OwnedError;
    /// use antiphon_shell::{Flow, Router};
    /// use futures_util::stream;
    ///
    /// let router = Router::new().method("count", ["from"], |from: u64| {
    ///     Flow::of(stream::iter(from..).map(Ok::<_, OwnedError>))
    /// });
    /// # use futures_util::StreamExt;
    /// # let _: Router = router;
    ///
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), antiphon_shell::CallError> {
    /// let numbers = Flow::of(stream::iter(1..=10).map(Ok::<_, OwnedError>));
    /// let total: u64 = peer.call("sum", &[numbers]).await?;
    /// # Ok(()) }
    /// ```
    pub fn of<E: Into<OwnedError>>(
        items: impl Stream<Item = Result<T, E>> + Send + 'static,
    ) -> Self {
        let items: Items<T> = Box::pin(items.map(|item| item.map_err(Into::into)));
        Self::without_call(State::Given(Lock::new(Some(items))))
    }

    fn without_call(state: State<T>) -> Self {
        Self {
            source: None,
            options: PullOptions::default(),
            state,
        }
    }

    /// Makes a flow of an iterator, as [`of`](Self::of) does of a stream. The iterator runs on a thread of its own, and
    /// may block it.
    pub fn of_iter<E, I>(items: I) -> Self
    where
        T: Send + 'static,
        E: Into<OwnedError>,
        I: IntoIterator<Item = Result<T, E>, IntoIter: Send + 'static>,
    {
        let items = items.into_iter().map(|item| item.map_err(Into::into));
        Self::of(iterated::stream(items))
    }

    /// Sets how many items may be on their way, or wait to be read, together. Default 1: the next item is pulled
    /// when it is asked for. A larger window saves round trips, and may pull items that nobody reads.
    pub fn window(mut self, items: usize) -> Self {
        self.options.window = items;
        self.with_options()
    }

    /// Sets how long the peer may take for an item. Then the flow is cancelled and ends with
    /// [`FlowError::TimedOut`]. Default `None`: for ever.
    pub fn pull_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.options.pull_timeout = timeout.into();
        self.with_options()
    }

    /// Sets the options of a flow that is open already.
    fn with_options(self) -> Self {
        if let State::Open(Opened { session, consumer }, _) = &self.state {
            session.set_pull_options(*consumer, self.options);
        }
        self
    }

    /// Waits for the next item; `None` after the end. If it is dropped before, nothing is lost.
    pub async fn next(&mut self) -> Option<Result<T, PullError>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, PullError>>> {
        let last = loop {
            match (&mut self.state, &self.source) {
                (State::Cold, Some(source)) => {
                    self.state = match source.open(self.options) {
                        Ok(opening) => State::Opening(opening),
                        Err(error) => break Some(Err(error)),
                    };
                }
                (State::Opening(opening), Some(source)) => {
                    match ready!(opening.as_mut().poll(cx)) {
                        Ok(opened) => self.state = State::Open(opened, source.decode),
                        Err(error) => break Some(Err(error)),
                    }
                }
                (State::Open(opened, decode), _) => match ready!(opened.poll(cx.waker())) {
                    Some(Ok(item)) => {
                        let item = decode(item.as_json());
                        return Poll::Ready(Some(item.map_err(PullError::Decode)));
                    }
                    Some(Err(error)) => break Some(Err(PullError::Ended(error))),
                    None => break None,
                },
                (State::Given(items), _) => {
                    let Some(items) = items.get_mut() else {
                        break None;
                    };
                    match ready!(items.as_mut().poll_next(cx)) {
                        Some(Ok(item)) => return Poll::Ready(Some(Ok(item))),
                        Some(Err(error)) => {
                            break Some(Err(PullError::Ended(FlowError::Failed(error))));
                        }
                        None => break None,
                    }
                }
                _ => break None,
            }
        };
        self.state = State::Over;
        Poll::Ready(last)
    }
}

impl<T> Source<T> {
    /// Makes the call that opens the flow. It does not keep the connection open.
    fn open(
        &self,
        options: PullOptions,
    ) -> Result<BoxFuture<'static, Result<Opened, PullError>>, PullError> {
        let params = self.params.as_ref().map_err(SendError::clone);
        let params = params.and_then(|params| Text::of(params.all()))?;
        let (client, method) = (self.client.clone(), self.method.clone());
        Ok(Box::pin(async move {
            let timeout = client.way().call_timeout();
            client.wait_open(timeout.unwrap_or(LONG)).await?;
            let peer = client.peer().ok_or(SendError::NoPush)?;
            drop(client);
            if !peer.session().has_flows() {
                return Err(PullError::Off);
            }
            let call = Call::new(&peer, &peer, &*method, params.all(), CallError::of);
            let id: OwnedJson = call.timeout(timeout).await?;
            let session = Arc::clone(peer.session());
            let consumer = session.consume(id.as_json(), options);
            let consumer = consumer.map_err(PullError::NotOpened)?;
            Ok(Opened { session, consumer })
        }))
    }
}

/// Opens the flow whose id is the argument.
impl<T: DeserializeOwned> FlowParameter<Request> for Flow<T> {
    fn open(id: Json<'_>, request: &Request) -> Result<Option<Self>, OwnedError> {
        let session = request.responder.session();
        if !session.has_flows() {
            return Err(request.unknown_method());
        }
        let consumer = match session.consume(id, PullOptions::default()) {
            Ok(consumer) => consumer,
            Err(OpenFlowError::NoFlowId | OpenFlowError::InUse) => return Ok(None),
            Err(_) => return Err(request.error_profile().busy().into_owned()),
        };
        let session = Arc::clone(session);
        let opened = Opened { session, consumer };
        let state = State::Open(opened, |item| item.decode());
        Ok(Some(Self::without_call(state)))
    }
}

/// In the params of a call, the id of a flow that [`of`](Flow::of) has made. Anywhere else it has no JSON form.
impl<T: Serialize + Send + 'static> Serialize for Flow<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let State::Given(items) = &self.state else {
            return Err(S::Error::custom(
                "a flow of the peer is passed on by `Flow::of`",
            ));
        };
        passed::pass(|number| {
            let written = serializer.serialize_u64(number)?;
            let items = items.lock().take();
            let items = items.ok_or_else(|| S::Error::custom("the flow was passed on before"))?;
            let produce = Box::new(|flow, method: &str| produced::task(flow, method, items));
            Ok((written, produce as _))
        })
    }
}

/// A flow of the peer that is open. It is cancelled when this is dropped.
struct Opened {
    session: Arc<Session>,
    consumer: ConsumerId,
}

impl Opened {
    fn poll(&self, waker: &Waker) -> Poll<Option<Result<OwnedJson, FlowError>>> {
        self.session.poll_item(self.consumer, waker)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.session.leave_flow(self.consumer);
    }
}

/// If the call has no answer yet, a task waits for it, and cancels the flow.
impl<T> Drop for Flow<T> {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Over);
        if let (State::Opening(opening), Some(source)) = (state, &self.source) {
            let late = async { drop(opening.await) };
            source.client.way().runtime().spawn(Box::pin(late));
        }
    }
}

impl<T> Stream for Flow<T> {
    type Item = Result<T, PullError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}

/// None of its fields has to be pinned.
impl<T> Unpin for Flow<T> {}

/// Blocks this thread until the next item. In a task await [`next`](Flow::next) instead.
impl<T> IntoIterator for Flow<T> {
    type Item = Result<T, PullError>;
    type IntoIter = FlowItems<T>;

    fn into_iter(self) -> FlowItems<T> {
        FlowItems(self)
    }
}

/// The items of a [`Flow`], on a thread. Dropping it cancels the flow.
#[derive(Debug)]
#[must_use = "dropping it cancels the flow"]
pub struct FlowItems<T>(Flow<T>);

impl<T> Iterator for FlowItems<T> {
    type Item = Result<T, PullError>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.0.next())
    }
}

impl<T> fmt::Debug for Flow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.source.as_ref().map(|source| &source.method);
        f.debug_tuple("Flow").field(&method).finish()
    }
}

impl From<CallError> for PullError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<SendError> for PullError {
    fn from(error: SendError) -> Self {
        Self::Call(error.into())
    }
}

/// The error of the producer, for a handler that passes it on; any other end is an *internal error*.
impl From<PullError> for OwnedError {
    fn from(error: PullError) -> Self {
        match error {
            PullError::Ended(FlowError::Failed(error)) => error,
            other => Self::internal(other.into()),
        }
    }
}

impl fmt::Display for PullError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => write!(f, "the flow was not opened: {error}"),
            Self::Off => f.write_str("flows are off on this connection"),
            Self::NotOpened(error) => write!(f, "the flow was not opened: {error}"),
            Self::Decode(error) => write!(f, "an item is not what was expected: {error}"),
            Self::Ended(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PullError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Call(error) => error.source(),
            _ => None,
        }
    }
}
