//! A clock that is moved by hand, and timers that follow it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use antiphon::Instant;
use antiphon_net::{Runtime, Session, Task, Timer};

/// A clock that is moved by hand, and counts how often it is looked at.
#[derive(Default)]
pub(crate) struct Hand {
    millis: AtomicU64,
    pub(crate) looks: AtomicU64,
}

impl Hand {
    /// Moves the clock, and wakes nobody.
    pub(crate) fn pass(&self, millis: u64) {
        self.millis.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Runtime for Hand {
    fn now(&self) -> Instant {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Instant::from_millis(self.millis.load(Ordering::SeqCst))
    }

    fn spawn(&self, _: Task) {}

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(Never)
    }

    fn sleep_until(&self, at: Instant) -> Task {
        match self.now() >= at {
            true => Box::pin(std::future::ready(())),
            false => Box::pin(std::future::pending()),
        }
    }
}

/// Nothing here sleeps.
struct Never;

impl Timer for Never {
    fn poll_until(&mut self, _: Instant, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// What a session wants of the thread that waits for its deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// To come back at this time at the latest.
    Open { wake_at: Instant },
    /// Nothing more: it is over.
    Over,
}

/// Lets the session act on the time.
pub(crate) fn turn(session: &Session) -> Turn {
    let now = session.now();
    session.act(|state| {
        state.conn.handle_timeout(now);
        match state.conn.phase().is_over() {
            true => Turn::Over,
            false => Turn::Open {
                wake_at: state.conn.poll_timeout().unwrap_or(Instant::FAR_FUTURE),
            },
        }
    })
}
