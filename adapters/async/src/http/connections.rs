//! A client's own connections: so many, kept for a while, and never asked twice for what may have
//! been done.
//!
//! ```text
//!   send ──▶ idle one? ──▶ its task: request ──▶ reply ──▶ next in line, or idle again
//!              │ none                  ├ dropped, broken ──▶ the task ends, its place is free
//!              │                       └ the server's last reply ──▶ likewise
//!              ├ a place is free ──▶ connect ──▶ a task of its own
//!              └ none ──▶ wait in line for either
//! ```
//!
//! A request is served by its connection's task from the first byte to the last: whoever asked is
//! woken once, with the whole reply.
//!
//! A place is taken until the stream is let go, so the server never sees more than the limit. A
//! request is sent again only if hyper gave it back unsent, or if the server cannot have read it: see
//! [`Kept`](antiphon_session::http::Kept).

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antiphon::Instant;
use antiphon_session::http::{HttpClientOptions, HttpError, HttpRequest, HttpResponse, HttpUrl};
use http_body_util::Full;
use hyper::client::conn::http1::Builder;

use super::client::{HttpSend, Sending};
use super::job::{Body, Failed, Job, Reuse, Sender, Stage, Step, Target, header_map, register};
use super::stream::{HyperIo, NextRequest};
use crate::client::Connect;
use crate::runtime::{SharedRuntime, Timer, until};

/// The most bytes of a reply that hyper holds at once.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// A connection of hyper.
type Conn = hyper::client::conn::http1::Connection<HyperIo, Full<Body>>;

/// Connections to one server, made when they are needed. Dropped, it closes those that are idle at
/// once and the others with their replies.
pub struct Connections {
    inner: Arc<Inner>,
}

struct Inner {
    connect: Box<dyn Connect>,
    runtime: SharedRuntime,
    connections_max: usize,
    connect_time_max: Duration,
    idle_time_max: Duration,
    write_time_max: Option<Duration>,
    header_bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The latest to become idle last, each with the time until which it is kept.
    idle: Vec<(Arc<Desk>, Instant)>,
    /// How many places are taken.
    places: usize,
    /// What waits for a connection or a place, the longest first.
    waiting: VecDeque<Arc<Job>>,
    /// Where the last request went.
    target: Option<Arc<Target>>,
}

/// Where an idle connection is handed the next request.
#[derive(Default)]
struct Desk {
    state: Mutex<DeskState>,
}

#[derive(Default)]
struct DeskState {
    next: Option<Arc<Job>>,
    /// Nothing more will come.
    is_closed: bool,
    /// The connection's task.
    server: Option<Waker>,
}

/// The right to one connection. Dropped, it goes to the next in line.
pub(super) struct Place {
    inner: Weak<Inner>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.free();
        }
    }
}

// Nothing that can panic runs under either of these locks.

