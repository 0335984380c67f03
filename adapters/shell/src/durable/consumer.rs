//! Durable subscriptions of the program.

use std::fmt;
use std::future::{IntoFuture, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use antiphon::durable::{DurableEntry, DurableMessage, DurableMethod, DurableReader, DurableTopic};
use antiphon::pubsub::InvalidTopic;
use antiphon::{DecodeError, EncodeError, ErrorObject, Json, OwnedJson, SendError};
use futures_util::Stream;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;

use crate::call::Call;
use crate::call::call_error::CallError;
use crate::call::route::{Route, Wanted};
use crate::client::Client;
use crate::guard::caught;
use crate::lock::Lock;
use crate::peer::Peer;
use crate::runtime::threads::block_on;
use crate::session::{Came, Incoming, Task};
use crate::streams::subscription::{StreamEnd, end_of};
use crate::text::Text;
use crate::wait::{BoxFuture, Wait};

impl Peer {
    /// Consumes a durable topic, under the name of a subscription that survives this connection and this program: await
    /// it, or [`wait`](OpenDurable::wait) for it on a thread. The server has [`Durable`](crate::Durable) topics.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut orders = peer.durable::<String>("order-processor-1", "orders").await?;
    /// while let Some(order) = orders.next().await {
    ///     let order = order?;
    ///     assert!(order.data.len() > 0); // Here the order is processed.
    ///     order.ack().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn durable<T: DeserializeOwned>(&self, name: &str, topic: &str) -> OpenDurable<T> {
        OpenDurable::new(Client::from(self.clone()), name, topic)
    }
}

impl Client {
    /// Consumes a durable topic, as [`Peer::durable`] does. If the client reconnects, the stream goes on over the next
    /// connection. Over HTTP this fails as [`SendError::NoPush`].
    pub fn durable<T: DeserializeOwned>(&self, name: &str, topic: &str) -> OpenDurable<T> {
        OpenDurable::new(self.clone(), name, topic)
    }
}

/// A durable subscription that is not attached yet: await it in a task, or [`wait`](Self::wait) for it on a thread.
#[must_use = "nothing is sent before it is awaited or waited for"]
pub struct OpenDurable<T> {
    client: Client,
    name: Arc<str>,
    topic: Result<DurableTopic, InvalidTopic>,
    timeout: Option<Duration>,
    reader: DurableReader,
    item: PhantomData<fn() -> T>,
}

impl<T> OpenDurable<T> {
    fn new(client: Client, name: &str, topic: &str) -> Self {
        Self {
            timeout: client.way().call_timeout(),
            client,
            name: name.into(),
            topic: DurableTopic::parse(topic),
            reader: DurableReader::new(),
            item: PhantomData,
        }
    }

    /// Sets the [position](DurableStream::position) that the program has kept with what it has made of the messages: what
    /// it has finished by then is acknowledged, and not returned again.
    pub fn position(mut self, position: u64) -> Self {
        self.reader = DurableReader::at(position);
        self
    }

    /// Sets the time for the answers to its calls; `None` for ever. The default is the configuration's
    /// [`call_timeout`](crate::ConnectionConfig::call_timeout).
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }
}

impl<T: DeserializeOwned> OpenDurable<T> {
    /// Blocks this thread until the peer has answered.
    ///
    /// # Errors
    /// How the call ended.
    pub fn wait(self) -> Result<DurableStream<T>, CallError> {
        self.into_future().wait()
    }
}

impl<T: DeserializeOwned> IntoFuture for OpenDurable<T> {
    type Output = Result<DurableStream<T>, CallError>;
    type IntoFuture = Wait<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Wait::on(async move {
            let invalid = |why| CallError::Rejected(SendError::Encode(EncodeError::custom(why)));
            let source = Arc::new(Source {
                topic: self.topic.map_err(invalid)?,
                client: self.client,
                name: self.name,
                timeout: self.timeout,
                incoming: Arc::new(Incoming::new(self.reader)),
                peer: Lock::default(),
            });
            let route = source.attach().await?;
            Ok(DurableStream {
                state: State::Open(route),
                source,
                item: PhantomData,
            })
        })
    }
}

