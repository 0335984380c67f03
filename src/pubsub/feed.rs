//! The publications that wait for one connection, at most so many, so that a slow reader delays nobody.
//!
//! ```text
//!   push ─▶ [ oldest … newest ] ─▶ drain ─▶ the connection's output
//!             full: DropConnection ──▶ Overflowed: empty, and takes nothing more
//!                   DropMessage    ──▶ the oldest is lost
//!                   KeepLatest     ──▶ of each topic only the latest waits; if they are still too many,
//!                                      the oldest is lost
//!
//!   Open ── full, DropConnection ──▶ Overflowed ── close ──▶ Closed
//!     └───────────────────────────── close ──────────────────▲
//! ```
//!
//! It has pointers: a value that waits for ten thousand connections is in memory once. What is already in
//! a connection's output is not here, and can no longer be dropped.

use crate::shared::Arc;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use super::pattern::Pattern;
use super::publication::Publication;

/// How much waits for one connection, and what happens to more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedLimits {
    /// The most publications. Default 1024; 0 counts as 1. Each needs 16 bytes.
    pub max_messages: usize,
    /// The most bytes of their params. Default 1 MiB. One publication is always accepted while none
    /// waits.
    pub max_bytes: usize,
    /// What happens to more. Default [`FeedOverflow::DropConnection`].
    pub overflow: FeedOverflow,
}

impl FeedLimits {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            max_messages: 1024,
            max_bytes: 1 << 20,
            overflow: FeedOverflow::DropConnection,
        }
    }
}

impl Default for FeedLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// What happens when too much waits for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeedOverflow {
    /// The connection is closed, so its peer knows that it has lost something.
    DropConnection,
    /// The oldest publication is dropped.
    DropMessage,
    /// A publication replaces an earlier one of its topic that still waits, also before a limit is
    /// reached: for topics that carry a state. If the topics themselves are too many, the oldest
    /// publication is dropped.
    KeepLatest,
}

/// A limit of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeedLimit {
    /// [`FeedLimits::max_messages`].
    Messages,
    /// [`FeedLimits::max_bytes`].
    Bytes,
}

impl FeedLimit {
    /// The name of the limit's field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "max_messages",
            Self::Bytes => "max_bytes",
        }
    }
}

/// What a connection has lost, from the first publication that was dropped until nothing waited any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedLoss {
    /// How many publications were dropped.
    pub dropped: u64,
    /// The limit that was reached first.
    pub limit: FeedLimit,
}

/// The publications that wait for one connection.
///
/// ```
/// use antiphon::pubsub::{Feed, FeedLimit, FeedLimits, FeedOverflow, Publication};
/// use std::sync::Arc;
/// let mut limits = FeedLimits::new();
/// limits.max_messages = 2;
/// limits.overflow = FeedOverflow::DropMessage;
/// let mut feed = Feed::new(limits);
/// for n in 1..=5 {
///     feed.push(&Arc::new(Publication::new("ticks", &n).unwrap()));
/// }
/// let mut data = Vec::new();
/// feed.drain(64 << 10, |publication| {
///     data.push(publication.params().get("data").unwrap().as_str().to_string());
///     true
/// });
/// assert_eq!(data, ["4", "5"]);
/// let lost = feed.poll_report().unwrap();
/// assert_eq!((lost.dropped, lost.limit), (3, FeedLimit::Messages));
/// assert_eq!(feed.poll_report(), None);
/// ```
#[derive(Debug)]
pub struct Feed {
    limits: FeedLimits,
    life: Life,
    waiting: VecDeque<Waiting>,
    /// How many bytes the waiting publications have.
    bytes: usize,
    /// The subscriptions whose answers have not been sent.
    holds: Vec<(Hold, Vec<Pattern>)>,
    last_hold: u64,
    /// What was dropped and not reported.
    lost: Option<FeedLoss>,
    /// How many publications were replaced by later ones.
    replaced: u64,
}

/// Names the subscriptions of one request whose answer has not been sent: see [`Feed::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    Overflowed,
    Closed,
}

#[derive(Debug)]
struct Waiting {
    /// A copy, so that a search does not have to read each publication.
    topic_hash: u64,
    /// Whether it came by [`push_first`](Feed::push_first).
    is_first: bool,
    /// Whether it waits for the answer to a subscribe.
    is_held: bool,
    publication: Arc<Publication>,
}

