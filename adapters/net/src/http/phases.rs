//! How far a request is on a server's connection, and how long that may last.
//!
//! ```text
//!   Waiting ──first byte of a request──▶ Head ──head complete──▶ Serving
//!      ▲                                                            │ reply made
//!      └───────────────────some of it written────────────────── Replying
//! ```
//!
//! Waiting and Head have a deadline. Serving and Replying have none here: then the handler works, or
//! the body arrives, whose time the endpoint limits. Output that the client does not read has a
//! deadline of its own. So if a client sends too slowly, sends nothing or does not read, its
//! connection ends after a set time. A client that closes its sending side while its request is
//! handled still gets the answer: hyper sees the end of input only after the answer was written, or
//! `drain_timeout` after the end.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::Instant;
use antiphon::http::HeadScan;

use super::io::{Watch, after};
use super::options::HttpConfig;
use crate::lock::Lock;
use crate::runtime::SharedRuntime;
use crate::transport::io::Io;

/// The phase of a server's connection. Its stream, the loop that polls hyper and the code that
/// serves its requests share it; all three run in one task.
pub(super) struct Phases {
    state: Lock<State>,
    runtime: SharedRuntime,
    header_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Option<Duration>,
    drain_timeout: Option<Duration>,
}

struct State {
    phase: Phase,
    since: Instant,
    /// Since when the client takes no output.
    stuck_since: Option<Instant>,
    /// When the end of input was read.
    ended_at: Option<Instant>,
    end: End,
    /// Counts the `Content-Length` lines of a head, because hyper drops some of them.
    scan: HeadScan,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Waiting,
    Head,
    Serving,
    Replying,
}

/// Whether the end of input is hidden from hyper.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The end was not read yet, or hyper saw it when it was read.
    NotHidden,
    /// hyper was told that no input is there yet: if it saw the end, it would drop the request that
    /// it handles.
    Hidden,
    /// hyper sees the end at its next read.
    Shown,
}

impl State {
    /// Whether a request is being handled, or its answer written.
    fn is_at_work(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::Replying) || self.stuck_since.is_some()
    }

    fn begin(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.since) = (phase, now);
    }
}

impl Phases {
    /// Makes the state of a connection whose first byte has arrived.
    pub(super) fn new(options: &HttpConfig, runtime: &SharedRuntime) -> Arc<Self> {
        let state = State {
            phase: Phase::Head,
            since: runtime.now(),
            stuck_since: None,
            ended_at: None,
            end: End::NotHidden,
            scan: HeadScan::new(),
        };
        let HttpConfig { options, rules } = options;
        Arc::new(Self {
            state: Lock::new(state),
            runtime: runtime.clone(),
            header_timeout: rules.header_timeout,
            idle_timeout: rules.idle_timeout,
            write_timeout: options.config.timeouts.write_timeout,
            drain_timeout: options.config.timeouts.drain_timeout,
        })
    }

    /// Whether the end of input was read: an incomplete body will never be complete.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().ended_at.is_some()
    }

    /// Notes that a head is complete, and returns how many `Content-Length` lines were counted in
    /// it. Bytes of it that were read while the request before it was served are not counted.
    pub(super) fn serving(&self) -> u32 {
        let mut state = self.state.lock();
        state.phase = Phase::Serving;
        std::mem::replace(&mut state.scan, HeadScan::new()).lengths()
    }

    /// Notes that a reply has been made.
    pub(super) fn replying(&self) {
        self.state.lock().phase = Phase::Replying;
    }

    /// The time at which the connection's task has to do something.
    pub(super) fn due(&self) -> Instant {
        let state = self.state.lock();
        let end = state.ended_at.filter(|_| state.end == End::Hidden);
        let end = end.map_or(Instant::FAR_FUTURE, |at| after(at, self.drain_timeout));
        if let Some(since) = state.stuck_since {
            return end.min(after(since, self.write_timeout));
        }
        match state.phase {
            Phase::Waiting => state.since + self.idle_timeout,
            Phase::Head => state.since + self.header_timeout,
            Phase::Serving | Phase::Replying => end,
        }
    }

    /// Stops hiding the end of input if the work is done, or if `drain_timeout` has passed since
    /// the end. Returns whether it did: hyper must then read again.
    pub(super) fn show_end_if_due(&self) -> bool {
        let now = self.runtime.now();
        let mut state = self.state.lock();
        let is_late = |at| after(at, self.drain_timeout) <= now;
        let is_over = !state.is_at_work() || state.ended_at.is_some_and(is_late);
        let shows = state.end == End::Hidden && is_over;
        if shows {
            state.end = End::Shown;
        }
        shows
    }
}

/// The stream's side of [`Phases`].
pub(super) struct Watched {
    pub(super) phases: Arc<Phases>,
    /// The connection's first byte, which was read before hyper was given the stream.
    pub(super) first: Option<u8>,
}

impl Watch for Watched {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = self.first.take() {
            buf[0] = first;
            return Poll::Ready(Ok(1));
        }
        let has_ended = self.phases.has_ended();
        let n = match has_ended {
            true => 0,
            false => ready!(io.poll_read(cx, buf))?,
        };
        let now = self.phases.runtime.now();
        let mut state = self.phases.state.lock();
        if n == 0 {
            state.ended_at.get_or_insert(now);
            if state.is_at_work() && state.end != End::Shown {
                state.end = End::Hidden;
                return Poll::Pending;
            }
            return Poll::Ready(Ok(0));
        }
        // The next request may arrive before the last reply is written; it begins a head too.
        if matches!(state.phase, Phase::Waiting | Phase::Replying) {
            state.begin(Phase::Head, now);
            state.scan = HeadScan::new();
        }
        if state.phase == Phase::Head {
            state.scan.take(&buf[..n]);
        }
        Poll::Ready(Ok(n))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = io.poll_write(cx, buf);
        let now = self.phases.runtime.now();
        let mut state = self.phases.state.lock();
        if matches!(state.phase, Phase::Waiting | Phase::Replying) {
            state.begin(Phase::Waiting, now);
        }
        written
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