/// A durable subscription, over all its connections.
struct Source {
    client: Client,
    name: Arc<str>,
    topic: DurableTopic,
    timeout: Option<Duration>,
    incoming: Arc<Incoming>,
    /// The connection that is attached: an acknowledgement on another one would be refused.
    peer: Lock<Option<Peer>>,
}

impl Source {
    async fn call(
        &self,
        method: DurableMethod,
        entry: DurableEntry,
    ) -> Result<OwnedJson, CallError> {
        let params = method.write(&[entry]);
        let peer = self.peer.lock().clone().ok_or(CallError::Unsent)?;
        let call = peer.call(method.name(), params.as_json());
        call.timeout(self.timeout).await
    }

    async fn attach(&self) -> Result<Arc<Route>, CallError> {
        let wait = self.timeout.unwrap_or(Duration::MAX);
        if self.client.peer().is_none() {
            self.client.wait_open(wait).await?;
        }
        // Over HTTP there is no connection.
        let peer = self.client.peer().ok_or(SendError::NoPush)?;
        let max_bytes = peer.session().options().max_queued_bytes;
        self.incoming.detach(max_bytes);
        let entry = DurableEntry::subscribe(&self.name, &self.topic);
        let (method, client) = (DurableMethod::Subscribe, Client::from(peer.clone()));
        let params = method.write(&[entry]);
        let params = Text::of(params.as_json())?;
        let call = Call::new(
            &client,
            client.way(),
            method.name(),
            params.all(),
            CallError::of,
        );
        let mut call = call.timeout(self.timeout);
        let wanted = Wanted::Durable(Arc::clone(&self.name), Arc::clone(&self.incoming));
        let events = call.read_events(wanted, None);
        // Messages may come, and be acknowledged, before this goes on behind the answer.
        *self.peer.lock() = Some(peer);
        let result: OwnedJson = call.await?;
        let from = result.as_json().get("resumed_from_sequence");
        let from: Result<u64, _> = from.unwrap_or(Json::NULL).decode();
        from.map_err(CallError::Decode)?;
        // An interceptor may have answered in place of the peer, and then there is no stream.
        let route = events.take_route().ok_or(SendError::Interceptor)?;
        Ok(route)
    }

    /// Attaches over the next connection of the client, or over one of those that come after it.
    async fn attach_again(&self) -> Result<Arc<Route>, CallError> {
        loop {
            self.client.wait_open(Duration::MAX).await?;
            match self.attach().await {
                // The connection was lost again.
                Err(CallError::NoConnection(error)) if !error.is_final() => {}
                Err(CallError::Closed | CallError::Unsent) => {}
                Err(CallError::Rejected(SendError::Closed)) => {}
                attached => return attached,
            }
        }
    }

    async fn acknowledge(&self, sequence: u64, attachment: u64) -> Result<(), CallError> {
        let entry = DurableEntry::acknowledge(&self.name, sequence);
        let result = self.call(DurableMethod::Acknowledge, entry).await;
        let is_refused = |error: &CallError| match error {
            CallError::Remote(error) => error.code() == ErrorObject::invalid_params().code(),
            _ => false,
        };
        let waker = match &result {
            Err(error) if !is_refused(error) => None,
            _ => self
                .incoming
                .acknowledged(sequence, result.is_ok(), attachment),
        };
        caught(|| waker.map(Waker::wake));
        result.map(drop)
    }
}

/// A stream of the messages of a durable topic. Each is to be [acknowledged](Delivered::ack).
///
/// It is a `Stream` in tasks, and an iterator on threads: `for message in messages`. Each item is a message, or a
/// [`DeliveryError`] at the place where something happened. A message that was acknowledged is not returned again; what the
/// server sends twice is dropped here.
///
/// If the client reconnects, the stream attaches again, while the program waits for the next message. Dropping it keeps
/// the subscription at the server.
#[must_use = "messages come while it is read"]
pub struct DurableStream<T> {
    source: Arc<Source>,
    state: State,
    item: PhantomData<fn() -> T>,
}