impl Desk {
    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Under the lock of the line, so that a caller who finds the desk no longer idle finds the job. Gives
    /// the task to be woken; no job is taken where the connection is over.
    fn hand(&self, job: &Arc<Job>) -> Result<Option<Waker>, Option<Waker>> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(state.server.take());
        }
        state.next = Some(Arc::clone(job));
        Ok(state.server.take())
    }

    /// Takes nothing more. Gives the task to be woken.
    fn close(&self) -> Option<Waker> {
        let mut state = self.lock();
        state.is_closed = true;
        state.server.take()
    }

    /// Ready with the next request; none if none will come.
    fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Arc<Job>>> {
        let mut state = self.lock();
        if let Some(job) = state.next.take() {
            return Poll::Ready(Some(job));
        }
        if state.is_closed {
            return Poll::Ready(None);
        }
        register(&mut state.server, cx);
        Poll::Pending
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a request to an idle connection, or has whoever asked make one, or lets it wait.
    fn hand(self: &Arc<Self>, job: &Arc<Job>) {
        let now = self.runtime.now();
        let mut state = self.lock();
        while let Some((desk, until)) = state.idle.pop() {
            // Time may have passed that its task has not noticed.
            let handed = match until > now {
                true => desk.hand(job),
                false => Err(desk.close()),
            };
            let (is_handed, task) = match handed {
                Ok(task) => (true, task),
                Err(task) => (false, task),
            };
            drop(state);
            task.into_iter().for_each(Waker::wake);
            if is_handed {
                return;
            }
            state = self.lock();
        }
        if state.places < self.connections_max {
            state.places += 1;
            let inner = Arc::downgrade(self);
            drop(state);
            Arc::clone(job).advance(Stage::Placed(Place { inner }));
        } else {
            state.waiting.push_back(Arc::clone(job));
        }
    }

    /// The next request in line, for a connection that has done with its last one; if there is
    /// none it is idle, for `idle_time_max`.
    fn next(&self, desk: &Arc<Desk>, idle_time_max: Duration) -> Option<Arc<Job>> {
        loop {
            let mut state = self.lock();
            let Some(job) = state.waiting.pop_front() else {
                let until = self.runtime.now() + idle_time_max;
                state.idle.push((Arc::clone(desk), until));
                return None;
            };
            drop(state);
            if !job.is_given_up() {
                return Some(job);
            }
        }
    }

    /// Gives a place that has become free to whoever has waited longest.
    fn free(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            let Some(job) = state.waiting.pop_front() else {
                state.places -= 1;
                return;
            };
            drop(state);
            if !job.is_given_up() {
                let inner = Arc::downgrade(self);
                job.advance(Stage::Placed(Place { inner }));
                return;
            }
        }
    }

    /// When an idle connection has been kept long enough; none for one that is at work.
    fn idle_until(&self, desk: &Arc<Desk>) -> Option<Instant> {
        let state = self.lock();
        let mut idle = state.idle.iter();
        let found = idle.find(|(found, _)| Arc::ptr_eq(found, desk))?;
        Some(found.1)
    }

    /// Lets go of a connection if it is idle: no request is handed to it any more. One that is not has
    /// been handed its last.
    fn forget(&self, desk: &Arc<Desk>) -> bool {
        let mut state = self.lock();
        let mut idle = state.idle.iter();
        let found = idle.position(|(found, _)| Arc::ptr_eq(found, desk));
        let forgotten = found.map(|at| state.idle.remove(at));
        drop(state);
        forgotten.is_some()
    }

    /// Makes a connection for a request, and lets it run on a task of its own, which holds the
    /// place.
    async fn open(self: &Arc<Self>, place: Place, job: &Arc<Job>) -> Result<(), HttpError> {
        let due = self.runtime.now() + self.connect_time_max;
        let connecting = until(&*self.runtime, due, self.connect.connect());
        let link = match connecting.await {
            Some(link) => link.map_err(HttpError::Connect)?,
            None => return Err(HttpError::Connect(io::ErrorKind::TimedOut.into())),
        };
        let io = HyperIo::new(
            link.io,
            None,
            None,
            self.write_time_max,
            Duration::ZERO,
            Arc::clone(&self.runtime),
        );
        let next = NextRequest::default();
        let io = io.for_client(next.clone());
        let mut builder = Builder::new();
        builder
            .max_header_size(self.header_bytes_max)
            .max_buf_size(BUFFER_BYTES_MAX.max(self.header_bytes_max));
        let (sender, conn) = builder.handshake(io).await.map_err(unsent)?;
        let running = Running {
            inner: Arc::downgrade(self),
            desk: Arc::default(),
            job: Some(Arc::clone(job)),
            is_sent: false,
            place: Some(place),
        };
        let runtime = Arc::clone(&self.runtime);
        let sender = Sender::new(sender, next);
        self.runtime
            .spawn(Box::pin(run(conn, sender, runtime, running)));
        Ok(())
    }

    async fn send(self: &Arc<Self>, asked: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let job = Arc::new(Job::new(self.target(&asked.url)?, asked));
        let waiting = Waiting(self, &job);
        self.hand(waiting.1);
        loop {
            match poll_fn(|cx| waiting.1.poll_step(cx)).await {
                // Apart, for it is large and rare.
                Step::Open(place) => Box::pin(self.open(place, waiting.1)).await?,
                Step::Done(replied) => return replied,
            }
        }
    }

    /// What the head of a request to `url` says of it. Mostly that is where the last one went.
    fn target(&self, url: &HttpUrl) -> Result<Arc<Target>, HttpError> {
        let mut state = self.lock();
        if let Some(known) = state.target.as_ref().filter(|known| known.is_at(url)) {
            return Ok(Arc::clone(known));
        }
        let target = Arc::new(Target::new(url)?);
        state.target = Some(Arc::clone(&target));
        Ok(target)
    }
}

