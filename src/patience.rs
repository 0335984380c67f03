//! How long each step of a connection may take before the connection is cut: a pure timer machine
//! for handshakes, heads, bodies and silence.
//!
//! ```text
//!   Handshake ──▶ FirstByte ──▶ Head ──▶ Body ──▶ Busy ──▶ Idle
//!                               ▲                            │
//!                               └────────────────────────────┘
//! ```
//!
//! The rule guarded here: a step has one deadline, from its beginning to its end. Bytes that
//! trickle in within a step buy no time; only the next step does.

use core::time::Duration;

use crate::time::Instant;

/// A step of a connection that somebody waits for. Any may follow any other: which there are is
/// the transport's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// An agreement below the messages: of TLS, or to speak WebSocket.
    Handshake,
    /// A fresh connection that has sent nothing.
    FirstByte,
    /// The head of a request, from its first byte to its last.
    Head,
    /// The body of a request, from the end of the head.
    Body,
    /// The service works, or the reply leaves: the peer is not waited for here. Calls have their
    /// own deadlines, and output `write_time_max`.
    Busy,
    /// Between a reply and the next request.
    Idle,
    /// The peer's end, after ours.
    Closing,
}

/// How long each step may take. `None` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PatienceConfig {
    /// For [`Step::Handshake`]. Default 10 s.
    pub handshake_time_max: Option<Duration>,
    /// For [`Step::FirstByte`]. Default 10 s.
    pub first_byte_time_max: Option<Duration>,
    /// For [`Step::Head`]. Default 10 s.
    pub header_time_max: Option<Duration>,
    /// For [`Step::Body`]. Default 30 s: 1 MiB at 35 kB a second.
    pub body_time_max: Option<Duration>,
    /// For [`Step::Idle`]. Default 60 s.
    pub idle_time_max: Option<Duration>,
    /// For [`Step::Closing`]. Default 5 s.
    pub close_time_max: Option<Duration>,
}

impl PatienceConfig {
    /// The defaults, for requests and replies. Where the peer may rightly be silent, as on a
    /// stream that carries notifications, `first_byte_time_max` and `idle_time_max` are to be
    /// `None`.
    pub const fn new() -> Self {
        Self {
            handshake_time_max: Some(Duration::from_secs(10)),
            first_byte_time_max: Some(Duration::from_secs(10)),
            header_time_max: Some(Duration::from_secs(10)),
            body_time_max: Some(Duration::from_secs(30)),
            idle_time_max: Some(Duration::from_secs(60)),
            close_time_max: Some(Duration::from_secs(5)),
        }
    }

    /// How long a step may take.
    pub const fn time_max(&self, step: Step) -> Option<Duration> {
        match step {
            Step::Handshake => self.handshake_time_max,
            Step::FirstByte => self.first_byte_time_max,
            Step::Head => self.header_time_max,
            Step::Body => self.body_time_max,
            Step::Busy => None,
            Step::Idle => self.idle_time_max,
            Step::Closing => self.close_time_max,
        }
    }
}

impl Default for PatienceConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Watches the steps of one connection.
///
/// ```
/// use antiphon::{Instant, Patience, PatienceConfig, Step};
/// let mut patience = Patience::new(PatienceConfig::new(), Step::FirstByte, Instant::ZERO);
/// patience.enter(Step::Head, Instant::from_millis(4_000));
/// patience.enter(Step::Head, Instant::from_millis(9_000)); // another byte of it: no more time
/// assert_eq!(patience.poll_timeout(), Some(Instant::from_millis(14_000)));
/// assert_eq!(patience.poll_late(Instant::from_millis(13_999)), None);
/// assert_eq!(patience.poll_late(Instant::from_millis(14_000)), Some(Step::Head));
/// assert_eq!(patience.poll_late(Instant::from_millis(99_000)), None); // told once
/// ```
#[derive(Clone, Debug)]
pub struct Patience {
    config: PatienceConfig,
    step: Step,
    until: Option<Instant>,
    is_late: bool,
}

impl Patience {
    /// Begins with a step.
    pub fn new(config: PatienceConfig, first: Step, now: Instant) -> Self {
        Self {
            config,
            step: first,
            until: deadline(&config, first, now),
            is_late: false,
        }
    }