enum State {
    Open(Arc<Route>),
    Lost(BoxFuture<'static, Result<Arc<Route>, CallError>>),
    Over,
}

/// A message of a durable topic. If it is dropped without being acknowledged, the server sends it again.
#[derive(Debug)]
pub struct Delivered<T> {
    /// The value.
    pub data: T,
    /// Its number in the topic.
    pub sequence: u64,
    /// When it was published, as the server has written it: ISO 8601 in UTC.
    pub timestamp: String,
    ticket: Ticket,
}

/// The right to acknowledge a message, which is given back when it is dropped.
struct Ticket {
    source: Arc<Source>,
    sequence: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // One that is finished stays so.
        self.source.incoming.give_back(self.sequence);
    }
}

impl<T> Delivered<T> {
    /// Acknowledges the message: await it, or [`wait`](Wait::wait) for it on a thread. After it the message is never sent
    /// again.
    ///
    /// # Errors
    /// How the call ended. The stream does not return the message again, and acknowledges it when the server sends it
    /// again.
    pub fn ack(self) -> Wait<'static, Result<(), CallError>> {
        let (source, sequence) = (Arc::clone(&self.ticket.source), self.sequence);
        let attachment = source.incoming.finish(sequence);
        Wait::on(async move { source.acknowledge(sequence, attachment).await })
    }
}

/// What a durable stream tells between its messages.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeliveryError {
    /// So many messages are missing at this place: they were removed from the topic, or another consumer has
    /// acknowledged them.
    Missed(u64),
    /// The server has lost messages or the position, and goes on before what was acknowledged. Sequences may be used again.
    Rewound,
    /// The program has too many messages unfinished or unread, so some were refused. Nothing is lost: the server sends
    /// them again after its acknowledgement timeout.
    Refused,
    /// A message does not have the type of the stream. It can be acknowledged all the same.
    Decode(DecodeError, Delivered<OwnedJson>),
    /// The stream has ended: the last item.
    Ended(StreamEnd),
}

impl<T: DeserializeOwned> DurableStream<T> {
    /// Waits for the next message; `None` after the end. If it is dropped before, nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Delivered<T>, DeliveryError>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Delivered<T>, DeliveryError>>> {
        loop {
            match self.source.incoming.poll(cx.waker()) {
                Task::Tell(came) => return Poll::Ready(Some(self.item(came))),
                Task::Acknowledge(repeats) => {
                    self.acknowledge_again(repeats);
                    continue;
                }
                Task::TakenOver if !matches!(self.state, State::Over) => {
                    return self.end(StreamEnd::TakenOver);
                }
                Task::TakenOver | Task::Wait => {}
            }
            match &mut self.state {
                State::Open(route) => {
                    if ready!(route.poll(cx.waker())).is_some() {
                        continue;
                    }
                    let end = end_of(route);
                    let is_closed = matches!(end, StreamEnd::Closed(_));
                    if !is_closed || !self.source.client.way().reconnects() {
                        return self.end(end);
                    }
                    let source = Arc::clone(&self.source);
                    self.state = State::Lost(Box::pin(async move { source.attach_again().await }));
                }
                State::Lost(attaching) => match ready!(attaching.as_mut().poll(cx)) {
                    Ok(route) => self.state = State::Open(route),
                    Err(error) => return self.end(StreamEnd::Call(error)),
                },
                State::Over => return Poll::Ready(None),
            }
        }
    }

    fn item(&self, came: Came) -> Result<Delivered<T>, DeliveryError> {
        let (sequence, params) = match came {
            Came::Message(sequence, params) => (sequence, params),
            Came::Missed(missed) => return Err(DeliveryError::Missed(missed)),
            Came::Refused => return Err(DeliveryError::Refused),
            Came::Rewound => return Err(DeliveryError::Rewound),
        };
        let ticket = Ticket {
            source: Arc::clone(&self.source),
            sequence,
        };
        let message = DurableMessage::read(params.as_json());
        let (data, timestamp) = message.map_or((Json::NULL, String::new()), |message| {
            (message.data, message.timestamp.into_owned())
        });
        match data.decode() {
            Ok(data) => Ok(Delivered {
                data,
                sequence,
                timestamp,
                ticket,
            }),
            Err(error) => Err(DeliveryError::Decode(
                error,
                Delivered {
                    data: data.to_owned_json(),
                    sequence,
                    timestamp,
                    ticket,
                },
            )),
        }
    }

    /// Acknowledges what the program has finished, and the server has sent again.
    fn acknowledge_again(&self, repeats: impl IntoIterator<Item = u64>) {
        let Some(peer) = self.source.peer.lock().clone() else {
            return;
        };
        for sequence in repeats {
            let source = Arc::clone(&self.source);
            let attachment = source.incoming.finish(sequence);
            peer.session().runtime().spawn(Box::pin(async move {
                // If it fails, the message comes again.
                let _ = source.acknowledge(sequence, attachment).await;
            }));
        }
    }
}

