//! A child process as a runtime starts it, and its exit.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::future::{Future, poll_fn};
use std::io;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use async_channel::Receiver;
use futures_io::{AsyncRead, AsyncWrite};

use antiphon_shell::Lock;

/// A child as a runtime starts it.
pub struct StartedChild {
    pub(crate) id: u32,
    pub(crate) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// The pipe that `stdout` reads.
    #[cfg(unix)]
    pub(crate) pipe: OwnedFd,
    pub(crate) process: Box<dyn RunningProcess>,
}

/// Starts a child at each call.
pub(crate) type StartChild = Box<dyn FnMut() -> io::Result<StartedChild> + Send>;

/// A process that a runtime has started. Dropping it kills it.
pub(crate) trait RunningProcess: Send {
    /// Is ready when the process has exited and was reaped.
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>>;

    /// Kills it, if it has not exited.
    fn kill(&mut self) -> io::Result<()>;
}

/// A process that is waited for and killed from several places.
pub(crate) type SharedProcess = Arc<Lock<Box<dyn RunningProcess>>>;

/// The exit of a child, which any number of tasks wait for.
#[derive(Clone)]
pub(crate) struct Exit {
    status: Arc<OnceLock<Result<ExitStatus, io::ErrorKind>>>,
    /// It is closed once the status is set. Nothing is ever sent.
    ended: Arc<Receiver<Infallible>>,
}

impl Exit {
    /// Returns the exit of a process, and what a task has to run.
    pub(crate) fn of(process: &SharedProcess) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (running, ended) = async_channel::bounded(1);
        let status = Arc::<OnceLock<_>>::default();
        let (process, set) = (Arc::clone(process), Arc::clone(&status));
        let watching = async move {
            let exit = poll_fn(|cx| process.lock().poll_exit(cx)).await;
            // Nobody else sets it.
            let _ = set.set(exit.map_err(|error| error.kind()));
            drop(running);
        };
        let ended = Arc::new(ended);
        (Self { status, ended }, watching)
    }

    /// Waits for the status. It is an error if the runtime ends before the child.
    pub(crate) async fn wait(&self) -> io::Result<ExitStatus> {
        let _ = self.ended.recv().await;
        let status = self.status.get().copied();
        Ok(status.unwrap_or(Err(io::ErrorKind::BrokenPipe))?)
    }
}

/// Returns the error of a command that cannot be started, with its name.
pub(crate) fn cannot_start(program: &OsStr, error: &io::Error) -> io::Error {
    let program = program.to_string_lossy();
    io::Error::new(error.kind(), format!("cannot start `{program}`: {error}"))
}
