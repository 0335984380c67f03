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

use antiphon::{AnswerMark, Json, OwnedJson, Style};

use super::conn_feed::ConnFeed;

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
    /// Those whose answers are not in the output yet.
    opening: Vec<(SinkKey, AnswerMark)>,
    /// Those that have ended of which the peer is not told yet, with the params of their last notifications.
    ending: Vec<(SinkKey, Style, OwnedJson)>,
    /// The feeds from a hub that wait for an answer.
    held: Vec<(AnswerMark, Arc<ConnFeed>)>,
    last: u64,
    /// The number of the one who began to wait last.
    last_place: u64,
}

#[derive(Debug)]
struct Sink {
    style: Style,
    /// Whether the answer to the request has its id. Otherwise the request fails, and the peer hears of nothing else.
    is_accepted: bool,
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
    pub(crate) fn begin(&mut self, mark: AnswerMark, style: Style, max: usize) -> Option<SinkKey> {
        if self.len() >= max {
            return None;
        }
        self.last += 1;
        let key = SinkKey(self.last);
        let sink = Sink {
            style,
            is_accepted: false,
            is_open: false,
            waiting: BTreeMap::new(),
        };
        self.all.insert(key, sink);
        self.opening.push((key, mark));
        Some(key)
    }

    /// Notes that the answer to the request will have the id of the subscription.
    pub(super) fn accept(&mut self, key: SinkKey) {
        if let Some(sink) = self.all.get_mut(&key) {
            sink.is_accepted = true;
        }
    }

    /// Whether a subscription waits for the answer with its id, or the peer is to be told of the end of one.
    pub(super) fn has_changes(&self) -> bool {
        !self.opening.is_empty() || !self.ending.is_empty() || !self.held.is_empty()
    }

    /// How many subscriptions there are, with those of whose end the peer is not told yet.
    pub(crate) fn len(&self) -> usize {
        self.all.len() + self.ending.len()
    }

    /// Holds a feed from a hub back until an answer is in the output.
    pub(super) fn hold(&mut self, mark: AnswerMark, feed: Arc<ConnFeed>) {
        self.held.push((mark, feed));
    }

    /// Takes what the peer is told of the end of a subscription whose id it knows.
    pub(super) fn take_ending(&mut self) -> Option<(Style, OwnedJson)> {
        let is_opening = |key| self.opening.iter().any(|(opening, _)| *opening == key);
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
        let all = &mut self.all;
        self.opening.retain(|(key, mark)| {
            let is_answered = is_answered(*mark);
            if let Some(sink) = all.get_mut(key).filter(|_| is_answered) {
                sink.is_open = sink.is_accepted;
                wakes.extend(take(&mut sink.waiting).into_values());
                if !sink.is_open {
                    all.remove(key);
                }
            }
            !is_answered
        });
        self.held.retain(|(mark, feed)| {
            let is_answered = is_answered(*mark);
            if is_answered {
                wakes.extend(feed.release());
            }
            !is_answered
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
        match params.filter(|_| sink.is_accepted) {
            Some(params) => self.ending.push((key, sink.style, params)),
            None => self.opening.retain(|(opening, _)| *opening != key),
        }
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
        self.opening.retain(|(opening, _)| *opening != key);
        self.all.remove(&key).map(|sink| sink.waiting.into_values())
    }

    /// Ends all subscriptions.
    pub(super) fn end_all(&mut self, wakes: &mut impl Extend<Waker>) {
        self.opening.clear();
        self.ending.clear();
        self.held.clear();
        for (_, sink) in take(&mut self.all) {
            wakes.extend(sink.waiting.into_values());
        }
    }
}