impl<T> DurableStream<T> {
    /// The sequence up to which the program has finished everything. A program that keeps it together with what it has made
    /// of the messages, and begins again [behind it](OpenDurable::position), processes each message once.
    pub fn position(&self) -> u64 {
        self.source.incoming.position()
    }

    /// Deletes the subscription and its position at the server. Returns whether there was one.
    pub fn unsubscribe(self) -> Wait<'static, Result<bool, CallError>> {
        Wait::on(async move {
            let entry = DurableEntry::unsubscribe(&self.source.name);
            let result = self.source.call(DurableMethod::Unsubscribe, entry).await?;
            let result = result.as_json().get("unsubscribed").unwrap_or(Json::NULL);
            result.decode().map_err(CallError::Decode)
        })
    }

    fn end<I>(&mut self, end: StreamEnd) -> Poll<Option<Result<I, DeliveryError>>> {
        self.state = State::Over;
        Poll::Ready(Some(Err(DeliveryError::Ended(end))))
    }
}

impl<T: DeserializeOwned> Stream for DurableStream<T> {
    type Item = Result<Delivered<T>, DeliveryError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}

/// Blocks this thread until the next message. In a task await [`next`](DurableStream::next) instead.
impl<T: DeserializeOwned> IntoIterator for DurableStream<T> {
    type Item = Result<Delivered<T>, DeliveryError>;
    type IntoIter = DurableItems<T>;

    fn into_iter(self) -> DurableItems<T> {
        DurableItems(self)
    }
}

/// The messages of a [`DurableStream`], on a thread.
#[derive(Debug)]
#[must_use = "messages come while it is read"]
pub struct DurableItems<T>(DurableStream<T>);

impl<T: DeserializeOwned> Iterator for DurableItems<T> {
    type Item = Result<Delivered<T>, DeliveryError>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.0.next())
    }
}

impl fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missed(missed) => write!(f, "{missed} messages are missing"),
            Self::Rewound => f.write_str("the server has lost messages that were acknowledged"),
            Self::Refused => f.write_str("too many messages are unfinished; some come again later"),
            Self::Decode(error, _) => write!(f, "a message is not what was expected: {error}"),
            Self::Ended(end) => write!(f, "the stream has ended: {end}"),
        }
    }
}

impl std::error::Error for DeliveryError {}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.sequence).finish()
    }
}

impl<T> fmt::Debug for DurableStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DurableStream")
            .field(&self.source.name)
            .finish()
    }
}

impl<T> fmt::Debug for OpenDurable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenDurable").field(&self.name).finish()
    }
}
