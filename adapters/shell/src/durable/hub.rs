//! Durable topics at the server: who drives the machine.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem::{replace, take};
use std::sync::{Arc, Condvar, Weak};
use std::task::Waker;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use antiphon::durable::{
    Command, CommandId, Completer, Completion, Delivery, Detached, Durability, DurableAnswer,
    DurableEntry, DurableEvent, DurableMethod, DurableRequest, DurableSettings, DurableTopic,
    DurableTopics, MemoryStore, MessageData, Observer, Opening, Published, Retention, Store,
    StoreError, Wall,
};
use antiphon::pubsub::{InvalidTopic, PublishError};
use antiphon::{AnswerMark, Instant, Internal, OwnedError, Payload, RequestKey};

use super::publish_error::DurablePublishError;
use crate::guard::caught;
use crate::lock::Lock;
use crate::runtime::threads::epoch;
use crate::serve::answer::Answer;
use crate::serve::request::Request;
use crate::serve::responder::Responder;
use crate::session::{DurableConn, DurableHub, Session};
use crate::slot::Slot;
use crate::streams::sink::can_push;
use crate::text::Text;
use crate::wait::{BoxFuture, Wait};

/// Topics whose messages are stored before they are delivered, and consumers that get every message at least once, also
/// after their connection or the server was away. Clones are the same topics; publish from any task or thread.
///
/// Peers consume by `rpc.subscribe.persistent` and `rpc.acknowledge.persistent`: see
/// [`durable`](antiphon::durable), and [`Peer::durable`](crate::Peer::durable) for a client. What survives is said by
/// [`durability`](Self::durability).
///
/// ```
/// use antiphon_shell::{Durable, Router};
///
/// let orders = Durable::in_memory(1 << 20);
/// let router = Router::new().durable(&orders);
/// let sequence = orders.publish("orders", &["tea"]).wait()?;
/// assert_eq!(sequence, 1);
/// # let _: Router = router;
/// # Ok::<(), antiphon_shell::DurablePublishError>(())
/// ```
#[derive(Clone)]
pub struct Durable(Arc<Inner>);

/// The limits of durable topics, who may consume them, and who is told what happens.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct DurableConfig {
    /// Rules and limits.
    pub settings: DurableSettings,
    check: Option<Check>,
    on_event: Option<OnEvent>,
}

type Check = Arc<dyn Fn(&Request, &DurableEntry) -> BoxFuture<'static, Checked> + Send + Sync>;

type Checked = Result<(), OwnedError>;

type OnEvent = Arc<dyn Fn(DurableEvent) + Send + Sync>;

impl DurableConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check of each subscription to which a peer wants to attach, or which it acknowledges or deletes: the name
    /// of a subscription is good for the whole server. If it fails, nothing of the request is done, and its error is
    /// the answer. The check may wait, and other requests of the connection go on meanwhile.
    #[must_use]
    pub fn check<F>(
        mut self,
        check: impl Fn(&Request, &DurableEntry) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), OwnedError>> + Send + 'static,
    {
        self.check = Some(Arc::new(move |request, entry| {
            Box::pin(check(request, entry))
        }));
        self
    }

    /// Sets who is told of takeovers, of messages that retention removed unacknowledged, and of failures of the store.
    #[must_use]
    pub fn on_event(mut self, on_event: impl Fn(DurableEvent) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Arc::new(on_event));
        self
    }
}

impl fmt::Debug for DurableConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableConfig")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

type Stored = Arc<Slot<Result<u64, StoreError>>>;

/// The right to answer a request.
struct Reply {
    responder: Responder,
    request: RequestKey,
    mark: Option<AnswerMark>,
    conn: Arc<DurableConn>,
}

struct Inner {
    config: DurableConfig,
    store: Box<dyn Store>,
    state: Lock<State>,
    alarm: Arc<Alarm>,
}

struct State {
    topics: DurableTopics<Reply>,
    connections: BTreeMap<u64, Arc<DurableConn>>,
    publishing: BTreeMap<CommandId, Stored>,
    /// The number of the connection that came last.
    last: u64,
    is_pumping: bool,
    /// Until when the thread sleeps.
    wakes_at: Instant,
}

/// Wakes the thread.
#[derive(Default)]
struct Alarm {
    is_set: Lock<bool>,
    changed: Condvar,
}

impl Alarm {
    fn set(&self) {
        *self.is_set.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self, span: Duration) {
        let is_set = self.is_set.lock();
        let waited = self
            .changed
            .wait_timeout_while(is_set, span, |is_set| !*is_set);
        *waited.unwrap_or_else(std::sync::PoisonError::into_inner).0 = false;
    }
}

