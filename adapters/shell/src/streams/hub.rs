//! Topics: what a program publishes reaches the connections that have subscribed.
//!
//! ```text
//!   publish ─▶ hub (who has subscribed) ── a pointer each ──▶ feeds ── wake ──▶ tasks of the connections
//!                                                                                  └─▶ output, when nothing is written
//! ```
//!
//! Publishing takes the hub's lock and those of the feeds, and never that of a session.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use antiphon::pubsub::{
    FeedLimits, InvalidTopic, Pattern, Publication, PublishError, TopicMethod, TopicRequest,
    TopicSettings, Topics,
};
use antiphon::{Internal, OwnedError, OwnedJson, Payload, RequestKey};
use serde::Serialize;

use crate::guard::{Contained, caught, contained};
use crate::lock::Lock;
use crate::serve::answer::Answer;
use crate::serve::cancellation::Cancellation;
use crate::serve::request::Request;
use crate::session::{ConnFeed, Session};
use crate::streams::sink::can_push;

/// Publishes values under topics such as `stock.prices.ACME` to the peers that have subscribed to them, by their
/// names or by patterns such as `stock.prices.*` and `stock.>`. Clones are the same hub; publish from any task or
/// thread.
///
/// Peers subscribe by `rpc.subscribe {"topic": …}`, and get `rpc.notification {"topic": …, "data": …}`; see
/// [`pubsub`](antiphon::pubsub). All connections of a hub get publications in one order. A value is written once,
/// however many get it. What waits for a peer that reads slowly is limited: see [`HubConfig::feeds`].
///
/// ```
/// use antiphon_shell::{Hub, Router};
///
/// let hub = Hub::new();
/// let router = Router::new().hub(&hub);
/// let receivers = hub.publish("stock.prices.ACME", &99.5)?;
/// assert_eq!(receivers, 0);
/// # let _: Router = router;
/// # Ok::<(), antiphon::pubsub::PublishError>(())
/// ```
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

/// What peers may subscribe to, and how much waits for each.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct HubConfig {
    /// The limits on subscriptions. The subscriptions of [`Router::subscription`](crate::Routes::subscription) count
    /// against that of a connection, too.
    pub topics: TopicSettings,
    /// How much waits for a peer that reads slowly, and what happens to more. By default its connection is closed.
    pub feeds: FeedLimits,
    check: Option<Check>,
}

/// Whether a peer may subscribe to a topic.
#[derive(Clone)]
enum Check {
    AtOnce(Checking<Result<(), OwnedError>>),
    Later(Checking<Decided>),
}

type Checking<D> = Arc<dyn Fn(&Request, &str) -> D + Send + Sync>;

type Decided = Pin<Box<dyn Future<Output = Result<(), OwnedError>> + Send>>;

impl HubConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check of every topic or pattern to which a peer wants to subscribe. If it fails, nothing of the request
    /// is done, and its error is the answer.
    #[must_use]
    pub fn check(
        mut self,
        check: impl Fn(&Request, &str) -> Result<(), OwnedError> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Check::AtOnce(Arc::new(check)));
        self
    }

    /// Adds a check that may wait: until a permission was looked up, for example.
    #[must_use]
    pub fn check_async<F>(
        mut self,
        check: impl Fn(&Request, &str) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), OwnedError>> + Send + 'static,
    {
        let check =
            move |request: &Request, topic: &str| -> Decided { Box::pin(check(request, topic)) };
        self.check = Some(Check::Later(Arc::new(check)));
        self
    }
}

impl fmt::Debug for HubConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubConfig")
            .field("topics", &self.topics)
            .field("feeds", &self.feeds)
            .finish_non_exhaustive()
    }
}

/// A function that makes the first publication for a peer that has subscribed to a topic.
type First = Arc<dyn Fn(&str) -> Option<Publication> + Send + Sync>;

struct Inner {
    config: HubConfig,
    state: Lock<HubState>,
    firsts: Lock<Vec<(Pattern, First)>>,
}

struct HubState {
    topics: Topics<RandomState>,
    feeds: HashMap<u64, Arc<ConnFeed>>,
    /// The number of the connection that came last.
    last: u64,
}

/// How many subscriptions and connections a hub has, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HubCounts {
    /// The connections that have subscribed to something since they were opened.
    pub connections: usize,
    /// The subscriptions of all connections.
    pub subscriptions: usize,
}

