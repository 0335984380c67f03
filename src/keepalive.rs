//! Decides when to ping, and when the peer is gone: a state machine of timers, without I/O.
//!
//! The current time goes in; "send a ping" and "close the connection" come out. The adapter
//! decides what a ping is: a WebSocket control frame, a notification, a request.
//!
//! ```text
//!   new ──▶ connecting ──handle_open──▶ quiet ──interval──▶ SendPing ──▶ waiting ──pong──▶ quiet
//!               └─connect_timeout─▶ ConnectTimedOut         waiting ──pong_timeout─▶ PeerDead
//! ```
//!
//! `ConnectTimedOut` or `PeerDead` comes at most once, and nothing follows it. Even with very short
//! intervals a driver does not loop without end.

use core::time::Duration;

use crate::time::Instant;

/// The intervals of a [`KeepAlive`]. `None` switches an interval off. A shorter interval than one
/// millisecond counts as one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeepAliveConfig {
    /// The time in which a connection must be made. Default 10 s.
    pub connect_timeout: Option<Duration>,
    /// After how much silence a ping is sent. Default 30 s.
    pub ping_interval: Option<Duration>,
    /// How long after a ping something must have arrived. Default 10 s.
    pub pong_timeout: Option<Duration>,
}

impl KeepAliveConfig {
    /// Returns the default intervals.
    pub const fn new() -> Self {
        Self {
            connect_timeout: Some(Duration::from_secs(10)),
            ping_interval: Some(Duration::from_secs(30)),
            pong_timeout: Some(Duration::from_secs(10)),
        }
    }
}

impl Default for KeepAliveConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// The shortest interval. With an interval of zero, a driver that asks until there is no action
/// would send pings without end.
const SPAN_MIN: Duration = Duration::from_millis(1);

/// An action for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAliveAction {
    /// Send a ping now.
    SendPing,
    /// The connection was not made in time: end the attempt.
    ConnectTimedOut,
    /// The peer did not answer a ping in time: close the connection.
    PeerDead,
}

/// Decides when to ping, and when to close a connection whose peer is silent.
///
/// ```
/// use antiphon::{Instant, KeepAlive, KeepAliveAction, KeepAliveConfig};
/// let mut keep_alive = KeepAlive::new(KeepAliveConfig::new(), Instant::ZERO);
/// keep_alive.handle_open(Instant::from_millis(5));
/// assert_eq!(keep_alive.poll_timeout(), Some(Instant::from_millis(30_005)));
/// let now = Instant::from_millis(30_005);
/// assert_eq!(keep_alive.poll_action(now), Some(KeepAliveAction::SendPing));
/// keep_alive.handle_received(Instant::from_millis(30_100)); // the pong, or anything else
/// assert_eq!(keep_alive.poll_action(Instant::from_millis(41_000)), None);
/// ```
#[derive(Clone, Debug)]
pub struct KeepAlive {
    config: KeepAliveConfig,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Connecting { until: Option<Instant> },
    Quiet { ping_at: Option<Instant> },
    Waiting { until: Option<Instant> },
    GivenUp,
}

impl KeepAlive {
    /// Makes a state machine for an attempt to connect that begins now.
    pub fn new(config: KeepAliveConfig, now: Instant) -> Self {
        let until = after(now, config.connect_timeout);
        Self {
            config,
            state: State::Connecting { until },
        }
    }

    /// Reports that the connection is open.
    pub fn handle_open(&mut self, now: Instant) {
        if matches!(self.state, State::Connecting { .. }) {
            self.be_quiet(now);
        }
    }

    /// Reports that bytes have arrived. Any bytes prove that the peer is there, as a pong does.
    pub fn handle_received(&mut self, now: Instant) {
        if matches!(self.state, State::Quiet { .. } | State::Waiting { .. }) {
            self.be_quiet(now);
        }
    }

    /// Returns the next action at `now`, if there is one. Call it until it returns `None`.
    pub fn poll_action(&mut self, now: Instant) -> Option<KeepAliveAction> {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return None;
        }
        let (state, action) = match self.state {
            State::Connecting { .. } => (State::GivenUp, KeepAliveAction::ConnectTimedOut),
            State::Quiet { .. } => {
                let state = match after(now, self.config.pong_timeout) {
                    until @ Some(_) => State::Waiting { until },
                    // No pong is awaited: the next ping follows after the interval.
                    None => State::Quiet {
                        ping_at: after(now, self.config.ping_interval),
                    },
                };
                (state, KeepAliveAction::SendPing)
            }
            State::Waiting { .. } => (State::GivenUp, KeepAliveAction::PeerDead),
            State::GivenUp => return None,
        };
        self.state = state;
        Some(action)
    }

    /// Returns when [`poll_action`](Self::poll_action) will return an action; `None` for never,
    /// unless something is reported before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Connecting { until } | State::Waiting { until } => until,
            State::Quiet { ping_at } => ping_at,
            State::GivenUp => None,
        }
    }

    /// Begins a new interval until the next ping, because the peer has shown that it is there.
    fn be_quiet(&mut self, now: Instant) {
        self.state = State::Quiet {
            ping_at: after(now, self.config.ping_interval),
        };
    }
}

