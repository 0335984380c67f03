//! How far a request is on a client's connection, and whether it may be sent again.
//!
//! ```text
//!   Idle ──begin───▶ Begun ──some of it written──▶ Sent ──some of the reply read──▶ Replying
//!    ▲ │               └───────────────┬────────────┘                                  │
//!    │ └ for too long ▶ Over           └ the server cannot have read it ▶ Unread       │
//!    └──────────────────────────────────the whole reply read───────────────────────────┘
//! ```
//!
//! hyper-util's pool sends a request again only if no byte of it was sent. We add two rules, each
//! with a test that fails without it:
//!
//! 1. A server may end an idle connection at the very moment at which a request is sent over it
//!    (`an_end_that_came_before_its_reset_cost_a_call`). A call may do anything, so it is sent
//!    again only if the server cannot have read all of it. A reset shows that: the server's operating
//!    system resets a connection that the server has closed before it read everything, or when more
//!    arrives after the server has closed it. A server that has read a request and then closes or
//!    crashes ends the connection without a reset, and that call is lost. On a connection that has
//!    carried no request before, a reset proves nothing. The reset arrives up to one round trip after
//!    the end, so we wait for it before we decide.
//! 2. A server may say for how long it keeps an idle connection
//!    (`a_connection_was_used_for_longer_than_its_server_keeps_it`). We close it a second earlier.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use antiphon::Instant;
use async_lock::SemaphoreGuardArc;

use super::io::{Watch, after};
use crate::lock::Lock;
use crate::runtime::{SharedRuntime, Timer};
use crate::transport::io::Io;

/// How long to wait for a reset after the end of input.
const RESET_TIMEOUT: Duration = Duration::from_millis(200);

/// How often to check for the reset: a socket whose input has ended does not wake us for it.
const RESET_LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How long before the server's keep-alive timeout an idle connection is closed, if the server
/// names that timeout.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

/// The state of a client's connection, shared by its stream, its task and the request that it
/// carries.
pub(super) struct Stages {
    state: Lock<State>,
    runtime: SharedRuntime,
}

struct State {
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
    Sent,
    Replying,
    Unread,
    Over,
}

