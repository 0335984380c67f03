//! The states of a connection as users see them, from the attempt to connect to the end.
//!
//! ```text
//!   Connecting ──▶ Open ──▶ Closing ──▶ Closed
//!        │           └──────────────────▶ │
//!        └───────────────────────────────▶┘
//! ```
//!
//! There are exactly five transitions, and every change is reported once. Before Open the only calls are
//! those that a client makes to open the connection, and after it this side makes no new ones.

use core::fmt;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionState {
    /// The connection is being made: the transport, the handshake and the calls that a client makes first on
    /// each connection. Other calls fail immediately or wait, as the driver is configured.
    Connecting,
    /// Messages are exchanged, and either side may close the connection.
    Open,
    /// This side makes no new calls, and refuses new requests of the peer; it still takes notifications.
    /// Requests and calls that have begun are finished.
    Closing,
    /// Nothing is sent or received any more.
    Closed,
}

impl ConnectionState {
    /// Whether a connection may go from this state to `next`.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Connecting, Self::Open | Self::Closed)
                | (Self::Open, Self::Closing | Self::Closed)
                | (Self::Closing, Self::Closed)
        )
    }

    /// Whether new calls and notifications may be sent.
    pub const fn may_send(self) -> bool {
        matches!(self, Self::Open)
    }

    /// Whether messages are received.
    pub const fn may_receive(self) -> bool {
        matches!(self, Self::Open | Self::Closing)
    }

    /// Whether open requests may still be answered, and open calls be cancelled.
    pub const fn may_finish(self) -> bool {
        matches!(self, Self::Open | Self::Closing)
    }

    /// Returns what happens to a new call or notification, if `waiting` of them wait for the
    /// connection already and at most `max_waiting_calls` may. With a `max_waiting_calls` of 0, the
    /// adapters' default, none waits: if it cannot be sent, it fails immediately.
    pub const fn sending(self, waiting: usize, max_waiting_calls: usize) -> Sending {
        match self {
            Self::Open => Sending::Now,
            Self::Connecting if waiting < max_waiting_calls => Sending::Waits,
            Self::Connecting | Self::Closing | Self::Closed => Sending::Fails,
        }
    }
}

/// The fate of a new call or notification: see [`ConnectionState::sending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sending {
    /// It is sent.
    Now,
    /// It waits for the connection to open. Its own deadline runs meanwhile.
    Waits,
    /// It fails, and was certainly not sent.
    Fails,
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "connecting",
            Self::Open => "open",
            Self::Closing => "closing",
            Self::Closed => "closed",
        })
    }
}

/// Follows one connection through its states.
///
/// ```
/// use antiphon::{Lifecycle, ConnectionState};
/// let mut lifecycle = Lifecycle::new();
/// assert!(!lifecycle.state().may_send());
/// assert!(lifecycle.go(ConnectionState::Open));
/// assert!(!lifecycle.go(ConnectionState::Connecting)); // there is no way back
/// assert_eq!(lifecycle.poll_change(), Some(ConnectionState::Open));
/// assert_eq!(lifecycle.poll_change(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    state: ConnectionState,
    /// The states that were entered and not reported yet. There are three at most.
    untold: [Option<ConnectionState>; 3],
}

impl Lifecycle {
    /// Begins in the state of connecting.
    pub const fn new() -> Self {
        Self {
            state: ConnectionState::Connecting,
            untold: [None; 3],
        }
    }

    /// The current state.
    pub const fn state(&self) -> ConnectionState {
        self.state
    }

    /// Goes to another state. Returns false, and changes nothing, if there is no such transition.
    pub fn go(&mut self, next: ConnectionState) -> bool {
        if !self.state.may_become(next) {
            return false;
        }
        self.state = next;
        if let Some(free) = self.untold.iter_mut().find(|untold| untold.is_none()) {
            *free = Some(next);
        }
        true
    }

    /// Returns the next change that was not reported yet, in order.
    pub fn poll_change(&mut self) -> Option<ConnectionState> {
        let first = self.untold[0].take();
        self.untold.rotate_left(1);
        first
    }
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionState, Lifecycle, Sending};
    use ConnectionState::{Closed, Closing, Connecting, Open};

    const ALL: [ConnectionState; 4] = [Connecting, Open, Closing, Closed];

    // CON-01 TST-09 D-30
    #[test]
    fn there_are_five_transitions() {
        let legal = [
            (Connecting, Open),
            (Connecting, Closed),
            (Open, Closing),
            (Open, Closed),
            (Closing, Closed),
        ];
        for from in ALL {
            for to in ALL {
                assert_eq!(
                    from.may_become(to),
                    legal.contains(&(from, to)),
                    "{from} {to}"
                );
            }
        }
    }

    // CON-02
    #[test]
    fn each_state_says_what_it_lets_pass() {
        assert_eq!(
            ALL.map(ConnectionState::may_send),
            [false, true, false, false]
        );
        assert_eq!(
            ALL.map(ConnectionState::may_receive),
            [false, true, true, false]
        );
        assert_eq!(
            ALL.map(ConnectionState::may_finish),
            [false, true, true, false]
        );
    }

    // CON-03 CON-02
    #[test]
    fn what_comes_before_the_connection_is_open_fails_or_waits_within_a_bound() {
        use Sending::{Fails, Now, Waits};
        let sending = |waiting, max| ALL.map(|state| state.sending(waiting, max));
        assert_eq!(sending(0, 0), [Fails, Now, Fails, Fails]);
        assert_eq!(sending(0, 2), [Waits, Now, Fails, Fails]);
        assert_eq!(sending(1, 2), [Waits, Now, Fails, Fails]);
        assert_eq!(sending(2, 2), [Fails, Now, Fails, Fails]);
        assert_eq!(sending(usize::MAX, usize::MAX), [Fails, Now, Fails, Fails]);
    }

    // CON-01 CON-10 TST-09
    #[test]
    fn an_illegal_transition_changes_and_tells_nothing() {
        for path in [
            &[][..],
            &[Open],
            &[Open, Closing],
            &[Open, Closing, Closed],
            &[Open, Closed],
            &[Closed],
        ] {
            let mut lifecycle = Lifecycle::new();
            path.iter().for_each(|state| assert!(lifecycle.go(*state)));
            let before = lifecycle.clone();
            for next in ALL.into_iter().filter(|next| {
                let is_legal = before.state().may_become(*next);
                !is_legal
            }) {
                assert!(!lifecycle.go(next), "{} {next}", before.state());
                assert_eq!(lifecycle, before);
            }
        }
    }

    // CON-10 TST-09
    #[test]
    fn every_change_is_told_once_and_in_order_clean_and_abrupt() {
        for path in [&[Open, Closing, Closed][..], &[Open, Closed], &[Closed]] {
            let mut lifecycle = Lifecycle::new();
            assert_eq!(lifecycle.poll_change(), None);
            for state in path {
                assert!(lifecycle.go(*state));
                assert!(!lifecycle.go(*state), "it is there already");
                assert_eq!(lifecycle.state(), *state);
            }
            for state in path {
                assert_eq!(lifecycle.poll_change(), Some(*state));
            }
            assert_eq!(lifecycle.poll_change(), None);
            assert!(
                ALL.iter().all(|next| !lifecycle.go(*next)),
                "the end is the end"
            );
        }
    }
}
