//! How far a request is on a client's connection, and whether it may be sent again.
//!
//! ```text
//!   Idle ──begin──▶ Begun ──bytes of it given to the transport──▶ Sent
//!    ▲ │              └──the connection ends first──▶ Unsent       │
//!    │ └ for too long ▶ Over                                       │
//!    └─────────────────────the whole reply read────────────────────┘
//! ```
//!
//! A request is sent again only if its connection ended as `Unsent`: then no byte of it was given to the
//! transport, and none will be. How a connection ends proves nothing. Load balancers, crashes and
//! timeouts reset connections whose requests have been read
//! (`a_call_that_was_read_before_a_reset_was_sent_again`), so a request that is `Sent` is lost with its
//! connection.
//!
//! So connections that are over must be found before a request is sent over them:
//!
//! 1. Before the first byte of a request is written to a connection that was idle, the system is asked
//!    whether there is input, or the end of it
//!    (`an_end_that_the_runtime_had_not_looked_at_cost_a_call`).
//! 2. A server may say for how long it keeps an idle connection
//!    (`a_connection_was_used_for_longer_than_its_server_keeps_it`). We close it a second earlier.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antiphon::Instant;
use async_lock::SemaphoreGuardArc;

use super::io::{Watch, after};
use antiphon_shell::{Io, Lock, SharedRuntime, caught};

/// How long before the server's keep-alive timeout an idle connection is closed, if the server
/// names that timeout.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

/// The state of a client's connection, shared by its stream, its task and the request that it
/// carries.
pub(super) struct Stages {
    state: Lock<StageState>,
    pub(super) runtime: SharedRuntime,
}

struct StageState {
    stage: Stage,
    /// Whether the connection has carried a request before.
    is_reused: bool,
    /// Since when the server takes no output.
    stuck_since: Option<Instant>,
    /// The waker of the connection's task.
    task: Option<Waker>,
    /// The waker of the request that waits for the reply.
    asker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// A request may be sent over the connection until this time.
    Idle(Instant),
    Begun,
    /// Bytes of the request were given to the transport, or are being given to it.
    Sent,
    /// No byte of the request was sent, and none will be.
    Unsent,
    Over,
}

impl Stages {
    pub(super) fn new(runtime: &SharedRuntime) -> Arc<Self> {
        let state = StageState {
            stage: Stage::Idle(Instant::FAR_FUTURE),
            is_reused: false,
            stuck_since: None,
            task: None,
            asker: None,
        };
        Arc::new(Self {
            state: Lock::new(state),
            runtime: runtime.clone(),
        })
    }

    /// Begins a request and returns true, if the connection is idle and may still be used.
    pub(super) fn begin(&self) -> bool {
        let is_usable = self.is_usable();
        if is_usable {
            self.state.lock().stage = Stage::Begun;
        }
        is_usable
    }

    /// Notes that the whole reply has been read: another request may follow within `span`.
    pub(super) fn become_idle(&self, span: Duration) {
        let until = self.runtime.now() + span;
        let mut state = self.state.lock();
        if state.stage == Stage::Sent {
            (state.stage, state.is_reused) = (Stage::Idle(until), true);
        }
        let task = state.task.take();
        drop(state);
        task.into_iter().for_each(Waker::wake);
    }

    /// Whether the connection is idle, and not for too long.
    pub(super) fn is_usable(&self) -> bool {
        let now = self.runtime.now();
        matches!(self.state.lock().stage, Stage::Idle(until) if until > now)
    }

