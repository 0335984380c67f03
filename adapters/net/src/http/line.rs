//! What a client's connection knows of the request that it carries.
//!
//! ```text
//!   Idle ──handed──▶ Begun ──some of it written──▶ Sent ──some of the reply read──▶ Replying
//!    ▲ │               └───────────────┬────────────┘                                  │
//!    │ └ for too long ▶ Over           └ the server cannot have read it ▶ Unread       │
//!    └──────────────────────────────────the whole reply read───────────────────────────┘
//! ```
//!
//! hyper-util's pool sends a request again only where no byte of it left. Two things are ours, each
//! for a test that fails without it. A server may end an idle connection at the very moment at
//! which a request is sent over it (`an_end_that_came_before_its_reset_cost_a_call`): a call may do
//! anything, so it is sent again only where the server cannot have read all of it. A system resets
//! a connection that a program has closed before it read everything, or when more is sent to it
//! after that; a program that has read a request and then closes or crashes ends the connection
//! without a reset, and that call is lost. On a new connection a reset proves nothing. The reset
//! comes behind the end, by as long as the way there and back takes, so an end is not judged at
//! once. And the server says for how long it keeps a connection
//! (`a_connection_was_used_for_longer_than_its_server_keeps_it`): it is given up a second before.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use antiphon::Instant;
use async_lock::SemaphoreGuardArc;

use super::io::{Watch, after};
use crate::runtime::{SharedRuntime, Timer};
use crate::transport::io::Io;

/// For how long a reset is awaited behind an end.
const RESET_TIMEOUT: Duration = Duration::from_millis(200);

/// How often to check whether the reset has come: a socket that has ended does not say so.
const RESET_LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How much earlier than the server a connection is given up, if the server said how long it keeps
/// it.
const KEPT_SHORTER: Duration = Duration::from_secs(1);

/// The state of a client's connection, shared by its stream, its task and the request that it
/// carries.
pub(super) struct Line {
    state: Mutex<State>,
    runtime: SharedRuntime,
}

struct State {
    stage: Stage,
    /// Whether the connection has carried a request before.
    is_kept: bool,
    /// Since when the server takes no output.
    stuck_since: Option<Instant>,
    /// The waker of the connection's task.
    task: Option<Waker>,
    /// The waker of the request that waits for the reply.
    asker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// The connection may be handed a request until this time.
    Idle(Instant),
    Begun,
    Sent,
    Replying,
    Unread,
    Over,
}

