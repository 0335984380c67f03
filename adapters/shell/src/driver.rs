//! One connection as one future: its bytes, its deadlines and its handlers.
//!
//! ```text
//!   Open ──Next::Over──▶ Closing ──our end sent──▶ Lingering ──their end, or late──▶ Serving ──▶ Done
//!                                                            what came in is still served
//! ```
//!
//! A step of an open connection: read, one [turn](Session::turn) under the lock, run handlers,
//! write. The driver reads and writes while handlers run, so a handler can wait for the peer. Which
//! messages may begin while others are handled is set by the connection's [`Order`](antiphon::session::Order).
//! Output that is half written stays in the driver, so no byte is lost between two polls. An idle
//! connection has no buffer for reading, and keeps one of 4 KiB at most for writing.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use crate::context::Context;
use crate::debug_fields;
use crate::options::ConnectionConfig;
use crate::session::{Brought, Carries, Moved, Next, Sent, Session, WorkBatch};
#[cfg(feature = "websocket")]
use antiphon::session::Handshake;
use antiphon::{Closed, Instant};

use crate::io::Io;
use crate::peer::Peer;
use crate::runtime::{SharedRuntime, Timer};
use crate::scratch::with_scratch;
use crate::serve::handlers::Handlers;
use crate::serve::service::Service;

/// The largest output buffer that is kept for the next time, in bytes.
const OUTPUT_BYTES_KEPT: usize = 4 * 1024;

/// How many steps are made in one poll before other tasks may run.
const MAX_STEPS: u32 = 64;

/// After this many reads in a row deadlines take effect although there is more to read, so that a
/// peer that never stops writing cannot postpone them for ever.
const MAX_READS: u32 = 4096;

/// Prepares a connection. Returns the handle to its other side, and the driver, which must be
/// awaited to run it. If the transport delivers whole messages, that is the framing, whatever the
/// options say.
pub fn drive<S: Service>(
    mut io: Box<dyn Io>,
    context: Context,
    options: impl Into<Arc<ConnectionConfig>>,
    service: Arc<S>,
    runtime: &SharedRuntime,
) -> (Peer, Driver) {
    let carries = match io.as_messages() {
        Some(_) => Carries::Messages,
        None => Carries::Bytes,
    };
    let session = Session::new(options, carries, context, Arc::clone(runtime));
    drive_session(io, session, service)
}

/// Prepares a connection over the WebSocket of the options, as [`drive`] does, after a handshake that was answered
/// elsewhere. The transport carries frames from now on.
#[cfg(feature = "websocket")]
pub fn drive_accepted<S: Service>(
    io: Box<dyn Io>,
    context: Context,
    options: impl Into<Arc<ConnectionConfig>>,
    handshake: Handshake,
    service: Arc<S>,
    runtime: &SharedRuntime,
) -> (Peer, Driver) {
    let carries = Carries::Frames(handshake);
    let session = Session::new(options, carries, context, Arc::clone(runtime));
    drive_session(io, session, service)
}

/// Like [`drive`], for an existing session.
pub(crate) fn drive_session<S: Service>(
    io: Box<dyn Io>,
    session: Arc<Session>,
    service: Arc<S>,
) -> (Peer, Driver) {
    let handlers = Handlers::new(Peer::unowned(Arc::clone(&session)), service);
    let peer = Peer::owning(Arc::clone(&session));
    let batch = WorkBatch {
        is_in_turn: handlers.is_in_turn,
        ..WorkBatch::default()
    };
    let driver = Driver {
        session,
        handlers,
        batch,
        io: Some(io),
        output: Output::default(),
        is_input_over: false,
        wants_input: true,
        reads: 0,
        timer: None,
        stage: Stage::Open,
        ended: None,
    };
    (peer, driver)
}