impl Feed {
    /// Makes an empty feed, which allocates nothing.
    pub const fn new(limits: FeedLimits) -> Self {
        Self {
            limits,
            life: Life::Open,
            waiting: VecDeque::new(),
            bytes: 0,
            holds: Vec::new(),
            last_hold: 0,
            lost: None,
            replaced: 0,
        }
    }

    /// Adds a publication. Returns whether the connection is to be woken: there is something to drain where
    /// there was nothing, or the feed has overflowed.
    pub fn push(&mut self, publication: &Arc<Publication>) -> bool {
        if self.life != Life::Open {
            return false;
        }
        if self.limits.overflow == FeedOverflow::KeepLatest {
            self.remove_earlier(publication);
        }
        while let Some(limit) = self.reached(publication.bytes()) {
            if self.limits.overflow == FeedOverflow::DropConnection {
                self.lose(self.waiting.len() as u64 + 1, limit);
                self.clear();
                self.life = Life::Overflowed;
                return true;
            }
            self.remove(0);
            self.lose(1, limit);
        }
        let is_held = is_held(&self.holds, publication);
        let wakes = !is_held && !self.has_due();
        self.bytes += publication.bytes();
        self.waiting.push_back(Waiting {
            topic_hash: publication.topic_hash(),
            is_first: false,
            is_held,
            publication: Arc::clone(publication),
        });
        wakes
    }

    /// Adds a publication before all that wait, whatever the limits: the state of a topic, for a connection that has
    /// just subscribed. To be called while the feed is [held](Self::hold), and after
    /// [`remove_first`](Self::remove_first): then no more wait than the connection has subscriptions.
    pub fn push_first(&mut self, publication: &Arc<Publication>) {
        if self.life == Life::Open {
            self.bytes += publication.bytes();
            self.waiting.push_front(Waiting {
                topic_hash: publication.topic_hash(),
                is_first: true,
                is_held: is_held(&self.holds, publication),
                publication: Arc::clone(publication),
            });
        }
    }

    /// Removes what [`push_first`](Self::push_first) has added for this topic and still waits. It does not count as
    /// lost.
    pub fn remove_first(&mut self, topic: &str) {
        let bytes = &mut self.bytes;
        self.waiting.retain(|waiting| {
            let stays = !waiting.is_first || waiting.publication.topic() != topic;
            *bytes -= if stays {
                0
            } else {
                waiting.publication.bytes()
            };
            stays
        });
    }

    /// Passes waiting publications to `send`, the oldest first: of `max_bytes` bytes at most, but one at
    /// least. One that `send` refuses, by `false`, goes on waiting, and so does what comes after it.
    /// Those that are [held](Self::hold) are left out.
    pub fn drain(&mut self, max_bytes: usize, mut send: impl FnMut(&Publication) -> bool) {
        let (mut sent, mut at) = (0, 0);
        while let Some(next) = self.waiting.get(at) {
            if next.is_held {
                at += 1;
                continue;
            }
            let bytes = next.publication.bytes();
            if sent > 0 && bytes > max_bytes.saturating_sub(sent) || !send(&next.publication) {
                return;
            }
            sent += bytes;
            self.remove(at);
        }
    }

    /// Holds what these patterns match until [`release`](Self::release), because the answer to a subscribe must be
    /// sent before the events of its topics. Other topics go on. What is held counts against the limits.
    /// [`TopicRequest::accept`](super::TopicRequest::accept) does this.
    pub fn hold(&mut self, patterns: Vec<Pattern>) -> Hold {
        self.last_hold += 1;
        let hold = Hold(self.last_hold);
        self.holds.push((hold, patterns));
        hold
    }

    /// Undoes a [`hold`](Self::hold): the answer is in the connection's output now. For a request in a batch this
    /// is when the answer to the whole batch is there. Returns whether the connection is to be woken.
    pub fn release(&mut self, hold: Hold) -> bool {
        self.take_hold(hold);
        self.has_due()
    }

    /// Undoes a [`hold`](Self::hold), and returns its patterns without those that were unsubscribed meanwhile.
    pub(super) fn take_hold(&mut self, hold: Hold) -> Vec<Pattern> {
        let at = self.holds.iter().position(|(other, _)| *other == hold);
        let patterns = at.map(|at| self.holds.swap_remove(at).1);
        self.update_held();
        patterns.unwrap_or_default()
    }

