//! Stores messages of a client's peer, and answers its requests.
//!
//! Rule: the number of stored messages is limited, and the oldest is dropped first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use antiphon::{Closed, Json, OwnedJson};
use antiphon_net::{Answer, Notification, Request};

use crate::log::say;

/// How many notifications are kept for a later `wait`; the oldest are dropped first. Requests are
/// counted for at most as many methods.
const MAX_KEPT: usize = 10_000;
/// How many bytes of notifications are kept.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// A wait lasts at least this long: a notification that came before an answer may still be under
/// way from one thread to another.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// What a connection's service and the operations share. Clones are the same desk.
#[derive(Clone, Debug, Default)]
pub struct Desk {
    inside: Arc<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<(String, Option<OwnedJson>)>,
    kept_bytes: usize,
    answers: HashMap<String, OwnedJson>,
    /// How often the peer has asked for each method.
    asked: HashMap<String, u64>,
    closed: Option<Closed>,
}

/// What came of waiting.
#[derive(Debug)]
pub enum Waited<T> {
    /// What was waited for.
    Found(T),
    /// It did not come in time.
    TimedOut,
    /// It did not come, and the connection has ended.
    Closed,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        let state = self.inside.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a request for the method is answered with this result. False if the connection has ended.
    pub fn will_answer(&self, method: &str, result: OwnedJson) -> bool {
        let mut state = self.lock();
        let is_open = state.closed.is_none();
        if is_open {
            state.answers.insert(method.to_owned(), result);
        }
        is_open
    }

    /// Answers a request of the peer, and then wakes the operations that wait for one.
    pub fn answer(&self, request: &Request) -> Answer {
        let mut state = self.lock();
        let answer = state.answers.get(request.method()).cloned();
        if state.asked.len() < MAX_KEPT || state.asked.contains_key(request.method()) {
            *state.asked.entry(request.method().to_owned()).or_default() += 1;
        }
        drop(state);
        let reply = request.defer();
        let answered = match answer {
            Some(result) => reply.ok(result.as_json()),
            None => reply.unknown_method(request.method()),
        };
        if let Err(error) = answered {
            let method = request.method();
            say(format_args!("{method} was not answered: {error}"));
        }
        self.inside.changed.notify_all();
        Answer::deferred()
    }

    /// Keeps a notification until an operation waits for it.
    pub fn keep(&self, notification: &Notification) {
        let method = notification.method();
        let params = notification.raw_params().map(Json::to_owned_json);
        let mut state = self.lock();
        state.kept_bytes += size_of_kept(method, params.as_ref());
        state.kept.push_back((method.to_owned(), params));
        while state.kept.len() > MAX_KEPT || state.kept_bytes > MAX_KEPT_BYTES {
            let Some((method, params)) = state.kept.pop_front() else {
                break;
            };
            state.kept_bytes -= size_of_kept(&method, params.as_ref());
            say(format_args!(
                "a notification that nobody waits for is dropped: {method}"
            ));
        }
        drop(state);
        self.inside.changed.notify_all();
    }

    /// The connection is over.
    pub fn close(&self, why: Closed) {
        self.lock().closed = Some(why);
        self.inside.changed.notify_all();
    }

    /// Waits for the oldest notification of the method that is not yet taken, and takes its params.
    pub fn take(&self, method: &str, timeout: Duration) -> Waited<Option<OwnedJson>> {
        self.wait(timeout, |state| {
            let position = state.kept.iter().position(|(name, _)| name == method)?;
            let (_, params) = state.kept.remove(position)?;
            let size = size_of_kept(method, params.as_ref());
            state.kept_bytes = state.kept_bytes.saturating_sub(size);
            Some(params)
        })
    }

    /// Waits until the peer has asked for the method, and says how often it has.
    pub fn asked(&self, method: &str, timeout: Duration) -> Waited<u64> {
        self.wait(timeout, |state| state.asked.get(method).copied())
    }

    fn wait<T>(
        &self,
        timeout: Duration,
        mut find: impl FnMut(&mut State) -> Option<T>,
    ) -> Waited<T> {
        let deadline = Instant::now() + timeout.max(WAIT_MIN);
        let mut state = self.lock();
        loop {
            if let Some(found) = find(&mut state) {
                return Waited::Found(found);
            }
            if state.closed.is_some() {
                return Waited::Closed;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Waited::TimedOut;
            }
            let waited = self.inside.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn size_of_kept(method: &str, params: Option<&OwnedJson>) -> usize {
    method.len() + params.map_or(0, |params| params.as_str().len())
}
