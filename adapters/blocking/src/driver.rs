//! The threads of a connection, and its end.
//!
//! ```text
//!   reader thread:   read ──▶ lock, poll_event … ──▶ calls settle, queue ──▶ service thread
//!   writer thread:   lock, take_transmit ──▶ write, flush
//!   timekeeper:      sleeps until poll_timeout, ends the connection (the thread that calls `run`)
//! ```
//!
//! On Unix, if the transport is a socket without TLS, other threads read and write it themselves
//! instead of waking the reading or the writing thread: a caller writes its call and reads the
//! answer, and the service thread writes its answers, and reads before it waits for more work.
//!
//! No thread reads, writes or runs the service while it holds the lock. So a peer that does not
//! read, a peer that does not answer and a service that does not return block no other thread.

use std::fmt;
use std::future::Future;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::thread;

use antiphon::{Closed, Instant};
use antiphon_net::{
    ConnectionConfig, Inbox, Notification, Peer, Permits, Report, Request, Session, Sleeper, Tag,
    Timer, Work, block_on, unless_broken,
};

use crate::serve::Service;
use crate::threads::{Threads, is, move_bytes, start};
use crate::transport::link::{HangUp, Link};

/// Serves until the connection ends, and returns why it ended.
///
/// When the input ends, the messages that came before are still handled, and open requests
/// answered, within the configuration's `drain_timeout`. A `link` may be a pair `(reader, writer)`;
/// `options` may be a [`Config`](antiphon::Config).
///
/// # Errors
/// The transport failed before the connection was meant to end: the peer has reset it, or has
/// closed the pipe for the answers. Or the system refused a thread.
pub fn serve(
    link: impl Into<Link>,
    options: impl Into<ConnectionConfig>,
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
/// As [`serve`]; a standard output that is closed; and the reason why the connection broke, such as
/// input that cannot be split into messages. Its [`io::Error::get_ref`] is then the
/// [`ConnectionError`](antiphon::ConnectionError).
pub fn serve_stdio(
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Closed> {
    unless_broken(serve(Link::stdio()?, options, service))
}

/// Runs a connection in the background, and returns the handle to its other side. Use `()` as the
/// service if the peer is not expected to send requests.
///
/// # Errors
/// The system refused a thread.
pub fn connect(
    link: impl Into<Link>,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Peer> {
    let (peer, driver) = drive(link, options, service);
    thread::Builder::new()
        .name("antiphon-time".into())
        .spawn(move || driver.run())?;
    Ok(peer)
}

/// Runs a connection in the background, whose messages the program receives by
/// [`recv`](Inbox::recv)`().wait()` in a loop of its own, instead of in a [`Service`].
///
/// # Errors
/// The system refused a thread.
pub fn inbox(
    link: impl Into<Link>,
    options: impl Into<ConnectionConfig>,
) -> io::Result<(Peer, Inbox)> {
    let (service, inbox) = Inbox::new();
    Ok((connect(link, options, service)?, inbox))
}

/// Prepares a connection. Returns the handle to its other side, and the driver, which can run on
/// any thread.
pub fn drive(
    link: impl Into<Link>,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> (Peer, Driver) {
    let link = link.into();
    let is_of_messages = link.messages.is_some();
    let context = link.context.clone();
    let session = Session::new(
        options.into(),
        is_of_messages,
        context,
        antiphon_net::Threads::shared(),
    );
    let driver = Driver {
        session: Arc::clone(&session),
        stage: Stage::New(Box::new((link, Box::new(service)))),
        threads: Arc::default(),
        hang_up: None,
        awaits_end: false,
        timer: session.runtime().timer(),
    };
    (Peer::owning(session), driver)
}

/// Runs one connection: a future that starts its threads, waits for deadlines and ends the
/// connection. Ready when it has ended, with the reason. Made by [`drive`]. Dropping it earlier
/// ends the connection.
///
/// # Errors
/// The transport failed before the connection was meant to end, or the system refused a thread.
#[must_use = "nothing happens before `run`"]
pub struct Driver {
    session: Arc<Session>,
    stage: Stage,
    threads: Arc<Threads>,
    hang_up: Option<HangUp>,
    /// The [`Link`]'s `awaits_end`: whether to wait for the other side's end of stream after ours.
    awaits_end: bool,
    timer: Box<dyn Timer>,
}

/// How far the connection has come, as the timekeeper sees it.
enum Stage {
    /// Not started: the threads get the link and the service.
    New(Box<(Link, Box<dyn Service>)>),
    /// The threads run, and deadlines are awaited.
    Open,
    /// The rest of the output is being written, and with `awaits_end` the other side's end is
    /// awaited, until this time at most.
    Lingering(Instant),
    /// The transport was dropped; received messages are still handled, until this time at most.
    Serving(Instant),
    /// The result was returned.
    Done,
}

impl Driver {
    /// Runs the connection on this thread until it ends, and returns why it ended.
    ///
    /// # Errors
    /// The transport failed before the connection was meant to end, or the system refused a
    /// thread.
    pub fn run(self) -> io::Result<Closed> {
        block_on(self)
    }

    /// Starts the threads that serve, read and write.
    fn start(&mut self, link: Link, service: Box<dyn Service>) -> io::Result<()> {
        self.hang_up = link.hang_up;
        self.awaits_end = link.awaits_end;
        let (session, threads) = (&self.session, &self.threads);
        start("antiphon-serve", session, threads, &threads.served, {
            Box::new(move |session, _| serve_on(session, service))
        })?;
        move_bytes(session, threads, (link.reader, link.writer, link.messages))
    }

    /// Whether the transport may be dropped: the writer has ended, and so has the reader if we wait
    /// for the other side's end; or writing has failed.
    fn is_moved(&self) -> bool {
        let Threads {
            reader_done,
            writer_done,
            writer_failed,
            ..
        } = &*self.threads;
        is(writer_done) && (!self.awaits_end || is(reader_done)) || is(writer_failed)
    }

    /// Ends a read that waits, and notes in the session that the transport is dropped.
    fn let_go(&mut self) {
        if let Some(hang_up) = self.hang_up.take() {
            hang_up();
        }
        self.session.let_go();
    }
}

impl Future for Driver {
    type Output = io::Result<Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let session = Arc::clone(&this.session);
        loop {
            this.stage = match mem::replace(&mut this.stage, Stage::Done) {
                Stage::New(parts) => {
                    let (link, service) = *parts;
                    if let Err(error) = this.start(link, service) {
                        session.abort(None);
                        this.let_go();
                        return Poll::Ready(Err(error));
                    }
                    Stage::Open
                }
                Stage::Open => match session.pass_time(cx.waker()) {
                    Some(wake_at) => {
                        this.stage = Stage::Open;
                        ready!(this.timer.poll_until(wake_at, cx));
                        Stage::Open
                    }
                    None => {
                        this.threads.stop.store(true, Ordering::SeqCst);
                        session.nudge();
                        Stage::Lingering(session.now() + session.linger())
                    }
                },
                Stage::Lingering(until) => {
                    session.watch(cx.waker());
                    if !this.is_moved() {
                        this.stage = Stage::Lingering(until);
                        ready!(this.timer.poll_until(until, cx));
                    }
                    this.let_go();
                    // The service has this time to notice the end. If it does not return, its
                    // thread is left running.
                    let span = session.options().config.timeouts.drain_timeout;
                    Stage::Serving(span.map_or(Instant::FAR_FUTURE, |span| session.now() + span))
                }
                Stage::Serving(until) => {
                    session.watch(cx.waker());
                    if !is(&this.threads.served) {
                        this.stage = Stage::Serving(until);
                        ready!(this.timer.poll_until(until, cx));
                    }
                    this.stage = Stage::Done;
                    let (why, fault) = session.finished();
                    return Poll::Ready(fault.map_or(Ok(why), Err));
                }
                // Polled after its end: the result was returned before.
                Stage::Done => return Poll::Pending,
            };
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !matches!(self.stage, Stage::Done) {
            self.threads.stop.store(true, Ordering::SeqCst);
            self.session.abort(None);
            self.let_go();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// Runs the service thread: handles the session's work in order until the connection is closed.
fn serve_on(session: &Arc<Session>, mut service: Box<dyn Service>) {
    let peer = Peer::unowned(Arc::clone(session));
    let mut permits = Permits::new(session.dispatcher());
    loop {
        match next_work(session) {
            Next::Work(work, permits_taken) => {
                permits.add(permits_taken);
                guarded(&mut *service, &peer, |service| {
                    let serve = || serve_one(session, service, &peer, work);
                    match permits_taken {
                        0 => serve(),
                        _ => session.run_with_permit(serve),
                    }
                });
                // All permits are given back.
                permits.retain(0);
            }
            Next::Closed(why) => {
                guarded(&mut *service, &peer, |service| service.closed(&peer, why));
                break;
            }
        }
    }
    // Dropping the service runs code of the program, which may panic.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(service)));
}

/// Runs a method of the service, and reports a panic to the service.
fn guarded(service: &mut dyn Service, peer: &Peer, method: impl FnOnce(&mut dyn Service)) {
    if catch_unwind(AssertUnwindSafe(|| method(service))).is_err() {
        let request = peer.session().take_panicked();
        let report = || service.report(peer, Report::Panicked(request));
        // If the report panics too, that is not reported.
        let _ = catch_unwind(AssertUnwindSafe(report));
    }
}

/// The next action of the service thread.
enum Next {
    /// Work, and how many permits of the server's dispatcher were taken for it.
    Work(Work, usize),
    /// The connection has ended: the service's method `closed` is called, and nothing after it.
    Closed(Closed),
}

/// Waits for the next action of the service thread.
fn next_work(session: &Session) -> Next {
    let mut state = session.lock();
    loop {
        state.conn.handle_time(session.now());
        let (work, permits_taken) = state.take_one();
        if let Some(work) = work {
            return Next::Work(work, permits_taken);
        }
        if let Some(why) = state.finished() {
            return Next::Closed(why);
        }
        if state.conn.has_work() {
            // The next work has to wait: for a permit of the server's dispatcher, or until earlier
            // requests have begun or ended. This thread is woken when that may have changed.
            session.want_reader(&mut state);
            state = session.sleep(Sleeper::Service, state, Instant::FAR_FUTURE);
            continue;
        }
        // There is no work. Before this thread sleeps, it reads once itself, if no other reads.
        let has_come;
        (state, has_come) = session.read_idle(state);
        if !has_come && !state.conn.has_work() && state.finished().is_none() {
            state = session.sleep(Sleeper::Service, state, Instant::FAR_FUTURE);
        }
    }
}

/// Calls the method of the service for one piece of work, and answers a request.
fn serve_one(session: &Arc<Session>, service: &mut dyn Service, peer: &Peer, work: Work) {
    match work {
        Work::Opened => service.opened(peer),
        Work::Batch(items) => service.batch(peer, items),
        Work::Request(message, ticket) => {
            let request = Request::new(session, message, ticket);
            if let Some(answer) = request.guard(|| service.request(peer, &request)) {
                // If the connection has closed meanwhile, no answer is awaited.
                let _ = request.answer(answer);
            }
        }
        Work::Notification(notification) => {
            service.notification(peer, Notification::new(peer.session(), notification));
        }
        Work::Cancelled(key, reason) => {
            let reason = reason.as_ref().map(|reason| reason.as_json());
            service.cancelled(peer, key, reason);
        }
        Work::Settled(settled) => {
            // The function that was passed to the call's `then`.
            if let Tag::Then(then) = settled.waiter {
                then(settled.outcome);
            }
        }
        Work::Report(report) => service.report(peer, report),
        // A later version of the core may add other kinds of work; they are ignored here.
        _ => {}
    }
}