impl Stages {
    pub(super) fn new(runtime: &SharedRuntime) -> Arc<Self> {
        let state = State {
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
        if state.stage == Stage::Replying {
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

    /// Ready if the connection has ended in a way that proves that the server did not read the
    /// whole request.
    pub(super) fn poll_unread(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.stage == Stage::Unread {
            return Poll::Ready(());
        }
        state.asker = Some(cx.waker().clone());
        Poll::Pending
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
    /// The end of input, and until when to wait for a reset after it. `None` when not waiting.
    ended: Option<(io::Result<usize>, Instant)>,
    timer: Option<Box<dyn Timer>>,
    /// The permit for one connection.
    _permit: Option<SemaphoreGuardArc>,
}

impl ClientWatch {
    pub(super) fn new(stages: Arc<Stages>, permit: Option<SemaphoreGuardArc>) -> Self {
        Self {
            stages,
            ended: None,
            timer: None,
            _permit: permit,
        }
    }

    /// Waits for a reset after `end`. If one comes, marks the request as unread and returns an
    /// error; otherwise returns `end` at the time `until`.
    fn poll_reset(
        &mut self,
        cx: &mut Context<'_>,
        io: &dyn Io,
        end: io::Result<usize>,
        until: Instant,
    ) -> Poll<io::Result<usize>> {
        let runtime = &self.stages.runtime;
        while !io.was_reset() {
            let now = runtime.now();
            if now >= until {
                return Poll::Ready(end);
            }
            let timer = self.timer.get_or_insert_with(|| runtime.timer());
            let look = until.min(now + RESET_LOOK_INTERVAL);
            if timer.poll_until(look, cx).is_pending() {
                self.ended = Some((end, until));
                return Poll::Pending;
            }
        }
        self.stages.state.lock().stage = Stage::Unread;
        Poll::Ready(Err(end
            .err()
            .unwrap_or(io::ErrorKind::ConnectionReset.into())))
    }
}

/// hyper has dropped the stream. A request that was passed to hyper at that moment stays in hyper
/// without an error, so it is marked as unread and its future is woken.
impl Drop for ClientWatch {
    fn drop(&mut self) {
        let mut state = self.stages.state.lock();
        match state.stage {
            Stage::Begun => state.stage = Stage::Unread,
            Stage::Idle(_) => state.stage = Stage::Over,
            _ => {}
        }
        let asker = state.asker.take();
        drop(state);
        asker.into_iter().for_each(Waker::wake);
    }
}

impl Watch for ClientWatch {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Some((end, until)) = self.ended.take() {
            return self.poll_reset(cx, io, end, until);
        }
        if self.stages.state.lock().stage == Stage::Over {
            return Poll::Ready(Ok(0));
        }
        let read = ready!(io.poll_read(cx, buf));
        let mut state = self.stages.state.lock();
        let may_be_unread = state.is_reused && state.stage == Stage::Sent;
        match &read {
            Ok(1..) => {
                if matches!(state.stage, Stage::Begun | Stage::Sent) {
                    state.stage = Stage::Replying;
                }
            }
            Err(error) if may_be_unread && is_reset(error) => state.stage = Stage::Unread,
            _ if may_be_unread => {
                drop(state);
                let until = self.stages.runtime.now() + RESET_TIMEOUT;
                return self.poll_reset(cx, io, read, until);
            }
            _ => {}
        }
        Poll::Ready(read)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let is_begun = |state: &State| state.is_reused && state.stage == Stage::Begun;
        // The connection may have ended without the runtime knowing it, because the runtime checks
        // only now and then.
        if is_begun(&self.stages.state.lock()) && io.has_input() {
            self.stages.state.lock().stage = Stage::Unread;
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        let written = ready!(io.poll_write(cx, buf));
        let mut state = self.stages.state.lock();
        match &written {
            Ok(_) if state.stage == Stage::Begun => state.stage = Stage::Sent,
            // Bytes that could not be written have not arrived.
            Err(error) if state.is_reused && is_reset(error) => {
                if matches!(state.stage, Stage::Begun | Stage::Sent) {
                    state.stage = Stage::Unread;
                }
            }
            _ => {}
        }
        Poll::Ready(written)
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

fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
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
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use antiphon::Instant;

    use super::{ClientWatch, Stage, Stages, idle_time_from};
    use crate::http::io::Watch;
    use crate::runtime::{Runtime, SharedRuntime, Task, Timer};
    use crate::transport::io::Io;

    const RESET: io::ErrorKind = io::ErrorKind::ConnectionReset;

    /// A clock that jumps to the time of each timer that is set.
    #[derive(Clone, Default)]
    struct Virtual(Arc<Mutex<Duration>>);

    impl Runtime for Virtual {
        fn now(&self) -> Instant {
            Instant::ZERO + *self.0.lock().unwrap()
        }

        fn spawn(&self, _: Task) {}

        fn timer(&self) -> Box<dyn Timer> {
            Box::new(self.clone())
        }
    }

    impl Timer for Virtual {
        fn poll_until(&mut self, at: Instant, _: &mut Context<'_>) -> Poll<()> {
            *self.0.lock().unwrap() = at.saturating_since(Instant::ZERO);
            Poll::Ready(())
        }
    }

    /// A stream whose one read or write returns `done`; the other fields are what the system
    /// reports about it.
    struct Once {
        done: Option<io::Result<usize>>,
        has_input: bool,
        was_reset: bool,
    }

    impl Io for Once {
        fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(self.done.take().expect("one read"))
        }

        fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(self.done.take().expect("one write"))
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

        fn was_reset(&self) -> bool {
            self.was_reset
        }
    }

    /// A connection on which part of a request has been sent: its second if `is_reused`, else its
    /// first.
    fn sent(is_reused: bool) -> (Arc<Stages>, ClientWatch) {
        let runtime: SharedRuntime = Arc::new(Virtual::default());
        let stages = Stages::new(&runtime);
        let mut watch = ClientWatch::new(Arc::clone(&stages), None);
        let mut begin = || {
            assert!(stages.begin());
            write(&mut watch, Ok(1), false).unwrap();
            if is_reused && !stages.state.lock().is_reused {
                assert_eq!(read(&mut watch, Ok(1), false).unwrap(), 1);
                stages.become_idle(Duration::from_secs(1));
            }
        };
        (0..=u32::from(is_reused)).for_each(|_| begin());
        (stages, watch)
    }

    fn once(done: io::Result<usize>, was_reset: bool) -> Once {
        Once {
            done: Some(done),
            has_input: false,
            was_reset,
        }
    }

    fn read(watch: &mut dyn Watch, done: io::Result<usize>, was_reset: bool) -> io::Result<usize> {
        let cx = &mut Context::from_waker(Waker::noop());
        match watch.poll_read(cx, &mut once(done, was_reset), &mut [0]) {
            Poll::Ready(read) => read,
            Poll::Pending => panic!("pending, although the outcome is known"),
        }
    }

    fn write(watch: &mut dyn Watch, done: io::Result<usize>, has_input: bool) -> io::Result<usize> {
        let cx = &mut Context::from_waker(Waker::noop());
        let io = &mut Once {
            has_input,
            ..once(done, false)
        };
        match watch.poll_write(cx, io, &[0]) {
            Poll::Ready(written) => written,
            Poll::Pending => panic!("pending, although the outcome is known"),
        }
    }

    // CON-06
    #[test]
    fn a_call_is_sent_again_only_if_the_server_cannot_have_read_it() {
        for is_reused in [false, true] {
            for (end, was_reset, proves) in [
                (Err(RESET.into()), false, true),
                (Ok(0), true, true),
                (Ok(0), false, false),
                (Err(io::ErrorKind::UnexpectedEof.into()), true, true),
                (Err(io::ErrorKind::UnexpectedEof.into()), false, false),
            ] {
                // On a connection that has carried no request before, a reset does not prove that
                // the request is unread.
                let (stages, mut watch) = sent(is_reused);
                assert!(!matches!(read(&mut watch, end, was_reset), Ok(1..)));
                assert_eq!(
                    stages.state.lock().stage == Stage::Unread,
                    is_reused && proves
                );
            }
            let (stages, mut watch) = sent(is_reused);
            let broken = write(&mut watch, Err(io::ErrorKind::BrokenPipe.into()), false);
            assert!(broken.is_err());
            assert_eq!(stages.state.lock().stage == Stage::Unread, is_reused);
            // Once a reply has begun the call is lost with it.
            let (stages, mut watch) = sent(is_reused);
            assert_eq!(read(&mut watch, Ok(1), true).unwrap(), 1);
            assert!(read(&mut watch, Err(RESET.into()), true).is_err());
            let broken = write(&mut watch, Err(io::ErrorKind::BrokenPipe.into()), false);
            assert!(broken.is_err() && stages.state.lock().stage == Stage::Replying);
        }
        // Input that is there before the request is sent means that the server has closed.
        let (stages, mut watch) = sent(true);
        read(&mut watch, Ok(1), false).unwrap();
        stages.become_idle(Duration::from_secs(1));
        assert!(stages.begin() && write(&mut watch, Ok(1), true).is_err());
        assert!(stages.state.lock().stage == Stage::Unread);
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
