//! Moves bytes between a link and a machine, on threads: one reads, one writes, and the caller
//! keeps time.
//!
//! The rule guarded here: no thread reads or writes while it holds up another, so a peer that does
//! not read and a peer that does not answer stop nobody; and whatever a reader or writer that
//! somebody else wrote does, the machine is told.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use antiphon::ReadBuffer;
use antiphon_session::{ThreadMachine, Turn};

use crate::link::{Link, Receive, Sending};

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
    let mut link = link;
    let messages = link.messages.take();
    let (reader, writer, hang_up) = link.into_parts();
    let (reader, writer): (Body<M>, Body<M>) = match messages {
        None => (
            Box::new(move |machine, threads| read_on(machine, threads, reader)),
            Box::new(move |machine, threads| write_on(machine, threads, writer)),
        ),
        Some((receive, send)) => (
            Box::new(move |machine, threads| receive_on(machine, threads, receive)),
            Box::new(move |machine, threads| {
                write_on(machine, threads, WholeMessages(send));
            }),
        ),
    };
    let threads = Arc::<Threads>::default();
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
    loop {
        match reader.read(buf.spare()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return machine.input_ended(buf.filled(), Some(error)),
            Ok(0) => return machine.input_ended(buf.filled(), None),
            Ok(n) => buf.advance(n),
        }
        let consumed = machine.receive(buf.filled());
        buf.consume(consumed);
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
