//! How far a request is on a server's connection, and how long that may last.
//!
//! ```text
//!   Waiting ──first byte of a request──▶ Head ──head complete──▶ Serving ──▶ Streaming
//!      ▲                                                            │ reply made  │ its end made
//!      └───────────────────some of it written────────────────── Replying ◀────────┘
//! ```
//!
//! Waiting and Head have a deadline. The others have none here: then the handler works, or
//! the body arrives, whose time the endpoint limits. Output that the client does not read has a
//! deadline of its own. So if a client sends too slowly, sends nothing or does not read, its
//! connection ends after a set time. A client that closes its sending side while its request is
//! handled gets the answer if that is made within `half_close_timeout`: hyper sees the end of input
//! only after the answer was written. While a stream of events is sent, the end of input ends the
//! connection at once: such a client reads until it closes. hyper does not read while it serves a
//! request and holds bytes of the next one, so the end is looked for here then.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::Instant;
use antiphon::http::RequestScan;

use super::body::Carrier;
use super::io::{Watch, after};
use super::options::HttpConfig;
use crate::server::Ending;
use antiphon_shell::{Io, Lock, SharedRuntime};

/// The phase of a server's connection. Its stream, the loop that polls hyper and the code that
/// serves its requests share it; all three run in one task.
pub(super) struct Phases {
    state: Lock<PhaseState>,
    runtime: SharedRuntime,
    header_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Option<Duration>,
    half_close_timeout: Option<Duration>,
}

struct PhaseState {
    phase: Phase,
    since: Instant,
    /// Since when the client takes no output.
    stuck_since: Option<Instant>,
    /// When the end of input was read.
    ended_at: Option<Instant>,
    /// Whether the connection was reset: nobody waits for the answer.
    is_reset: bool,
    end: EndOfInput,
    /// Counts the `Content-Length` lines of each head, because hyper drops some of them.
    scan: RequestScan,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Waiting,
    Head,
    Serving,
    Streaming,
    Replying,
}

/// Whether the end of input is hidden from hyper.
#[derive(Clone, Copy, Debug, PartialEq)]
enum EndOfInput {
    /// The end was not read yet, or hyper saw it when it was read.
    NotHidden,
    /// hyper was told that no input is there yet: if it saw the end, it would drop the request that
    /// it handles.
    Hidden,
    /// hyper sees the end at its next read.
    Shown,
}

impl PhaseState {
    /// Whether a request is being handled, or its answer written.
    fn is_at_work(&self) -> bool {
        self.runs_handlers() || self.phase == Phase::Replying || self.stuck_since.is_some()
    }

    fn runs_handlers(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::Streaming)
    }

    fn begin(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.since) = (phase, now);
    }
}

impl Phases {
    /// Makes the state of a connection whose first byte has arrived.
    pub(super) fn new(options: &HttpConfig, runtime: &SharedRuntime) -> Arc<Self> {
        let state = PhaseState {
            phase: Phase::Head,
            since: runtime.now(),
            stuck_since: None,
            ended_at: None,
            is_reset: false,
            end: EndOfInput::NotHidden,
            scan: RequestScan::new(),
        };
        let HttpConfig { connection, rules } = options;
        let timeouts = &connection.config.timeouts;
        Arc::new(Self {
            state: Lock::new(state),
            runtime: runtime.clone(),
            header_timeout: rules.header_timeout,
            idle_timeout: rules.idle_timeout,
            write_timeout: timeouts.write_timeout,
            half_close_timeout: rules.half_close_timeout.or(timeouts.drain_timeout),
        })
    }

    /// Whether hyper was given all input up to its end: an incomplete body will never be complete.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().end != EndOfInput::NotHidden
    }

    fn runs_handlers(&self) -> bool {
        self.state.lock().runs_handlers()
    }

    /// Notes that the end of input, or a reset, was read.
    fn note_end(&self, is_reset: bool) {
        let now = self.runtime.now();
        let mut state = self.state.lock();
        state.ended_at.get_or_insert(now);
        state.is_reset |= is_reset;
    }

    /// Notes that a head is complete, and returns how many `Content-Length` lines were counted in it. If its end
    /// was not found where hyper has found it, these are too many, so that the request is refused.
    pub(super) fn serving(&self) -> u32 {
        let mut state = self.state.lock();
        state.phase = Phase::Serving;
        state.scan.take_lengths().unwrap_or(u32::MAX)
    }

    /// Notes that the head of a stream of events has been made.
    pub(super) fn streaming(&self) {
        self.state.lock().phase = Phase::Streaming;
    }

    /// Notes that a reply has been made.
    pub(super) fn replying(&self) {
        self.state.lock().phase = Phase::Replying;
    }

    /// The time at which the connection's task has to end the connection.
    pub(super) fn due(&self) -> Instant {
        let state = self.state.lock();
        let stuck = state.stuck_since.map_or(Instant::FAR_FUTURE, |since| {
            after(since, self.write_timeout)
        });
        let end = match state.ended_at {
            Some(at) if state.is_reset || state.phase == Phase::Streaming => at,
            Some(at) => after(at, self.half_close_timeout),
            None => Instant::FAR_FUTURE,
        };
        match state.phase {
            Phase::Serving | Phase::Streaming => end.min(stuck),
            _ if state.stuck_since.is_some() => stuck,
            Phase::Waiting => state.since + self.idle_timeout,
            Phase::Head => state.since + self.header_timeout,
            Phase::Replying => Instant::FAR_FUTURE,
        }
    }

    /// Stops hiding the end of input if the work is done. Returns whether it did: hyper must then
    /// read again.
    pub(super) fn show_end_if_done(&self) -> bool {
        let mut state = self.state.lock();
        let shows = state.end == EndOfInput::Hidden && !state.is_at_work();
        if shows {
            state.end = EndOfInput::Shown;
        }
        shows
    }
}