/// Runs one connection; ready when it has ended, with the reason. Made by [`drive`]. Dropping it
/// earlier ends the connection.
///
/// # Errors
/// The transport failed before the connection was meant to end.
#[must_use = "nothing happens before it is awaited"]
pub struct Driver {
    session: Arc<Session>,
    handlers: Handlers,
    /// The work that was taken from the session in one turn. Empty between two steps.
    batch: WorkBatch,
    /// `None` after the transport was dropped.
    io: Option<Box<dyn Io>>,
    output: Output,
    is_input_over: bool,
    /// Whether the session wanted input after the last turn.
    wants_input: bool,
    /// How many reads in a row have returned something, or were interrupted.
    reads: u32,
    timer: Option<Box<dyn Timer>>,
    stage: Stage,
    /// How the connection ended, if it ended while [`run_until`](Self::run_until) ran.
    ended: Option<io::Result<Closed>>,
}

#[derive(Clone, Copy)]
enum Stage {
    Open,
    /// Our end of the stream is being sent, until this time at most.
    Closing(Instant),
    /// We wait for the other side's end, until this time at most.
    Lingering(Instant),
    /// The transport was dropped; received messages are still handled, until this time at most.
    Serving(Instant),
    Done,
}

/// The output that is being written.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    /// How many of the bytes have been written.
    written: usize,
    /// Whether bytes have been written that have not been flushed.
    is_flushing: bool,
    /// Whether the session knows that this output waits for space.
    has_waited: bool,
    has_failed: bool,
    /// The result of writing, until the next turn reports it to the session.
    sent: Sent,
}

impl Future for Driver {
    type Output = io::Result<Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(ended) = this.ended.take() {
            return Poll::Ready(ended);
        }
        loop {
            match this.stage {
                Stage::Open => ready!(this.poll_open(cx)),
                Stage::Closing(until) | Stage::Lingering(until) => {
                    this.handlers.poll(cx);
                    ready!(this.poll_end(cx, until));
                    this.let_go();
                }
                Stage::Serving(until) => return this.poll_rest(cx, until),
                // Polled after its end: the result was returned before.
                Stage::Done => return Poll::Pending,
            }
        }
    }
}

