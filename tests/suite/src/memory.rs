//! A plain peer's end of a stream in memory, for any adapter at the other end.
//!
//! Rule: a plain peer that waits in memory for a task can be cut off, as on a socket.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use antiphon_net::Io;

use crate::raw::Stream;

/// A stream in memory between tasks, as threads see it.
struct Shared {
    end: Mutex<Option<Box<dyn Io>>>,
    waiting: Mutex<Vec<Thread>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Io>>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls and parks until it is ready; none if the stream has been cut.
    fn wait<T>(
        &self,
        mut poll: impl FnMut(&mut Box<dyn Io>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<Option<T>> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        self.waiting().push(thread::current());
        loop {
            match &mut *self.lock() {
                None => return Ok(None),
                Some(end) => {
                    if let Poll::Ready(done) = poll(end, &mut Context::from_waker(&waker)) {
                        let own = thread::current().id();
                        self.waiting().retain(|thread| thread.id() != own);
                        return done.map(Some);
                    }
                }
            }
            thread::park();
        }
    }

    fn cut(&self) {
        drop(self.lock().take());
        self.waiting().drain(..).for_each(|thread| thread.unpark());
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

struct Reader(Arc<Shared>);

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.0.wait(|end, cx| end.poll_read(cx, buf))?;
        Ok(read.unwrap_or(0))
    }
}

struct Writer(Arc<Shared>);

impl Write for Writer {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.0.wait(|end, cx| end.poll_write(cx, buf))?;
        written.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Fails if the stream has ended already.
        let _ = self.0.wait(|end, cx| end.poll_close(cx));
    }
}

/// The end of a stream between tasks.
pub fn of_tasks(end: Box<dyn Io>) -> Stream {
    let shared = Arc::new(Shared {
        end: Mutex::new(Some(end)),
        waiting: Mutex::default(),
    });
    let cut = Arc::clone(&shared);
    Stream {
        reader: Box::new(Reader(Arc::clone(&shared))),
        writer: Box::new(Writer(shared)),
        cut: Box::new(move || cut.cut()),
        keep: Box::new(()),
    }
}

/// The end of a stream between threads.
pub fn of_threads(end: antiphon_blocking::Duplex) -> Stream {
    let mut hang_up = Some(end.hang_up());
    let (reader, writer) = end.split();
    Stream {
        reader: Box::new(reader),
        writer: Box::new(writer),
        cut: Box::new(move || {
            if let Some(hang_up) = hang_up.take() {
                hang_up();
            }
        }),
        keep: Box::new(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::{Reader, Shared, Stream, Writer, of_threads};

    const LONG: Duration = Duration::from_secs(30);

    /// Starts a thread that reads, and returns how many bytes it read.
    fn reading(mut reader: impl Read + Send + 'static) -> mpsc::Receiver<usize> {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(reader.read(&mut [0]).unwrap()));
        told
    }

    /// Waits until so many threads wait in the stream.
    fn wait_for(shared: &Shared, threads: usize) {
        while shared.waiting().len() != threads {
            thread::yield_now();
        }
    }

    #[test]
    fn a_cut_wakes_a_reader_after_a_writer_has_gone_on() {
        let (near, mut far) = antiphon_net::duplex(1);
        let shared = Arc::new(Shared {
            end: Mutex::new(Some(near)),
            waiting: Mutex::default(),
        });
        let mut writer = Writer(Arc::clone(&shared));
        writer.write_all(b"x").unwrap();
        // The second byte waits for the first to be read, and the reader begins to wait after it.
        let writing = thread::spawn(move || {
            writer.write_all(b"x").unwrap();
            writer
        });
        wait_for(&shared, 1);
        let read = reading(Reader(Arc::clone(&shared)));
        wait_for(&shared, 2);
        async_io::block_on(std::future::poll_fn(|cx| far.poll_read(cx, &mut [0]))).unwrap();
        let _writer = writing.join().unwrap();
        shared.cut();
        assert_eq!(read.recv_timeout(LONG), Ok(0));
    }

    #[test]
    fn a_cut_between_threads_ends_both_directions() {
        let (near, far) = antiphon_blocking::duplex(100);
        let Stream {
            reader,
            mut writer,
            mut cut,
            ..
        } = of_threads(near);
        let (far_reader, mut far_writer) = far.split();
        let reads = [reading(reader), reading(far_reader)];
        cut();
        for read in reads {
            assert_eq!(read.recv_timeout(LONG), Ok(0));
        }
        assert!(writer.write(b"x").is_err());
        assert!(far_writer.write(b"x").is_err());
    }
}
