//! What waits for one connection from a hub.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use antiphon::pubsub::{Feed, FeedLimits, FeedLoss, Hold, Publication};

use crate::lock::Lock;

/// How many bytes of publications are put into the output at a time.
const MAX_DRAINED: usize = 64 * 1024;

/// The publications that wait for a connection. They have a lock of their own, which may be taken under the
/// session's lock or under the hub's, and under which no other is taken: so nobody who publishes takes the lock of a
/// session.
pub(crate) struct ConnFeed {
    hub: Weak<dyn FeedHub>,
    /// The connection's number in the hub.
    pub(crate) key: u64,
    waiting: Lock<Waiting>,
    /// How many topics the connection has subscribed to.
    topics: AtomicUsize,
}

/// The hub of a feed. Its lock may be taken under the session's.
pub(crate) trait FeedHub: Send + Sync {
    /// Takes a connection out of the hub.
    fn leave(&self, key: u64);

    /// Ends subscriptions whose request fails after all.
    fn refuse(&self, feed: &ConnFeed, hold: Hold);
}

/// What has become of a feed.
pub(super) struct Drained {
    /// What was lost.
    pub(super) lost: Option<FeedLoss>,
    /// Whether the connection is to be closed.
    pub(super) has_overflowed: bool,
    /// A waker that is not needed any more, to be dropped without a lock.
    pub(super) before: Option<Waker>,
}

struct Waiting {
    feed: Feed,
    /// Wakes the connection's task; `None` while it is awake.
    waker: Option<Waker>,
}

impl ConnFeed {
    pub(crate) fn new(hub: Weak<impl FeedHub + 'static>, key: u64, limits: FeedLimits) -> Self {
        let feed = Feed::new(limits);
        Self {
            hub,
            key,
            waiting: Lock::new(Waiting { feed, waker: None }),
            topics: AtomicUsize::new(0),
        }
    }

    /// Whether it is a feed of this hub.
    pub(crate) fn is_of<H>(&self, hub: &H) -> bool {
        self.hub.as_ptr().cast() == ptr::from_ref(hub)
    }

    /// Lends the feed.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Feed) -> R) -> R {
        act(&mut self.waiting.lock().feed)
    }

    /// Adds a publication. Returns whether the connection gets it, and the waker that is to be woken without a lock.
    pub(crate) fn push(&self, publication: &Arc<Publication>) -> (bool, Option<Waker>) {
        let mut waiting = self.waiting.lock();
        let wakes = waiting.feed.push(publication);
        let is_reached = !waiting.feed.has_overflowed();
        let waker = if wakes { waiting.waker.take() } else { None };
        (is_reached, waker)
    }

    /// Notes that an answer is in the output. Returns the waker that is to be woken without a lock.
    pub(super) fn release(&self, hold: Hold) -> Option<Waker> {
        let mut waiting = self.waiting.lock();
        match waiting.feed.release(hold) {
            true => waiting.waker.take(),
            false => None,
        }
    }

    /// Ends the subscriptions of a request whose answer is an error after all.
    pub(super) fn refuse(&self, hold: Hold) {
        if let Some(hub) = self.hub.upgrade() {
            hub.refuse(self, hold);
        }
    }

    /// Passes publications to `send`, up to 64 KiB at a time and until it returns false. `waker` is woken when there
    /// are more.
    pub(super) fn drain(
        &self,
        waker: &Waker,
        send: Option<impl FnMut(&Publication) -> bool>,
    ) -> Drained {
        let mut waiting = self.waiting.lock();
        let Waiting { feed, waker: known } = &mut *waiting;
        if let Some(send) = send {
            feed.drain(MAX_DRAINED, send);
        }
        let is_known = known.as_ref().is_some_and(|known| known.will_wake(waker));
        Drained {
            lost: feed.poll_report(),
            has_overflowed: feed.has_overflowed(),
            before: match is_known {
                true => None,
                false => known.replace(waker.clone()),
            },
        }
    }

    /// How many topics the connection has subscribed to.
    pub(crate) fn topics(&self) -> usize {
        self.topics.load(Ordering::Relaxed)
    }

    pub(crate) fn set_topics(&self, topics: usize) {
        self.topics.store(topics, Ordering::Relaxed);
    }

    /// Ends the feed with its connection. What is lost then is not reported: the connection is, too.
    pub(super) fn end(&self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.leave(self.key);
        }
        let mut waiting = self.waiting.lock();
        let (_, waker) = (waiting.feed.close(), waiting.waker.take());
        drop(waiting);
        drop(waker);
    }
}

impl fmt::Debug for ConnFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnFeed").field(&self.key).finish()
    }
}
