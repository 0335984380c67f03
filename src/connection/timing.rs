//! How a connection learns the current time: the driver sets it.
//!
//! Two times are kept: `now`, from which new timeouts are counted, and `judged`, up to which
//! deadlines may take effect. `judged` is not moved while the driver may still have input to read,
//! because that input may have the answer for which a call waits.

use super::Connection;
use crate::config::Settings;
use crate::deadlines::NEVER;
use crate::time::Instant;

/// The latest time that can be set. It is before the far future, which stands for never.
const LATEST: Instant = Instant::from_nanos(NEVER - 1);

impl<T, S: Settings> Connection<T, S> {
    /// Sets the current time, and lets deadlines up to `now` take effect. Call it in every turn of
    /// the driver's loop. It only stores the time; [`poll_event`](Self::poll_event) acts on it. A
    /// clock that stands still or steps back does no harm. Timeouts are counted from the latest
    /// time that was set, or from [`Instant::ZERO`]: a driver whose clock does not begin near zero
    /// sets the time before its first command.
    ///
    /// While a driver may have input that it has not read, it calls
    /// [`handle_time`](Self::handle_time) instead.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_time(now);
        self.judged = self.judged.max(now.min(LATEST));
    }

    /// Sets the current time, and lets no deadline take effect yet. New timeouts are counted from
    /// this time.
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
        // The deadline of output that is queued already counts from the old time.
        self.deadlines.write = self.write_due();
        self.now = self.now.max(now.min(LATEST));
    }

    /// Restarts the time limit of output that waits.
    pub(crate) fn restart_write_time(&mut self) {
        self.deadlines.write = NEVER;
    }

    /// Restarts the time limit of a message of which only a part has arrived. For a driver that has
    /// not read for a while.
    pub fn restart_frame_time(&mut self) {
        self.deadlines.frame = NEVER;
    }
}
