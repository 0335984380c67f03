//! The peer's subscriptions on a connection: which are open, and who waits for a change of one.
//!
//! ```text
//!   begin ──▶ Opening ── the answer with its id is in the output ──▶ Open
//!                │ unsubscribed, refused, or end of the connection      │
//!                ├──────────────────────▶ (removed) ◀───────────────────┤
//!                │ no more events              ▲ the peer is told       │
//!                └──────────────────────▶ ending ◀──────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map::IntoValues;
use std::mem::take;
use std::sync::Arc;
use std::task::Waker;

use antiphon::durable::Opening as DurableOpening;
use antiphon::pubsub::Hold;
use antiphon::{AnswerMark, Json, OwnedJson, RequestKey, Style};

use super::conn_feed::ConnFeed;
use super::durable_conn::DurableConn;

/// The number of a subscription of the peer, which no other one on its connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SinkKey(u64);

impl SinkKey {
    /// The id by which the peer knows the subscription.
    pub(crate) fn id(self) -> String {
        format!("{:#x}", self.0)
    }
}

/// The wakers of those who waited for a subscription.
type Waiting = IntoValues<u64, Waker>;

/// The subscriptions of the peer.
#[derive(Debug, Default)]
pub(crate) struct Sinks {
    all: BTreeMap<SinkKey, Sink>,
    /// What begins with answers that are not in the output yet.
    opening: Vec<Opening>,
    /// Those that have ended of which the peer is not told yet, with the params of their last notifications.
    ending: Vec<(SinkKey, Style, OwnedJson)>,
    last: u64,
    /// The number of the one who began to wait last.
    last_place: u64,
}

/// Subscriptions that begin with the answer to a request.
#[derive(Debug)]
struct Opening {
    request: RequestKey,
    mark: AnswerMark,
    /// Whether the answer is a result; `None` while there is none. After anything else they end, and the peer hears of
    /// nothing else.
    is_accepted: Option<bool>,
    what: Begun,
}

#[derive(Debug)]
enum Begun {
    Sink(SinkKey),
    /// Topics of a hub.
    Topics(Arc<ConnFeed>, Hold),
    Durable(Arc<DurableConn>, DurableOpening),
}

impl Opening {
    fn is_of(&self, sink: SinkKey) -> bool {
        matches!(self.what, Begun::Sink(key) if key == sink)
    }
}

#[derive(Debug)]
struct Sink {
    style: Style,
    is_open: bool,
    /// Those who wait until it is open, or until it ends, by their numbers.
    waiting: BTreeMap<u64, Waker>,
}

/// How far a subscription of the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SinkPhase {
    /// The peer does not know its id yet.
    Opening,
    /// Events may be sent.
    Open,
    /// Nothing can be sent any more.
    Ended,
}

impl Sinks {
    /// Begins a subscription, which opens with the answer of `mark`. `None` if there are `max` subscriptions.
    pub(crate) fn begin(
        &mut self,
        request: RequestKey,
        mark: AnswerMark,
        style: Style,
        max: usize,
    ) -> Option<SinkKey> {
        if self.len() >= max {
            return None;
        }
        self.last += 1;
        let key = SinkKey(self.last);
        let sink = Sink {
            style,
            is_open: false,
            waiting: BTreeMap::new(),
        };
        self.all.insert(key, sink);
        self.open_with(request, mark, Begun::Sink(key));
        Some(key)
    }

    /// Holds back what new subscriptions to topics bring until the answer of `mark` is in the output.
    pub(super) fn hold(
        &mut self,
        request: RequestKey,
        mark: AnswerMark,
        feed: Arc<ConnFeed>,
        hold: Hold,
    ) {
        self.open_with(request, mark, Begun::Topics(feed, hold));
    }

    /// Has durable subscriptions begin when the answer of `mark` is in the output.
    pub(super) fn hold_durable(
        &mut self,
        request: RequestKey,
        mark: AnswerMark,
        conn: Arc<DurableConn>,
        opening: DurableOpening,
    ) {
        self.open_with(request, mark, Begun::Durable(conn, opening));
    }

    fn open_with(&mut self, request: RequestKey, mark: AnswerMark, what: Begun) {
        self.opening.push(Opening {
            request,
            mark,
            is_accepted: None,
            what,
        });
    }

    /// Notes how a request is answered: by a result, or by anything else.
    pub(crate) fn decide(&mut self, request: RequestKey, is_accepted: bool) {
        let of_request = |one: &&mut Opening| one.request == request;
        for opening in self.opening.iter_mut().filter(of_request) {
            opening.is_accepted = Some(is_accepted);
        }
    }

