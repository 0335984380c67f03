//! A machine that is no JSON-RPC connection: it gives back the bytes that it gets. Transports that
//! work with it hold no rule of the protocol.

use std::io;
use std::sync::Arc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use antiphon::Instant;
use antiphon_net::Io;
use antiphon_net::{Clock, Machine, SystemClock, Turn};

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
}

impl Echo {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&self, act: impl FnOnce(&mut Inside)) {
        let mut inside = self.lock();
        act(&mut inside);
        self.changed.notify_all();
    }

    fn take_output(&self, into: &mut Vec<u8>) -> bool {
        let mut inside = self.lock();
        std::mem::swap(&mut inside.bytes, into);
        inside.is_writing = !into.is_empty();
        inside.is_writing
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

    fn finished(&self) {
        self.act(|inside| inside.is_finished = true);
    }

    fn linger(&self) -> Duration {
        Duration::from_secs(1)
    }

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
        let inside = self.lock();
        if inside.is_ended && !inside.is_writing && inside.bytes.is_empty() {
            return Turn::Over;
        }
        drop(inside);
        self.wait_nudge(Instant::FAR_FUTURE);
        let wake_at = Instant::FAR_FUTURE;
        Turn::Open { wake_at }
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

/// Gives back the bytes of a task's stream, and ends when its input does.
pub async fn echo(mut io: impl Io, echo: Arc<Echo>) {
    let (mut bytes, mut is_ended) = (Vec::new(), false);
    let ended = std::future::poll_fn(|cx| poll_echo(cx, &mut io, &mut bytes, &mut is_ended)).await;
    drop(io);
    echo.act(|inside| {
        inside.failed = ended.err().map(|error| error.kind());
        inside.is_finished = true;
    });
}

fn poll_echo(
    cx: &mut Context<'_>,
    io: &mut impl Io,
    bytes: &mut Vec<u8>,
    is_ended: &mut bool,
) -> Poll<io::Result<()>> {
    let mut buf = vec![0; 8192];
    loop {
        if !*is_ended && bytes.len() < buf.len() {
            if let Poll::Ready(n) = io.poll_read(cx, &mut buf) {
                let n = n?;
                *is_ended = n == 0;
                bytes.extend_from_slice(&buf[..n]);
                continue;
            }
        }
        if bytes.is_empty() {
            std::task::ready!(io.poll_flush(cx))?;
            return match is_ended {
                true => io.poll_close(cx),
                false => Poll::Pending,
            };
        }
        let n = std::task::ready!(io.poll_write(cx, bytes))?;
        bytes.drain(..n);
    }
}