fn after(now: Instant, span: Option<Duration>) -> Option<Instant> {
    span.map(|span| now + span.max(SPAN_MIN))
}

#[cfg(test)]
mod tests {
    use super::{KeepAlive, KeepAliveAction, KeepAliveConfig};
    use crate::time::Instant;
    use core::time::Duration;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    fn open() -> KeepAlive {
        let mut keep_alive = KeepAlive::new(KeepAliveConfig::new(), at(0));
        keep_alive.handle_open(at(0));
        keep_alive
    }

    // CON-07 CON-11
    #[test]
    fn a_late_connection_is_given_up_once() {
        let mut keep_alive = KeepAlive::new(KeepAliveConfig::new(), at(0));
        assert_eq!(keep_alive.poll_action(at(9)), None);
        assert_eq!(
            keep_alive.poll_action(at(10)),
            Some(KeepAliveAction::ConnectTimedOut)
        );
        assert_eq!(keep_alive.poll_action(at(100)), None);
        keep_alive.handle_open(at(101));
        assert_eq!(keep_alive.poll_timeout(), None);
    }

    // CON-07
    #[test]
    fn a_missing_pong_ends_the_connection() {
        let mut keep_alive = open();
        assert_eq!(keep_alive.poll_action(at(29)), None);
        assert_eq!(
            keep_alive.poll_action(at(30)),
            Some(KeepAliveAction::SendPing)
        );
        assert_eq!(keep_alive.poll_action(at(39)), None);
        assert_eq!(
            keep_alive.poll_action(at(40)),
            Some(KeepAliveAction::PeerDead)
        );
        assert_eq!(keep_alive.poll_timeout(), None);
    }

    // CON-07
    #[test]
    fn whatever_comes_in_proves_the_peer_alive() {
        let mut keep_alive = open();
        keep_alive.handle_received(at(20));
        assert_eq!(keep_alive.poll_action(at(49)), None);
        assert_eq!(
            keep_alive.poll_action(at(50)),
            Some(KeepAliveAction::SendPing)
        );
        keep_alive.handle_received(at(59));
        assert_eq!(keep_alive.poll_action(at(60)), None);
        assert_eq!(keep_alive.poll_timeout(), Some(at(89)));
    }

    // CON-07
    #[test]
    fn each_span_can_be_switched_off() {
        let mut config = KeepAliveConfig::new();
        config.connect_timeout = None;
        assert_eq!(KeepAlive::new(config, at(0)).poll_timeout(), None);
        config.pong_timeout = None;
        let mut keep_alive = KeepAlive::new(config, at(0));
        keep_alive.handle_open(at(0));
        assert_eq!(
            keep_alive.poll_action(at(30)),
            Some(KeepAliveAction::SendPing)
        );
        assert_eq!(keep_alive.poll_action(at(59)), None);
        assert_eq!(
            keep_alive.poll_action(at(60)),
            Some(KeepAliveAction::SendPing)
        );
        config.ping_interval = None;
        let mut keep_alive = KeepAlive::new(config, at(0));
        keep_alive.handle_open(at(0));
        assert_eq!(keep_alive.poll_timeout(), None);
    }
    // CON-07 CON-11
    #[test]
    fn no_span_is_so_short_that_a_driver_spins() {
        for pong_timeout in [None, Some(Duration::ZERO)] {
            let config = KeepAliveConfig {
                connect_timeout: Some(Duration::ZERO),
                ping_interval: Some(Duration::ZERO),
                pong_timeout,
            };
            let mut keep_alive = KeepAlive::new(config, at(0));
            assert_eq!(keep_alive.poll_action(at(0)), None);
            keep_alive.handle_open(at(0));
            for now in 1..100 {
                let now = at(now);
                // A driver that spins would get actions without end, so at most nine are taken.
                let told = core::iter::from_fn(|| keep_alive.poll_action(now));
                assert_eq!(told.take(9).count(), 1, "at {now:?}");
                assert!(keep_alive.poll_timeout().is_none_or(|next| next > now));
                keep_alive.handle_received(now);
            }
        }
    }

    // CON-07
    #[test]
    fn what_comes_after_the_end_wakes_nobody() {
        let mut keep_alive = open();
        assert!(keep_alive.poll_action(at(30)).is_some());
        assert!(keep_alive.poll_action(at(40)).is_some());
        keep_alive.handle_received(at(41));
        keep_alive.handle_open(at(41));
        assert_eq!(keep_alive.poll_timeout(), None);
        assert_eq!(keep_alive.poll_action(Instant::FAR_FUTURE), None);
    }

    // CON-07
    #[test]
    fn bytes_that_come_before_the_connection_is_open_do_not_lengthen_connecting() {
        let mut keep_alive = KeepAlive::new(KeepAliveConfig::new(), at(0));
        for second in 1..10 {
            keep_alive.handle_received(at(second));
            assert_eq!(keep_alive.poll_timeout(), Some(at(10)));
        }
        assert_eq!(
            keep_alive.poll_action(at(10)),
            Some(KeepAliveAction::ConnectTimedOut)
        );
    }
}