    /// Whether a subscription waits for the answer with its id, or the peer is to be told of the end of one.
    pub(super) fn has_changes(&self) -> bool {
        !self.opening.is_empty() || !self.ending.is_empty()
    }

    /// How many subscriptions there are, with those of whose end the peer is not told yet.
    pub(crate) fn len(&self) -> usize {
        self.all.len() + self.ending.len()
    }

    /// Takes what the peer is told of the end of a subscription whose id it knows.
    pub(super) fn take_ending(&mut self) -> Option<(Style, OwnedJson)> {
        let is_opening = |key| self.opening.iter().any(|one| one.is_of(key));
        let at = self.ending.iter().position(|(key, ..)| !is_opening(*key))?;
        let (_, style, params) = self.ending.remove(at);
        Some((style, params))
    }

    /// Opens the subscriptions whose answers are in the output now. Those whose requests have failed end.
    pub(super) fn open_answered(
        &mut self,
        is_answered: impl Fn(AnswerMark) -> bool,
        wakes: &mut impl Extend<Waker>,
    ) {
        let Self {
            all,
            opening,
            ending,
            ..
        } = self;
        opening.retain(|one| {
            if one.is_accepted != Some(false) && !is_answered(one.mark) {
                return true;
            }
            let is_accepted = one.is_accepted == Some(true);
            match &one.what {
                Begun::Topics(feed, hold) if is_accepted => wakes.extend(feed.release(*hold)),
                Begun::Topics(feed, hold) => feed.refuse(*hold),
                Begun::Durable(conn, opening) => wakes.extend(conn.opened(*opening, is_accepted)),
                Begun::Sink(key) => {
                    if let Some(sink) = all.get_mut(key) {
                        sink.is_open = true;
                        wakes.extend(take(&mut sink.waiting).into_values());
                    }
                    if !is_accepted {
                        all.remove(key);
                        ending.retain(|(other, ..)| other != key);
                    }
                }
            }
            false
        });
    }

    pub(crate) fn phase(&self, key: SinkKey) -> SinkPhase {
        match self.all.get(&key) {
            Some(sink) if sink.is_open => SinkPhase::Open,
            Some(_) => SinkPhase::Opening,
            None => SinkPhase::Ended,
        }
    }

    /// Has `waker` woken at the next change of a subscription, and puts the number of the one who waits into `place`.
    /// Returns the waker that is not needed.
    pub(super) fn wait(
        &mut self,
        key: SinkKey,
        place: &mut Option<u64>,
        waker: Waker,
    ) -> Option<Waker> {
        let Some(sink) = self.all.get_mut(&key) else {
            return Some(waker);
        };
        let place = *place.get_or_insert_with(|| {
            self.last_place += 1;
            self.last_place
        });
        sink.waiting.insert(place, waker)
    }

    /// Takes the waker of somebody who does not wait any more.
    pub(super) fn leave(&mut self, key: SinkKey, place: u64) -> Option<Waker> {
        self.all.get_mut(&key)?.waiting.remove(&place)
    }

    /// Ends a subscription. The peer is told of it by `params`, if it knows the subscription or will. Returns the wakers
    /// of those who wait for the end.
    pub(super) fn finish(&mut self, key: SinkKey, params: Option<OwnedJson>) -> Option<Waiting> {
        let sink = self.all.remove(&key)?;
        let ending = params.map(|params| (key, sink.style, params));
        self.ending.extend(ending);
        Some(sink.waiting.into_values())
    }

    /// Ends the subscription of a style with this id, because the peer has unsubscribed. Returns the wakers of those
    /// who wait for that, or `None` if there is no such subscription.
    pub(super) fn unsubscribe(&mut self, style: Style, id: Json<'_>) -> Option<Waiting> {
        let text = id.as_string()?.to_cow()?;
        let number = text.strip_prefix("0x")?;
        let key = SinkKey(u64::from_str_radix(number, 16).ok()?);
        // A number has one spelling.
        let same = |sink: &&Sink| sink.style.unsubscribe_method() == style.unsubscribe_method();
        let known = self.all.get(&key).filter(same);
        known.filter(|_| key.id() == text)?;
        self.opening.retain(|one| !one.is_of(key));
        self.all.remove(&key).map(|sink| sink.waiting.into_values())
    }

    /// Ends all subscriptions.
    pub(super) fn end_all(&mut self, wakes: &mut impl Extend<Waker>) {
        self.opening.clear();
        self.ending.clear();
        for (_, sink) in take(&mut self.all) {
            wakes.extend(sink.waiting.into_values());
        }
    }
}
