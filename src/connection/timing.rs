//! How a connection learns what time it is: the driver tells it.
//!
//! Two times are kept: `now`, from which new timeouts are counted, and `judged`, up to which
//! deadlines have been enforced. `judged` is not moved while the driver may still have input to
//! read, for the answer that a call waits for may be in it.

use super::Connection;
use crate::config::Settings;
use crate::deadlines::NEVER;
use crate::time::Instant;

/// The latest present. It lies before the far future, which stands for never.
const LATEST: Instant = Instant::from_nanos(NEVER - 1);

impl<T, S: Settings> Connection<T, S> {
    /// Tells the connection what time it is, and lets deadlines up to `now` take effect. To be
    /// called on every turn of a driver's loop. It only remembers the time;
    /// [`poll_event`](Self::poll_event) acts on it. A clock that stands still or steps back does no
    /// harm. Timeouts are counted from the latest time that was set, or from [`Instant::ZERO`] if none was:
    /// a driver whose epoch lies far back tells the time once before its first command.
    ///
    /// A driver that may have more to read calls [`handle_time`](Self::handle_time) instead until
    /// it has read it.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_time(now);
        self.judged = self.judged.max(now.min(LATEST));
    }

    /// Tells the connection what time it is, and lets no deadline take effect yet. New timeouts are
    /// counted from this time.
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

    /// Restarts the time limit of a message of which only a part has arrived. For a driver that did
    /// not read for a while.
    pub fn restart_frame_time(&mut self) {
        self.deadlines.frame = NEVER;
    }
}
