//! Shared by the tests: pipes in memory with a limited size, a peer written by hand, a service made
//! of closures, and a watchdog.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use antiphon::{Closed, Json, RequestKey};
use antiphon_blocking::{
    Answer, Link, Notification, OwnedError, Peer, Report, Request, Responder, Service,
};

/// Only a test that fails waits as long as this.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Fails the test if `body` does not end, instead of hanging.
pub(crate) fn within(span: Duration, body: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let running = thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match ended.recv_timeout(span) {
        Ok(()) => running.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(running.join().unwrap_err())
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still running after {span:?}"),
    }
}

/// A pipe in memory.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
}

/// The bytes in a pipe, and what its ends have done.
#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// Whether a write waits, because the pipe is full.
    writer_waits: bool,
    reader_gone: bool,
    writer_gone: bool,
    /// Whether a read has returned the end.
    end_seen: bool,
}

pub(crate) struct PipeReader(Arc<Shared>);
pub(crate) struct PipeWriter(Arc<Shared>);

/// A pipe that holds `capacity` bytes.
pub(crate) fn pipe(capacity: usize) -> (PipeReader, PipeWriter) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        changed: Condvar::new(),
        capacity,
    });
    (PipeReader(Arc::clone(&shared)), PipeWriter(shared))
}

/// Two ends, each a reader and a writer, joined by pipes that hold `capacity` bytes.
pub(crate) fn duplex(capacity: usize) -> ((PipeReader, PipeWriter), (PipeReader, PipeWriter)) {
    let (their_reader, our_writer) = pipe(capacity);
    let (our_reader, their_writer) = pipe(capacity);
    ((our_reader, our_writer), (their_reader, their_writer))
}

impl PipeReader {
    /// Waits until the writer can write no more.
    pub(crate) fn wait_until_full(&self) {
        let mut state = self.0.state.lock().unwrap();
        while !state.writer_waits {
            state = self.0.changed.wait(state).unwrap();
        }
    }
}

impl PipeWriter {
    /// Ends the stream, and waits until the reader has seen it.
    pub(crate) fn finish(self) {
        let mut state = self.0.state.lock().unwrap();
        state.writer_gone = true;
        self.0.changed.notify_all();
        while !state.end_seen {
            state = self.0.changed.wait(state).unwrap();
        }
    }
}

impl Read for PipeReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut state = self.0.state.lock().unwrap();
        while state.bytes.is_empty() && !state.writer_gone {
            state = self.0.changed.wait(state).unwrap();
        }
        let n = buf.len().min(state.bytes.len());
        state.end_seen |= state.bytes.is_empty();
        for (to, from) in buf.iter_mut().zip(state.bytes.drain(..n)) {
            *to = from;
        }
        self.0.changed.notify_all();
        Ok(n)
    }
}

impl Write for PipeWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state.lock().unwrap();
        loop {
            if state.reader_gone {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let room = self.0.capacity - state.bytes.len();
            if room > 0 {
                let n = room.min(buf.len());
                state.bytes.extend(&buf[..n]);
                state.writer_waits = false;
                self.0.changed.notify_all();
                return Ok(n);
            }
            state.writer_waits = true;
            self.0.changed.notify_all();
            state = self.0.changed.wait(state).unwrap();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().reader_gone = true;
        self.0.changed.notify_all();
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().writer_gone = true;
        self.0.changed.notify_all();
    }
}

/// The other side, written and read by hand: one message a line.
pub(crate) struct ByHand {
    pub(crate) reader: BufReader<PipeReader>,
    pub(crate) writer: PipeWriter,
}

impl ByHand {
    /// A link, and its other end.
    pub(crate) fn pair(capacity: usize) -> (Link, Self) {
        let (ours, (reader, writer)) = duplex(capacity);
        let reader = BufReader::new(reader);
        (ours.into(), Self { reader, writer })
    }

    /// Says a line, or several in one write.
    pub(crate) fn say(&mut self, text: &str) {
        let text = format!("{text}\n");
        self.writer.write_all(text.as_bytes()).unwrap();
    }

    /// Hears the next line; empty at the end of the stream.
    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.truncate(line.trim_end().len());
        line
    }
}

/// Called for every request, with the peer, the request and its responder.
type OnRequest = Box<dyn FnMut(&Peer, Request, Responder) + Send>;
type OnNotification = Box<dyn FnMut(&Peer, Notification) + Send>;

/// A service made of closures. What else happens on its connection it sends to a [`Log`].
pub(crate) struct Scripted {
    on_request: OnRequest,
    on_notification: OnNotification,
    told: Sender<Told>,
}

/// What a [`Scripted`] service saw besides requests and notifications.
#[derive(Debug)]
pub(crate) enum Told {
    Opened,
    Cancelled(RequestKey, Option<String>),
    Report(Report),
    Closed(Closed),
}

/// Receives what a [`Scripted`] service sends.
pub(crate) struct Log(Receiver<Told>);

impl Log {
    pub(crate) fn next(&self) -> Told {
        self.0.recv_timeout(LONG).expect("nothing more was told")
    }

    /// The next report. What was told before it is dropped.
    pub(crate) fn report(&self) -> Report {
        loop {
            if let Told::Report(report) = self.next() {
                return report;
            }
        }
    }

    /// All that is told from now on, until the service is dropped.
    pub(crate) fn rest(self) -> Vec<Told> {
        let mut told = Vec::new();
        while let Ok(one) = self.0.recv_timeout(LONG) {
            told.push(one);
        }
        told
    }
}

impl Scripted {
    pub(crate) fn new(
        on_request: impl FnMut(&Peer, Request, Responder) + Send + 'static,
    ) -> (Self, Log) {
        let (told, log) = mpsc::channel();
        let service = Self {
            on_request: Box::new(on_request),
            on_notification: Box::new(|_, _| {}),
            told,
        };
        (service, Log(log))
    }

    /// Sets the closure for notifications.
    pub(crate) fn hearing(
        mut self,
        on_notification: impl FnMut(&Peer, Notification) + Send + 'static,
    ) -> Self {
        self.on_notification = Box::new(on_notification);
        self
    }

    fn tell(&self, told: Told) {
        // The test may have dropped the log.
        let _ = self.told.send(told);
    }
}

impl Service for Scripted {
    fn opened(&mut self, _: &Peer) {
        self.tell(Told::Opened);
    }

    fn request(&mut self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        (self.on_request)(peer, request.clone(), request.defer());
        Ok(Answer::deferred())
    }

    fn notification(&mut self, peer: &Peer, notification: Notification) {
        (self.on_notification)(peer, notification);
    }

    fn cancelled(&mut self, _: &Peer, request: RequestKey, reason: Option<Json<'_>>) {
        let reason = reason.map(|reason| reason.as_str().to_owned());
        self.tell(Told::Cancelled(request, reason));
    }

    fn report(&mut self, _: &Peer, report: Report) {
        self.tell(Told::Report(report));
    }

    fn closed(&mut self, _: &Peer, why: Closed) {
        self.tell(Told::Closed(why));
    }
}

/// Answers `echo` with its params, anything else as unknown.
pub(crate) fn echo(_: &Peer, request: Request, reply: Responder) {
    let answered = match request.method() {
        "echo" => reply.ok(request.raw_params()),
        other => reply.unknown_method(other),
    };
    answered.unwrap();
}
