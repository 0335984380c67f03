//! The present goes in: what the driver says of the time.
//!
//! Two times are kept. Spans that begin are counted from the present. A deadline ends something
//! only if it is due by the time at which the driver had read all that had arrived.

use super::Connection;
use crate::config::Settings;
use crate::deadlines::NEVER;
use crate::time::Instant;

/// The latest present. It lies before the far future, which stands for never.
const LATEST: Instant = Instant::from_nanos(NEVER - 1);

impl<T, S: Settings> Connection<T, S> {
    /// Tells the present. To be called on every turn of a driver's loop; it only remembers the
    /// latest time, and [`poll_event`](Self::poll_event) acts on it. A clock that stands still or
    /// steps back does no harm. Spans are counted from the latest time told, or from
    /// [`Instant::ZERO`] if none was: a driver whose epoch lies far back tells the time once before
    /// its first command.
    ///
    /// Deadlines up to `now` may end something from here on. A driver that may have more to read
    /// tells the present by [`handle_time`](Self::handle_time) until it has read it.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_time(now);
        self.judged = self.judged.max(now.min(LATEST));
    }

    /// Tells the present without letting a deadline end anything. Spans that begin are counted from
    /// it.
    ///
    /// ```
    /// use antiphon::{Config, Connection, Input, Instant};
    /// let mut conn = Connection::new(Config::new());
    /// conn.call("m", (), Some(Instant::from_millis(10)), ())?;
    /// conn.handle_time(Instant::from_millis(20));
    /// assert!(conn.poll_event(&mut Input::none()).is_none()); // the answer may be there, unread
    /// conn.handle_timeout(Instant::from_millis(20));
    /// assert!(conn.poll_event(&mut Input::none()).is_some());
    /// # Ok::<(), antiphon::SendError>(())
    /// ```
    pub fn handle_time(&mut self, now: Instant) {
        // What was queued until now has waited since the time that goes by here.
        self.deadlines.write = self.write_due();
        self.now = self.now.max(now.min(LATEST));
    }

    /// Has a message that has begun get its time anew, as if it had begun at the present. For a driver
    /// that did not read for a while.
    pub fn restart_frame_time(&mut self) {
        self.deadlines.frame = NEVER;
    }
}