impl Durable {
    /// Makes topics over a store, with the defaults. A thread of its own does what is due.
    ///
    /// # Panics
    /// The system starts no thread.
    pub fn new(store: impl Store) -> Self {
        Self::with(store, DurableConfig::new())
    }

    /// Makes topics over a store.
    ///
    /// # Panics
    /// The system starts no thread.
    pub fn with(store: impl Store, config: DurableConfig) -> Self {
        let inner = Arc::new(Inner {
            store: Box::new(store),
            state: Lock::new(State {
                topics: DurableTopics::new(config.settings),
                connections: BTreeMap::new(),
                publishing: BTreeMap::new(),
                last: 0,
                is_pumping: false,
                wakes_at: Instant::ZERO,
            }),
            config,
            alarm: Arc::default(),
        });
        let (weak, alarm) = (Arc::downgrade(&inner), Arc::clone(&inner.alarm));
        let thread = thread::Builder::new().name("antiphon-durable".into());
        let run = move || {
            while let Some(inner) = weak.upgrade() {
                let wakes_at = inner.tick();
                drop(inner);
                alarm.wait(wakes_at.saturating_since(now()));
            }
        };
        thread.spawn(run).expect("the system starts a thread");
        let others = Others(Arc::downgrade(&inner));
        inner.store.observe(Box::new(others));
        Self(inner)
    }

    /// Makes topics in memory, for tests and for programs that lose nothing by losing it: see [`MemoryStore::new`].
    ///
    /// # Panics
    /// The system starts no thread.
    pub fn in_memory(max_bytes: usize) -> Self {
        Self::new(Memory(Lock::new(MemoryStore::new(max_bytes))))
    }

    /// What a published message survives.
    pub fn durability(&self) -> Durability {
        self.0.store.durability()
    }

    /// Publishes a message, now: await the result, or [`wait`](Wait::wait) for it on a thread, to know that it is
    /// stored. The result is its sequence in the topic.
    ///
    /// # Errors
    /// See [`DurablePublishError`].
    pub fn publish(
        &self,
        topic: &str,
        data: impl Payload,
    ) -> Wait<'static, Result<u64, DurablePublishError>> {
        self.publish_named(topic, data, None)
    }

    /// Publishes a message unless the topic still has one that was published by this name. The result is the sequence of
    /// that one then: so a publisher may try again without knowing what became of its first attempt.
    ///
    /// # Errors
    /// See [`DurablePublishError`].
    pub fn publish_once(
        &self,
        topic: &str,
        data: impl Payload,
        name: &str,
    ) -> Wait<'static, Result<u64, DurablePublishError>> {
        self.publish_named(topic, data, Some(name))
    }

    fn publish_named(
        &self,
        topic: &str,
        data: impl Payload,
        name: Option<&str>,
    ) -> Wait<'static, Result<u64, DurablePublishError>> {
        let topic = DurableTopic::parse(topic).map_err(PublishError::Topic);
        let data = MessageData::write(data).map_err(PublishError::Encode);
        let (topic, data) = match topic.and_then(|topic| Ok((topic, data?))) {
            Ok(valid) => valid,
            Err(error) => return Wait::known(Err(DurablePublishError::Invalid(error))),
        };
        let stored = Slot::new();
        let begun = self.0.act(|state| {
            let command = state.topics.publish(&topic, data, name)?;
            state.publishing.insert(command, Arc::clone(&stored));
            Ok(())
        });
        if let Err(error) = begun {
            return Wait::known(Err(DurablePublishError::Store(error)));
        }
        Wait::on(async move {
            let stored = poll_fn(|cx| stored.poll(cx.waker())).await;
            stored.map_err(DurablePublishError::Store)
        })
    }

    /// Sets how long the messages of a topic are kept.
    ///
    /// # Errors
    /// The rule that the topic breaks.
    pub fn set_retention(&self, topic: &str, retention: Retention) -> Result<(), InvalidTopic> {
        let topic = DurableTopic::parse(topic)?;
        self.0
            .act(|state| state.topics.set_retention(&topic, retention));
        Ok(())
    }

    /// How many messages of its topic a subscription has not acknowledged; `None` if no connection is attached to it.
    pub fn lag(&self, subscription: &str) -> Option<u64> {
        self.0.state.lock().topics.lag(subscription)
    }

    /// Takes a call of one of the methods, with the right to answer it.
    pub(crate) fn begin(&self, request: &Request, method: DurableMethod) -> Result<(), OwnedError> {
        if !can_push(request) {
            return Err(request.unknown_method());
        }
        let asked = DurableRequest::parse(method, request.raw_params())?;
        let (session, key) = (request.responder.session(), request.key());
        let mark = session.lock().conn.answer_mark(key);
        let subscribes = asked.entries().iter().any(|entry| entry.topic().is_some());
        if subscribes && mark.is_none() {
            // It was cancelled, its connection has ended, or it is a notification: the peer would not know of it.
            return Err("no answer is awaited").internal();
        }
        let conn = self.conn_of(session)?;
        let check = self.0.config.check.iter();
        let checks: Vec<_> = check
            .flat_map(|check| asked.entries().iter().map(|entry| check(request, entry)))
            .collect();
        let reply = Reply {
            responder: request.defer(),
            request: key,
            mark,
            conn,
        };
        let (inner, number) = (Arc::clone(&self.0), reply.conn.key);
        let accept = move |reply| {
            inner.act(|state| state.topics.handle_request(number, asked, reply));
        };
        if checks.is_empty() {
            accept(reply);
        } else {
            session.runtime().spawn(Box::pin(async move {
                for check in checks {
                    if let Err(error) = check.await {
                        // If the connection has ended, no answer is awaited.
                        let _ = reply.responder.answer_with(Err(error));
                        return;
                    }
                }
                accept(reply);
            }));
        }
        Ok(())
    }

    /// Returns the part of a connection, which joins with its first request.
    fn conn_of(&self, session: &Session) -> Result<Arc<DurableConn>, OwnedError> {
        let weak: Weak<Inner> = Arc::downgrade(&self.0);
        let conn = session.durable_or(|| {
            self.0.act(|state| {
                state.last += 1;
                let conn = DurableConn::new(weak.clone(), state.last);
                state.topics.add_connection(state.last);
                state.connections.insert(state.last, Arc::clone(&conn));
                conn
            })
        });
        match self.0.state.lock().connections.get(&conn.key) {
            Some(own) if Arc::ptr_eq(own, conn) => Ok(Arc::clone(conn)),
            _ => Err("the connection has ended, or uses other durable topics").internal(),
        }
    }
}