impl Hub {
    /// Makes a hub with the defaults.
    pub fn new() -> Self {
        Self::with(HubConfig::new())
    }

    /// Makes a hub.
    pub fn with(config: HubConfig) -> Self {
        let topics = Topics::new(config.topics, RandomState::new());
        Self(Arc::new(Inner {
            config,
            state: Lock::new(HubState {
                topics,
                feeds: HashMap::new(),
                last: 0,
            }),
            firsts: Lock::default(),
        }))
    }

    /// Publishes a value. Never waits for a peer. Returns how many connections get it.
    ///
    /// # Errors
    /// The topic is not valid or has wildcards, or the value has no JSON form.
    pub fn publish(&self, topic: &str, data: impl Payload) -> Result<usize, PublishError> {
        let publication = Arc::new(Publication::new(topic, data)?);
        let mut woken = WOKEN.take();
        let mut state = self.0.state.lock();
        let HubState { topics, feeds, .. } = &mut *state;
        let (mut reached, mut last) = (0, None);
        for key in topics.receivers(&publication) {
            if let Some(feed) = feeds.get(key) {
                let (is_reached, waker) = feed.push(&publication);
                woken.extend(waker);
                let is_first = last.replace(*key) != Some(*key);
                reached += usize::from(is_reached && is_first);
            }
        }
        drop(state);
        for waker in woken.drain(..) {
            caught(|| waker.wake());
        }
        WOKEN.set(woken);
        Ok(reached)
    }

    /// Calls `first` for each peer that has subscribed to a topic which `pattern` matches, and sends it what that
    /// returns before everything that was published since: the state of the topic, which later publications change.
    /// It is called after the subscription has begun, so nothing is missed in between; what was published meanwhile
    /// may be part of the state already. It is not called for a pattern with wildcards to which a peer subscribes.
    ///
    /// # Errors
    /// `pattern` breaks a rule.
    pub fn on_subscribe<T: Serialize>(
        &self,
        pattern: &str,
        first: impl Fn(&str) -> Option<T> + Send + Sync + 'static,
    ) -> Result<(), InvalidTopic> {
        let make: First = Arc::new(move |topic| Publication::new(topic, &first(topic)?).ok());
        self.0.firsts.lock().push((Pattern::parse(pattern)?, make));
        Ok(())
    }

    /// How many subscriptions and connections it has.
    pub fn counts(&self) -> HubCounts {
        let state = self.0.state.lock();
        HubCounts {
            connections: state.topics.connections(),
            subscriptions: state.topics.subscriptions(),
        }
    }

    /// Does what a request asks for, and returns the answer.
    fn accept(
        &self,
        session: &Arc<Session>,
        request: RequestKey,
        asked: TopicRequest,
    ) -> Result<OwnedJson, OwnedError> {
        let (others, mark) = {
            let state = session.lock();
            (state.sinks.len(), state.conn.answer_mark(request))
        };
        let (is_subscribe, topics) = (asked.is_subscribe(), asked.topics().to_vec());
        if is_subscribe && mark.is_none() {
            // It was cancelled, its connection has ended, or it is a notification: the peer would not know of it.
            return Err("no answer is awaited").internal();
        }
        let feed = self.feed_of(session)?;
        let accepted = {
            let mut state = self.0.state.lock();
            let known = &mut state.topics;
            let accepted = feed.with(|feed_| asked.accept(known, feed.key, others, feed_));
            feed.set_topics(known.subscriptions_of(feed.key));
            accepted
        };
        let profile = session.dialect().error_profile;
        let answer = accepted.map_err(|why| why.error(profile).into_owned())?;
        if is_subscribe {
            self.push_first(session, &feed, &topics);
            session.hold_feed(&feed, mark);
        }
        Ok(answer)
    }

    /// Puts the states of topics before what waits already.
    fn push_first(&self, session: &Session, feed: &ConnFeed, topics: &[Pattern]) {
        for topic in topics.iter().rev().filter(|topic| !topic.has_wildcards()) {
            let topic = topic.as_str();
            let firsts: Vec<First> = {
                let firsts = self.0.firsts.lock();
                let matching = firsts.iter().filter(|(pattern, _)| pattern.matches(topic));
                matching.map(|(_, first)| Arc::clone(first)).collect()
            };
            // An earlier subscription may have left one that still waits.
            feed.with(|feed| feed.remove_first(topic));
            for first in firsts.iter().rev() {
                // A panic is reported.
                if let Some(publication) = contained(Some(session), || first(topic)).flatten() {
                    let publication = Arc::new(publication);
                    feed.with(|feed| feed.push_first(&publication));
                }
            }
        }
    }