/// The connection of an exchange. It counts as long as the exchange is there.
pub(super) struct OnConnection {
    phases: Arc<Phases>,
    ending: Ending,
}

impl OnConnection {
    pub(super) fn of(phases: &Arc<Phases>, ending: &Ending) -> Self {
        Self {
            phases: Arc::clone(phases),
            ending: ending.another(),
        }
    }
}

impl Clone for OnConnection {
    fn clone(&self) -> Self {
        Self::of(&self.phases, &self.ending)
    }
}

impl Carrier for OnConnection {
    fn has_ended(&self) -> bool {
        self.phases.has_ended()
    }

    fn ending(&mut self) -> &mut Ending {
        // The connection's task waits for it too, and polls the exchange through hyper.
        &mut self.ending
    }

    fn is_client_gone(&self) -> bool {
        self.phases.state.lock().ended_at.is_some()
    }

    fn stream_ended(&self) {
        self.phases.replying();
    }
}

/// How many bytes of the next requests are read while a request is served.
const MAX_AHEAD_BYTES: usize = 16 << 10;

/// The stream's side of [`Phases`].
pub(super) struct WatchedStream {
    phases: Arc<Phases>,
    /// Bytes that hyper has not read yet: the connection's first, and what [`look`](Watch::look) has
    /// read.
    ahead: Vec<u8>,
    /// Whether the end of input was read. It is behind the bytes of `ahead`.
    has_ended: bool,
    /// Whether hyper waits for input.
    is_waiting: bool,
}

impl WatchedStream {
    pub(super) fn new(phases: &Arc<Phases>, first: u8) -> Self {
        Self {
            phases: Arc::clone(phases),
            ahead: vec![first],
            has_ended: false,
            is_waiting: false,
        }
    }

    /// The bytes that hyper has not read.
    pub(super) fn into_ahead(self) -> Vec<u8> {
        self.ahead
    }

    /// Reads what is there for hyper; `Ok(0)` at the end of input.
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let n = self.ahead.len().min(buf.len());
        if n > 0 {
            buf[..n].copy_from_slice(&self.ahead[..n]);
            self.ahead.drain(..n);
            if self.ahead.is_empty() {
                self.ahead = Vec::new();
            }
            return Poll::Ready(Ok(n));
        }
        if self.has_ended {
            return Poll::Ready(Ok(0));
        }
        let read = io.poll_read(cx, buf);
        self.is_waiting = read.is_pending();
        if matches!(read, Poll::Ready(Ok(0))) {
            self.has_ended = true;
            self.phases.note_end(false);
        }
        read
    }
}

impl Watch for WatchedStream {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let n = ready!(self.poll_input(cx, io, buf))?;
        let now = self.phases.runtime.now();
        let mut state = self.phases.state.lock();
        if n == 0 {
            if state.is_at_work() && state.end != EndOfInput::Shown {
                state.end = EndOfInput::Hidden;
                return Poll::Pending;
            }
            return Poll::Ready(Ok(0));
        }
        // The next request may arrive before the last reply is written; it begins a head too.
        if matches!(state.phase, Phase::Waiting | Phase::Replying) {
            state.begin(Phase::Head, now);
        }
        state.scan.take(&buf[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = io.poll_write(cx, buf);
        if matches!(written, Poll::Ready(Err(_))) {
            self.phases.note_end(true);
        }
        let now = self.phases.runtime.now();
        let mut state = self.phases.state.lock();
        if matches!(state.phase, Phase::Waiting | Phase::Replying) {
            state.begin(Phase::Waiting, now);
        }
        written
    }

    fn look(&mut self, cx: &mut Context<'_>, io: &mut dyn Io) {
        let is_waiting = std::mem::take(&mut self.is_waiting);
        if is_waiting || self.has_ended || !self.phases.runs_handlers() {
            return;
        }
        let mut chunk = [0; 1024];
        while self.ahead.len() < MAX_AHEAD_BYTES {
            match io.poll_read(cx, &mut chunk) {
                Poll::Pending => return,
                Poll::Ready(Ok(n @ 1..)) => self.ahead.extend_from_slice(&chunk[..n]),
                Poll::Ready(end) => {
                    self.has_ended = true;
                    return self.phases.note_end(end.is_err());
                }
            }
        }
    }

    fn flushed(&mut self, is_done: bool) {
        let mut state = self.phases.state.lock();
        let stuck_since = state.stuck_since.take();
        if !is_done {
            let now = || self.phases.runtime.now();
            state.stuck_since = Some(stuck_since.unwrap_or_else(now));
        } else if stuck_since.is_some() && state.phase == Phase::Waiting {
            state.since = self.phases.runtime.now();
        }
    }
}
