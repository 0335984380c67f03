//! The standard output of a child process, up to its exit.
//!
//! ```text
//!   reading ──the child exits──▶ what is in the pipe is read ──▶ ChildExited
//!      └──the pipe ends──▶ the exit is awaited for a moment ──▶ ChildExited, or the end
//! ```
//!
//! The output ends with the child, even if a process that the child has started holds the pipe open
//! for ever. Everything that the child wrote before its exit is read first.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, Read, Take};
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::io::retry_on_intr;

use crate::lock::Lock;
use crate::transport::later::Later;

/// How long after the end of its output the exit of a child is awaited, to be reported. It closes
/// its output when it exits, shortly before its status is available.
const EXIT_TIMEOUT: Duration = Duration::from_millis(50);

/// The standard output of a child. After the child's exit reading fails with [`ChildExited`]. On systems
/// other than Unix, where one thread cannot wait for both the pipe and the exit, the output ends with
/// the pipe.
#[derive(Debug)]
pub struct ChildOutput {
    /// After the child has exited, limited to the bytes that were in the pipe then.
    stdout: Take<ChildStdout>,
    /// The end of a pipe that becomes readable when the child exits; nothing is ever written to it.
    #[cfg(unix)]
    exit: OwnedFd,
    #[cfg(unix)]
    has_exited: bool,
    child: Arc<Lock<Child>>,
}

impl ChildOutput {
    /// Observes the child whose output this is.
    pub(crate) fn new(stdout: ChildStdout, child: &Arc<Lock<Child>>) -> io::Result<Self> {
        Ok(Self {
            stdout: stdout.take(u64::MAX),
            #[cfg(unix)]
            exit: exit_of(&child.lock())?,
            #[cfg(unix)]
            has_exited: false,
            child: Arc::clone(child),
        })
    }

    /// Waits until there is something to read, or the child has exited.
    #[cfg(unix)]
    fn wait(&mut self) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        let stdout = self.stdout.get_ref();
        let mut fds = [
            PollFd::new(&self.exit, PollFlags::IN),
            PollFd::new(stdout, PollFlags::IN),
        ];
        retry_on_intr(|| poll(&mut fds, None))?;
        if !self.has_exited && !fds[0].revents().is_empty() {
            self.has_exited = true;
            let waiting = rustix::io::ioctl_fionread(stdout)?;
            self.stdout.set_limit(waiting);
        }
        Ok(())
    }
}

impl Read for ChildOutput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        self.wait()?;
        let n = self.stdout.read(buf)?;
        if n > 0 || buf.is_empty() {
            return Ok(n);
        }
        match wait_for_exit(&self.child, EXIT_TIMEOUT) {
            Ok(Some(status)) => Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                ChildExited(status),
            )),
            // The child has closed its output and is still running.
            _ => Ok(0),
        }
    }
}

/// Waits for a child to exit, and returns its status; `None` if it has not exited within that time.
pub(crate) fn wait_for_exit(
    child: &Lock<Child>,
    timeout: Duration,
) -> io::Result<Option<ExitStatus>> {
    let (began, mut later) = (Instant::now(), Later::new());
    loop {
        let status = child.lock().try_wait()?;
        let left = timeout.saturating_sub(began.elapsed());
        if status.is_some() || left.is_zero() {
            return Ok(status);
        }
        thread::sleep(later.longer().min(left));
    }
}

/// The child has exited, with this status. If the exit broke the connection, the fault of
/// [`Report::Transport`](crate::Report::Transport) is an [`io::Error`] whose
/// [`get_ref`](io::Error::get_ref) returns this. That error is also the source of
/// [`Peer::transport_error`](crate::Peer::transport_error).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildExited(ExitStatus);

impl ChildExited {
    /// How it exited.
    pub fn status(&self) -> ExitStatus {
        self.0
    }

    /// Returns the exit that the error contains, if it contains one.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for ChildExited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the child has exited: {}", self.0)
    }
}

impl Error for ChildExited {}

/// Returns the reading end of a pipe, which becomes readable when the child exits: a thread waits for the
/// child, and then drops the writing end.
#[cfg(unix)]
fn exit_of(child: &Child) -> io::Result<OwnedFd> {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let (ended, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let child = Pid::from_child(child);
    let watch = move || {
        // The child is not reaped, because its status is read later.
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = retry_on_intr(|| waitid(WaitId::Pid(child), how));
        drop(held);
    };
    let builder = thread::Builder::new().name("antiphon-child".into());
    builder.spawn(watch)?;
    Ok(ended)
}
