//! Moves bytes between a link and a machine, on threads: one reads, one writes, and the caller
//! keeps time. To a socket others write, too, as long as there is room: see
//! [`Outlet`](antiphon_session::Outlet).
//!
//! The rule guarded here: no thread reads or writes while it holds up another, so a peer that does
//! not read and a peer that does not answer stop nobody; and whatever a reader or writer that
//! somebody else wrote does, the machine is told.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use antiphon::ReadBuffer;
use antiphon_session::{Outlet, ThreadMachine, Turn};

use crate::link::{Link, Receive, Sending, Socket, Writer};

/// How long whoever writes beside the writing thread waits for room at the most. The system's clock
/// may make it some milliseconds.
const MOMENT: Duration = Duration::from_micros(1);

/// How much is read at once while little comes in, so that an idle connection holds no more.
const SMALL_BYTES: usize = 1024;

/// After how many reads in a row that were shorter, little is said to come in.
const QUIET_READS: u32 = 16;

/// The largest output buffer that is kept for the next time, in bytes.
const OUTPUT_BYTES_KEPT: usize = 1 << 20;

/// Which threads have ended, and whether they are to.
#[derive(Default)]
struct Threads {
    reader_done: AtomicBool,
    writer_done: AtomicBool,
    writer_failed: AtomicBool,
    stop: AtomicBool,
}

fn is(flag: &AtomicBool) -> bool {
    flag.load(Ordering::SeqCst)
}

/// Moves the bytes of `machine` until there is nothing more to move. Connections do this in their
/// drivers; alone it serves a machine that is no JSON-RPC connection.
///
/// # Errors
/// The system refused a thread. The machine has not been told then.
pub fn pump<M: ThreadMachine>(link: Link, machine: &Arc<M>) -> io::Result<()> {
    let threads = Arc::<Threads>::default();
    let hang_up = link.hang_up;
    let (reader, writer): (Body<M>, Body<M>) = match (link.messages, link.reader, link.writer) {
        (Some((receive, send)), ..) => (
            Box::new(move |machine, threads| receive_on(machine, threads, receive)),
            Box::new(move |machine, threads| {
                write_on(machine, threads, WholeMessages(send));
            }),
        ),
        (None, reader, Writer::Any(writer)) => (
            Box::new(move |machine, threads| read_on(machine, threads, reader)),
            Box::new(move |machine, threads| write_on(machine, threads, writer)),
        ),
        (None, reader, Writer::Socket(socket)) => (
            Box::new(move |machine, threads| read_on(machine, threads, reader)),
            write_beside(machine, &threads, socket),
        ),
    };
    start(
        "antiphon-write",
        machine,
        &threads,
        |threads| &threads.writer_done,
        writer,
    )?;
    start(
        "antiphon-read",
        machine,
        &threads,
        |threads| &threads.reader_done,
        reader,
    )?;
    while machine.wait_turn() != Turn::Over {}
    threads.stop.store(true, Ordering::SeqCst);
    machine.nudge();
    let linger = machine.now() + machine.linger();
    while !(is(&threads.writer_done) && is(&threads.reader_done) || is(&threads.writer_failed))
        && machine.now() < linger
    {
        machine.wait_nudge(linger);
    }
    if let Some(hang_up) = hang_up {
        hang_up();
    }
    machine.finished();
    Ok(())
}

/// What a thread does.
type Body<M> = Box<dyn FnOnce(&M, &Threads) + Send>;

/// Starts a thread, which says when it is done, whatever happens in it.
fn start<M: ThreadMachine>(
    name: &str,
    machine: &Arc<M>,
    threads: &Arc<Threads>,
    done: fn(&Threads) -> &AtomicBool,
    body: Body<M>,
) -> io::Result<()> {
    let (machine, threads) = (Arc::clone(machine), Arc::clone(threads));
    let run = move || {
        if catch_unwind(AssertUnwindSafe(|| body(&machine, &threads))).is_err() {
            machine.abort(Some(io::Error::other("the transport panicked")));
        }
        done(&threads).store(true, Ordering::SeqCst);
        machine.nudge();
    };
    let builder = thread::Builder::new().name(name.into());
    builder.spawn(run).map(drop)
}