impl Line {
    pub(super) fn new(runtime: &SharedRuntime) -> Arc<Self> {
        let state = State {
            stage: Stage::Idle(Instant::FAR_FUTURE),
            is_kept: false,
            stuck_since: None,
            task: None,
            asker: None,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            runtime: runtime.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request, if the connection is idle and may still be used; says whether it is.
    pub(super) fn begin(&self) -> bool {
        let is_usable = self.is_usable();
        if is_usable {
            self.lock().stage = Stage::Begun;
        }
        is_usable
    }

    /// Notes that the whole reply has been read: another request may follow within `span`.
    pub(super) fn rest(&self, span: Duration) {
        let until = self.runtime.now() + span;
        let mut state = self.lock();
        if state.stage == Stage::Replying {
            (state.stage, state.is_kept) = (Stage::Idle(until), true);
        }
        let task = state.task.take();
        drop(state);
        task.into_iter().for_each(Waker::wake);
    }

    /// Whether the connection is idle, and not for too long.
    pub(super) fn is_usable(&self) -> bool {
        let now = self.runtime.now();
        matches!(self.lock().stage, Stage::Idle(until) if until > now)
    }

    /// Ready if the connection has ended so that the server cannot have read the request.
    pub(super) fn poll_unread(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.stage == Stage::Unread {
            return Poll::Ready(());
        }
        state.asker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// When the connection's task has to end it, because it is idle or because the server takes no
    /// output for `write_timeout`.
    pub(super) fn due(&self, write_timeout: Option<Duration>, cx: &Context<'_>) -> Instant {
        let mut state = self.lock();
        state.task = Some(cx.waker().clone());
        match (state.stage, state.stuck_since) {
            (Stage::Idle(until), _) => until,
            (_, Some(since)) => after(since, write_timeout),
            _ => Instant::FAR_FUTURE,
        }
    }

    /// Ends an idle connection in good order if its time has come; says whether it did.
    pub(super) fn end_idle(&self) -> bool {
        let now = self.runtime.now();
        let mut state = self.lock();
        let is_idle = matches!(state.stage, Stage::Idle(until) if until <= now);
        if is_idle {
            state.stage = Stage::Over;
        }
        is_idle
    }
}

/// The stream's side of a [`Line`].
pub(super) struct Wire {
    line: Arc<Line>,
    /// An end that is not judged yet, and until when a reset may come behind it.
    ended: Option<(io::Result<usize>, Instant)>,
    timer: Option<Box<dyn Timer>>,
    /// The right to one connection.
    _permit: Option<SemaphoreGuardArc>,
}

impl Wire {
    pub(super) fn new(line: Arc<Line>, permit: Option<SemaphoreGuardArc>) -> Self {
        Self {
            line,
            ended: None,
            timer: None,
            _permit: permit,
        }
    }

    /// Gives the end, once a reset has come behind it or does not come any more.
    fn poll_reset(
        &mut self,
        cx: &mut Context<'_>,
        io: &dyn Io,
        end: io::Result<usize>,
        until: Instant,
    ) -> Poll<io::Result<usize>> {
        let runtime = &self.line.runtime;
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
        self.line.lock().stage = Stage::Unread;
        Poll::Ready(Err(end
            .err()
            .unwrap_or(io::ErrorKind::ConnectionReset.into())))
    }
}

/// The stream has been let go. A request that was handed over at that very moment stays with hyper,
/// which does not say so.
impl Drop for Wire {
    fn drop(&mut self) {
        let mut state = self.line.lock();
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

impl Watch for Wire {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Some((end, until)) = self.ended.take() {
            return self.poll_reset(cx, io, end, until);
        }
        if self.line.lock().stage == Stage::Over {
            return Poll::Ready(Ok(0));
        }
        let read = ready!(io.poll_read(cx, buf));
        let mut state = self.line.lock();
        let may_be_unread = state.is_kept && state.stage == Stage::Sent;
        match &read {
            Ok(1..) => {
                if matches!(state.stage, Stage::Begun | Stage::Sent) {
                    state.stage = Stage::Replying;
                }
            }
            Err(error) if may_be_unread && is_reset(error) => state.stage = Stage::Unread,
            _ if may_be_unread => {
                drop(state);
                let until = self.line.runtime.now() + RESET_TIMEOUT;
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
        let State { stage, is_kept, .. } = *self.line.lock();
        // An end may have come that the runtime has not seen: it looks only now and then.
        if is_kept && stage == Stage::Begun && io.has_input() {
            self.line.lock().stage = Stage::Unread;
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        let written = ready!(io.poll_write(cx, buf));
        let mut state = self.line.lock();
        match &written {
            Ok(_) if state.stage == Stage::Begun => state.stage = Stage::Sent,
            // What could not be written has not arrived.
            Err(error) if is_kept && is_reset(error) => {
                if matches!(state.stage, Stage::Begun | Stage::Sent) {
                    state.stage = Stage::Unread;
                }
            }
            _ => {}
        }
        Poll::Ready(written)
    }

    fn flushed(&mut self, is_done: bool) {
        let mut state = self.line.lock();
        match is_done {
            true => state.stuck_since = None,
            false => {
                let now = || self.line.runtime.now();
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

/// For how long a connection may be idle after a reply with a header `Keep-Alive: timeout=5,
/// max=100`: a second less than the server says, so not at all if that is one. None if it does not
/// say.
pub(super) fn idle_time_said(keep_alive: &str) -> Option<Duration> {
    let seconds = keep_alive.split(',').find_map(|param| {
        let (name, value) = param.split_once('=')?;
        let is_it = name.trim().eq_ignore_ascii_case("timeout");
        is_it.then(|| value.trim().parse().ok()).flatten()
    })?;
    Some(Duration::from_secs(seconds).saturating_sub(KEPT_SHORTER))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use antiphon::Instant;

    use super::{Line, Stage, Wire, idle_time_said};
    use crate::http::io::Watch;
    use crate::runtime::{Runtime, SharedRuntime, Task, Timer};
    use crate::transport::io::Io;

    const RESET: io::ErrorKind = io::ErrorKind::ConnectionReset;

    /// A clock that goes on when a timer is set.
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

    /// A stream that does this once, and of which the system knows that.
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

    /// A connection with a request of which something has been sent; kept from an earlier one, or
    /// not.
    fn sent(is_kept: bool) -> (Arc<Line>, Wire) {
        let runtime: SharedRuntime = Arc::new(Virtual::default());
        let line = Line::new(&runtime);
        let mut wire = Wire::new(Arc::clone(&line), None);
        let mut begin = || {
            assert!(line.begin());
            write(&mut wire, Ok(1), false).unwrap();
            if is_kept && !line.lock().is_kept {
                assert_eq!(read(&mut wire, Ok(1), false).unwrap(), 1);
                line.rest(Duration::from_secs(1));
            }
        };
        (0..=u32::from(is_kept)).for_each(|_| begin());
        (line, wire)
    }

    fn once(done: io::Result<usize>, was_reset: bool) -> Once {
        Once {
            done: Some(done),
            has_input: false,
            was_reset,
        }
    }

    fn read(wire: &mut Wire, done: io::Result<usize>, was_reset: bool) -> io::Result<usize> {
        let cx = &mut Context::from_waker(Waker::noop());
        match wire.poll_read(cx, &mut once(done, was_reset), &mut [0]) {
            Poll::Ready(read) => read,
            Poll::Pending => panic!("it is judged"),
        }
    }

    fn write(wire: &mut Wire, done: io::Result<usize>, has_input: bool) -> io::Result<usize> {
        let cx = &mut Context::from_waker(Waker::noop());
        let io = &mut Once {
            has_input,
            ..once(done, false)
        };
        match wire.poll_write(cx, io, &[0]) {
            Poll::Ready(written) => written,
            Poll::Pending => panic!("it is judged"),
        }
    }

    // CON-06
    #[test]
    fn a_call_is_sent_again_only_if_the_server_cannot_have_read_it() {
        for is_kept in [false, true] {
            for (end, was_reset, proves) in [
                (Err(RESET.into()), false, true),
                (Ok(0), true, true),
                (Ok(0), false, false),
                (Err(io::ErrorKind::UnexpectedEof.into()), true, true),
                (Err(io::ErrorKind::UnexpectedEof.into()), false, false),
            ] {
                // On a new connection nothing speaks for an end while it was idle.
                let (line, mut wire) = sent(is_kept);
                assert!(!matches!(read(&mut wire, end, was_reset), Ok(1..)));
                assert_eq!(line.lock().stage == Stage::Unread, is_kept && proves);
            }
            let (line, mut wire) = sent(is_kept);
            let broken = write(&mut wire, Err(io::ErrorKind::BrokenPipe.into()), false);
            assert!(broken.is_err());
            assert_eq!(line.lock().stage == Stage::Unread, is_kept);
            // Once a reply has begun the call is lost with it.
            let (line, mut wire) = sent(is_kept);
            assert_eq!(read(&mut wire, Ok(1), true).unwrap(), 1);
            assert!(read(&mut wire, Err(RESET.into()), true).is_err());
            let broken = write(&mut wire, Err(io::ErrorKind::BrokenPipe.into()), false);
            assert!(broken.is_err() && line.lock().stage == Stage::Replying);
        }
        // What is there before anything was sent is an end.
        let (line, mut wire) = sent(true);
        read(&mut wire, Ok(1), false).unwrap();
        line.rest(Duration::from_secs(1));
        assert!(line.begin() && write(&mut wire, Ok(1), true).is_err());
        assert!(line.lock().stage == Stage::Unread);
    }

    #[test]
    fn a_connection_is_kept_a_second_shorter_than_the_server_says() {
        let seconds = |text| idle_time_said(text).map(|span| span.as_secs());
        assert_eq!(seconds(" timeout=5, max=100"), Some(4));
        assert_eq!(seconds("max=100,TIMEOUT = 2"), Some(1));
        assert_eq!(seconds("timeout=1"), Some(0));
        assert_eq!(idle_time_said("timeout=0"), Some(Duration::ZERO));
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
