//! A stream that callers write to, too, beside the task whose it is.
//!
//! The rules guarded here: a caller never waits, neither for room nor for the task; and when the task
//! lets go of the stream it is gone, whoever else knows it.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};

use antiphon_session::Outlet;

use crate::io::Io;

/// The stream as the task has it. Dropping it lets the transport go.
pub(crate) struct Shared {
    io: Arc<Mutex<Option<Box<dyn Io>>>>,
    knows_readiness: bool,
}

impl Shared {
    /// Shares a stream that needs no flush.
    pub(crate) fn new(io: Box<dyn Io>) -> Self {
        Self {
            knows_readiness: io.knows_readiness(),
            io: Arc::new(Mutex::new(Some(io))),
        }
    }

    /// The stream as callers have it.
    pub(crate) fn outlet(&self) -> Box<dyn Outlet> {
        Box::new(Beside(Arc::clone(&self.io)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Io>>> {
        // A stream that has panicked is not asked again: its task has panicked with it.
        self.io.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll<T>(
        &self,
        poll: impl FnOnce(&mut dyn Io) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *self.lock() {
            Some(io) => poll(io),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

impl Io for Shared {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll(|io| io.poll_read(cx, buf))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(|io| io.poll_write(cx, buf))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|io| io.poll_close(cx))
    }

    fn knows_readiness(&self) -> bool {
        self.knows_readiness
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let io = self.lock().take();
        drop(io);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

struct Beside(Arc<Mutex<Option<Box<dyn Io>>>>);

impl Outlet for Beside {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut io = match self.0.try_lock() {
            Ok(io) => io,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The task is at it, and goes on with this.
            Err(TryLockError::WouldBlock) => return Ok(0),
        };
        let Some(io) = &mut *io else {
            return Err(io::ErrorKind::BrokenPipe.into());
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
