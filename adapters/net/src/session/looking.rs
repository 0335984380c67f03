//! Whether a reading thread has read all that had arrived, so that a deadline may end something.

use std::time::Duration;

use super::state::Due;
use super::{Session, Sleeper, State};

/// For how long nothing may come in before a reading thread is taken to have read all that had
/// arrived. Callers that read for themselves leave input unread for up to 16 ms.
const QUIET_TIME: Duration = Duration::from_millis(25);

/// A read that gives less than this has emptied a socket, for threads read into more.
const DRAINED_BYTES: usize = 512;

/// How many such reads show that what had arrived when something was due has been read. The first
/// may have been made before, and only told of afterwards.
const DRAINED_READS: u32 = 2;

/// For how long a peer that never stops writing can postpone a deadline.
const FLOOD_TIMEOUT: Duration = Duration::from_secs(1);

impl Session {
    /// Notes that something came in.
    pub(super) fn note_read(&self, state: &mut State, bytes: usize) {
        state.looking.reads += 1;
        let Some(due) = &mut state.looking.due else {
            return;
        };
        // Only a bare socket has an outlet. Where there is TLS more may wait than a read has given.
        if bytes < DRAINED_BYTES && self.outlet.get().is_some() {
            due.drained += 1;
            if due.drained == DRAINED_READS {
                state.rouse(Sleeper::Timer);
            }
        }
    }

    /// Whether what is due may end: the reading thread has read all that had arrived. For the
    /// thread that keeps time.
    pub(super) fn has_read_all(&self, state: &mut State) -> bool {
        let now = self.now();
        if state.conn.poll_timeout().is_none_or(|due| due > now) {
            state.looking.due = None;
            return false;
        }
        // Nobody may be reading.
        self.want_reader(state);
        let reads = state.looking.reads;
        let due = state.looking.due.get_or_insert(Due {
            reads,
            drained: 0,
            quiet_at: now + QUIET_TIME,
            until: now + FLOOD_TIMEOUT,
        });
        let is_quiet = now >= due.quiet_at && (due.reads == reads || now >= due.until);
        if due.drained >= DRAINED_READS || is_quiet {
            state.looking.due = None;
            return true;
        }
        if now >= due.quiet_at {
            (due.reads, due.quiet_at) = (reads, now + QUIET_TIME);
        }
        false
    }
}