    /// Returns the feed of a connection, which joins the hub with its first subscription.
    fn feed_of(&self, session: &Session) -> Result<Arc<ConnFeed>, OwnedError> {
        let hub = Arc::downgrade(&self.0);
        let number = hub.as_ptr() as usize;
        let make = || {
            let mut state = self.0.state.lock();
            state.last += 1;
            let key = state.last;
            let leave = move |key| leave(&hub, key);
            let feed = Arc::new(ConnFeed::new(number, key, self.0.config.feeds, leave));
            state.topics.add_connection(key);
            state.feeds.insert(key, Arc::clone(&feed));
            feed
        };
        let feed = session.feed_or(make);
        match feed.hub == number {
            true => Ok(Arc::clone(feed)),
            false => Err("the connection has subscribed to another hub").internal(),
        }
    }
}

thread_local! {
    /// The wakers of the last publication of this thread; empty, but with room for as many.
    static WOKEN: Cell<Vec<Waker>> = const { Cell::new(Vec::new()) };
}

/// Takes a connection out of its hub.
fn leave(hub: &Weak<Inner>, key: u64) {
    if let Some(hub) = hub.upgrade() {
        let mut state = hub.state.lock();
        state.topics.remove_connection(key);
        let feed = state.feeds.remove(&key);
        drop(state);
        drop(feed);
    }
}

impl Hub {
    /// Answers a call of one of the methods about topics.
    pub(crate) fn serve(
        &self,
        request: &Request,
        method: TopicMethod,
    ) -> Result<Answer, OwnedError> {
        let session = request.responder.session();
        if !can_push(request) {
            return Err(request.unknown_method());
        }
        let settings = self.0.config.topics;
        let asked = TopicRequest::parse(method, request.raw_params(), &settings)?;
        let check = self
            .0
            .config
            .check
            .as_ref()
            .filter(|_| asked.is_subscribe());
        match check {
            None => {}
            Some(Check::AtOnce(check)) => {
                for topic in asked.topics() {
                    check(request, topic.as_str())?;
                }
            }
            Some(Check::Later(check)) => {
                let topics = asked.topics().iter();
                let checks: Vec<Decided> =
                    topics.map(|topic| check(request, topic.as_str())).collect();
                self.accept_later(request, asked, checks);
                return Ok(Answer::deferred());
            }
        }
        let answer = self.accept(session, request.key(), asked)?;
        Ok(Answer::new(answer.as_json()))
    }

    /// Does what a request asks for, once all checks have passed.
    fn accept_later(&self, request: &Request, asked: TopicRequest, checks: Vec<Decided>) {
        let (hub, reply) = (self.clone(), request.defer());
        let session = Arc::clone(reply.session());
        let task = async move {
            let session = Arc::clone(reply.session());
            let sent = match decided(&session, reply.cancellation(), checks).await {
                // It is cancelled, or a check has panicked: dropping the responder answers that.
                None => return,
                Some(decided) => decided.and_then(|()| hub.accept(&session, reply.key(), asked)),
            };
            // If the connection has ended meanwhile, no answer is awaited.
            let _ = match sent {
                Ok(answer) => reply.ok(answer.as_json()),
                Err(error) => reply.err(&error.as_error()),
            };
        };
        session.runtime().spawn(Box::pin(task));
    }
}

/// Awaits checks, one after another. `None` if the request is cancelled before, its connection ends, or a check panics,
/// which is reported.
async fn decided(
    session: &Session,
    mut cancelled: Cancellation,
    checks: Vec<Decided>,
) -> Option<Result<(), OwnedError>> {
    for check in checks {
        let mut check = Contained::new(check, None::<Arc<Session>>);
        let step = |cx: &mut Context<'_>| {
            if Pin::new(&mut cancelled).poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            match contained(Some(session), || check.as_mut().poll(cx)) {
                Some(polled) => polled.map(Some),
                None => Poll::Ready(None),
            }
        };
        if let Err(error) = poll_fn(step).await? {
            return Some(Err(error));
        }
    }
    Some(Ok(()))
}

impl Default for Hub {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        f.debug_struct("Hub")
            .field("connections", &counts.connections)
            .field("subscriptions", &counts.subscriptions)
            .finish_non_exhaustive()
    }
}
