//! A machine that is no JSON-RPC connection: it gives back the bytes that it gets. Transports that
//! work with it hold no rule of the protocol.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use antiphon::Instant;
use antiphon_session::{Clock, Machine, SystemClock, ThreadMachine, Turn};

/// Gives back what it gets, and ends when its input does.
#[derive(Debug, Default)]
pub struct Echo {
    inside: Mutex<Inside>,
    changed: Condvar,
    clock: SystemClock,
}

#[derive(Debug, Default)]
struct Inside {
    bytes: Vec<u8>,
    is_writing: bool,
    is_ended: bool,
    is_finished: bool,
    failed: Option<io::ErrorKind>,
    waker: Option<Waker>,
}

impl Echo {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&self, act: impl FnOnce(&mut Inside)) {
        let mut inside = self.lock();
        act(&mut inside);
        self.changed.notify_all();
        if let Some(waker) = inside.waker.take() {
            waker.wake();
        }
    }

    /// Whether its transport has been let go, and what had failed before.
    pub fn is_finished(&self) -> (bool, Option<io::ErrorKind>) {
        let inside = self.lock();
        (inside.is_finished, inside.failed)
    }
}

impl Machine for Echo {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn receive(&self, bytes: &[u8]) {
        self.act(|inside| inside.bytes.extend_from_slice(bytes));
    }

    fn input_ended(&self, failed: Option<io::Error>) {
        self.act(|inside| {
            inside.is_ended = true;
            inside.failed = failed.map(|error| error.kind());
        });
    }

    fn take_output(&self, into: &mut Vec<u8>) -> bool {
        let mut inside = self.lock();
        std::mem::swap(&mut inside.bytes, into);
        inside.is_writing = !into.is_empty();
        inside.is_writing
    }

    fn output_waits(&self) {}

    fn output_written(&self) {
        self.act(|inside| inside.is_writing = false);
    }

    fn output_failed(&self, error: io::Error) {
        self.act(|inside| {
            inside.is_writing = false;
            inside.is_ended = true;
            inside.bytes.clear();
            inside.failed = Some(error.kind());
        });
    }

    fn turn(&self, waker: &Waker) -> Turn {
        let mut inside = self.lock();
        if !inside.bytes.is_empty() && !inside.is_writing {
            return Turn::Busy;
        }
        if inside.is_ended && !inside.is_writing {
            return Turn::Over;
        }
        inside.waker = Some(waker.clone());
        Turn::Open {
            wake_at: Instant::FAR_FUTURE,
        }
    }

    fn finished(&self) {
        self.act(|inside| inside.is_finished = true);
    }

    fn linger(&self) -> Duration {
        Duration::from_secs(1)
    }
}

impl ThreadMachine for Echo {
    fn wait_output(&self, into: &mut Vec<u8>, is_over: &dyn Fn() -> bool) -> bool {
        loop {
            if self.take_output(into) {
                return true;
            }
            if is_over() {
                return false;
            }
            self.wait_nudge(Instant::FAR_FUTURE);
        }
    }

    fn wait_turn(&self) -> Turn {
        let turn = self.turn(Waker::noop());
        if turn != Turn::Over {
            self.wait_nudge(Instant::FAR_FUTURE);
        }
        turn
    }

    fn wait_nudge(&self, _: Instant) {
        // Looking again now and then costs a test nothing.
        let soon = Duration::from_millis(1);
        drop(self.changed.wait_timeout(self.lock(), soon));
    }

    fn nudge(&self) {
        self.act(|_| {});
    }

    fn abort(&self, error: Option<io::Error>) {
        self.output_failed(error.unwrap_or_else(|| io::ErrorKind::Other.into()));
    }
}