    /// Ready if the connection has ended before any byte of the request was sent.
    pub(super) fn poll_unsent(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.stage == Stage::Unsent {
            return Poll::Ready(());
        }
        state.asker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives the request up. Returns whether no byte of it was sent; then none will be.
    pub(super) fn end_unsent(&self) -> bool {
        let mut state = self.state.lock();
        if state.stage == Stage::Begun {
            state.stage = Stage::Unsent;
        }
        state.stage == Stage::Unsent
    }

    /// Whether the next byte to be written is the first of a request over a connection that was idle.
    fn was_just_idle(&self) -> bool {
        let state = self.state.lock();
        state.is_reused && state.stage == Stage::Begun
    }

    /// Returns when the connection's task has to end it, because it has been idle for too long or because
    /// the server has taken no output for `write_timeout`.
    pub(super) fn due(&self, write_timeout: Option<Duration>, cx: &Context<'_>) -> Instant {
        let mut state = self.state.lock();
        state.task = Some(cx.waker().clone());
        match (state.stage, state.stuck_since) {
            (Stage::Idle(until), _) => until,
            (_, Some(since)) => after(since, write_timeout),
            _ => Instant::FAR_FUTURE,
        }
    }

    /// Marks a connection that was idle for too long as over, so that hyper sees its end at the next
    /// read. Returns whether it did.
    pub(super) fn end_idle(&self) -> bool {
        let now = self.runtime.now();
        let mut state = self.state.lock();
        let is_idle = matches!(state.stage, Stage::Idle(until) if until <= now);
        if is_idle {
            state.stage = Stage::Over;
        }
        is_idle
    }
}

/// The stream's side of [`Stages`].
pub(super) struct ClientWatch {
    stages: Arc<Stages>,
    /// The permit for one connection.
    _permit: Option<SemaphoreGuardArc>,
}

impl ClientWatch {
    pub(super) fn new(stages: Arc<Stages>, permit: Option<SemaphoreGuardArc>) -> Self {
        Self {
            stages,
            _permit: permit,
        }
    }
}

/// hyper has dropped the stream. A request that was passed to hyper at that moment stays in hyper
/// without an error, so it is marked as unsent and its future is woken.
impl Drop for ClientWatch {
    fn drop(&mut self) {
        let mut state = self.stages.state.lock();
        match state.stage {
            Stage::Begun => state.stage = Stage::Unsent,
            Stage::Idle(_) => state.stage = Stage::Over,
            _ => {}
        }
        let asker = state.asker.take();
        drop(state);
        caught(|| asker.into_iter().for_each(Waker::wake));
    }
}

impl Watch for ClientWatch {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.stages.state.lock().stage == Stage::Over {
            return Poll::Ready(Ok(0));
        }
        io.poll_read(cx, buf)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The connection may have ended without the runtime knowing it, because the runtime checks
        // only now and then.
        if self.stages.was_just_idle() && io.has_input() {
            self.stages.end_unsent();
        }
        let mut state = self.stages.state.lock();
        let is_first = match state.stage {
            Stage::Unsent => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            stage => stage == Stage::Begun,
        };
        // A write that fails may have sent bytes: TLS writes several records in one.
        if is_first {
            state.stage = Stage::Sent;
        }
        drop(state);
        let written = io.poll_write(cx, buf);
        if is_first && written.is_pending() {
            self.stages.state.lock().stage = Stage::Begun;
        }
        written
    }

    fn flushed(&mut self, is_done: bool) {
        let mut state = self.stages.state.lock();
        match is_done {
            true => state.stuck_since = None,
            false => {
                let now = || self.stages.runtime.now();
                state.stuck_since.get_or_insert_with(now);
            }
        }
    }
}