impl Driver {
    /// Runs the connection on this task while `work` runs, and returns the result of `work`.
    /// Afterwards the driver can be run further, here or in another task.
    ///
    /// A program that only calls needs no second task, and no switch of tasks per answer. If the
    /// connection ends first, `work` goes on: its calls end as closed, and awaiting the driver then
    /// returns the reason. Cancel safe.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer, mut driver: antiphon_shell::Driver) -> Result<(), antiphon_shell::CallError> {
    /// let sum: i64 = driver.run_until(peer.call("add", &(1, 2))).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run_until<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| {
            // The driver is polled first, since `work` usually waits for input.
            self.poll_and_keep(cx);
            let done = work.as_mut().poll(cx);
            if done.is_pending() {
                // Calls that `work` has just made are sent now.
                self.poll_and_keep(cx);
            }
            done
        })
        .await
    }

    /// Does everything that is possible now, and stores the end for later.
    fn poll_and_keep(&mut self, cx: &mut TaskContext<'_>) {
        if self.ended.is_none() {
            // `poll_open` would let other tasks run first, so that they make their calls. Here the
            // caller is `work`, which this task polls itself.
            self.session.take_called();
            if let Poll::Ready(ended) = Pin::new(&mut *self).poll(cx) {
                self.ended = Some(ended);
            }
        }
    }

    /// Moves bytes and runs handlers until the session is over.
    fn poll_open(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        // A caller has woken this task. Other callers that are ready run first, so that their calls are
        // sent in one write: 64 callers in a loop then take a third of the time (`benches/echo`,
        // mode `crowd`).
        if self.session.take_called() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        with_scratch(|scratch| self.poll_steps(cx, scratch))
    }

    fn poll_steps(&mut self, cx: &mut TaskContext<'_>, scratch: &mut [u8]) -> Poll<()> {
        self.handlers.poll(cx);
        self.write(cx);
        // A stream that had nothing to read is not read again in the same poll.
        let mut may_ask = true;
        // Also for the steps after the first: it is the time before they read.
        let mut now = self.session.now();
        for _ in 0..MAX_STEPS {
            let reads_on = self.wants_input && !self.is_input_over;
            let is_asked = reads_on && may_ask;
            let input = match is_asked {
                true => self.read(cx, scratch),
                false => Poll::Pending,
            };
            let is_read = input.is_ready();
            may_ask &= is_read || !is_asked;
            self.reads = if is_read {
                self.reads.saturating_add(1)
            } else {
                0
            };
            let is_all_read = (is_asked && !is_read) || !reads_on;
            let next = self.session.turn(
                Moved {
                    now,
                    input: match input {
                        Poll::Ready(input) => input,
                        Poll::Pending => Brought::Nothing,
                    },
                    is_drained: is_all_read || self.reads > MAX_READS,
                    sent: std::mem::take(&mut self.output.sent),
                    requests: self
                        .handlers
                        .requests(cx, self.session.max_running_requests()),
                    is_serving: self.handlers.has_notified(),
                },
                |state| self.handlers.send_answers(state),
                &mut self.batch,
                &mut self.output.bytes,
                cx.waker(),
            );
            self.handlers.begin(cx, &self.session, &mut self.batch);
            self.write(cx);
            let (wake_at, wants_input) = match next {
                Next::Busy { wants_input } => {
                    self.wants_input = wants_input;
                    continue;
                }
                Next::Over => {
                    let until = self.session.now() + self.session.linger();
                    self.stage = Stage::Closing(until);
                    return Poll::Ready(());
                }
                Next::Sleep {
                    wake_at,
                    wants_input,
                } => (wake_at, wants_input),
            };
            let is_resumed = wants_input && !self.wants_input;
            self.wants_input = wants_input;
            if self.poll_sleep(cx, wake_at).is_ready() {
                // Input that arrived before the timer fired is read before a deadline takes effect.
                (may_ask, now) = (true, self.session.now());
            } else if !is_read && !is_resumed && matches!(self.output.sent, Sent::Nothing) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once; pending if nothing more has arrived. A read that was interrupted brings nothing, but
    /// more may have arrived.
    fn read<'b>(&mut self, cx: &mut TaskContext<'_>, scratch: &'b mut [u8]) -> Poll<Brought<'b>> {
        let Some(io) = self.io.as_mut() else {
            return Poll::Pending;
        };
        let read = match io.as_messages() {
            Some(messages) => messages.poll_receive(cx).map_ok(|message| match message {
                Some(message) => Brought::Message(message),
                None => Brought::End,
            }),
            None => io.poll_read(cx, scratch).map_ok(|n| match n {
                0 => Brought::End,
                n => Brought::Bytes(&scratch[..n.min(scratch.len())]),
            }),
        };
        Poll::Ready(match ready!(read) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Brought::Nothing,
            Ok(brought @ (Brought::Bytes(_) | Brought::Message(_))) => brought,
            ended => {
                self.is_input_over = true;
                ended.unwrap_or_else(|error| Brought::Failed(error.into()))
            }
        })
    }

    /// Writes the output, as much as the transport takes.
    fn write(&mut self, cx: &mut TaskContext<'_>) {
        if let Some(io) = self.io.as_mut() {
            if let Poll::Ready(Err(error)) = self.output.poll_write(cx, &mut **io) {
                self.output.fail(error);
            }
        }
    }

    /// Ends our stream, and waits for the end of theirs, for `linger` at most.
    fn poll_end(&mut self, cx: &mut TaskContext<'_>, until: Instant) -> Poll<()> {
        if self.poll_sleep(cx, until).is_ready() {
            return Poll::Ready(());
        }
        let Some(io) = self.io.as_mut() else {
            return Poll::Ready(());
        };
        if matches!(self.stage, Stage::Closing(_)) {
            let is_closed = ready!(io.poll_close(cx)).is_ok();
            // After a failed write the session has read on for `linger` before it was over, so the
            // other side's end is not awaited a second time.
            if !is_closed || self.output.has_failed {
                return Poll::Ready(());
            }
            self.stage = Stage::Lingering(until);
        }
        if self.is_input_over || !io.awaits_end() {
            return Poll::Ready(());
        }
        let mut ignored = [0; 1024];
        for _ in 0..MAX_STEPS {
            match ready!(io.poll_read(cx, &mut ignored)) {
                Ok(n) if n > 0 => {}
                _ => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Drops the transport.
    fn let_go(&mut self) {
        (self.io, self.timer) = (None, None);
        self.session.let_go();
        let span = self.session.options().config.timeouts.drain_timeout;
        let until = span.map_or(Instant::FAR_FUTURE, |span| self.session.now() + span);
        self.stage = Stage::Serving(until);
    }

    /// Handles messages that arrived before the end.
    fn poll_rest(&mut self, cx: &mut TaskContext<'_>, until: Instant) -> Poll<io::Result<Closed>> {
        loop {
            self.handlers.poll(cx);
            if self.session.has_exited() {
                self.handlers.drop_notified();
            }
            let max_running_requests = self.session.max_running_requests();
            if let Some(requests) = self.handlers.requests(cx, max_running_requests) {
                self.session.take_work(&mut self.batch, requests);
            }
            if self.batch.work.is_empty() {
                break;
            }
            self.handlers.begin(cx, &self.session, &mut self.batch);
        }
        let is_served = !self.session.has_work() && !self.handlers.has_notified();
        if !is_served && self.poll_sleep(cx, until).is_pending() {
            return Poll::Pending;
        }
        self.stage = Stage::Done;
        let (why, fault) = self.session.finished();
        self.handlers.finish(why);
        self.session.let_work_go();
        Poll::Ready(fault.map_or(Ok(why), Err))
    }

    fn poll_sleep(&mut self, cx: &mut TaskContext<'_>, at: Instant) -> Poll<()> {
        if at == Instant::FAR_FUTURE {
            return Poll::Pending;
        }
        let timer = self
            .timer
            .get_or_insert_with(|| self.session.runtime().timer());
        timer.poll_until(at, cx)
    }
}

impl Output {
    /// Writes the output, and notes the result.
    fn poll_write(&mut self, cx: &mut TaskContext<'_>, io: &mut dyn Io) -> Poll<io::Result<()>> {
        while !self.bytes.is_empty() {
            match io.poll_write(cx, &self.bytes[self.written..]) {
                Poll::Pending => return self.wait(),
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => self.written += n,
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
            self.is_flushing = true;
            if self.written < self.bytes.len() {
                (self.has_waited, self.sent) = (true, Sent::Some);
                continue;
            }
            self.written = 0;
            self.bytes.clear();
            self.bytes.shrink_to(OUTPUT_BYTES_KEPT);
        }
        if self.is_flushing {
            match io.poll_flush(cx) {
                Poll::Pending => return self.wait(),
                Poll::Ready(flushed) => flushed?,
            }
            (self.is_flushing, self.has_waited, self.sent) = (false, false, Sent::All);
        }
        Poll::Ready(Ok(()))
    }

    /// Notes that the output waits, so that the session counts the time from now on.
    fn wait(&mut self) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.has_waited, true) {
            self.sent = Sent::Some;
        }
        Poll::Pending
    }

    fn fail(&mut self, error: io::Error) {
        *self = Self {
            has_failed: true,
            sent: Sent::Failed(error.into()),
            ..Self::default()
        };
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Done) {
            return;
        }
        self.session.abort(None);
        self.session.let_go();
        let (why, _) = self.session.finished();
        self.handlers.finish(why);
        self.session.let_work_go();
    }
}

debug_fields!(impl[] Driver as "Driver" { session, handlers });
