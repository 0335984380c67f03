//! The threads of a connection, and its end.
//!
//! ```text
//!   reader thread:   read ──▶ lock, poll_event … ──▶ calls settle, queue ──▶ service thread
//!   writer thread:   lock, take_transmit ──▶ write, flush
//!   timekeeper:      sleeps until poll_timeout, watches over the end (the caller of `run`)
//! ```
//!
//! The rule guarded here: no thread reads, writes or serves while it holds the lock, so a peer
//! that does not read, a peer that does not answer and a service that does not return hold up
//! nobody else.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use antiphon::{Closed, Instant, ReadBuffer};
use antiphon_session::{
    Handle, Machine, Options, Report, Request, Session, Signal, SystemClock, Turn, Work,
};

use crate::link::Link;
use crate::peer::Peer;
use crate::service::Service;

/// Serves until the connection ends, and says why it ended.
///
/// At the end of input, what came before it is served, the open requests are finished and their
/// answers written, for as long as the configuration's `drain_time_max`. A `link` may be a pair `(reader, writer)`; `options` may
/// be a [`Config`](antiphon::Config).
///
/// # Errors
/// The transport failed before the connection was meant to end: the peer reset it, or closed the
/// pipe that the answers go into. Or the system refused a thread.
pub fn serve(
    link: impl Into<Link>,
    options: impl Into<Options>,
    service: impl Service,
) -> io::Result<Closed> {
    let (peer, driver) = drive(link, options, service);
    let ended = driver.run();
    drop(peer);
    ended
}

/// Serves on this process's standard input and output: see [`Link::stdio`] and [`serve`].
///
/// # Errors
/// As [`serve`]; also a standard output that is closed.
pub fn serve_stdio(options: impl Into<Options>, service: impl Service) -> io::Result<Closed> {
    serve(Link::stdio()?, options, service)
}

/// Runs a connection in the background, and gives the handle to its other side. `()` serves where
/// the peer is not expected to ask anything.
///
/// # Errors
/// The system refused a thread.
pub fn connect(
    link: impl Into<Link>,
    options: impl Into<Options>,
    service: impl Service,
) -> io::Result<Peer> {
    let (peer, driver) = drive(link, options, service);
    thread::Builder::new()
        .name("antiphon-time".into())
        .spawn(move || driver.run())?;
    Ok(peer)
}

/// Prepares a connection: the handle to its other side, and the driver that runs it, on whatever
/// thread the caller likes.
pub fn drive(
    link: impl Into<Link>,
    options: impl Into<Options>,
    service: impl Service,
) -> (Peer, Driver) {
    let link = link.into();
    let clock = Arc::new(SystemClock::new());
    let session = Arc::new(Session::new(options.into(), link.context.clone(), clock));
    let driver = Driver {
        session: Arc::clone(&session),
        parts: Some((link, Box::new(service))),
    };
    (Peer::new(Handle::owning(session)), driver)
}

/// Runs one connection. Made by [`drive`]. Dropped without being run, it ends the connection.
#[must_use = "nothing happens before `run`"]
pub struct Driver {
    session: Arc<Session>,
    /// What it runs on; none once it does.
    parts: Option<(Link, Box<dyn Service>)>,
}

/// Which threads of a connection have ended.
#[derive(Default)]
struct Done {
    reader: AtomicBool,
    writer: AtomicBool,
    service: AtomicBool,
    /// The writer is to end.
    stop: AtomicBool,
}

impl Driver {
    /// Runs the connection until it ends, and says why it ended.
    ///
    /// # Errors
    /// The transport failed before the connection was meant to end, or the system refused a
    /// thread.
    pub fn run(mut self) -> io::Result<Closed> {
        let session = Arc::clone(&self.session);
        // There is no other way to take them, and this one takes the driver.
        let Some((link, service)) = self.parts.take() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let done = Arc::new(Done::default());
        let started = start_all(&session, &done, link.reader, link.writer, service);
        if let Err(error) = started {
            never_mind(&session, &done);
            return Err(error);
        }
        keep_time(&session);
        finish(&session, &done, link.hang_up);
        let state = session.lock();
        let why = state.finished().unwrap_or(Closed::EndOfInput);
        state.fault().map_or(Ok(why), Err)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.parts.take().is_some() {
            never_mind(&self.session, &Done::default());
        }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("parts", &self.parts.as_ref().map(|(link, _)| link))
            .finish_non_exhaustive()
    }
}

/// Ends a connection that has not got all of its threads.
fn never_mind(session: &Session, done: &Done) {
    done.stop.store(true, Ordering::SeqCst);
    session.abort(None);
    session.finished();
}

fn start_all(
    session: &Arc<Session>,
    done: &Arc<Done>,
    reader: Box<dyn Read + Send>,
    writer: Box<dyn Write + Send>,
    service: Box<dyn Service>,
) -> io::Result<()> {
    start("antiphon-write", session, done, |done| &done.writer, {
        let done = Arc::clone(done);
        move |session| write_on(session, &done, writer)
    })?;
    start("antiphon-serve", session, done, |done| &done.service, {
        move |session| serve_on(session, service)
    })?;
    start("antiphon-read", session, done, |done| &done.reader, {
        let done = Arc::clone(done);
        move |session| read_on(&**session, &done, reader)
    })
}

