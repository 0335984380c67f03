//! The phases of a connection's life, and what each allows.

use crate::event::Closed;

/// The phase of a connection's life.
///
/// ```text
///  Open ────handle_eof────▶ InputEnded ──all input read──▶ Finishing ──▶ Shut
///   │                           │                                         ▲
///   │ drain                     │ drain                                   │
///   ▼                           ▼                                         │
///  Draining ──handle_eof──▶ DrainingAtEnd ──────────────────▶ Ended ──────┘
///   └──────────────────────────────────────────────────────────▲
/// ```
///
/// A drain leads to `Ended` when nothing is open or queued, or when all input has been read. A
/// fault of the peer leads to `Ended` from every phase in which input is read. `close` leads to
/// `Shut` from every phase, and so do output that the peer does not take and a drain that takes too
/// long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Both sides may call and notify.
    Open,
    /// The driver has reported the end of input, and has to pass the rest of the input once more.
    InputEnded,
    /// No new calls and requests are accepted; the connection ends when all are answered and
    /// written.
    Draining,
    /// As `Draining`, and the driver has reported the end of input.
    DrainingAtEnd,
    /// The input has ended in order. Open requests may still be answered, and their handlers may
    /// notify.
    Finishing {
        /// `Event::Closed` has been returned.
        is_told: bool,
    },
    /// Nothing more is read, and no command but answers is accepted.
    Ended {
        /// The first reason.
        why: Closed,
        /// `Event::Closed` has been returned.
        is_told: bool,
    },
    /// Open requests end without an answer, and no command is accepted.
    Shut {
        /// The first reason.
        why: Closed,
        /// `Event::Closed` has been returned.
        is_told: bool,
    },
}

impl Phase {
    /// Why nothing more is read; `None` while reading goes on.
    #[inline]
    pub(super) const fn ended(self) -> Option<Closed> {
        match self {
            Self::Open | Self::InputEnded | Self::Draining | Self::DrainingAtEnd => None,
            Self::Finishing { .. } => Some(Closed::EndOfInput),
            Self::Ended { why, .. } | Self::Shut { why, .. } => Some(why),
        }
    }

    /// Whether nothing more is read.
    #[inline]
    pub(super) const fn has_ended(self) -> bool {
        matches!(
            self,
            Self::Finishing { .. } | Self::Ended { .. } | Self::Shut { .. }
        )
    }

    /// Whether the driver has reported the end of input, and its last bytes are still read.
    #[inline]
    pub(super) const fn is_at_end(self) -> bool {
        matches!(self, Self::InputEnded | Self::DrainingAtEnd)
    }

    /// Whether the connection drains: new calls and requests are refused, and input is still read.
    #[inline]
    pub(super) const fn is_draining(self) -> bool {
        matches!(self, Self::Draining | Self::DrainingAtEnd)
    }

    /// Whether the connection neither drains nor has ended. The end of input may have been
    /// reported.
    #[inline]
    pub(super) const fn is_steady(self) -> bool {
        matches!(self, Self::Open | Self::InputEnded)
    }

    /// Whether open requests end without an answer.
    #[inline]
    pub(super) const fn is_shut(self) -> bool {
        matches!(self, Self::Shut { .. })
    }

    /// Whether the connection drains, or its input ends or has ended in order: open requests are
    /// still answered, and their handlers may still notify.
    pub(super) const fn lets_requests_finish(self) -> bool {
        matches!(
            self,
            Self::InputEnded | Self::Draining | Self::DrainingAtEnd | Self::Finishing { .. }
        )
    }

    /// Whether `Event::Closed` has been returned.
    pub(super) const fn is_told(self) -> bool {
        match self {
            Self::Finishing { is_told }
            | Self::Ended { is_told, .. }
            | Self::Shut { is_told, .. } => is_told,
            _ => false,
        }
    }

    /// Notes that the driver has reported the end of input.
    pub(super) fn input_ends(&mut self) {
        match self {
            Self::Open => *self = Self::InputEnded,
            Self::Draining => *self = Self::DrainingAtEnd,
            _ => {}
        }
    }

    /// Begins to drain. Returns false if the connection drains already, or has ended.
    pub(super) fn drain(&mut self) -> bool {
        match self {
            Self::Open => *self = Self::Draining,
            Self::InputEnded => *self = Self::DrainingAtEnd,
            _ => return false,
        }
        true
    }

    /// Ends reading. Returns false if reading has ended already; then the first reason is kept.
    pub(super) fn end(&mut self, why: Closed) -> bool {
        if self.has_ended() {
            return false;
        }
        let (is_told, is_in_order) = (false, why == Closed::EndOfInput && self.is_steady());
        *self = match is_in_order {
            true => Self::Finishing { is_told },
            false => Self::Ended { why, is_told },
        };
        true
    }

    /// Ends open requests without an answer. `why` is the reason of the end, unless reading has
    /// [ended](Self::end) before.
    pub(super) fn shut(&mut self, why: Closed) {
        let why = self.ended().unwrap_or(why);
        let is_told = self.is_told();
        *self = Self::Shut { why, is_told };
    }

    /// Notes that `Event::Closed` has been returned.
    pub(super) fn tell(&mut self) {
        match self {
            Self::Finishing { is_told }
            | Self::Ended { is_told, .. }
            | Self::Shut { is_told, .. } => {
                *is_told = true;
            }
            _ => {}
        }
    }
}