/// What the machine has for the world, taken under the lock.
#[derive(Default)]
struct Output {
    commands: Vec<(CommandId, Command)>,
    answers: Vec<DurableAnswer<Reply>>,
    published: Vec<(Stored, Published)>,
    events: Vec<DurableEvent>,
    wakers: Vec<Waker>,
}

impl Inner {
    /// Changes the machine, and does what it then asks for. Not to be called under a lock.
    fn act<R>(self: &Arc<Self>, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        state.topics.handle_timeout(now(), wall());
        let result = act(&mut state);
        drop(state);
        self.pump();
        result
    }

    /// Does what is due, and returns when something is due next.
    fn tick(self: &Arc<Self>) -> Instant {
        self.act(|state| state.wakes_at = Instant::FAR_FUTURE);
        let mut state = self.state.lock();
        state.wakes_at = state.topics.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        state.wakes_at
    }

    /// Does what the machine asks for, until it asks for nothing, unless another thread does that.
    fn pump(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if replace(&mut state.is_pumping, true) {
            return;
        }
        loop {
            let output = state.take_output();
            let Some(output) = output else {
                state.is_pumping = false;
                return self.alert(&state);
            };
            drop(state);
            self.put(output);
            state = self.state.lock();
        }
    }

    /// Wakes the thread if something is due earlier than it knows.
    fn alert(&self, state: &State) {
        let due = state.topics.poll_timeout();
        if due.is_some_and(|due| due < state.wakes_at) || state.topics.has_output() {
            self.alarm.set();
        }
    }

    /// Calls code of the program and of the store, without the lock. Their panics end nothing here.
    fn put(self: &Arc<Self>, output: Output) {
        for (id, command) in output.commands {
            let own = Arc::downgrade(self);
            let done = Completer::new(move |result| {
                if let Some(own) = own.upgrade() {
                    own.complete(id, result);
                }
            });
            caught(|| self.store.submit(command, done));
        }
        for answer in output.answers {
            caught(|| answer.to.give(answer.reply, answer.opens));
        }
        for (stored, published) in output.published {
            let waker = stored.put(published.result);
            caught(|| waker.map(Waker::wake));
        }
        for event in output.events {
            if let Some(on_event) = &self.config.on_event {
                caught(|| on_event(event));
            }
        }
        for waker in output.wakers {
            caught(|| waker.wake());
        }
    }

