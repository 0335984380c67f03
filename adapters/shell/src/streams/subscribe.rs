//! A subscription before it is made.

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use antiphon::pubsub::{InvalidTopic, Pattern};
use antiphon::service::StreamCaller;
use antiphon::{EncodeError, Payload, SendError, Style};
use serde::de::DeserializeOwned;
use serde::ser::Error as _;

use crate::call::call_error::CallError;
use crate::client::Client;
use crate::peer::Peer;
use crate::streams::flow::Flow;
use crate::streams::published::Published;
use crate::streams::source::{Asked, Source};
use crate::streams::subscription::Subscription;
use crate::text::Text;
use crate::wait::Wait;

impl Peer {
    /// Subscribes to a stream of events: await it, or [`wait`](Subscribe::wait) for it on a thread. The
    /// result is a [`Subscription`] of values of type `T`. `style` says how the peer names its methods,
    /// and `params` are those of the call that subscribes.
    ///
    /// The stream keeps the connection open, as a clone of the peer does.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), Box<dyn std::error::Error>> {
    /// use antiphon::Style;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Head { number: String }
    ///
    /// let mut heads = peer.subscribe::<Head>(Style::ETHEREUM, &["newHeads"]).await?;
    /// while let Some(head) = heads.next().await {
    ///     let Head { number } = head?;
    ///     assert!(number.starts_with("0x"));
    /// }
    /// # Ok(()) }
    /// ```
    pub fn subscribe<T: DeserializeOwned>(
        &self,
        style: Style,
        params: impl Payload,
    ) -> Subscribe<T, Self> {
        Subscribe::new(Client::from(self.clone()), style, params)
    }
}

impl Client {
    /// Subscribes to a stream of events, as [`Peer::subscribe`] does. The stream keeps the client open, as a
    /// clone of it does. Over HTTP this fails as [`SendError::NoPush`], and nothing is sent: the server
    /// has no way to send events.
    pub fn subscribe<T: DeserializeOwned>(
        &self,
        style: Style,
        params: impl Payload,
    ) -> Subscribe<T, Self> {
        Subscribe::new(self.clone(), style, params)
    }
}

impl Peer {
    /// Subscribes to a topic, or to all that a pattern such as `stock.prices.*` or `stock.>` matches: await it, or
    /// [`wait`](Subscribe::wait) for it on a thread. Each event is a [`Published`] value of type `T` with its topic.
    /// The server has a hub: the methods `rpc.subscribe` and `rpc.unsubscribe`.
    ///
    /// Streams of one pattern share the subscription at the server, and the last one that is dropped ends it.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), Box<dyn std::error::Error>> {
    /// use antiphon_shell::Published;
    ///
    /// let mut prices = peer.topic::<f64>("stock.prices.*").await?;
    /// while let Some(price) = prices.next().await {
    ///     let Published { topic, data } = price?;
    ///     assert!(topic.starts_with("stock.prices.") && data > 0.0);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn topic<T: DeserializeOwned>(&self, pattern: &str) -> Subscribe<Published<T>, Self> {
        Subscribe::of(Client::from(self.clone()), topic(pattern))
    }
}

impl Client {
    /// Subscribes to a topic or a pattern, as [`Peer::topic`] does. Over HTTP this fails as
    /// [`SendError::NoPush`].
    pub fn topic<T: DeserializeOwned>(&self, pattern: &str) -> Subscribe<Published<T>, Self> {
        Subscribe::of(self.clone(), topic(pattern))
    }
}

fn topic(pattern: &str) -> Result<Asked, SendError> {
    let invalid = |why: InvalidTopic| SendError::Encode(EncodeError::custom(why));
    Pattern::parse(pattern).map(Asked::Topic).map_err(invalid)
}

/// A subscription that is not made yet: await it in a task, or [`wait`](Self::wait) for it on a thread.
/// `C` is what it is made by, a [`Peer`] or a [`Client`]. If it is dropped before the peer has answered,
/// the stream is unsubscribed when the answer comes.
#[must_use = "nothing is sent before it is awaited or waited for"]
pub struct Subscribe<T, C> {
    source: Result<Source, SendError>,
    resubscribes: bool,
    made: PhantomData<fn(C) -> T>,
}

