//! The threads that move the bytes of a connection: one reads, one writes. On Unix other threads
//! also read from a socket without TLS, and write to it as long as it has space: see
//! [`Inlet`](antiphon_net::Inlet) and [`Outlet`](antiphon_net::Outlet).
//!
//! No thread holds the session's lock while it reads or writes. So a peer that does not read and a
//! peer that does not answer stop no other thread. If a reader or writer of the application fails
//! or panics, that is reported to the session.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use antiphon_net::{Came, Inlet, Later, Outlet, Receiver, Session, is_later, write_out};

use crate::transport::link::{
    Reader, Receive, Sending, Socket, SocketReader, SocketWriter, Writer,
};

/// How long a thread other than the writing thread waits for space in a socket at most. The system
/// rounds it up to a tick of its clock, which may be some milliseconds.
const MOMENT: Duration = Duration::from_micros(1);

/// How long a thread other than the reading thread waits for input at most.
const READ_TIMEOUT: Duration = Duration::from_millis(2);

/// How many bytes one read takes at most while little arrives. An idle connection holds an input
/// buffer of this size. After a read of so many bytes or more it holds the large buffer too, until
/// [`QUIET_READS`] smaller reads have followed.
const SMALL_BYTES: usize = 512;

/// How many bytes one read takes at most while much arrives.
const LARGE_BYTES: usize = 64 * 1024;

/// After this many reads in a row that return fewer than [`SMALL_BYTES`], little arrives: the small
/// buffer is used.
const QUIET_READS: u32 = 16;

/// The largest output buffer that is kept for the next time, in bytes.
const OUTPUT_BYTES_KEPT: usize = 1 << 20;

/// Which threads of a connection have ended, and whether they must stop.
#[derive(Default)]
pub(crate) struct Threads {
    /// Whether the service thread has ended.
    pub(crate) served: Arc<AtomicBool>,
    /// Whether the reading thread has ended.
    pub(crate) reader_done: Arc<AtomicBool>,
    /// Whether the writing thread has ended.
    pub(crate) writer_done: Arc<AtomicBool>,
    /// Whether a write has failed.
    pub(crate) writer_failed: AtomicBool,
    /// Whether the reading and the writing thread must stop.
    pub(crate) stop: AtomicBool,
}

/// Reads a flag of [`Threads`].
pub(crate) fn is(flag: &AtomicBool) -> bool {
    flag.load(Ordering::SeqCst)
}

/// The two ends between which bytes are moved, or the two functions that move whole messages
/// instead.
pub(crate) type Ends = (Reader, Writer, Option<(Receive, Sending)>);

/// Starts the threads that move bytes.
///
/// # Errors
/// The system refused a thread.
pub(crate) fn move_bytes(
    session: &Arc<Session>,
    threads: &Arc<Threads>,
    ends: Ends,
) -> io::Result<()> {
    let (reader, writer): (Body, Body) = match ends {
        (_, _, Some((receive, send))) => (
            Box::new(move |session, threads| receive_on(session, threads, receive)),
            Box::new(move |session, threads| write_on(session, threads, WholeMessages(send))),
        ),
        (reader, writer, None) => (
            match reader {
                Reader::Any(reader) => {
                    Box::new(move |session, threads| read_on(session, threads, reader))
                }
                Reader::Socket(socket) => {
                    Box::new(move |session, threads| read_beside(session, threads, socket))
                }
            },
            match writer {
                Writer::Any(writer) => {
                    Box::new(move |session, threads| write_on(session, threads, writer))
                }
                Writer::Socket(socket) => write_beside(session, threads, socket),
            },
        ),
    };
    start(
        "antiphon-write",
        session,
        threads,
        &threads.writer_done,
        writer,
    )?;
    start(
        "antiphon-read",
        session,
        threads,
        &threads.reader_done,
        reader,
    )
}

/// The body of a thread of a connection.
pub(crate) type Body = Box<dyn FnOnce(&Arc<Session>, &Threads) + Send>;

/// Starts a thread that sets `done` when it ends, even if it panics. A panic ends the connection.
pub(crate) fn start(
    name: &str,
    session: &Arc<Session>,
    threads: &Arc<Threads>,
    done: &Arc<AtomicBool>,
    body: Body,
) -> io::Result<()> {
    let (session, threads, done) = (Arc::clone(session), Arc::clone(threads), Arc::clone(done));
    let run = move || {
        if catch_unwind(AssertUnwindSafe(|| body(&session, &threads))).is_err() {
            session.abort(Some(io::Error::other("the transport panicked")));
        }
        done.store(true, Ordering::SeqCst);
        session.nudge();
    };
    let builder = thread::Builder::new().name(name.into());
    builder.spawn(run).map(drop)
}

/// Runs the reading thread of a reader without a timeout.
fn read_on(session: &Session, threads: &Threads, reader: impl Read) {
    let mut intake = Intake::new(reader);
    while intake.read(session, false) != Came::End {
        session.wait_readable(|| is(&threads.stop));
        if is(&threads.stop) || session.is_input_over() {
            return;
        }
    }
}

/// A reader, and its buffers.
struct Intake<R> {
    reader: R,
    /// The buffer for small reads.
    small: [u8; SMALL_BYTES],
    /// The buffer for large reads; empty while little arrives.
    large: Vec<u8>,
    /// How many reads in a row were small.
    quiet: u32,
    /// The pauses after reads that return "would block": the system cannot wake the thread when
    /// there is input.
    later: Later,
    /// Whether the input has ended, or a read has failed.
    is_over: bool,
}

