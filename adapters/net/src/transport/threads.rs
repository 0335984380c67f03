//! A blocking reader and writer as one stream for a task: for standard streams, which no runtime
//! can wait for without risk.
//!
//! Each half has a thread. A read that waits cannot be interrupted: its thread ends with the
//! stream or with the process, and keeps neither a runtime nor the process from ending.
//!
//! The rule guarded here: each direction holds one piece at most, so neither side runs ahead.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::{Later, is_later, write_out};

use crate::transport::io::Io;

/// How much is read or taken to be written at once.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// A blocking reader and writer as a stream. Made by [`threads`].
pub struct ThreadIo {
    reading: Arc<Half>,
    writing: Arc<Half>,
    /// The piece being read out, and how far.
    piece: (Vec<u8>, usize),
    awaits_end: bool,
}

/// One direction: a place for one piece, between a thread and a task.
#[derive(Default)]
struct Half {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Default)]
struct Inside {
    piece: Vec<u8>,
    /// The thread is at work on a piece that it has taken.
    is_busy: bool,
    /// The thread has ended, with this error if any.
    end: Option<Option<io::Error>>,
    /// The task wants nothing more.
    is_over: bool,
    waker: Option<Waker>,
}

impl Half {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing that can panic runs under the lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&'s self, inside: MutexGuard<'s, Inside>) -> MutexGuard<'s, Inside> {
        let waited = self.changed.wait(inside);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, error: Option<io::Error>) {
        let mut inside = self.lock();
        inside.end = Some(error);
        inside.is_busy = false;
        wake(inside);
    }

    fn give_up(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }
}

fn wake(mut inside: MutexGuard<'_, Inside>) {
    let waker = inside.waker.take();
    drop(inside);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Starts a thread for each half.
///
/// # Errors
/// The system refused a thread.
pub fn threads(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
) -> io::Result<ThreadIo> {
    let (reading, writing) = (Arc::<Half>::default(), Arc::<Half>::default());
    let (inside, outside) = (Arc::clone(&reading), Arc::clone(&writing));
    thread::Builder::new()
        .name("antiphon-read".into())
        .spawn(move || {
            let error = read_on(&inside, reader).err();
            inside.end(error);
        })?;
    thread::Builder::new()
        .name("antiphon-write".into())
        .spawn(move || {
            let error = write_on(&outside, writer).err();
            outside.end(error);
        })?;
    Ok(ThreadIo {
        reading,
        writing,
        piece: (Vec::new(), 0),
        awaits_end: true,
    })
}

/// This process's own standard input and output. Nothing else may print to standard output from
/// now on; logs belong on standard error. The other side's end is not awaited after ours: there is no `linger`.
///
/// # Errors
/// Standard output is closed, or the system refused a thread.
pub fn stdio() -> io::Result<ThreadIo> {
    let output = crate::stdout_unbuffered()?;
    let mut stdio = threads(crate::stdin(), output)?;
    stdio.awaits_end = false;
    Ok(stdio)
}

fn read_on(half: &Half, mut reader: impl Read) -> io::Result<()> {
    let mut buf = vec![0; PIECE_BYTES_MAX];
    let mut later = Later::new();
    loop {
        let n = match reader.read(&mut buf) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_later(&error) => {
                if half.lock().is_over {
                    return Ok(());
                }
                later.pause();
                continue;
            }
            read => read?,
        };
        later.renew();
        let mut inside = half.lock();
        while !inside.piece.is_empty() && !inside.is_over {
            inside = half.wait(inside);
        }
        if n == 0 || inside.is_over {
            return Ok(());
        }
        inside.piece.extend_from_slice(&buf[..n]);
        wake(inside);
    }
}

fn write_on(half: &Half, mut writer: impl Write) -> io::Result<()> {
    let mut inside = half.lock();
    loop {
        while inside.piece.is_empty() {
            if inside.is_over {
                return Ok(());
            }
            inside = half.wait(inside);
        }
        let piece = std::mem::take(&mut inside.piece);
        inside.is_busy = true;
        drop(inside);
        write_out(&mut writer, &piece)?;
        inside = half.lock();
        inside.is_busy = false;
        wake(inside);
        inside = half.lock();
    }
}

impl Io for ThreadIo {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.piece.1 == self.piece.0.len() {
            self.piece.0.clear();
            self.piece.1 = 0;
            let mut inside = self.reading.lock();
            if inside.piece.is_empty() {
                return match &mut inside.end {
                    Some(error) => Poll::Ready(error.take().map_or(Ok(0), Err)),
                    None => {
                        inside.waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                };
            }
            std::mem::swap(&mut self.piece.0, &mut inside.piece);
            self.reading.changed.notify_one();
        }
        let waiting = &self.piece.0[self.piece.1..];
        let n = waiting.len().min(buf.len());
        buf[..n].copy_from_slice(&waiting[..n]);
        self.piece.1 += n;
        Poll::Ready(Ok(n))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut inside = self.writing.lock();
        if let Some(error) = &mut inside.end {
            let error = error.take();
            return Poll::Ready(Err(
                error.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
            ));
        }
        if !inside.piece.is_empty() || inside.is_busy {
            inside.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = buf.len().min(PIECE_BYTES_MAX);
        inside.piece.extend_from_slice(&buf[..n]);
        self.writing.changed.notify_one();
        Poll::Ready(Ok(n))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inside = self.writing.lock();
        if let Some(error) = &mut inside.end {
            return Poll::Ready(error.take().map_or(Ok(()), Err));
        }
        if !inside.piece.is_empty() || inside.is_busy {
            inside.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn awaits_end(&self) -> bool {
        self.awaits_end
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writing.give_up();
        let mut inside = self.writing.lock();
        match &mut inside.end {
            Some(error) => Poll::Ready(error.take().map_or(Ok(()), Err)),
            None => {
                inside.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for ThreadIo {
    fn drop(&mut self) {
        self.reading.give_up();
        self.writing.give_up();
    }
}

impl fmt::Debug for ThreadIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadIo").finish_non_exhaustive()
    }
}
