//! When a deadline may end something.
//!
//! ```text
//!   due ──late by STALL_MIN──▶ granted as much time again ──▶ all that arrived is read ──▶ it ends
//!    └──────────────────────────────────────────────────────▲
//! ```
//!
//! The rules guarded here: what has arrived is read before a deadline ends anything; and a clock that has jumped proves
//! nothing, since the process may have been stopped, and its peer with it.

use std::time::Duration;

use antiphon::Instant;
pub use antiphon::session::grace;

use super::ending::after;
use super::{Session, Signal, State};
use crate::rare::rare;

/// For how long nothing may come in before a reading thread is taken to have read all that had arrived. Others leave
/// input unread for up to 16 ms.
const QUIET_TIME: Duration = Duration::from_millis(25);

/// A read that gives less than this has emptied a socket, for threads read into more.
const DRAINED_BYTES: usize = 512;

/// How many such reads show that what had arrived when something was due has been read. The first may have been made
/// before, and only told of afterwards.
const DRAINED_READS: u32 = 2;

/// For how long a peer that never stops writing can postpone a deadline.
const FLOOD_TIME_MAX: Duration = Duration::from_secs(1);

/// Whether all that had arrived when it was time has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    Read,
    Unread,
}

/// How long a thread waits: until a deadline, and longer if the clock has jumped over it.
#[derive(Debug)]
pub(crate) struct Patience {
    deadline: Instant,
    is_granted: bool,
}

impl Patience {
    pub(crate) fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            is_granted: false,
        }
    }

    /// Until when it waits as far as is known.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&mut self, session: &Session) -> bool {
        if self.deadline == Instant::FAR_FUTURE {
            return false;
        }
        let now = session.now();
        if now < self.deadline {
            return false;
        }
        rare();
        let more = grace(now.saturating_since(self.deadline));
        if self.is_granted || more == Duration::ZERO {
            return true;
        }
        (self.deadline, self.is_granted) = (now + more, true);
        false
    }
}

/// What has been granted, and what a reading thread has done.
#[derive(Debug, Default)]
pub(super) struct Judging {
    /// Nothing that is due ends before this; none while nothing is due.
    not_before: Option<Instant>,
    /// How often something has come in.
    reads: u64,
    /// A thread keeps time, and waits until the reading thread has read all.
    looking: Option<Looking>,
}

#[derive(Debug)]
struct Looking {
    reads: u64,
    /// How many reads have emptied the socket since then.
    drained: u32,
    /// If nothing comes in before this, all has been read.
    quiet_at: Instant,
    /// It is judged then, whatever comes in.
    until: Instant,
}

impl Judging {
    /// When to come back if what is due may not end yet.
    pub(super) fn wake_at(&self, present: Instant) -> Instant {
        self.not_before.unwrap_or(present)
    }

    /// When a thread that keeps time is to come back.
    pub(super) fn look_again(&self, wake_at: Instant) -> Instant {
        match &self.looking {
            Some(looking) => wake_at.max(looking.quiet_at),
            None => wake_at,
        }
    }
}

impl Session {
    /// The time up to which deadlines may end something: the present, unless something is due and there may be more to
    /// read.
    pub(super) fn judge(&self, state: &mut State, present: Instant, arrived: Arrived) -> Instant {
        let due = self.earliest(state);
        if due > present {
            (state.judging.not_before, state.judging.looking) = (None, None);
            return present;
        }
        rare();
        let not_before = &mut state.judging.not_before;
        if arrived == Arrived::Unread {
            not_before.get_or_insert_with(|| present + grace(present.saturating_since(due)));
        }
        if arrived == Arrived::Unread || not_before.is_some_and(|at| present < at) {
            return Instant::from_nanos(due.as_nanos().saturating_sub(1));
        }
        // What is due later is judged anew.
        (state.judging.not_before, state.judging.looking) = (None, None);
        present
    }

    /// Notes that something came in.
    pub(super) fn note_read(&self, state: &mut State, bytes: usize) {
        state.judging.reads += 1;
        let Some(looking) = &mut state.judging.looking else {
            return;
        };
        rare();
        // Only a bare socket has an outlet. Where there is TLS more may wait than a read has given.
        if bytes < DRAINED_BYTES && self.outlet.get().is_some() {
            looking.drained += 1;
            if looking.drained == DRAINED_READS {
                self.signal(state, Signal::Turn);
            }
        }
    }

    /// Whether the reading thread has read all that had arrived. To be asked by the thread that keeps time.
    pub(super) fn look_at_reader(&self, state: &mut State) -> Arrived {
        let now = self.now();
        if self.earliest(state) > now {
            return Arrived::Unread;
        }
        rare();
        // Nobody may be reading.
        self.want_reader(state);
        let reads = state.judging.reads;
        let looking = state.judging.looking.get_or_insert(Looking {
            reads,
            drained: 0,
            quiet_at: now + QUIET_TIME,
            until: now + FLOOD_TIME_MAX,
        });
        if looking.drained >= DRAINED_READS {
            return Arrived::Read;
        }
        if now < looking.quiet_at {
            return Arrived::Unread;
        }
        if looking.reads == reads || now >= looking.until {
            return Arrived::Read;
        }
        (looking.reads, looking.quiet_at) = (reads, now + QUIET_TIME);
        Arrived::Unread
    }

    /// The earliest deadline of any kind.
    fn earliest(&self, state: &State) -> Instant {
        let drain = self.options.config.drain_time_max;
        let told = state.input_ended.filter(|_| !state.is_end_told);
        let ending = state.closed.and(state.ending_since);
        let wanted = state.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        let ends = told.into_iter().chain(ending);
        let ends = ends.map(|since| after(since, drain));
        ends.fold(wanted.min(self.write_due(state)), Instant::min)
    }
}