/// Nobody will ask any more.
impl Drop for Inner {
    fn drop(&mut self) {
        let idle = mem::take(&mut self.lock().idle);
        let closed = idle.iter().filter_map(|(desk, _)| desk.close());
        closed.for_each(Waker::wake);
    }
}

/// Somebody who asked. Dropped before the reply, it leaves the line, lets the next have the place
/// that was granted, or ends the connection that serves it.
struct Waiting<'a>(&'a Arc<Inner>, &'a Arc<Job>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let (stage, server) = self.1.give_up();
        match (stage, server) {
            (Stage::Waiting, Some(server)) => server.wake(),
            (Stage::Waiting, None) => {
                let mut state = self.0.lock();
                state.waiting.retain(|job| !Arc::ptr_eq(job, self.1));
            }
            // A place goes to the next with it.
            (Stage::Placed(_) | Stage::Done(_) | Stage::GivenUp, _) => {}
        }
    }
}

/// What a connection's task knows, and what it leaves behind when it ends or is dropped.
struct Running {
    inner: Weak<Inner>,
    desk: Arc<Desk>,
    /// What it serves, and whether the server may have seen of it.
    job: Option<Arc<Job>>,
    is_sent: bool,
    place: Option<Place>,
}

impl Running {
    /// Serves one request after the other. Ends with the connection, or once nobody asks any more.
    async fn serve(&mut self, mut sender: Sender, runtime: &SharedRuntime) {
        let mut timer = runtime.timer();
        // It cannot have been idle for too long before then.
        let mut due = Instant::ZERO;
        while let Some(job) = self.job.clone() {
            // Of what was given up before, nothing is sent.
            let mut outcome = None;
            let mut reuse = Reuse::Yes;
            if !job.is_given_up() {
                self.is_sent = true;
                outcome = Some(match job.serve(&mut sender).await {
                    Ok((response, found)) => {
                        reuse = found;
                        Ok(response)
                    }
                    Err(Failed::Error(error)) => Err(error),
                    Err(Failed::Unsent) => {
                        self.is_sent = false;
                        return;
                    }
                    Err(Failed::GivenUp) => return,
                });
            }
            let has_failed = matches!(outcome, Some(Err(_)));
            let inner = self.inner.upgrade();
            // A connection that is over, or about to be, is given nothing more.
            let inner = inner.filter(|_| !has_failed && reuse != Reuse::No);
            self.job = inner.as_ref().and_then(|inner| {
                let span = match reuse {
                    Reuse::For(span) => {
                        // The timer may have been set for a later time.
                        due = Instant::ZERO;
                        span.min(inner.idle_time_max)
                    }
                    Reuse::Yes | Reuse::No => inner.idle_time_max,
                };
                inner.next(&self.desk, span)
            });
            // Who asks again at once finds it idle.
            if let Some(outcome) = outcome {
                job.advance(Stage::Done(outcome));
            }
            if inner.is_none() {
                return;
            }
            drop(inner);
            if self.job.is_none() {
                self.job = self.wait(runtime, &mut *timer, &mut due).await;
            }
        }
    }

