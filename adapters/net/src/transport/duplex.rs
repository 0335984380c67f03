//! A stream in memory: what one end writes, the other reads.
//!
//! The rule guarded here: each direction holds a bounded number of bytes, so a pair in memory
//! behaves under pressure as a socket does.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::transport::io::Io;

/// One end of a stream in memory. Made by [`duplex`]. Dropped, it ends the stream for the other.
pub struct Duplex {
    reading: Arc<Direction>,
    writing: Arc<Direction>,
}

struct Direction {
    inside: Mutex<Inside>,
    bytes_max: usize,
}

#[derive(Default)]
struct Inside {
    bytes: VecDeque<u8>,
    /// Nothing more will be written.
    is_ended: bool,
    /// Nobody reads any more.
    is_abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Direction {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing that can panic runs under the lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Two ends of a stream, with room for `bytes_max` bytes (at least one) each way.
pub fn duplex(bytes_max: usize) -> (Duplex, Duplex) {
    let direction = || {
        Arc::new(Direction {
            inside: Mutex::default(),
            bytes_max: bytes_max.max(1),
        })
    };
    let (there, back) = (direction(), direction());
    let near = Duplex {
        reading: Arc::clone(&back),
        writing: Arc::clone(&there),
    };
    let far = Duplex {
        reading: there,
        writing: back,
    };
    (near, far)
}

impl Io for Duplex {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut inside = self.reading.lock();
        if inside.bytes.is_empty() {
            if inside.is_ended {
                return Poll::Ready(Ok(0));
            }
            inside.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let (front, _) = inside.bytes.as_slices();
        let n = front.len().min(buf.len());
        buf[..n].copy_from_slice(&front[..n]);
        inside.bytes.drain(..n);
        let writer = inside.writer.take();
        drop(inside);
        writer.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(n))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut inside = self.writing.lock();
        if inside.is_abandoned || inside.is_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = self.writing.bytes_max - inside.bytes.len();
        if room == 0 {
            inside.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = room.min(buf.len());
        inside.bytes.extend(&buf[..n]);
        let reader = inside.reader.take();
        drop(inside);
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inside = self.writing.lock();
        inside.is_ended = true;
        let reader = inside.reader.take();
        drop(inside);
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Duplex {
    fn drop(&mut self) {
        let mut inside = self.writing.lock();
        inside.is_ended = true;
        let reader = inside.reader.take();
        drop(inside);
        let mut inside = self.reading.lock();
        inside.is_abandoned = true;
        inside.bytes = VecDeque::new();
        let writer = inside.writer.take();
        drop(inside);
        reader.into_iter().chain(writer).for_each(Waker::wake);
    }
}

impl fmt::Debug for Duplex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duplex")
            .field("bytes_max", &self.writing.bytes_max)
            .finish_non_exhaustive()
    }
}
