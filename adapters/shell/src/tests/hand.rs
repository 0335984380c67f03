//! A clock that is moved by hand, and timers that follow it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use crate::session::Session;
use crate::session::{Brought, Moved, Sent, Work, WorkBatch};
use crate::{Request, Responder, Runtime, Task, Timer};
use antiphon::Instant;

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

/// The next message or report for the service; the opening and the sizes of batches are skipped. The service
/// counts as busy until this is called again.
pub(crate) fn next_work(session: &Session) -> Option<Work> {
    let mut state = session.lock();
    loop {
        match state.conn.poll_work(true) {
            Some(Work::Opened | Work::Batch(_)) => {}
            work => return work,
        }
    }
}

/// The next work, which must be a request, and the right to answer it.
pub(crate) fn next_request(session: &Arc<Session>) -> (Request, Responder) {
    match next_work(session) {
        Some(Work::Request(message, ticket)) => {
            let request = Request::new(session, message, ticket);
            let reply = request.defer();
            (request, reply)
        }
        other => panic!("no request but {other:?}"),
    }
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

/// What a driver does with a session, step by step.
pub(crate) trait ByHand {
    /// Takes the bytes of a read.
    fn receive(&self, bytes: &[u8]);
    /// The stream has ended, or reading has failed.
    fn input_ended(&self, failed: Option<io::Error>);
    /// Takes what is to be written next. False if there is nothing.
    fn take_output(&self, into: &mut Vec<u8>) -> bool;
    /// All that was taken has been written.
    fn output_written(&self);
    /// No more can be written.
    fn output_failed(&self, error: io::Error);
    /// A turn after a write, which takes no work and no output.
    fn sent(&self, sent: Sent);
}

impl ByHand for Session {
    fn receive(&self, bytes: &[u8]) {
        self.act(|state| state.conn.handle_input(bytes));
    }

    fn input_ended(&self, failed: Option<io::Error>) {
        self.act(|state| match failed {
            None => state.conn.handle_eof(),
            Some(error) => state.conn.handle_read_failed(error),
        });
    }

    fn take_output(&self, into: &mut Vec<u8>) -> bool {
        self.act(|state| state.conn.take_transmit(into))
    }

    fn output_written(&self) {
        self.sent(Sent::All);
    }

    fn output_failed(&self, error: io::Error) {
        self.sent(Sent::Failed(error.into()));
    }

    fn sent(&self, sent: Sent) {
        let moved = Moved {
            now: self.now(),
            input: Brought::Nothing,
            is_drained: false,
            sent,
            requests: None,
            is_serving: false,
        };
        // Output is taken only into an empty buffer.
        let (batch, output) = (&mut WorkBatch::default(), &mut vec![0]);
        self.turn(moved, |_| {}, batch, output, Waker::noop());
    }
}