    /// Waits for the next request; none if it has been idle for too long, or nobody asks any more.
    async fn wait(
        &self,
        runtime: &SharedRuntime,
        timer: &mut dyn Timer,
        due: &mut Instant,
    ) -> Option<Arc<Job>> {
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(next) = self.desk.poll_next(cx) {
                    return Poll::Ready(next);
                }
                // While it is at work it does not become idle for too long, so the timer stays.
                if timer.poll_until(*due, cx).is_pending() {
                    return Poll::Pending;
                }
                let Some(inner) = self.inner.upgrade() else {
                    return Poll::Ready(None);
                };
                match inner.idle_until(&self.desk) {
                    Some(until) if until > runtime.now() => *due = until,
                    Some(_) if inner.forget(&self.desk) => return Poll::Ready(None),
                    // It has been handed a request.
                    Some(_) | None => {}
                }
            }
        })
        .await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else {
            return;
        };
        inner.forget(&self.desk);
        let handed = self.desk.lock().next.take();
        let (job, is_sent) = match self.job.take() {
            Some(job) => (job, self.is_sent),
            None => match handed {
                Some(job) => (job, false),
                None => return,
            },
        };
        if is_sent {
            let ended = io::Error::new(io::ErrorKind::ConnectionAborted, "its task was ended");
            job.advance(Stage::Done(Err(HttpError::Lost(ended))));
        } else if let Some(place) = self
            .place
            .take()
            .filter(|_| job.may_be_tried(inner.connections_max))
        {
            job.advance(Stage::Placed(place));
        } else {
            let broken = io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the server closes every connection before it is used",
            );
            job.advance(Stage::Done(Err(HttpError::Unsent(broken))));
        }
    }
}

/// Runs a connection until it ends or has been idle for too long.
///
/// What is given last is dropped last, whether or not it was ever polled: the stream before its place.
async fn run(conn: Conn, sender: Sender, runtime: SharedRuntime, running: Running) {
    let mut running = running;
    let desk = Arc::clone(&running.desk);
    let mut conn = pin!(Some(conn));
    {
        let mut serving = pin!(running.serve(sender, &runtime));
        poll_fn(|cx| {
            // First, so that what is asked goes out at once.
            if serving.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let polled = conn.as_mut().as_pin_mut().map(|conn| conn.poll(cx));
            if polled.is_some_and(|polled| polled.is_ready()) {
                desk.close().into_iter().for_each(Waker::wake);
                // What was handed to it and not sent comes back: hyper holds it until then.
                conn.set(None);
            }
            // A reply may have come in.
            serving.as_mut().poll(cx)
        })
        .await;
    }
    if let Some(conn) = conn.as_pin_mut() {
        // Nothing more is asked; it ends with what is under way.
        let _ = conn.await;
    }
}

fn unsent(error: hyper::Error) -> HttpError {
    HttpError::Unsent(io::Error::other(error))
}

impl Connections {
    /// Connections made by `connect`, as many and for as long as `options` says.
    ///
    /// # Errors
    /// [`HttpError::Header`] for one that cannot be sent.
    pub fn new(
        options: &HttpClientOptions,
        connect: impl Connect,
        runtime: SharedRuntime,
    ) -> Result<Self, HttpError> {
        // A header that is of no use is better told now than by every call.
        header_map(&options.headers)?;
        let inner = Inner {
            connect: Box::new(connect),
            runtime,
            connections_max: options.connections_max.max(1),
            connect_time_max: options.connect_time_max,
            idle_time_max: options.idle_time_max,
            write_time_max: options.config.write_time_max,
            header_bytes_max: options.header_bytes_max,
            state: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// How many connections there are, those that are being made included.
    pub fn open(&self) -> usize {
        self.inner.lock().places
    }
}

impl HttpSend for Connections {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> Sending<'a> {
        Box::pin(self.inner.send(request))
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.lock();
        f.debug_struct("Connections")
            .field("places", &state.places)
            .field("idle", &state.idle.len())
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}
