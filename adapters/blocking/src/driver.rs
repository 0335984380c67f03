//! The threads of a connection, and its end.
//!
//! ```text
//!   reader thread:   read ──▶ lock, poll_event … ──▶ calls settle, queue ──▶ service thread
//!   writer thread:   lock, take_transmit ──▶ write, flush
//!   timekeeper:      sleeps until poll_timeout, watches over the end (the caller of `run`)
//! ```
//!
//! Over a socket, whoever is about to wait reads and writes by himself before he has one of these
//! threads do it: a caller for his answer, the service thread for more work. Each thread is there for
//! when nobody else is.
//!
//! The rule guarded here: no thread reads, writes or serves while it holds the lock, so a peer
//! that does not read, a peer that does not answer and a service that does not return hold up
//! nobody else.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use antiphon::{Closed, Framing, Instant};
use antiphon_net::{
    Handle, Machine, Options, Report, Request, Session, Sleeper, SystemClock, Tag, Work,
    unless_broken,
};

use crate::peer::Peer;
use crate::pump::pump;
use crate::service::Service;
use crate::transport::link::Link;

/// How long before it is looked again whether the service is done, should a nudge be missed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

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
/// As [`serve`]; a standard output that is closed; and what broke the connection, such as input that
/// can no longer be cut into messages, with the [`ConnectionError`](antiphon::ConnectionError) inside.
pub fn serve_stdio(options: impl Into<Options>, service: impl Service) -> io::Result<Closed> {
    unless_broken(serve(Link::stdio()?, options, service))
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
    let mut options = options.into();
    if link.messages.is_some() {
        options.config.framing = Framing::Messages;
    }
    let clock = Arc::new(SystemClock::new());
    let session = Arc::new(Session::new(options, link.context.clone(), clock));
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
        let served = serve_beside(&session, service);
        let moved = served.and_then(|served| {
            pump(link, &session)?;
            Ok(served)
        });
        let served = moved.inspect_err(|_| never_mind(&session))?;
        // The service gets the time to see the end; one that does not return is left behind.
        let span = session.options().config.drain_time_max;
        let deadline = span.map_or(Instant::FAR_FUTURE, |span| session.now() + span);
        while !served.load(Ordering::SeqCst) && session.now() < deadline {
            session.wait_nudge(deadline.min(session.now() + LOOK_AGAIN));
        }
        let (why, fault) = session.finished();
        fault.map_or(Ok(why), Err)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.parts.take().is_some() {
            never_mind(&self.session);
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
fn never_mind(session: &Session) {
    session.abort(None);
    session.let_go();
}

/// Starts the service thread, and gives what says whether it is done.
fn serve_beside(session: &Arc<Session>, service: Box<dyn Service>) -> io::Result<Arc<AtomicBool>> {
    let done = Arc::<AtomicBool>::default();
    let (session, inside) = (Arc::clone(session), Arc::clone(&done));
    let builder = thread::Builder::new().name("antiphon-serve".into());
    builder.spawn(move || {
        // A panic of the service has been caught already.
        let _ = catch_unwind(AssertUnwindSafe(|| serve_on(&session, service)));
        inside.store(true, Ordering::SeqCst);
        session.nudge();
    })?;
    Ok(done)
}

/// The service thread.
fn serve_on(session: &Arc<Session>, mut service: Box<dyn Service>) {
    let peer = Peer::new(Handle::unowned(Arc::clone(session)));
    loop {
        match next_work(session) {
            Next::Work(work) => {
                guarded(&mut *service, &peer, |service| {
                    serve_one(session, service, &peer, work);
                });
            }
            Next::Closed(why) => {
                guarded(&mut *service, &peer, |service| service.closed(&peer, why));
                break;
            }
        }
    }
    // What the service holds may answer or call when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(service)));
}

/// Runs a method of the service, and tells the service if it panicked.
fn guarded(service: &mut dyn Service, peer: &Peer, method: impl FnOnce(&mut dyn Service)) {
    if catch_unwind(AssertUnwindSafe(|| method(service))).is_err() {
        // A report that panics itself is not reported again.
        let request = peer.take_panicked();
        let report = || service.report(peer, Report::Panicked(request));
        let _ = catch_unwind(AssertUnwindSafe(report));
    }
}

/// What the service thread does next.
enum Next {
    Work(Work),
    /// The last word.
    Closed(Closed),
}

/// Waits for the next thing to do.
fn next_work(session: &Session) -> Next {
    let mut state = session.lock();
    loop {
        state.conn.handle_time(session.now());
        if let Some(work) = state.conn.poll_work(true) {
            return Next::Work(work);
        }
        if let Some(why) = state.finished() {
            return Next::Closed(why);
        }
        if state.conn.has_work() {
            // What is next waits until all before it has begun. The thread that begins it wakes this one.
            session.want_reader(&mut state);
            state = session.sleep(Sleeper::Service, state, Instant::FAR_FUTURE);
            continue;
        }
        let has_come;
        (state, has_come) = session.read_idle(state);
        if !has_come && !state.conn.has_work() && state.finished().is_none() {
            state = session.sleep(Sleeper::Service, state, Instant::FAR_FUTURE);
        }
    }
}

fn serve_one(session: &Arc<Session>, service: &mut dyn Service, peer: &Peer, work: Work) {
    match work {
        Work::Opened => service.opened(peer),
        Work::Request(message, ticket) => {
            let (request, reply) = Request::new(session, message, ticket);
            service.request(peer, request, reply);
        }
        Work::Notification(notification) => service.notification(peer, notification),
        Work::Cancelled(key, reason) => {
            let reason = reason.as_ref().map(|reason| reason.as_json());
            service.cancelled(peer, key, reason);
        }
        Work::Settled(settled) => {
            if let Tag::Then(then) = settled.waiter {
                then(settled.outcome);
            }
        }
        Work::Report(report) => service.report(peer, report),
        // What a later core may add is nothing we promise.
        _ => {}
    }
}
