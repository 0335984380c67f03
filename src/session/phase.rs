//! The life of a session: one enum, and what each state allows.

use crate::event::Closed;
use crate::time::Instant;

/// Where a session is in its life.
///
/// ```text
///  Opening ──opened──▶ Open ──drain──▶ Draining
///     │                 │                 │
///     │                 ├──end of input───┼──▶ InputEnded ──all served, or late───┐
///     │                 ├──write failed───┼──▶ LastWords ──linger over, or end────┤
///     └──closed─────────┴──closed─────────┴───────────────────────────────────────┴──▶ Closing
///                                                                                        │
///                                              Over ◀──all said and written, or late─────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// A handshake is under way: no message goes either way.
    Opening,
    /// Messages go both ways.
    Open,
    /// Nothing new is taken from either side, and what is open is answered.
    Draining,
    /// The peer has ended its direction. The service is given what had come before the connection
    /// learns of the end, so that it can still call and notify.
    InputEnded {
        /// When the end came.
        since: Instant,
    },
    /// Writing has failed. What the peer had sent before may still come in.
    LastWords {
        /// When writing failed.
        since: Instant,
    },
    /// The conversation has ended. After an end of input, requests may still be answered; what is
    /// queued is written.
    Closing {
        /// Why it ended.
        why: Closed,
        /// When the end began: for an end of input, when it came.
        since: Instant,
    },
    /// Nothing is read or written any more.
    Over(Closed),
}

impl Phase {
    /// Why the conversation ended; none while it goes on.
    pub fn closed(self) -> Option<Closed> {
        match self {
            Self::Closing { why, .. } | Self::Over(why) => Some(why),
            _ => None,
        }
    }

    /// Whether the transport can be let go.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Over(_))
    }

    /// Whether input means something: the conversation goes on, and the input has not ended.
    pub fn is_listening(self) -> bool {
        matches!(
            self,
            Self::Opening | Self::Open | Self::Draining | Self::LastWords { .. }
        )
    }

    /// When the end began that this state belongs to; none before there was one.
    pub(super) fn ended_at(self) -> Option<Instant> {
        match self {
            Self::InputEnded { since }
            | Self::LastWords { since }
            | Self::Closing { since, .. } => Some(since),
            _ => None,
        }
    }
}
