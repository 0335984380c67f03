//! A stream in memory: one end reads what the other writes. Each direction holds a limited number
//! of bytes, so it can be full as a socket can.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One end of a stream in memory. Made by [`duplex`].
#[derive(Debug)]
pub struct Duplex {
    reader: MemoryReader,
    writer: MemoryWriter,
}

/// The reading half of a [`Duplex`]. Dropping it makes the other end's writes fail.
#[derive(Debug)]
pub struct MemoryReader(Arc<Direction>);

/// The writing half of a [`Duplex`]. Dropping it ends the stream for the other end.
#[derive(Debug)]
pub struct MemoryWriter(Arc<Direction>);

/// One direction of the stream: its bytes, and the signal that its state has changed.
struct Direction {
    state: Mutex<PipeState>,
    changed: Condvar,
    max_bytes: usize,
}

#[derive(Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    /// Whether nothing more will be written.
    is_ended: bool,
    /// Whether nothing more will be read.
    is_abandoned: bool,
}

/// Makes two connected ends; each direction holds `max_bytes` bytes, at least one.
///
/// ```
/// use std::io::{Read, Write};
/// let (near, far) = antiphon_blocking::duplex(1024);
/// let (_, mut writer) = near.split();
/// writer.write_all(b"hello")?;
/// drop(writer);
/// let mut heard = String::new();
/// far.split().0.read_to_string(&mut heard)?;
/// assert_eq!(heard, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn duplex(max_bytes: usize) -> (Duplex, Duplex) {
    let direction = || {
        Arc::new(Direction {
            state: Mutex::default(),
            changed: Condvar::new(),
            max_bytes: max_bytes.max(1),
        })
    };
    let (there, back) = (direction(), direction());
    let end = |reading: &Arc<Direction>, writing: &Arc<Direction>| Duplex {
        reader: MemoryReader(Arc::clone(reading)),
        writer: MemoryWriter(Arc::clone(writing)),
    };
    (end(&back, &there), end(&there, &back))
}

impl Duplex {
    /// Splits it into its halves, for two threads.
    pub fn split(self) -> (MemoryReader, MemoryWriter) {
        (self.reader, self.writer)
    }

    /// Returns a function that cuts both directions while threads wait in them.
    pub fn hang_up(&self) -> impl FnOnce() + Send + use<> {
        let directions = [Arc::clone(&self.reader.0), Arc::clone(&self.writer.0)];
        move || {
            for direction in directions {
                direction.end(true);
            }
        }
    }
}

impl Direction {
    /// Waits as long as `is_waiting` returns true, and returns the locked state.
    fn wait(&self, is_waiting: impl FnMut(&mut PipeState) -> bool) -> MutexGuard<'_, PipeState> {
        let waited = self.changed.wait_while(lock(&self.state), is_waiting);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the direction. If it `is_abandoned`, nothing more will be read, so writes fail.
    fn end(&self, is_abandoned: bool) {
        let mut state = lock(&self.state);
        state.is_ended = true;
        state.is_abandoned |= is_abandoned;
        self.changed.notify_all();
    }
}

fn lock(state: &Mutex<PipeState>) -> MutexGuard<'_, PipeState> {
    // No code that can panic runs under the lock.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Read for MemoryReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Self(direction) = self;
        let is_waiting = |state: &mut PipeState| state.bytes.is_empty() && !state.is_ended;
        let mut state = direction.wait(|state| !buf.is_empty() && is_waiting(state));
        direction.changed.notify_all();
        state.bytes.read(buf)
    }
}

impl Write for MemoryWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let Self(direction) = self;
        let capacity = |state: &PipeState| direction.max_bytes - state.bytes.len();
        let is_full = |state: &mut PipeState| capacity(state) == 0 && !state.is_abandoned;
        let mut state = direction.wait(|state| !buf.is_empty() && is_full(state));
        if state.is_abandoned {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        direction.changed.notify_all();
        let n = capacity(&state).min(buf.len());
        state.bytes.write(&buf[..n])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direction").finish_non_exhaustive()
    }
}

impl Drop for MemoryReader {
    fn drop(&mut self) {
        self.0.end(true);
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        self.0.end(false);
    }
}

#[cfg(test)]
mod tests {
    use super::duplex;
    use crate::link::Link;
    use std::io::{self, Read, Write};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    // TRN-03
    #[test]
    fn a_direction_holds_no_more_than_it_may_and_ends_with_its_writer() {
        let (near, far) = duplex(4);
        let (_near_reader, mut writer) = near.split();
        let (mut reader, far_writer) = far.split();
        assert_eq!(writer.write(b"123456").unwrap(), 4);
        let (done, is_done) = mpsc::channel();
        let writing = thread::spawn(move || {
            writer.write_all(b"56789").unwrap();
            done.send(()).unwrap();
        });
        assert!(is_done.try_recv().is_err());
        let mut heard = Vec::new();
        reader.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"123456789");
        writing.join().unwrap();
        drop(far_writer);
    }

    #[test]
    fn a_reader_that_is_gone_breaks_the_pipe_even_for_a_write_that_waits() {
        let (near, far) = duplex(1);
        let (_reader, mut writer) = near.split();
        writer.write_all(b"1").unwrap();
        let writing = thread::spawn(move || writer.write_all(b"2"));
        drop(far);
        let error = writing.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    // TRN-03
    #[test]
    fn two_ends_in_one_process_call_each_other() {
        let (near, far) = Link::pair();
        let server = thread::spawn(move || crate::serve(far, antiphon::Config::new(), ()));
        let peer = crate::connect(near, antiphon::Config::new(), ()).unwrap();
        let error = peer.call::<()>("nothing", ()).wait().unwrap_err();
        assert!(matches!(error, crate::CallError::Remote(_)), "{error}");
        drop(peer);
        server.join().unwrap().unwrap();
    }

    #[test]
    fn hanging_up_ends_a_read_that_waits() {
        let (near, far) = duplex(1);
        let hang_up = near.hang_up();
        let (done, ended) = mpsc::channel();
        let mut reader = near.split().0;
        thread::spawn(move || done.send(reader.read(&mut [0; 8])));
        hang_up();
        let read = ended.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(read.unwrap(), 0);
        drop(far);
    }
}