    /// Tells in which step the connection is. The same as before changes nothing; a connection
    /// that was late stays so.
    pub fn enter(&mut self, step: Step, now: Instant) {
        if self.is_late || step == self.step {
            return;
        }
        self.step = step;
        self.until = deadline(&self.config, step, now);
    }

    /// The step that has taken too long at `now`; told once. The connection is to be cut.
    pub fn poll_late(&mut self, now: Instant) -> Option<Step> {
        self.until.filter(|until| *until <= now)?;
        self.until = None;
        self.is_late = true;
        Some(self.step)
    }

    /// When [`poll_late`](Self::poll_late) will have something to say, if no step follows.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.until
    }

    /// The step that the connection is in.
    pub const fn step(&self) -> Step {
        self.step
    }
}

fn deadline(config: &PatienceConfig, step: Step, now: Instant) -> Option<Instant> {
    config.time_max(step).map(|span| now + span)
}

#[cfg(test)]
mod tests {
    use super::{Patience, PatienceConfig, Step};
    use crate::time::Instant;
    use core::time::Duration;

    const ALL: [Step; 7] = [
        Step::Handshake,
        Step::FirstByte,
        Step::Head,
        Step::Body,
        Step::Busy,
        Step::Idle,
        Step::Closing,
    ];

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    // SEC-10 CON-12
    #[test]
    fn each_step_has_its_own_deadline() {
        let config = PatienceConfig::new();
        for (step, seconds) in ALL.into_iter().zip([10, 10, 10, 30, 0, 60, 5]) {
            let wanted = (seconds > 0).then(|| at(100 + seconds));
            let fresh = Patience::new(config, step, at(100));
            assert_eq!(fresh.poll_timeout(), wanted, "{step:?}");
            for before in ALL.into_iter().filter(|before| *before != step) {
                let mut patience = Patience::new(config, before, at(99));
                patience.enter(step, at(100));
                assert_eq!(patience.poll_timeout(), wanted, "{before:?} {step:?}");
                assert_eq!(patience.step(), step);
            }
        }
    }

    // SEC-10
    #[test]
    fn a_byte_a_second_buys_no_time() {
        for step in ALL.into_iter().filter(|step| *step != Step::Busy) {
            let mut patience = Patience::new(PatienceConfig::new(), step, at(0));
            let late = (1..=100).find(|second| {
                patience.enter(step, at(*second));
                patience.poll_late(at(*second)).is_some()
            });
            let time_max = PatienceConfig::new().time_max(step);
            assert_eq!(late.map(Duration::from_secs), time_max, "{step:?}");
        }
    }

    // SEC-10
    #[test]
    fn who_was_late_is_told_once_and_stays_late() {
        let mut patience = Patience::new(PatienceConfig::new(), Step::Head, at(0));
        assert_eq!(patience.poll_late(at(9)), None);
        assert_eq!(patience.poll_late(at(10)), Some(Step::Head));
        for step in ALL {
            patience.enter(step, at(11));
            assert_eq!(patience.poll_timeout(), None, "{step:?}");
            assert_eq!(patience.poll_late(Instant::FAR_FUTURE), None);
            assert_eq!(patience.step(), Step::Head);
        }
    }

    // SEC-10
    #[test]
    fn a_round_of_requests_is_never_late_while_each_step_is_in_time() {
        let mut patience = Patience::new(PatienceConfig::new(), Step::FirstByte, at(0));
        let mut now = 9;
        for _ in 0..100 {
            for (step, seconds) in [
                (Step::Head, 9),
                (Step::Body, 29),
                (Step::Busy, 10_000),
                (Step::Idle, 59),
            ] {
                patience.enter(step, at(now));
                now += seconds;
                assert_eq!(patience.poll_late(at(now)), None, "{step:?}");
            }
        }
        assert_eq!(patience.poll_late(at(now + 1)), Some(Step::Idle));
    }

    // SEC-10
    #[test]
    fn each_deadline_can_be_switched_off() {
        let config = PatienceConfig {
            handshake_time_max: None,
            first_byte_time_max: None,
            header_time_max: None,
            body_time_max: None,
            idle_time_max: None,
            close_time_max: None,
        };
        for step in ALL {
            let mut patience = Patience::new(config, step, at(0));
            assert_eq!(patience.poll_timeout(), None);
            assert_eq!(patience.poll_late(Instant::FAR_FUTURE), None, "{step:?}");
        }
    }
}