impl<R: Read> Intake<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            small: [0; SMALL_BYTES],
            large: Vec::new(),
            quiet: QUIET_READS,
            later: Later::new(),
            is_over: false,
        }
    }

    /// Reads once, and passes the bytes to the receiver. If the reader returns "would block",
    /// pauses, unless it `is_hasty`: then another thread than the reading one reads.
    fn read<M: Receiver + ?Sized>(&mut self, receiver: &M, is_hasty: bool) -> Came {
        if self.is_over {
            return Came::End;
        }
        let buf = if self.quiet >= QUIET_READS {
            self.large = Vec::new();
            &mut self.small[..]
        } else {
            self.large.resize(LARGE_BYTES, 0);
            &mut self.large[..]
        };
        match self.reader.read(buf) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Came::Something,
            Err(error) if is_later(&error) => {
                if !is_hasty {
                    self.later.pause();
                }
                Came::Nothing
            }
            Err(error) => self.end(receiver, Some(error)),
            Ok(0) => self.end(receiver, None),
            Ok(n) => {
                self.later.renew();
                receiver.receive(&buf[..n]);
                self.quiet = match n < SMALL_BYTES {
                    true => self.quiet.saturating_add(1),
                    false => 0,
                };
                Came::Something
            }
        }
    }

    #[cold]
    fn end<M: Receiver + ?Sized>(&mut self, receiver: &M, failed: Option<io::Error>) -> Came {
        self.is_over = true;
        receiver.input_ended(failed);
        Came::End
    }
}

/// Reads from a socket, and lets other threads read from it too, one at a time.
fn read_beside(session: &Session, threads: &Threads, socket: Arc<dyn Socket>) {
    let mut inlet: Box<dyn Inlet> = Box::new(Inward {
        intake: Intake::new(SocketReader(socket)),
        patience: None,
    });
    while inlet.read(session, false) != Came::End {
        session.wait_readable(|| is(&threads.stop));
        if is(&threads.stop) || session.is_input_over() {
            return;
        }
        inlet = session.lend_input(inlet, || is(&threads.stop));
        // Other threads may have read more than the queue's limit.
        session.wait_readable(|| is(&threads.stop));
    }
}

/// The receiving half of a socket, for the thread that reads at the moment.
struct Inward {
    intake: Intake<SocketReader>,
    /// The read timeout that is set on the socket; `None` is for ever.
    patience: Option<Duration>,
}

impl Inlet for Inward {
    fn read(&mut self, receiver: &dyn Receiver, is_hasty: bool) -> Came {
        let patience = is_hasty.then_some(READ_TIMEOUT);
        if self.patience != patience {
            if let Err(error) = self.intake.reader.0.set_read_patience(patience) {
                return self.intake.end(receiver, Some(error));
            }
            self.patience = patience;
        }
        self.intake.read(receiver, is_hasty)
    }
}

/// Runs the reading thread of a transport of whole messages.
fn receive_on(session: &Session, threads: &Threads, mut receive: Receive) {
    loop {
        match receive() {
            Err(error) => return session.input_ended(Some(error)),
            Ok(None) => return session.input_ended(None),
            Ok(Some(message)) => session.receive(&message),
        };
        session.wait_readable(|| is(&threads.stop));
        if is(&threads.stop) || session.is_input_over() {
            return;
        }
    }
}

/// Sends every write as a message of its own: the session writes whole messages.
struct WholeMessages(Sending);

impl Write for WholeMessages {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (self.0)(buf).map(|()| buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the writing thread.
fn write_on(session: &Session, threads: &Threads, mut writer: impl Write) {
    let mut chunk = Vec::new();
    while session.wait_output(&mut chunk, || is(&threads.stop)) {
        match write_out(&mut writer, &chunk) {
            Ok(()) => session.output_written(),
            Err(error) => {
                threads.writer_failed.store(true, Ordering::SeqCst);
                session.output_failed(error);
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

/// Lets other threads write to a socket besides the writing thread, one at a time. Returns the body
/// of the writing thread.
fn write_beside(session: &Session, threads: &Arc<Threads>, socket: Arc<dyn Socket>) -> Body {
    if socket.set_write_patience(Some(MOMENT)).is_ok() {
        let (socket, threads) = (Arc::clone(&socket), Arc::clone(threads));
        session.set_outlet(Box::new(Beside { socket, threads }));
    }
    Box::new(move |session, threads| write_on(session, threads, Patient(SocketWriter(socket))))
}

/// The sending half of a socket, for threads other than the writing thread.
struct Beside {
    socket: Arc<dyn Socket>,
    threads: Arc<Threads>,
}

impl Outlet for Beside {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.socket.write(&bytes[written..]) {
                Ok(0) => return self.fail(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_later(&error) => break,
                Err(error) => return self.fail(error),
            }
        }
        Ok(written)
    }
}

impl Beside {
    #[cold]
    fn fail(&self, error: io::Error) -> io::Result<usize> {
        self.threads.writer_failed.store(true, Ordering::SeqCst);
        Err(error)
    }
}

/// The sending half of a socket, for the writing thread, which may wait for space.
struct Patient(SocketWriter);

impl Write for Patient {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self.0.write(buf) {
            Err(error) if is_later(&error) => {
                let socket = &self.0.0;
                socket.set_write_patience(None)?;
                let written = socket.write(buf);
                socket.set_write_patience(Some(MOMENT))?;
                written
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
