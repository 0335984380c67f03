//! What hubs over one store tell each other.
//!
//! | what | how | if it is lost |
//! |---|---|---|
//! | a topic has grown | the server tells who watches the topic | the round asks |
//! | a subscription has a new owner | the new owner asks the one before to let go, and waits | the round asks; a save fails as `Fenced` |
//! | whether an owner still has a consumer | who wants the subscription asks the owner | it is not there, so it has none |
//!
//! The round looks at each subscription that is owned here after each connection, and every few seconds.

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use antiphon::durable::Observer;
use async_nats::{Message, Subscriber};
use futures_util::StreamExt;
use tokio::task::{AbortHandle, spawn};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::link::Link;
use crate::position::Position;

/// The time between two rounds.
pub(crate) const ROUND: Duration = Duration::from_secs(4);
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// The time between two subscriptions of a round.
const STEP: Duration = Duration::from_millis(4);
/// How long another hub may take for its answer. Then it counts as gone.
const ANSWER: Duration = Duration::from_secs(3);
/// The most notices that are taken together.
const MAX_NOTICES: usize = 256;

pub(crate) fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Hub {
    pub(crate) link: Link,
    /// Its name among the hubs.
    pub(crate) id: String,
    /// The topics whose streams are there, and the highest sequence that was heard of.
    pub(crate) logs: Mutex<HashMap<Arc<str>, u64>>,
    /// The subscriptions to which this hub has attached, with their revisions.
    pub(crate) owned: Mutex<HashMap<Arc<str>, (u64, Position)>>,
    pub(crate) observer: OnceLock<Box<dyn Observer>>,
    /// The topics whose growth is told here.
    watched: Mutex<HashMap<Arc<str>, AbortHandle>>,
}

impl Hub {
    /// Makes a hub that answers others, until the runtime ends.
    pub(crate) async fn start(link: Link) -> Result<Arc<Self>, async_nats::Error> {
        // A name that nobody else has.
        let id = link.client.new_inbox().replace("_INBOX.", "");
        let subject = link.names.of(&format!(".hub.{id}"));
        let asked = link.client.subscribe(subject).await?;
        link.client.flush().await?;
        let hub = Arc::new(Self {
            link,
            id,
            logs: Mutex::default(),
            owned: Mutex::default(),
            observer: OnceLock::new(),
            watched: Mutex::default(),
        });
        spawn(Arc::clone(&hub).answer(asked));
        spawn(Arc::clone(&hub).go_round());
        Ok(hub)
    }

    fn holds(&self, name: &str) -> bool {
        // Without an observer nobody would say that a consumer is gone.
        let observer = self.observer.get();
        observer.is_none_or(|observer| observer.holds(name))
    }

    fn taken_over(&self, name: &str, fence: u64) {
        if let Some(observer) = self.observer.get() {
            observer.taken_over(name, fence);
        }
    }

    async fn answer(self: Arc<Self>, mut asked: Subscriber) {
        while let Some(message) = asked.next().await {
            let text = String::from_utf8_lossy(&message.payload);
            let (Some((fence, name)), Some(reply)) = (text.split_once(' '), message.reply.clone())
            else {
                continue;
            };
            let is_yes = match fence.parse() {
                Ok(0) | Err(_) => self.holds(name),
                Ok(fence) => {
                    self.taken_over(name, fence);
                    true
                }
            };
            let answer = if is_yes { "yes" } else { "no" };
            // If it cannot be sent, the other hub does without.
            let _ = self.link.client.publish(reply, answer.into()).await;
        }
    }

    /// Tells another hub that its subscription has an owner with this fence, or with 0 asks whether it has a consumer.
    /// One that is not there says no.
    pub(crate) async fn ask(&self, hub: &str, fence: u64, name: &str, deadline: Instant) -> bool {
        let subject = self.link.names.of(&format!(".hub.{hub}"));
        let text = format!("{fence} {name}");
        let request = self.link.client.request(subject, text.into());
        let until = deadline.min(Instant::now() + ANSWER);
        let answer = timeout_at(until, request).await;
        matches!(answer, Ok(Ok(answer)) if &answer.payload[..] == b"yes")
    }

    /// Sees to it that this hub is told when a topic grows.
    pub(crate) async fn watch(self: &Arc<Self>, topic: &Arc<str>) {
        if lock(&self.watched).contains_key(topic) {
            return;
        }
        let subject = self.link.names.of(".grown.") + &self.link.names.log(topic) + "*";
        let Ok(notices) = self.link.client.subscribe(subject).await else {
            return;
        };
        // What is stored from now on is told.
        let _ = timeout(ANSWER, self.link.client.flush()).await;
        let (hub, own) = (Arc::downgrade(self), topic.clone());
        let told = spawn(async move {
            let mut notices = notices.ready_chunks(MAX_NOTICES);
            while let Some(notices) = notices.next().await {
                let Some(hub) = hub.upgrade() else { return };
                let last = notices.iter().filter_map(sequence).max();
                if let Some((observer, last)) = hub.observer.get().zip(last) {
                    observer.grown(&own, last);
                }
            }
        });
        let earlier = lock(&self.watched).insert(topic.clone(), told.abort_handle());
        earlier.iter().for_each(AbortHandle::abort);
    }

    async fn go_round(self: Arc<Self>) {
        while let Ok(up) = self.link.up(Instant::now() + FOR_EVER).await {
            self.round().await;
            // At once after a new connection.
            let next = Instant::now() + ROUND;
            let _: Result<(), _> = self.link.over(up, next, pending()).await;
        }
    }

    /// Looks whether each subscription is owned here still, and how far its topic has come.
    async fn round(self: &Arc<Self>) {
        let names: Vec<Arc<str>> = lock(&self.owned).keys().cloned().collect();
        for name in names {
            sleep(STEP).await;
            if !self.holds(&name) {
                // A save that comes later reads it again.
                lock(&self.owned).remove(&name);
                continue;
            }
            let deadline = Instant::now() + self.link.timeout;
            match self.position(&name, deadline).await {
                Ok((_, Some(now))) if now.hub != self.id => self.taken_over(&name, now.fence),
                _ => {}
            }
        }
        let owned: HashSet<Arc<str>> = {
            let owned = lock(&self.owned);
            owned.values().map(|(_, own)| own.topic.clone()).collect()
        };
        lock(&self.watched).retain(|topic, told| {
            let is_kept = owned.contains(topic);
            if !is_kept {
                told.abort();
            }
            is_kept
        });
        for topic in owned {
            sleep(STEP).await;
            self.watch(&topic).await;
            let (log, soon) = (self.link.log(&topic), Instant::now() + self.link.timeout);
            let log = self.link.once(soon, log).await;
            if let (Ok(log), Some(observer)) = (log, self.observer.get()) {
                observer.grown(&topic, log.last);
            }
        }
    }
}

/// The sequence of a stored message, of which the server tells.
fn sequence(notice: &Message) -> Option<u64> {
    let sequence = notice.headers.as_ref()?.get("Nats-Sequence")?;
    sequence.as_str().parse().ok()
}
