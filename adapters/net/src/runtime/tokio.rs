//! tokio's tasks, timers and sockets, as a [`Runtime`].

use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::process::Command;
use std::task::{Context, Poll, Waker, ready};

use antiphon::Instant;
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep_until};

use crate::link::child_started::StartChild;
use crate::link::child_tokio;
use crate::link::tokio::of_tcp;
use crate::link::{Connecting, Link, Listen};
use crate::sockets::{NetRuntime, Prepare, Sockets};
use antiphon_shell::{Runtime, Task, Timer, epoch};

/// A tokio runtime. Its clock is tokio's, which tests can pause.
struct Tokio {
    handle: Handle,
}

/// Returns tokio's runtime of the calling task, if there is one.
pub(super) fn here() -> Option<NetRuntime> {
    let handle = Handle::try_current().ok()?;
    Some(NetRuntime::new(Tokio { handle }))
}

/// Converts a time of this crate to one of tokio's.
fn at_tokio(at: Instant) -> tokio::time::Instant {
    let at = epoch() + at.saturating_since(Instant::ZERO);
    at.into()
}

impl Runtime for Tokio {
    fn now(&self) -> Instant {
        Instant::ZERO + tokio::time::Instant::from_std(epoch()).elapsed()
    }

    fn spawn(&self, task: Task) {
        self.handle.spawn(task);
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(TokioTimer { set: None })
    }

    fn sleep_until(&self, at: Instant) -> Task {
        if at == Instant::FAR_FUTURE {
            return Box::pin(pending());
        }
        // It is unconstrained for the reason that `TokioTimer` gives.
        Box::pin(unconstrained(sleep_until(at_tokio(at))))
    }
}

impl Sockets for Tokio {
    fn connect_tcp(&self, address: SocketAddr) -> Connecting {
        Box::pin(async move { Link::from_tcp(TcpStream::connect(address).await?) })
    }

    fn listen_tcp(
        &self,
        listener: std::net::TcpListener,
        prepare: Prepare,
    ) -> io::Result<Box<dyn Listen>> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Box::new(TokioTcp { listener, prepare }))
    }

    #[cfg(unix)]
    fn connect_unix(&self, path: PathBuf) -> Connecting {
        Box::pin(async move { Ok(Link::from_tokio(UnixStream::connect(path).await?)) })
    }

    #[cfg(unix)]
    fn listen_unix(
        &self,
        listener: std::os::unix::net::UnixListener,
    ) -> io::Result<Box<dyn Listen>> {
        listener.set_nonblocking(true)?;
        Ok(Box::new(TokioUnix(UnixListener::from_std(listener)?)))
    }

    fn child_starter(&self, command: Command) -> StartChild {
        let (handle, mut command) = (self.handle.clone(), command.into());
        Box::new(move || {
            let _inside = handle.enter();
            child_tokio::spawn(&mut command)
        })
    }
}

struct TokioTcp {
    listener: TcpListener,
    prepare: Prepare,
}

impl Listen for TokioTcp {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Link>> {
        let (stream, _) = ready!(self.listener.poll_accept(cx))?;
        (self.prepare)((&stream).into())?;
        Poll::Ready(Ok(of_tcp(stream)))
    }
}

#[cfg(unix)]
struct TokioUnix(UnixListener);

#[cfg(unix)]
impl Listen for TokioUnix {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Link>> {
        let (stream, _) = ready!(self.0.poll_accept(cx))?;
        Poll::Ready(Ok(Link::from_tokio(stream)))
    }
}

struct TokioTimer {
    set: Option<Set>,
}

struct Set {
    at: Instant,
    sleep: Pin<Box<Sleep>>,
    /// The waker that `sleep` wakes.
    waker: Option<Waker>,
}

impl Timer for TokioTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if at == Instant::FAR_FUTURE {
            self.set = None;
            return Poll::Pending;
        }
        let set = self.set.get_or_insert_with(|| Set {
            at,
            sleep: Box::pin(sleep_until(at_tokio(at))),
            waker: None,
        });
        if set.at != at {
            // Setting a timer again takes a lock, so it is not done for the same time.
            set.at = at;
            set.sleep.as_mut().reset(at_tokio(at));
            set.waker = None;
        }
        let is_known = |known: &Waker| known.will_wake(cx.waker());
        if set.waker.as_ref().is_some_and(is_known) && !set.sleep.is_elapsed() {
            return Poll::Pending;
        }
        // Pending must mean that the timer will wake the task, and not that other tasks should run
        // first.
        let polled = pin!(unconstrained(set.sleep.as_mut())).poll(cx);
        set.waker = polled.is_pending().then(|| cx.waker().clone());
        polled
    }
}
