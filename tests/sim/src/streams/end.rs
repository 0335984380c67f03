//! One end of a link: a session, its flows, and what its server or client keeps.

use std::collections::{BTreeMap, VecDeque};

use antiphon::flow::Pull;
use antiphon::pubsub::{Hold, Pattern, TopicStreams};
use antiphon::session::{Session, Ticket, Wire};
use antiphon::{AnswerMark, Instant};
use antiphon_test_support::random::Random;

use super::flowing::Flows;
use super::hub::Hash;
use super::settings::{Settings, flows};
use crate::sessions::pipe::WireKind;

/// What a call was made for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tag {
    Ask,
    /// Subscribes to the topic of this stream.
    Topic(u64),
    /// Opens the subscription of this stream.
    Sub(u64),
    Unsubscribe,
    /// Its result is the id of this flow.
    Flow(u64),
    /// It has the id of this flow in its params.
    Pass,
    Pull(Pull),
}

/// A subscription of the client, as the server knows it.
#[derive(Clone, Debug)]
pub(super) struct Sub {
    pub(super) number: u64,
    /// The client's stream.
    pub(super) stream: u64,
    /// Which of the styles.
    pub(super) style: usize,
    pub(super) id: String,
    pub(super) mark: AnswerMark,
    /// Its answer is in the output.
    pub(super) is_open: bool,
}

/// An end of a link. The first one is the server, the second one the client; both have flows.
pub(super) struct End {
    pub(super) session: Session<Tag>,
    pub(super) flows: Flows,
    /// The time that the session was told last.
    pub(super) told: Instant,
    /// Output that is being written, and how much of it is written.
    pub(super) output: Vec<u8>,
    pub(super) written: usize,
    /// Requests that are answered later.
    pub(super) slow: Vec<(Ticket, u64)>,
    pub(super) is_over: bool,
    /// It was told to drain.
    pub(super) drains: bool,

    // The server.
    pub(super) subs: Vec<Sub>,
    /// Subscriptions that have ended, for `Plant::EventLate`.
    pub(super) ghosts: Vec<Sub>,
    /// Ids that may be given out again, and the last new one, for each style.
    pub(super) free: [Vec<String>; 2],
    pub(super) last_id: [u32; 2],
    /// The answers that hold the feed.
    pub(super) holds: Vec<(AnswerMark, Hold)>,
    pub(super) has_left: bool,

    // The client.
    pub(super) topics: TopicStreams<Hash>,
    pub(super) unsubscribed: VecDeque<Pattern>,
    /// The streams by the numbers of their routes.
    pub(super) routes: BTreeMap<u64, u64>,
}

impl End {
    pub(super) fn new(settings: &Settings, now: u64, rng: &mut Random) -> Self {
        let now = Instant::from_nanos(now);
        let wire = match settings.wire {
            WireKind::Messages => Wire::Messages,
            _ => Wire::Stream,
        };
        Self {
            session: Session::new(settings.config(rng), wire, now),
            flows: Flows::new(flows(rng)),
            told: now,
            output: Vec::new(),
            written: 0,
            slow: Vec::new(),
            is_over: false,
            drains: false,
            subs: Vec::new(),
            ghosts: Vec::new(),
            free: Default::default(),
            last_id: [0; 2],
            holds: Vec::new(),
            has_left: false,
            topics: TopicStreams::new(Hash::default()),
            unsubscribed: VecDeque::new(),
            routes: BTreeMap::new(),
        }
    }

    /// Whether nothing new can be said.
    pub(super) fn is_closed(&self) -> bool {
        self.session.phase().closed().is_some()
    }

    /// Tells the session the present, without ending what is due.
    pub(super) fn present(&mut self, now: u64) {
        self.told = self.told.max(Instant::from_nanos(now));
        self.session.handle_time(self.told);
    }

    /// An id for a new subscription: letters, so that it has no number in it.
    pub(super) fn new_id(&mut self, style: usize, rng: &mut Random) -> (String, bool) {
        if !self.free[style].is_empty() && rng.chance(70) {
            let at = rng.size(0, self.free[style].len() - 1);
            return (self.free[style].swap_remove(at), true);
        }
        self.last_id[style] += 1;
        let mut left = self.last_id[style];
        let mut id = String::new();
        while left > 0 {
            // A letter, or one that JSON text may escape.
            id.push(char::from(b'a' + (left % 26) as u8));
            left /= 26;
        }
        (id, false)
    }

    /// The first time at which something is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let flows = self.flows.due();
        let due = [self.session.poll_timeout(), flows].into_iter().flatten();
        due.min().filter(|due| *due != Instant::FAR_FUTURE)
    }
}
