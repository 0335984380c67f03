//! A stream that callers write to, too, while the task whose it is waits.
//!
//! ```text
//!   Held ──the task waits, and a caller has wanted it once──▶ Lent ──the task runs──▶ Held
//! ```
//!
//! The rules guarded here: a caller never waits, neither for room nor for the task; a stream that nobody
//! else has wanted takes no lock; and when the task lets go of the stream it is gone, whoever else knows it.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};

use antiphon_session::Outlet;

use crate::io::Io;

/// Where a task leaves its stream. Dropped, it lets the transport go that is left there.
pub(crate) struct Lending(Arc<Place>);

struct Place {
    is_wanted: AtomicBool,
    stream: Mutex<Stream>,
}

enum Stream {
    Held,
    Lent(Box<dyn Io>),
    Gone,
}

impl Lending {
    /// For a stream that needs no flush, and that the task holds.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Place {
            is_wanted: AtomicBool::new(false),
            stream: Mutex::new(Stream::Held),
        }))
    }

    /// The stream as callers have it.
    pub(crate) fn outlet(&self) -> Box<dyn Outlet> {
        Box::new(Beside(Arc::clone(&self.0)))
    }

    /// Leaves the stream to callers, if there are any.
    #[inline]
    pub(crate) fn lend(&self, io: &mut Option<Box<dyn Io>>) {
        if self.0.is_wanted.load(Ordering::Relaxed) {
            if let Some(io) = io.take() {
                *self.0.lock() = Stream::Lent(io);
            }
        }
    }

    /// Takes the stream, if it was left.
    #[inline]
    pub(crate) fn take_back(&self, io: &mut Option<Box<dyn Io>>) {
        if io.is_none() {
            if let Stream::Lent(lent) = std::mem::replace(&mut *self.0.lock(), Stream::Held) {
                *io = Some(lent);
            }
        }
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        let stream = std::mem::replace(&mut *self.0.lock(), Stream::Gone);
        // With the lock free, whatever a transport does when it is let go.
        drop(stream);
    }
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Stream> {
        // A stream that has panicked under a caller is the task's to judge.
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Lending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lending")
            .field("is_wanted", &self.0.is_wanted)
            .finish_non_exhaustive()
    }
}

/// The stream as callers have it.
struct Beside(Arc<Place>);

impl Outlet for Beside {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = match self.0.stream.try_lock() {
            Ok(stream) => stream,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The task is at it, and goes on with this.
            Err(TryLockError::WouldBlock) => return Ok(0),
        };
        let io = match &mut *stream {
            Stream::Lent(io) => io,
            // As above; the next time it will have been left.
            Stream::Held => {
                self.0.is_wanted.store(true, Ordering::Relaxed);
                return Ok(0);
            }
            Stream::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        // Where there is no room, the task writes on, and is then the one that is woken.
        let cx = &mut Context::from_waker(Waker::noop());
        let mut written = 0;
        while written < bytes.len() {
            match io.poll_write(cx, &bytes[written..]) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => written += n,
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        Ok(written)
    }

    fn takes_answers(&self) -> bool {
        false
    }
}