    fn complete(self: &Arc<Self>, id: CommandId, result: Result<Completion, StoreError>) {
        self.act(|state| state.topics.handle_completion(id, result));
    }
}

impl State {
    fn take_output(&mut self) -> Option<Output> {
        let Self {
            topics,
            connections,
            publishing,
            ..
        } = self;
        let mut output = Output::default();
        output
            .commands
            .extend(std::iter::from_fn(|| topics.poll_command()));
        output
            .answers
            .extend(std::iter::from_fn(|| topics.poll_answer()));
        while let Some(published) = topics.poll_published() {
            let stored = publishing.remove(&published.command);
            output
                .published
                .extend(stored.map(|stored| (stored, published)));
        }
        while let Some(event) = topics.poll_event() {
            if let DurableEvent::Detached {
                connection,
                why: Detached::AheadOfLog,
                ..
            } = &event
            {
                let conn = connections.get(connection);
                output.wakers.extend(conn.and_then(|conn| conn.wake(true)));
            }
            output.events.push(event);
        }
        let mut has_ready = false;
        while let Some(ready) = topics.poll_ready() {
            has_ready = true;
            let conn = connections.get(&ready);
            output.wakers.extend(conn.and_then(|conn| conn.wake(false)));
        }
        let is_empty = output.commands.is_empty()
            && output.answers.is_empty()
            && output.published.is_empty()
            && output.events.is_empty();
        (!is_empty || has_ready).then_some(output)
    }
}

impl Reply {
    /// Answers. Subscriptions begin when the answer is in the output.
    fn give(
        self,
        reply: Result<antiphon::OwnedJson, antiphon::durable::DurableError>,
        opens: Option<Opening>,
    ) {
        let session = self.responder.session();
        let profile = session.dialect().error_profile;
        if let Some((opening, mark)) = opens.zip(self.mark) {
            session.begin_durable(self.request, mark, &self.conn, opening);
        }
        let answer = reply.map_err(|error| error.error(profile));
        let answer = answer.map(|result| Answer(Some(Ok(Text::from(Vec::from(result.as_str()))))));
        // If the connection has ended, no answer is awaited.
        let _ = self.responder.answer_with(answer);
    }
}

impl DurableHub for Inner {
    fn next(&self, key: u64) -> Option<Delivery> {
        let mut state = self.state.lock();
        state.topics.handle_timeout(now(), wall());
        let next = state.topics.poll_delivery(key);
        self.alert(&state);
        next
    }

    fn opened(&self, opening: Opening, is_accepted: bool) {
        let mut state = self.state.lock();
        match is_accepted {
            true => state.topics.release(opening),
            false => state.topics.refuse(opening),
        }
        self.alert(&state);
    }

    fn leave(&self, key: u64) {
        let mut state = self.state.lock();
        state.topics.remove_connection(key);
        let conn = state.connections.remove(&key);
        self.alert(&state);
        drop(state);
        drop(conn);
    }
}

/// What other hubs do with the store.
struct Others(Weak<Inner>);

impl Observer for Others {
    fn grown(&self, topic: &str, last: u64) {
        if let (Some(inner), Ok(topic)) = (self.0.upgrade(), DurableTopic::parse(topic)) {
            inner.act(|state| state.topics.handle_grown(&topic, last));
        }
    }

    fn taken_over(&self, subscription: &str, fence: u64) {
        if let Some(inner) = self.0.upgrade() {
            inner.act(|state| state.topics.handle_takeover(subscription, fence));
        }
    }

    fn holds(&self, subscription: &str) -> bool {
        let inner = self.0.upgrade();
        inner.is_some_and(|inner| inner.state.lock().topics.holds(subscription))
    }
}

/// The thread ends.
impl Drop for Inner {
    fn drop(&mut self) {
        for (_, stored) in take(&mut self.state.get_mut().publishing) {
            let waker = stored.put(Err(StoreError::Failed));
            caught(|| waker.map(Waker::wake));
        }
        self.alarm.set();
    }
}

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable")
            .field("durability", &self.durability())
            .finish_non_exhaustive()
    }
}

/// The store in memory, for many threads.
struct Memory(Lock<MemoryStore>);

impl Store for Memory {
    fn durability(&self) -> Durability {
        Durability::Memory
    }

    fn submit(&self, command: Command, done: Completer) {
        let result = self.0.lock().execute(&command);
        done.complete(result);
    }
}

fn now() -> Instant {
    Instant::ZERO + epoch().elapsed()
}

fn wall() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Wall::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}
