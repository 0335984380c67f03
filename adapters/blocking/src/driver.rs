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
use std::thread;
use std::time::Duration;

use antiphon::{CloseReason, Closed, Input, Instant, ReadBuffer};

use crate::link::Link;
use crate::options::Options;
use crate::peer::Peer;
use crate::queue::Work;
use crate::service::{Report, Request, Responder, Service};
use crate::shared::{Shared, State};

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
    let shared = Arc::new(Shared::new(options.into()));
    let driver = Driver {
        shared: Arc::clone(&shared),
        parts: Some((link.into(), Box::new(service))),
    };
    (Peer::owning(shared), driver)
}

/// Runs one connection. Made by [`drive`]. Dropped without being run, it ends the connection.
#[must_use = "nothing happens before `run`"]
pub struct Driver {
    shared: Arc<Shared>,
    /// What it runs on; none once it does.
    parts: Option<(Link, Box<dyn Service>)>,
}

impl Driver {
    /// Runs the connection until it ends, and says why it ended.
    ///
    /// # Errors
    /// The transport failed before the connection was meant to end, or the system refused a
    /// thread.
    pub fn run(mut self) -> io::Result<Closed> {
        let shared = Arc::clone(&self.shared);
        // There is no other way to take them, and this one takes the driver.
        let Some((link, service)) = self.parts.take() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let (reader, writer, hang_up) = (link.reader, link.writer, link.hang_up);
        let started = start("antiphon-write", &shared, write_on, writer, |state| {
            state.writer_done = true;
        })
        .and_then(|()| {
            start("antiphon-serve", &shared, serve_on, service, |state| {
                state.service_done = true;
            })
        })
        .and_then(|()| {
            start("antiphon-read", &shared, read_on, reader, |state| {
                state.reader_done = true;
            })
        });
        if let Err(error) = started {
            never_mind(&shared);
            return Err(error);
        }
        let why = keep_time(&shared);
        finish(&shared, why, hang_up);
        let fault = shared.lock().fault();
        fault.map_or(Ok(why), Err)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.parts.take().is_some() {
            never_mind(&self.shared);
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
fn never_mind(shared: &Shared) {
    shared.turn(|state| {
        shared.close_state(state, CloseReason::TransportFailed);
        state.stop = true;
        state.finished = state.closed;
    });
    shared.writable.notify_all();
    shared.work.notify_all();
    shared.changed.notify_all();
}

/// Starts a thread, which says when it is done, even if a reader or writer that somebody else wrote
/// panics in it.
fn start<T: Send + 'static>(
    name: &str,
    shared: &Arc<Shared>,
    body: fn(&Arc<Shared>, T),
    with: T,
    done: fn(&mut State),
) -> io::Result<()> {
    let shared = Arc::clone(shared);
    let run = move || {
        let ended = catch_unwind(AssertUnwindSafe(|| body(&shared, with)));
        shared.turn(|state| {
            if ended.is_err() {
                shared.note_fault(state, io::Error::other("the transport panicked"));
                shared.close_state(state, CloseReason::TransportFailed);
            }
            done(state);
        });
        shared.turn.notify_one();
        shared.changed.notify_all();
    };
    let builder = thread::Builder::new().name(name.into());
    builder.spawn(run).map(drop)
}

/// The reader thread.
fn read_on(shared: &Arc<Shared>, mut reader: Box<dyn Read + Send>) {
    let mut buf = ReadBuffer::new(shared.options.config.input_bytes_max().max(1));
    loop {
        let read = match reader.read(buf.spare()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read,
        };
        if let Ok(0) = read {
            wait_for_service(shared);
        }
        let (consumed, is_over) = shared.turn(|state| {
            let mut is_over = true;
            match read {
                Ok(0) => {
                    state.closing = true;
                    state.conn.handle_eof();
                }
                Ok(n) => {
                    is_over = state.stop;
                    buf.advance(n);
                }
                Err(error) => {
                    shared.note_fault(state, error);
                    state.closing = true;
                    state.conn.close(CloseReason::TransportFailed);
                }
            }
            let mut input = Input::stream(buf.filled());
            shared.pump(state, &mut input);
            (input.consumed(), is_over)
        });
        buf.consume(consumed);
        if is_over {
            return;
        }
    }
}

/// Waits at the end of input until what came before it has been served.
fn wait_for_service(shared: &Shared) {
    let mut state = shared.lock();
    let now = shared.now();
    state.input_ended = Some(now);
    let deadline = after(now, shared.options.config.drain_time_max);
    while !state.may_tell_end() && shared.now() < deadline {
        state = shared.wait_changed(state, deadline);
    }
}

/// The writer thread.
fn write_on(shared: &Arc<Shared>, mut writer: Box<dyn Write + Send>) {
    let mut chunk = Vec::new();
    let mut state = shared.lock();
    loop {
        chunk.clear();
        state.conn.handle_timeout(shared.now());
        if !state.conn.take_transmit(&mut chunk) {
            if state.stop {
                break;
            }
            state = shared.wait_on(&shared.writable, state, Instant::FAR_FUTURE);
            continue;
        }
        let mark = state.conn.transmit_done();
        if state.write_failed.is_some() {
            continue;
        }
        state.writing_since = Some(shared.now());
        // A deadline now depends on this write.
        shared.turn.notify_one();
        drop(state);
        let written = writer.write_all(&chunk).and_then(|()| writer.flush());
        if chunk.capacity() > shared.options.config.outbox_bytes_soft {
            chunk = Vec::new();
        }
        state = shared.lock();
        state.writing_since = None;
        match written {
            Ok(()) => state.written = mark,
            Err(error) => fail_write(shared, &mut state, error),
        }
        if state.closing {
            shared.turn.notify_one();
        }
        shared.changed.notify_all();
    }
    drop(state);
    // For a pipe or socket this is the end of the stream; the peer may wait for it.
    drop(writer);
}

fn fail_write(shared: &Shared, state: &mut State, error: io::Error) {
    shared.note_fault(state, error);
    state.write_failed.get_or_insert(shared.now());
    state.closing = true;
}

/// The service thread.
fn serve_on(shared: &Arc<Shared>, mut service: Box<dyn Service>) {
    let peer = Peer::unowned(Arc::clone(shared));
    let opened = catch_unwind(AssertUnwindSafe(|| service.opened(&peer)));
    if opened.is_err() {
        shared.turn(|state| state.queue.push_report(Report::Panicked, 0));
    }
    loop {
        let mut state = shared.lock();
        state.is_serving = false;
        shared.wake(&state);
        let work = loop {
            if let Some(work) = state.queue.pop() {
                break Some(work);
            }
            if state.finished.is_some() {
                break None;
            }
            state = shared.wait_on(&shared.work, state, Instant::FAR_FUTURE);
        };
        let finished = state.finished;
        state.is_serving = work.is_some();
        drop(state);
        let is_last = work.is_none();
        let served = catch_unwind(AssertUnwindSafe(|| match (work, finished) {
            (Some(work), _) => serve_one(shared, &mut *service, &peer, work),
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

fn serve_one(shared: &Arc<Shared>, service: &mut dyn Service, peer: &Peer, work: Work) {
    match work {
        Work::Request(request) => {
            let bytes = request.origin().bytes;
            let (token, message) = request.split();
            let reply = Responder::new(Arc::clone(shared), token, bytes);
            service.request(peer, Request::new(message), reply);
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
fn keep_time(shared: &Shared) -> Closed {
    let mut ended_at = None;
    let mut state = shared.lock();
    loop {
        let now = shared.now();
        state.conn.handle_timeout(now);
        // Before the core, which keeps the same span for what is queued behind.
        if state.closed.is_none() && write_due(shared, &state) <= now {
            give_up_writing(shared, &mut state);
        }
        shared.pump(&mut state, &mut Input::none());
        let mut due = write_due(shared, &state);
        if let Some(why) = state.closed {
            let ended_at = *ended_at.get_or_insert(state.input_ended.unwrap_or(now));
            due = after(ended_at, shared.options.config.drain_time_max);
            if due <= now {
                shared.close_state(&mut state, CloseReason::GoingAway);
                return why;
            }
            let is_written = state.writing_since.is_none() || state.write_failed.is_some();
            // The writer is done before it was told to only if it panicked.
            if (state.conn.is_closed() && is_written) || state.writer_done {
                return why;
            }
        }
        let wanted = state.conn.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        // A bound that should prove stale again and again costs a look a millisecond, no more.
        let alarm = wanted.min(due).max(now + Duration::from_millis(1));
        state.alarm = alarm;
        state = shared.wait_on(&shared.turn, state, alarm);
    }
}

/// When the writer is to be given up a step further: a write that hangs, or the last words of a
/// peer that can no longer be written to.
fn write_due(shared: &Shared, state: &State) -> Instant {
    match (state.write_failed, state.writing_since) {
        (Some(failed_at), _) if state.reader_done => failed_at,
        (Some(failed_at), _) => failed_at + shared.options.linger,
        (None, Some(since)) => after(since, shared.options.config.write_time_max),
        (None, None) => Instant::FAR_FUTURE,
    }
}

fn give_up_writing(shared: &Shared, state: &mut State) {
    if state.write_failed.is_some() {
        shared.close_state(state, CloseReason::TransportFailed);
    } else {
        let error = io::Error::new(io::ErrorKind::TimedOut, "the peer takes no output");
        fail_write(shared, state, error);
    }
}

fn after(start: Instant, span: Option<Duration>) -> Instant {
    span.map_or(Instant::FAR_FUTURE, |span| start + span)
}

/// Ends the threads, as far as they can be ended, and tells everybody that it is over.
fn finish(shared: &Shared, why: Closed, hang_up: Option<Box<dyn FnOnce() + Send>>) {
    let mut state = shared.lock();
    state.stop = true;
    shared.writable.notify_all();
    let linger = shared.now() + shared.options.linger;
    let is_through = |state: &State| state.writer_done && state.reader_done;
    while !is_through(&state) && state.write_failed.is_none() && shared.now() < linger {
        state = shared.wait_on(&shared.turn, state, linger);
    }
    drop(state);
    if let Some(hang_up) = hang_up {
        hang_up();
    }
    let mut state = shared.lock();
    state.finished = Some(why);
    shared.work.notify_all();
    shared.changed.notify_all();
    // The service gets the time to see the end; one that does not return is left behind.
    let deadline = after(shared.now(), shared.options.config.drain_time_max);
    while !state.service_done && shared.now() < deadline {
        state = shared.wait_on(&shared.turn, state, deadline);
    }
}
