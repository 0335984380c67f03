//! The tasks of smol and of async-std, and the timers and sockets of async-io, as a [`Runtime`].

use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener};
#[cfg(unix)]
use std::os::unix::net::UnixListener;
#[cfg(unix)]
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Command;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

use antiphon::Instant;
use async_io::Async;
use async_net::TcpStream;

use crate::link::child_async_io;
use crate::link::child_started::StartChild;
use crate::link::futures::of_tcp;
use crate::link::{Connecting, Link, Listen};
use crate::sockets::{NetRuntime, Prepare, Sockets};
use antiphon_shell::{Runtime, Task, Timer, epoch};

/// The executor of a program's tasks. Timers and sockets are async-io's with each of them, because
/// smol and async-std use it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Executor {
    /// smol's global executor.
    #[cfg(feature = "smol")]
    Smol,
    /// async-std's global executor. async-std is discontinued; this is for programs that use it already.
    #[cfg(feature = "async-std")]
    AsyncStd,
    /// Any other: a function that runs a task in the background.
    Other(fn(Task)),
}

impl Executor {
    /// Returns a runtime on this executor, whichever the program's is.
    pub fn runtime(self) -> NetRuntime {
        NetRuntime::new(Futures { executor: self })
    }
}

static EXECUTOR: OnceLock<Executor> = OnceLock::new();

/// Chooses the executor for the tasks of this crate, for the whole program. The default is smol, or
/// async-std if only that is compiled in; without either, each task runs on a thread of its own.
/// Returns whether the choice counts: a later one, or one after the first connection, has no effect.
pub fn set_executor(executor: Executor) -> bool {
    EXECUTOR.set(executor).is_ok()
}

fn default_executor() -> Executor {
    #[cfg(feature = "smol")]
    return Executor::Smol;
    #[cfg(all(feature = "async-std", not(feature = "smol")))]
    return Executor::AsyncStd;
    #[cfg(not(any(feature = "smol", feature = "async-std")))]
    Executor::Other(|task| {
        // No executor was chosen, so the task runs on a thread of its own.
        let builder = std::thread::Builder::new().name("antiphon-task".into());
        // If the system refuses the thread, the task is dropped, and those that wait for it notice.
        let _ = builder.spawn(|| async_io::block_on(task));
    })
}

/// The runtime on the program's executor: see [`set_executor`].
pub(super) fn current() -> NetRuntime {
    EXECUTOR.get_or_init(default_executor).runtime()
}

/// An executor, with async-io's timers.
struct Futures {
    executor: Executor,
}

impl Runtime for Futures {
    fn now(&self) -> Instant {
        Instant::ZERO + epoch().elapsed()
    }

    fn spawn(&self, task: Task) {
        match self.executor {
            #[cfg(feature = "smol")]
            Executor::Smol => smol::spawn(task).detach(),
            #[cfg(feature = "async-std")]
            Executor::AsyncStd => drop(async_std::task::spawn(task)),
            Executor::Other(spawn) => spawn(task),
        }
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(IoTimer { set: None })
    }

    fn sleep_until(&self, at: Instant) -> Task {
        if at == Instant::FAR_FUTURE {
            return Box::pin(pending());
        }
        let mut timer = async_io::Timer::at(epoch() + at.saturating_since(Instant::ZERO));
        Box::pin(poll_fn(move |cx| Pin::new(&mut timer).poll(cx).map(drop)))
    }
}

impl Sockets for Futures {
    fn connect_tcp(&self, address: SocketAddr) -> Connecting {
        Box::pin(async move { Link::from_tcp(TcpStream::connect(address).await?) })
    }

    fn listen_tcp(&self, listener: TcpListener, prepare: Prepare) -> io::Result<Box<dyn Listen>> {
        let listener = Async::new(listener)?;
        Ok(Box::new(FuturesTcp { listener, prepare }))
    }

    #[cfg(unix)]
    fn connect_unix(&self, path: PathBuf) -> Connecting {
        Box::pin(async move {
            let stream = async_net::unix::UnixStream::connect(path).await?;
            Ok(Link::from_futures(stream))
        })
    }

    #[cfg(unix)]
    fn listen_unix(&self, listener: UnixListener) -> io::Result<Box<dyn Listen>> {
        Ok(Box::new(FuturesUnix(Async::new(listener)?)))
    }

    fn child_starter(&self, command: Command) -> StartChild {
        let mut command = command.into();
        Box::new(move || child_async_io::spawn(&mut command))
    }
}

struct FuturesTcp {
    listener: Async<TcpListener>,
    prepare: Prepare,
}

impl Listen for FuturesTcp {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Link>> {
        loop {
            match self.listener.get_ref().accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => {
                    let stream: TcpStream = accepted?.0.try_into()?;
                    (self.prepare)((&stream).into())?;
                    return Poll::Ready(Ok(of_tcp(stream)));
                }
            }
            ready!(self.listener.poll_readable(cx))?;
        }
    }
}

#[cfg(unix)]
struct FuturesUnix(Async<UnixListener>);

#[cfg(unix)]
impl Listen for FuturesUnix {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Link>> {
        loop {
            match self.0.get_ref().accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => {
                    let stream: async_net::unix::UnixStream = accepted?.0.try_into()?;
                    return Poll::Ready(Ok(Link::from_futures(stream)));
                }
            }
            ready!(self.0.poll_readable(cx))?;
        }
    }
}

struct IoTimer {
    set: Option<(Instant, async_io::Timer)>,
}

impl Timer for IoTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if at == Instant::FAR_FUTURE {
            self.set = None;
            return Poll::Pending;
        }
        let due = epoch() + at.saturating_since(Instant::ZERO);
        let (_, timer) = match &mut self.set {
            Some(set) => {
                // Setting a timer again takes a lock, so it is not done for the same time, unless that has
                // passed: a timer that has fired does not become ready a second time.
                if set.0 != at || due <= std::time::Instant::now() {
                    set.0 = at;
                    set.1.set_at(due);
                }
                set
            }
            none => none.insert((at, async_io::Timer::at(due))),
        };
        Pin::new(timer).poll(cx).map(drop)
    }
}
