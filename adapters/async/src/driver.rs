//! One connection as one future: its bytes, its deadlines and its handlers.
//!
//! ```text
//!   Moving ──transport let go──▶ Serving the rest ──all begun, or drain_time_max──▶ Done
//! ```
//!
//! The rule guarded here: nothing that a handler waits for waits for that handler, and a driver
//! that is dropped half way leaves nobody waiting and nothing behind.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use antiphon::{Closed, Framing, Instant};
use antiphon_session::{Handle, Machine, Options, Session};

use crate::beside::run_until;
use crate::dispatch::Dispatch;
use crate::io::Io;
use crate::link::Link;
use crate::peer::Peer;
use crate::pump::Pump;
use crate::runtime::{SharedRuntime, Timer};
use crate::service::Service;

/// Prepares a connection: the handle to its other side, and the driver that runs it wherever the
/// caller awaits it. Over a transport of whole messages the framing is that, whatever the options
/// say.
pub fn drive<S: Service>(
    mut link: Link,
    mut options: Options,
    service: Arc<S>,
    runtime: &SharedRuntime,
) -> (Peer, Driver) {
    if link.io.as_messages().is_some() {
        options.config.framing = Framing::Messages;
    }
    let clock = Arc::new(RuntimeClock(Arc::clone(runtime)));
    let session = Arc::new(Session::new(options, link.context, clock));
    drive_session(link.io, session, service, runtime)
}

/// The same for a session that has been made already.
pub fn drive_session<S: Service>(
    io: Box<dyn Io>,
    session: Arc<Session>,
    service: Arc<S>,
    runtime: &SharedRuntime,
) -> (Peer, Driver) {
    let unowned = Handle::unowned(Arc::clone(&session));
    let dispatch = Dispatch::new(Peer::new(unowned, Arc::clone(runtime)), service);
    let peer = Peer::new(Handle::owning(Arc::clone(&session)), Arc::clone(runtime));
    let driver = Driver {
        session,
        runtime: Arc::clone(runtime),
        dispatch,
        stage: Stage::Moving(Box::new(Pump::new(io))),
        ended: None,
    };
    (peer, driver)
}

/// A runtime as the clock that it is.
pub(crate) struct RuntimeClock(pub(crate) SharedRuntime);

impl antiphon_session::Clock for RuntimeClock {
    fn now(&self) -> Instant {
        self.0.now()
    }
}

/// Runs one connection; ready when it has ended, with the reason. Made by [`drive`]. Dropped
/// before, it ends the connection.
///
/// # Errors
/// The transport failed before the connection was meant to end.
#[must_use = "nothing happens before it is awaited"]
pub struct Driver {
    session: Arc<Session>,
    runtime: SharedRuntime,
    dispatch: Dispatch,
    stage: Stage,
    /// How it ended, if that was [beside](Self::run_until) something else.
    ended: Option<io::Result<Closed>>,
}

enum Stage {
    Moving(Box<Pump>),
    /// The transport has been let go; what came in is still served, until then.
    Serving(Instant, Box<dyn Timer>),
    Done,
}

impl Future for Driver {
    type Output = io::Result<Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(ended) = this.ended.take() {
            return Poll::Ready(ended);
        }
        loop {
            match &mut this.stage {
                Stage::Moving(pump) => {
                    let (dispatch, session) = (&mut this.dispatch, &this.session);
                    let work = |cx: &mut Context<'_>| dispatch.poll(cx, session);
                    if pump
                        .poll(cx, &*this.session, &*this.runtime, work)
                        .is_pending()
                    {
                        return Poll::Pending;
                    }
                    let span = this.session.options().config.drain_time_max;
                    let until = span.map_or(Instant::FAR_FUTURE, |span| this.session.now() + span);
                    this.stage = Stage::Serving(until, this.runtime.timer());
                }
                Stage::Serving(until, timer) => {
                    this.dispatch.poll(cx, &this.session);
                    let is_late = timer.poll_until(*until, cx).is_ready();
                    let has_work = this.session.lock().conn.has_work();
                    if (has_work || !this.dispatch.is_through()) && !is_late {
                        return Poll::Pending;
                    }
                    this.stage = Stage::Done;
                    let state = this.session.lock();
                    let why = state.finished().unwrap_or(Closed::EndOfInput);
                    let fault = state.fault();
                    drop(state);
                    this.dispatch.finish(why);
                    this.session.let_work_go();
                    return Poll::Ready(fault.map_or(Ok(why), Err));
                }
                // Polled after its end: it has said everything.
                Stage::Done => return Poll::Pending,
            }
        }
    }
}

impl Driver {
    /// Runs the connection on this task while `work` is under way, and gives what came of it. Afterwards
    /// the driver goes on where it was, here or wherever it is awaited.
    ///
    /// A program that only asks needs no task beside its own, and is not woken by one for each answer.
    /// If the connection ends first, `work` goes on: its calls settle as closed, and awaiting the
    /// driver then says why. Cancel safe.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_async::Peer, mut driver: antiphon_async::Driver) -> Result<(), antiphon_async::CallError> {
    /// let sum: i64 = driver.run_until(peer.call("add", &(1, 2))).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run_until<F: Future>(&mut self, work: F) -> F::Output {
        run_until(self, work).await
    }

    /// Does what can be done now, and keeps the end for whoever awaits it.
    pub(crate) fn poll_beside(&mut self, cx: &mut Context<'_>) {
        if self.ended.is_none() {
            if let Poll::Ready(ended) = Pin::new(&mut *self).poll(cx) {
                self.ended = Some(ended);
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Done) {
            return;
        }
        self.session.abort(None);
        self.session.finished();
        let why = self.session.lock().finished();
        self.dispatch.finish(why.unwrap_or(Closed::EndOfInput));
        self.session.let_work_go();
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("session", &self.session)
            .field("dispatch", &self.dispatch)
            .finish_non_exhaustive()
    }
}
