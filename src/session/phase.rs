//! The phases of a session's life, and what each allows.

use crate::event::Closed;
use crate::time::Instant;

/// The phase of a session's life.
///
/// ```text
///  Opening ──opened──▶ Open ──drain──▶ Draining
///     │                 │                 │
///     │                 ├──end of input───┼──▶ InputEnded ──all served, or late───┐
///     │                 ├──write failed───┼──▶ LastWords ──linger over, or end────┤
///     └──closed─────────┴──closed─────────┴───────────────────────────────────────┴──▶ Closing
///                                                                                        │
///                                              Over ◀──nothing open or queued, or late───┘
/// ```
///
/// A drain and a failed write in `Opening` lead to the phases to which they lead in `Open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// A handshake is under way: messages cannot be exchanged yet.
    Opening,
    /// Messages are exchanged in both directions.
    Open,
    /// No new requests or calls are taken, and open ones are answered.
    Draining,
    /// The peer has ended its stream. The messages that came before are handled before the
    /// connection learns of the end, so that handlers can still call and notify.
    InputEnded {
        /// When the stream ended.
        since: Instant,
    },
    /// Writing has failed. Input that the peer had sent before may still arrive.
    LastWords {
        /// When writing failed.
        since: Instant,
    },
    /// The connection has ended. After an end of input, requests may still be answered; queued
    /// output is written.
    Closing {
        /// Why it ended.
        why: Closed,
        /// When the end began: when the stream ended or writing failed, if that came before.
        since: Instant,
    },
    /// Nothing is read or written any more.
    Over(Closed),
}

impl Phase {
    /// Why the connection ended; `None` while it goes on.
    pub fn closed(self) -> Option<Closed> {
        match self {
            Self::Closing { why, .. } | Self::Over(why) => Some(why),
            _ => None,
        }
    }

    /// Whether the transport can be dropped.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Over(_))
    }

    /// Whether input is used: the connection goes on, and the input has not ended.
    pub fn is_listening(self) -> bool {
        matches!(
            self,
            Self::Opening | Self::Open | Self::Draining | Self::LastWords { .. }
        )
    }

    /// When the end began to which this phase belongs; `None` before an end, and for
    /// [`Over`](Self::Over).
    pub(super) fn ended_at(self) -> Option<Instant> {
        match self {
            Self::InputEnded { since }
            | Self::LastWords { since }
            | Self::Closing { since, .. } => Some(since),
            _ => None,
        }
    }
}