/// Starts a thread, which says when it is done, even if a reader or writer that somebody else wrote
/// panics in it.
fn start(
    name: &str,
    session: &Arc<Session>,
    done: &Arc<Done>,
    which: fn(&Done) -> &AtomicBool,
    body: impl FnOnce(&Arc<Session>) + Send + 'static,
) -> io::Result<()> {
    let (session, done) = (Arc::clone(session), Arc::clone(done));
    let run = move || {
        let ended = catch_unwind(AssertUnwindSafe(|| body(&session)));
        if ended.is_err() {
            session.abort(Some(io::Error::other("the transport panicked")));
        }
        which(&done).store(true, Ordering::SeqCst);
        let mut state = session.lock();
        session.signal(&mut state, Signal::Turn);
        session.signal(&mut state, Signal::Changed);
    };
    let builder = thread::Builder::new().name(name.into());
    builder.spawn(run).map(drop)
}

/// The reader thread. It moves bytes and knows nothing of what they mean.
fn read_on(machine: &impl Machine, done: &Done, mut reader: impl Read) {
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
        if done.stop.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// The writer thread. It moves bytes and knows nothing of what they mean.
fn write_on(session: &Session, done: &Done, mut writer: Box<dyn Write + Send>) {
    let mut chunk = Vec::new();
    let mut state = session.lock();
    loop {
        chunk.clear();
        if !session.take_output_of(&mut state, &mut chunk) {
            if done.stop.load(Ordering::SeqCst) {
                break;
            }
            state = session.wait(Signal::Writable, state, Instant::FAR_FUTURE);
            continue;
        }
        // A deadline now depends on this write.
        session.signal(&mut state, Signal::Turn);
        drop(state);
        match writer.write_all(&chunk).and_then(|()| writer.flush()) {
            Ok(()) => session.output_written(),
            Err(error) => session.output_failed(error),
        }
        if chunk.capacity() > session.options().config.outbox_bytes_soft {
            chunk = Vec::new();
        }
        state = session.lock();
    }
    drop(state);
    // For a pipe or socket this is the end of the stream; the peer may wait for it.
    drop(writer);
}

/// The service thread.
fn serve_on(session: &Arc<Session>, mut service: Box<dyn Service>) {
    let peer = Peer::new(Handle::unowned(Arc::clone(session)));
    if wait_open(session) {
        let opened = catch_unwind(AssertUnwindSafe(|| service.opened(&peer)));
        if opened.is_err() {
            session.report(Report::Panicked);
        }
    }
    loop {
        let mut state = session.lock();
        state.is_serving = false;
        session.wake(&mut state);
        let work = loop {
            if let Some(work) = state.queue.pop() {
                break Some(work);
            }
            if state.finished().is_some() {
                break None;
            }
            state = session.wait(Signal::Work, state, Instant::FAR_FUTURE);
        };
        let finished = state.finished();
        state.is_serving = work.is_some();
        drop(state);
        let is_last = work.is_none();
        let served = catch_unwind(AssertUnwindSafe(|| match (work, finished) {
            (Some(work), _) => serve_one(session, &mut *service, &peer, work),
            (None, Some(why)) => service.closed(&peer, why),
            (None, None) => {}
        }));
        if served.is_err() {
            // A report that panics itself is not reported again.
            let report = || service.report(&peer, Report::Panicked);
            let _ = catch_unwind(AssertUnwindSafe(report));
        }
        if is_last {
            break;
        }
    }
    // What the service holds may answer or call when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(service)));
}

/// Waits until messages can be exchanged. False if that will never be.
fn wait_open(session: &Session) -> bool {
    let mut state = session.lock();
    while !state.is_open() && state.finished().is_none() {
        state = session.wait(Signal::Work, state, Instant::FAR_FUTURE);
    }
    state.is_open()
}

fn serve_one(session: &Arc<Session>, service: &mut dyn Service, peer: &Peer, work: Work) {
    match work {
        Work::Request(request) => {
            let (request, reply) = Request::split(session, request);
            service.request(peer, request, reply);
        }
        Work::Notification(notification) => service.notification(peer, notification),
        Work::Cancelled(key, reason) => {
            let reason = reason.as_ref().map(|reason| reason.as_json());
            service.cancelled(peer, key, reason);
        }
        Work::Settled(then, outcome) => then(outcome),
        Work::Report(report) => service.report(peer, report),
        // The queue tells it as a report.
        Work::Dropped => {}
    }
}

/// Lets deadlines come true until the connection has said and written all it will.
fn keep_time(session: &Session) {
    let mut state = session.lock();
    while let Turn::Open { wake_at } = session.turn_of(&mut state) {
        state = session.wait(Signal::Turn, state, wake_at);
    }
}

/// Ends the threads, as far as they can be ended, and tells everybody that it is over.
fn finish(session: &Session, done: &Done, hang_up: Option<Box<dyn FnOnce() + Send>>) {
    let is_done = |which: &AtomicBool| which.load(Ordering::SeqCst);
    done.stop.store(true, Ordering::SeqCst);
    let mut state = session.lock();
    session.signal(&mut state, Signal::Writable);
    let linger = session.now() + session.options().linger;
    while (!is_done(&done.writer) || !is_done(&done.reader))
        && !state.has_write_failed()
        && session.now() < linger
    {
        state = session.wait(Signal::Turn, state, linger);
    }
    drop(state);
    if let Some(hang_up) = hang_up {
        hang_up();
    }
    session.finished();
    // The service gets the time to see the end; one that does not return is left behind.
    let span = session.options().config.drain_time_max;
    let deadline = span.map_or(Instant::FAR_FUTURE, |span| session.now() + span);
    let mut state = session.lock();
    while !is_done(&done.service) && session.now() < deadline {
        state = session.wait(Signal::Turn, state, deadline);
    }
}