    /// Takes a pattern that was unsubscribed out of all [holds](Self::hold). What it has brought may go on waiting for
    /// a subscription whose answer has not been sent.
    pub(super) fn forget(&mut self, pattern: &Pattern) {
        for (_, patterns) in &mut self.holds {
            patterns.retain(|held| held != pattern);
        }
        for one in &mut self.waiting {
            one.is_held |= pattern.matches(one.publication.topic());
        }
        self.update_held();
    }

    /// Drops the publications that the connection does not get any more. `copies` says how often it gets
    /// each. They do not count as lost.
    pub fn retain(&mut self, mut copies: impl FnMut(&Publication) -> usize) {
        // Copies of one publication stand directly behind each other.
        let (mut last, mut left) = (core::ptr::null(), 0);
        let bytes = &mut self.bytes;
        self.waiting.retain(|Waiting { publication, .. }| {
            if mem::replace(&mut last, Arc::as_ptr(publication)) != Arc::as_ptr(publication) {
                left = copies(publication);
            }
            let stays = left > 0;
            left = left.saturating_sub(1);
            *bytes -= if stays { 0 } else { publication.bytes() };
            stays
        });
    }

    /// Returns what was lost, once nothing waits any more: one report from the first loss until then.
    pub fn poll_report(&mut self) -> Option<FeedLoss> {
        match self.waiting.is_empty() {
            true => self.lost.take(),
            false => None,
        }
    }

    /// Ends the feed with its connection. Returns what was lost and not reported.
    pub fn close(&mut self) -> Option<FeedLoss> {
        self.clear();
        self.life = Life::Closed;
        self.lost.take()
    }

    /// Whether the connection is to be closed, under [`FeedOverflow::DropConnection`].
    pub fn has_overflowed(&self) -> bool {
        self.life == Life::Overflowed
    }

    /// How many publications wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many bytes the waiting publications have.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many publications were replaced by later ones of their topic, under
    /// [`FeedOverflow::KeepLatest`].
    pub const fn replaced(&self) -> u64 {
        self.replaced
    }

    /// The limit that one more publication of this size would pass.
    fn reached(&self, bytes: usize) -> Option<FeedLimit> {
        if self.waiting.is_empty() {
            None
        } else if self.waiting.len() >= self.limits.max_messages {
            Some(FeedLimit::Messages)
        } else if bytes > self.limits.max_bytes.saturating_sub(self.bytes) {
            Some(FeedLimit::Bytes)
        } else {
            None
        }
    }

    /// Removes the publication of the same topic that waits, if there is one.
    fn remove_earlier(&mut self, publication: &Publication) {
        let is_same = |waiting: &Waiting| {
            waiting.topic_hash == publication.topic_hash()
                && waiting.publication.topic() == publication.topic()
        };
        if let Some(at) = self.waiting.iter().position(is_same) {
            self.remove(at);
            self.replaced += 1;
        }
    }

    /// Finds out what is still held.
    fn update_held(&mut self) {
        for one in self.waiting.iter_mut().filter(|one| one.is_held) {
            one.is_held = is_held(&self.holds, &one.publication);
        }
    }

    /// Whether something waits that is not held.
    fn has_due(&self) -> bool {
        self.waiting.iter().any(|one| !one.is_held)
    }

    fn remove(&mut self, at: usize) {
        if let Some(removed) = self.waiting.remove(at) {
            self.bytes -= removed.publication.bytes();
        }
    }

    fn lose(&mut self, dropped: u64, limit: FeedLimit) {
        let lost = self.lost.get_or_insert(FeedLoss { dropped: 0, limit });
        lost.dropped += dropped;
    }

    fn clear(&mut self) {
        self.waiting = VecDeque::new();
        self.bytes = 0;
    }
}

/// Whether a subscription whose answer has not been sent brings a publication.
fn is_held(holds: &[(Hold, Vec<Pattern>)], publication: &Publication) -> bool {
    let matches = |pattern: &Pattern| pattern.matches(publication.topic());
    holds.iter().any(|(_, held)| held.iter().any(matches))
}