fn read_on(machine: &impl ThreadMachine, threads: &Threads, mut reader: impl Read) {
    let mut buf = ReadBuffer::new(machine.input_bytes_max());
    let mut small = [0; SMALL_BYTES];
    // How many reads in a row would have fitted there.
    let mut quiet = QUIET_READS;
    loop {
        let is_small = quiet >= QUIET_READS && buf.is_empty();
        let read = if is_small {
            buf.release();
            reader.read(&mut small)
        } else {
            reader.read(buf.spare())
        };
        let n = match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return machine.input_ended(buf.filled(), Some(error)),
            Ok(0) => return machine.input_ended(buf.filled(), None),
            Ok(n) => n,
        };
        quiet = if n < SMALL_BYTES {
            quiet.saturating_add(1)
        } else {
            0
        };
        if is_small {
            let consumed = machine.receive(&small[..n]).min(n);
            let mut rest = &small[consumed..n];
            while !rest.is_empty() {
                let room = buf.spare();
                let part = rest.len().min(room.len());
                if part == 0 {
                    let error = io::Error::other("more was left over than was announced");
                    return machine.input_ended(&[], Some(error));
                }
                room[..part].copy_from_slice(&rest[..part]);
                buf.advance(part);
                rest = &rest[part..];
            }
        } else {
            buf.advance(n);
            let consumed = machine.receive(buf.filled());
            buf.consume(consumed);
        }
        if is(&threads.stop) {
            return;
        }
    }
}

fn receive_on(machine: &impl ThreadMachine, threads: &Threads, mut receive: Receive) {
    loop {
        match receive() {
            Err(error) => return machine.input_ended(&[], Some(error)),
            Ok(None) => return machine.input_ended(&[], None),
            Ok(Some(message)) => machine.receive(&message),
        };
        if is(&threads.stop) {
            return;
        }
    }
}

/// Takes every write for a message, which it is.
struct WholeMessages(Sending);

impl Write for WholeMessages {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (self.0)(buf).map(|()| buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_on(machine: &impl ThreadMachine, threads: &Threads, mut writer: impl Write) {
    let mut chunk = Vec::new();
    while machine.wait_output(&mut chunk, &|| is(&threads.stop)) {
        match writer.write_all(&chunk).and_then(|()| writer.flush()) {
            Ok(()) => machine.output_written(),
            Err(error) => {
                threads.writer_failed.store(true, Ordering::SeqCst);
                machine.output_failed(error);
            }
        }
        chunk.clear();
        if chunk.capacity() > OUTPUT_BYTES_KEPT {
            chunk = Vec::new();
        }
    }
    // For a pipe or socket this is the end of the stream; the peer may wait for it.
    drop(writer);
}

/// Lets others write to a socket beside the thread that does, one at a time. Gives what the thread
/// does.
fn write_beside<M: ThreadMachine>(
    machine: &Arc<M>,
    threads: &Arc<Threads>,
    socket: Box<dyn Socket>,
) -> Body<M> {
    let shared = Arc::new(Shared(Mutex::new(Some(socket))));
    let is_prompt = shared.set_patience(Some(MOMENT)).is_ok();
    if is_prompt {
        let (shared, threads) = (Arc::clone(&shared), Arc::clone(threads));
        machine.set_outlet(Box::new(Beside { shared, threads }));
    }
    Box::new(move |machine, threads| write_on(machine, threads, Patient(shared)))
}

/// A socket that several write to. None once its stream has been ended.
struct Shared(Mutex<Option<Box<dyn Socket>>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Socket>>> {
        // A socket does not panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        match &*self.lock() {
            Some(socket) => socket.set_patience(patience),
            None => Ok(()),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.lock() {
            Some(socket) => socket.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// The socket for whoever writes beside the thread.
struct Beside {
    shared: Arc<Shared>,
    threads: Arc<Threads>,
}

impl Outlet for Beside {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.shared.write(&bytes[written..]) {
                Ok(0) => return self.fail(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => break,
                Err(error) => return self.fail(error),
            }
        }
        Ok(written)
    }
}

impl Beside {
    fn fail(&self, error: io::Error) -> io::Result<usize> {
        self.threads.writer_failed.store(true, Ordering::SeqCst);
        Err(error)
    }
}

/// The socket for the thread, which has the time to wait for room. Dropping it ends the stream.
struct Patient(Arc<Shared>);

impl Write for Patient {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self.0.write(buf) {
            Err(error) if is_full(&error) => {
                self.0.set_patience(None)?;
                let written = self.0.write(buf);
                self.0.set_patience(Some(MOMENT))?;
                written
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        drop(self.0.lock().take());
    }
}

/// Whether a write has failed for want of room.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
