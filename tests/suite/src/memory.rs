//! A plain peer's end of a stream in memory, for any adapter at the other end.
//!
//! Rule: a plain peer that waits in memory for a task can be cut off, as on a socket.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use antiphon_net::{Duplex, Io};

use crate::raw::Stream;

/// A stream in memory between tasks, as threads see it.
struct Shared {
    end: Mutex<Option<Duplex>>,
    waiting: Mutex<Vec<Thread>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Duplex>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls and parks until it is ready; none if the stream has been cut.
    fn wait<T>(
        &self,
        mut poll: impl FnMut(&mut Duplex, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<Option<T>> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        self.waiting().push(thread::current());
        loop {
            match &mut *self.lock() {
                None => return Ok(None),
                Some(end) => {
                    if let Poll::Ready(done) = poll(end, &mut Context::from_waker(&waker)) {
                        self.waiting().pop();
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
pub fn of_tasks(end: Duplex) -> Stream {
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
    let (reader, writer) = end.split();
    Stream {
        reader: Box::new(reader),
        writer: Box::new(writer),
        // Nothing cuts it at once; each half ends when it is dropped.
        cut: Box::new(|| {}),
        keep: Box::new(()),
    }
}
