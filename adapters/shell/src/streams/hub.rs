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
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

use antiphon::pubsub::{
    FeedLimits, Hold, InvalidTopic, Pattern, Publication, PublishError, TopicMethod, TopicRequest,
    TopicSettings, Topics,
};
use antiphon::service::Later;
use antiphon::{Internal, OwnedError, OwnedJson, Payload, RequestKey};
use serde::Serialize;

use crate::guard::{caught, contained};
use crate::lock::Lock;
use crate::serve::request::Request;
use crate::session::{ConnFeed, FeedHub, Session};
use crate::streams::sink::can_push;
use crate::text::Text;

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

    /// Adds a check that may wait: until a permission was looked up, for example. Meanwhile the request counts as one
    /// that runs, and a [`handler_timeout`](crate::Routes::handler_timeout) of the router limits it. The check is dropped
    /// if the request is cancelled or its connection ends. On threads the connection waits for it.
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
        let (answer, hold) = accepted.map_err(|why| why.error(profile).into_owned())?;
        if let Some(mark) = mark.filter(|_| is_subscribe) {
            self.push_first(session, &feed, &topics);
            session.begin_topics(request, mark, &feed, hold);
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
        let make = || {
            let mut state = self.0.state.lock();
            state.last += 1;
            let key = state.last;
            let feed = ConnFeed::new(hub.clone(), key, self.0.config.feeds);
            let feed = Arc::new(feed);
            state.topics.add_connection(key);
            state.feeds.insert(key, Arc::clone(&feed));
            feed
        };
        let feed = session.feed_or(make);
        match feed.is_of(&*self.0) {
            true => Ok(Arc::clone(feed)),
            false => Err("the connection has subscribed to another hub").internal(),
        }
    }
}

thread_local! {
    /// The wakers of the last publication of this thread; empty, but with room for as many.
    static WOKEN: Cell<Vec<Waker>> = const { Cell::new(Vec::new()) };
}

impl FeedHub for Inner {
    fn leave(&self, key: u64) {
        let mut state = self.state.lock();
        state.topics.remove_connection(key);
        let feed = state.feeds.remove(&key);
        drop(state);
        drop(feed);
    }

    fn refuse(&self, feed: &ConnFeed, hold: Hold) {
        let topics = &mut self.state.lock().topics;
        feed.with(|waiting| topics.refuse(feed.key, hold, waiting));
        feed.set_topics(topics.subscriptions_of(feed.key));
    }
}

/// The answer to a call of one of the methods about topics.
pub(crate) enum TopicAnswer {
    Now(OwnedJson),
    /// The checks wait.
    Later(Later<'static, Text>),
}

impl Hub {
    /// Serves a call of one of the methods about topics.
    pub(crate) fn begin(
        &self,
        request: &Request,
        method: TopicMethod,
    ) -> Result<TopicAnswer, OwnedError> {
        if !can_push(request) {
            return Err(request.unknown_method());
        }
        let settings = self.0.config.topics;
        let asked = TopicRequest::parse(method, request.raw_params(), &settings)?;
        let (session, key) = (request.responder.session(), request.key());
        let topics = asked.topics().iter().map(Pattern::as_str);
        let check = self.0.config.check.as_ref();
        match check.filter(|_| asked.is_subscribe()) {
            None => {}
            Some(Check::AtOnce(check)) => {
                for topic in topics {
                    check(request, topic)?;
                }
            }
            Some(Check::Later(check)) => {
                let checks: Vec<Decided> = topics.map(|topic| check(request, topic)).collect();
                let (hub, session) = (self.clone(), Arc::clone(session));
                return Ok(TopicAnswer::Later(Box::pin(async move {
                    for check in checks {
                        check.await?;
                    }
                    let answer = hub.accept(&session, key, asked)?;
                    Ok(Text::from(Vec::from(answer.as_str())))
                })));
            }
        }
        self.accept(session, key, asked).map(TopicAnswer::Now)
    }
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