impl<T, C> Subscribe<T, C> {
    fn new(client: Client, style: Style, params: impl Payload) -> Self {
        Self::of(
            client,
            Text::of(params).map(|params| Asked::Stream(style, params)),
        )
    }

    fn of(client: Client, asked: Result<Asked, SendError>) -> Self {
        let timeout = client.way().call_timeout();
        let source = asked.map(|asked| Source {
            client,
            asked,
            timeout,
        });
        Self {
            source,
            resubscribes: false,
            made: PhantomData,
        }
    }

    /// Sets the time for the answer; `None` for ever. The default is the configuration's
    /// [`call_timeout`](crate::ConnectionConfig::call_timeout). A stream whose id comes later is
    /// unsubscribed.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        if let Ok(source) = &mut self.source {
            source.timeout = timeout.into();
        }
        self
    }
}

impl<T> Subscribe<T, Client> {
    /// Subscribes again when the connection was lost and the client has another one. The stream tells it in
    /// place, as [`Resubscribed`](crate::SubscriptionError::Resubscribed): what happened between the last
    /// event before it and the first one after it is missing. Without this, a stream ends with its
    /// connection, because a subscription may have effects at the server.
    ///
    /// The client subscribes while the program waits for the next event. It waits for a connection as long
    /// as there are attempts at one; if the server then refuses, or does not answer within the
    /// [`timeout`](Self::timeout), the stream ends. On a client of one connection, made by `connect`, this has
    /// no effect.
    pub fn resubscribe(mut self) -> Self {
        self.resubscribes = true;
        self
    }
}

impl<T: DeserializeOwned, C> Subscribe<T, C> {
    /// Blocks this thread until the peer has answered.
    ///
    /// # Errors
    /// How the call ended without a stream: see [`CallError`].
    pub fn wait(self) -> Result<Subscription<T>, CallError> {
        self.make().wait()
    }

    fn make(self) -> Wait<'static, Result<Subscription<T>, CallError>> {
        let (source, resubscribes) = (self.source, self.resubscribes);
        Wait::on(async move {
            let source = Arc::new(source?);
            let (id, route) = source.subscribe().await?;
            let again = resubscribes && source.client.way().reconnects();
            let again = again.then(|| Arc::clone(&source));
            Ok(Subscription::new(id, route, source.client.clone(), again))
        })
    }
}

impl<T: DeserializeOwned, C> IntoFuture for Subscribe<T, C> {
    type Output = Result<Subscription<T>, CallError>;
    type IntoFuture = Wait<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.make()
    }
}

impl<T, C> fmt::Debug for Subscribe<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.source.as_ref().map(|source| &source.asked);
        f.debug_tuple("Subscribe").field(&asked).finish()
    }
}

/// Subscribes with [`Peer::subscribe`], and reads flows with [`Peer::flow`].
impl StreamCaller for Peer {
    type Subscribe<T: DeserializeOwned> = Subscribe<T, Self>;

    fn subscribe<T: DeserializeOwned>(
        &self,
        style: Style,
        params: impl Payload,
    ) -> Subscribe<T, Self> {
        self.subscribe(style, params)
    }

    type Flow<T: DeserializeOwned> = Flow<T>;

    fn flow<T: DeserializeOwned>(&self, method: Cow<'_, str>, params: impl Payload) -> Flow<T> {
        self.flow(method, params)
    }
}

/// Subscribes with [`Client::subscribe`], and reads flows with [`Client::flow`].
impl StreamCaller for Client {
    type Subscribe<T: DeserializeOwned> = Subscribe<T, Self>;

    fn subscribe<T: DeserializeOwned>(
        &self,
        style: Style,
        params: impl Payload,
    ) -> Subscribe<T, Self> {
        self.subscribe(style, params)
    }

    type Flow<T: DeserializeOwned> = Flow<T>;

    fn flow<T: DeserializeOwned>(&self, method: Cow<'_, str>, params: impl Payload) -> Flow<T> {
        self.flow(method, params)
    }
}
