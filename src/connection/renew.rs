//! Another conversation in the memory of one that is over, for exchanges that come one after the other.
//!
//! The rule guarded here: nothing of the one before is seen in the next, and little memory stays for it.

use alloc::vec::Vec;

use super::phase::Phase;
use super::{Connection, OwnDeadlines, kept_bytes};
use crate::config::Settled;
use crate::frame::Cutter;

/// How many calls, requests, items of a batch and messages that wait the memory is for that a
/// conversation leaves to the next, at the most.
const ROOM_LEFT_MAX: usize = 64;

impl<T> Connection<T> {
    /// Begins another conversation in the memory of this one, if it is over and that is little: as
    /// `connection`, with calls from number `first_call` on, and otherwise as configured. What was
    /// open is forgotten; keys and tokens of before are refused by another `connection` than before.
    ///
    /// ```
    /// use antiphon::{CloseReason, Config, Connection, Input};
    /// let mut conn = Connection::<()>::new(Config::new());
    /// conn.call("before", (), None, ())?;
    /// conn.close(CloseReason::Done);
    /// conn.renew(0, 1);
    /// conn.call("after", (), None, ())?;
    /// assert_eq!(conn.poll_transmit(), Some(&b"{\"jsonrpc\":\"2.0\",\"method\":\"after\",\"id\":1}\n"[..]));
    /// # Ok::<(), antiphon::SendError>(())
    /// ```
    pub fn renew(&mut self, connection: u32, first_call: u64) {
        if !self.is_closed() {
            let mut config = self.config.0;
            (config.connection, config.first_call) = (connection, first_call);
            *self = Self::new(config);
            return;
        }
        // Every field is named, so that none is forgotten; the time goes on.
        let Self {
            config: Settled(config),
            now: _,
            judged: _,
            cutter,
            calls,
            requests,
            outbox,
            envelopes,
            parts,
            building,
            failed,
            deadlines,
            strays,
            malformed,
            phase,
        } = self;
        (config.connection, config.first_call) = (connection, first_call);
        *cutter = Cutter::new(config.framing);
        calls.renew(first_call, ROOM_LEFT_MAX);
        requests.renew(ROOM_LEFT_MAX);
        outbox.renew(config.framing, kept_bytes(config), ROOM_LEFT_MAX);
        if envelopes.capacity() > ROOM_LEFT_MAX {
            *envelopes = Vec::new();
        }
        (*parts, *building, *failed) = (None, None, None);
        *deadlines = OwnDeadlines::NONE;
        (*strays, *malformed) = (0, 0);
        *phase = Phase::Open;
    }
}