/// How long a connection may be idle after a reply with a header such as `Keep-Alive: timeout=5,
/// max=100`: one second less than the server's timeout, so zero for `timeout=1`. `None` if no
/// timeout is named.
pub(super) fn idle_time_from(keep_alive: &str) -> Option<Duration> {
    let seconds = keep_alive.split(',').find_map(|param| {
        let (name, value) = param.split_once('=')?;
        let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
        is_timeout.then(|| value.trim().parse().ok()).flatten()
    })?;
    Some(Duration::from_secs(seconds).saturating_sub(KEEP_ALIVE_MARGIN))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::{ClientWatch, Stage, Stages, idle_time_from};
    use crate::http::io::Watch;
    use antiphon_shell::{Io, SharedRuntime, threads};

    /// A stream whose writes return `written`.
    struct Fixed {
        written: fn() -> Poll<io::Result<usize>>,
        has_input: bool,
    }

    impl Io for Fixed {
        fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(1))
        }

        fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            (self.written)()
        }

        fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn has_input(&self) -> bool {
            self.has_input
        }
    }

    fn write(
        watch: &mut dyn Watch,
        written: fn() -> Poll<io::Result<usize>>,
        has_input: bool,
    ) -> Poll<io::Result<usize>> {
        let io = &mut Fixed { written, has_input };
        watch.poll_write(&mut Context::from_waker(Waker::noop()), io, &[0])
    }

    const TAKEN: fn() -> Poll<io::Result<usize>> = || Poll::Ready(Ok(1));
    const FULL: fn() -> Poll<io::Result<usize>> = || Poll::Pending;
    const BROKEN: fn() -> Poll<io::Result<usize>> =
        || Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));

    /// A connection over which a request has begun: its second if `is_reused`, else its first.
    fn begun(is_reused: bool) -> (Arc<Stages>, ClientWatch) {
        let runtime: SharedRuntime = threads();
        let stages = Stages::new(&runtime);
        let mut watch = ClientWatch::new(Arc::clone(&stages), None);
        if is_reused {
            assert!(stages.begin() && write(&mut watch, TAKEN, false).is_ready());
            stages.become_idle(Duration::from_secs(60));
        }
        assert!(stages.begin());
        (stages, watch)
    }

    // CON-06 USE-26
    #[test]
    fn a_request_is_sent_again_only_if_no_byte_of_it_was_given_to_the_transport() {
        for is_reused in [false, true] {
            for (writes, is_unsent) in [
                (&[][..], true),
                (&[FULL, FULL], true),
                (&[TAKEN], false),
                (&[FULL, TAKEN], false),
                (&[TAKEN, FULL], false),
                (&[TAKEN, BROKEN], false),
                // A write that fails may have sent bytes.
                (&[BROKEN], false),
            ] {
                let (stages, mut watch) = begun(is_reused);
                for written in writes {
                    let _ = write(&mut watch, *written, false);
                }
                // The connection ends, or hyper gives the request up first.
                drop(watch);
                assert_eq!(stages.state.lock().stage == Stage::Unsent, is_unsent);
                assert_eq!(stages.end_unsent(), is_unsent);
                let (stages, mut watch) = begun(is_reused);
                for written in writes {
                    let _ = write(&mut watch, *written, false);
                }
                assert_eq!(stages.end_unsent(), is_unsent);
                // Of a request that is given up nothing is written any more.
                let more = write(&mut watch, TAKEN, false);
                assert_eq!(matches!(more, Poll::Ready(Err(_))), is_unsent);
            }
            // Input that is there before the request is sent means that the server has closed; over a
            // new connection it may be the reason why the server refuses it.
            let (stages, mut watch) = begun(is_reused);
            let written = write(&mut watch, TAKEN, true);
            assert_eq!(matches!(written, Poll::Ready(Err(_))), is_reused);
            assert_eq!(stages.end_unsent(), is_reused);
        }
    }

    #[test]
    fn a_connection_is_kept_a_second_shorter_than_the_server_says() {
        let seconds = |text| idle_time_from(text).map(|span| span.as_secs());
        assert_eq!(seconds(" timeout=5, max=100"), Some(4));
        assert_eq!(seconds("max=100,TIMEOUT = 2"), Some(1));
        assert_eq!(seconds("timeout=1"), Some(0));
        assert_eq!(idle_time_from("timeout=0"), Some(Duration::ZERO));
        for nothing in [
            "",
            "max=100",
            "timeout",
            "timeout=",
            "timeout=-1",
            "timeout=soon",
        ] {
            assert_eq!(seconds(nothing), None, "{nothing}");
        }
    }
}
