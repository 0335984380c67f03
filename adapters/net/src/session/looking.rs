//! Decides whether a reading thread has read all that had arrived, so that deadlines may take
//! effect.

use std::time::Duration;

use super::state::Due;
use super::{Session, Sleeper, State};

/// If nothing arrives for this time, a reading thread counts as having read all that had arrived.
/// Callers that read themselves leave input unread for up to 16 ms.
const QUIET_TIME: Duration = Duration::from_millis(25);

/// A read that returns fewer bytes than this has emptied the socket, because threads read into
/// larger buffers.
const DRAINED_BYTES: usize = 512;

/// How many reads that empty the socket show that everything has been read that had arrived when a
/// deadline passed. The first may have been made before the deadline, and reported after it.
const DRAINED_READS: u32 = 2;

/// How long a peer that never stops writing can postpone a deadline.
const FLOOD_TIMEOUT: Duration = Duration::from_secs(1);

impl Session {
    /// Notes that something has arrived.
    pub(super) fn note_read(&self, state: &mut State, bytes: usize) {
        state.looking.reads += 1;
        let Some(due) = &mut state.looking.due else {
            return;
        };
        // Only a bare socket has an outlet. With TLS there may be more input than a read has
        // returned.
        if bytes < DRAINED_BYTES && self.outlet.get().is_some() {
            due.drained += 1;
            if due.drained == DRAINED_READS {
                state.rouse(Sleeper::Timer);
            }
        }
    }

    /// Whether deadlines that have passed may take effect, because all that had arrived has been read,
    /// or input has not stopped for [`FLOOD_TIMEOUT`]. False if none has passed. For the thread that
    /// waits for deadlines.
    pub(super) fn has_read_all(&self, state: &mut State) -> bool {
        let now = self.now();
        if state.conn.poll_timeout().is_none_or(|due| due > now) {
            state.looking.due = None;
            return false;
        }
        // Perhaps no thread is reading, and then the reading thread must.
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
