//! Ephemeral topics: what is published at one server reaches the subscribers of all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use antiphon::Payload;
use antiphon::durable::{DurableTopic, MessageData};
use antiphon::pubsub::PublishError;
use async_nats::{Client, ConnectOptions, Message};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use crate::link;
use crate::options::{ConnectError, NatsOptions};
use crate::runtime::Runtime;

/// How many publications wait for the server. One more is lost to the others.
const MAX_WAITING: usize = 1024;

/// Joins the hub of this server with those of others. Publish here, and the subscribers of all servers get it.
///
/// Subscribers here get it at once, also while NATS is away. Those of other servers get what NATS brings: nothing is kept
/// for a server that is not connected. Each hub has an order of its own.
///
/// ```no_run
/// use antiphon_nats::{NatsOptions, NatsTopics};
///
/// let hub = antiphon_tokio::Hub::new();
/// let own = hub.clone();
/// let everywhere = NatsTopics::join(&NatsOptions::new("nats://127.0.0.1:4222"), move |topic, data| {
///     own.publish(topic, data.as_json()).unwrap_or(0)
/// })?;
/// everywhere.publish("stock.prices.ACME", &99.5)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NatsTopics {
    deliver: Arc<Deliver>,
    sender: mpsc::Sender<(String, MessageData)>,
    lost: AtomicU64,
    _runtime: Runtime,
}

type Deliver = dyn Fn(&str, &MessageData) -> usize + Send + Sync;

impl NatsTopics {
    /// Connects to a server. `deliver` is called for each publication, of this server and of others, and is to publish it
    /// at the hub of this one and to say how many connections get it. It waits, so not to be called in a task.
    ///
    /// # Errors
    /// No server answers.
    pub fn join(
        options: &NatsOptions,
        deliver: impl Fn(&str, &MessageData) -> usize + Send + Sync + 'static,
    ) -> Result<Self, ConnectError> {
        options.check()?;
        let runtime = Runtime::start().map_err(|error| options.error(error))?;
        let deliver: Arc<Deliver> = Arc::new(deliver);
        let (own, to) = (options.clone(), Arc::clone(&deliver));
        let (sender, waiting) = mpsc::channel(MAX_WAITING);
        runtime.wait(options, async move {
            let (client, _) = link::connect(&own, ConnectOptions::new().no_echo()).await?;
            let prefix = format!("{}.topic.", own.prefix);
            let published = client.subscribe(format!("{prefix}>")).await;
            let mut published = published.map_err(|error| own.error(error))?;
            client.flush().await.map_err(|error| own.error(error))?;
            let subjects = prefix.clone();
            tokio::spawn(async move {
                while let Some(message) = published.next().await {
                    take(&subjects, &message, &*to);
                }
            });
            tokio::spawn(send(client, prefix, waiting));
            Ok(())
        })?;
        Ok(Self {
            deliver,
            sender,
            lost: AtomicU64::new(0),
            _runtime: runtime,
        })
    }

    /// Publishes a value here and at all other servers. Never waits. Returns how many connections of this server get it.
    ///
    /// # Errors
    /// The topic is not valid or has wildcards, or the value has no JSON form.
    pub fn publish(&self, topic: &str, data: impl Payload) -> Result<usize, PublishError> {
        let topic = DurableTopic::parse(topic).map_err(PublishError::Topic)?;
        let data = MessageData::write(data).map_err(PublishError::Encode)?;
        let reached = (self.deliver)(topic.as_str(), &data);
        if self.sender.try_send((topic.to_string(), data)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(reached)
    }

    /// How many publications the others did not get, because NATS was away for long, or was slow.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

async fn send(client: Client, prefix: String, mut waiting: mpsc::Receiver<(String, MessageData)>) {
    while let Some((topic, data)) = waiting.recv().await {
        let text = data.as_json().as_str().to_owned();
        // It fails only if the connection is closed for good.
        let _ = client.publish(prefix.clone() + &topic, text.into()).await;
    }
}

/// Passes on what another hub has published. Anybody may publish anything at the server.
fn take(prefix: &str, message: &Message, deliver: &Deliver) -> Option<()> {
    let topic = message.subject.as_str().strip_prefix(prefix)?;
    let topic = DurableTopic::parse(topic).ok()?;
    let text = std::str::from_utf8(&message.payload).ok()?;
    deliver(topic.as_str(), &MessageData::parse(text).ok()?);
    Some(())
}

impl fmt::Debug for NatsTopics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsTopics")
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}
