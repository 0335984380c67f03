//! What a child process writes to its standard output, up to its exit.
//!
//! ```text
//!   reading ──the child exits──▶ what is in the pipe is read ──▶ ChildExited
//!      └──the pipe ends──▶ the exit is awaited for a moment ──▶ ChildExited, or the end
//! ```
//!
//! The rule guarded here: output ends with the child, although a process that it has started may hold the pipe open for
//! ever; and what the child wrote before its exit is read first.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::process::{self, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(unix)]
use exit::Exit;

/// The standard output of a child. After its exit reading fails once with [`ChildExited`]. Where the system has no way to
/// wait for both, it ends with the pipe.
pub struct ChildOutput {
    stdout: ChildStdout,
    #[cfg(unix)]
    exit: Exit,
    /// How much of what was in the pipe at the exit has not been read; none before the exit.
    left: Option<usize>,
    /// Nothing more is read.
    is_over: bool,
    child: Arc<Mutex<process::Child>>,
}

impl ChildOutput {
    /// Watches over the child whose output this is.
    pub(crate) fn new(stdout: ChildStdout, child: &Arc<Mutex<process::Child>>) -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            exit: Exit::watch(lock(child).id())?,
            stdout,
            left: None,
            is_over: false,
            child: Arc::clone(child),
        })
    }

    /// Waits until there is something to read, or the child has exited.
    #[cfg(unix)]
    fn wait(&mut self) -> io::Result<()> {
        if self.left.is_none() && self.exit.wait_beside(&self.stdout)? {
            let waiting = rustix::io::ioctl_fionread(&self.stdout)?;
            self.left = Some(usize::try_from(waiting).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The end of the output.
    fn end(&mut self) -> io::Result<usize> {
        self.is_over = true;
        #[cfg(unix)]
        self.exit.wait_a_moment();
        match lock(&self.child).try_wait() {
            Ok(Some(status)) => Err(ChildExited(status).into()),
            // It has closed its output and runs on.
            _ => Ok(0),
        }
    }
}

impl Read for ChildOutput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.is_over || buf.is_empty() {
            return Ok(0);
        }
        self.wait()?;
        let room = self.left.map_or(buf.len(), |left| left.min(buf.len()));
        let n = match room {
            0 => 0,
            room => self.stdout.read(&mut buf[..room])?,
        };
        if n == 0 {
            return self.end();
        }
        if let Some(left) = &mut self.left {
            *left -= n;
        }
        Ok(n)
    }
}

impl fmt::Debug for ChildOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildOutput")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// Takes the lock of a child.
pub(super) fn lock(child: &Mutex<process::Child>) -> MutexGuard<'_, process::Child> {
    // Nothing that can panic runs under the lock.
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The child has exited, with this status. The source of the transport's error, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildExited(ExitStatus);

impl ChildExited {
    /// How it exited.
    pub fn status(&self) -> ExitStatus {
        self.0
    }

    /// The exit that an error tells of.
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

impl From<ChildExited> for io::Error {
    fn from(exited: ChildExited) -> Self {
        Self::new(io::ErrorKind::UnexpectedEof, exited)
    }
}

/// The exit of a child as something that can be waited for beside a pipe.
#[cfg(unix)]
mod exit {
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::thread;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    /// How long after the end of its output a child may take to exit and still be told of. It closes its output when it
    /// exits, some moments before its status is there.
    const EXIT_TIME_MAX: Duration = Duration::from_millis(50);

    /// Ends when the child exits: nothing is ever written to it.
    pub(super) struct Exit(OwnedFd);

    impl Exit {
        /// Watches over the child of that number, on a thread that ends with it.
        pub(super) fn watch(child: u32) -> io::Result<Self> {
            let (ended, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            let child = i32::try_from(child).ok().and_then(Pid::from_raw);
            let child = child.ok_or(io::ErrorKind::InvalidInput)?;
            let body = move || {
                // It is not reaped: its status is asked for later.
                let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                while let Err(Errno::INTR) = waitid(WaitId::Pid(child), how) {}
                drop(held);
            };
            let builder = thread::Builder::new().name("antiphon-child".into());
            builder.spawn(body)?;
            Ok(Self(ended))
        }

        /// Waits until `stdout` has something to read, or an end, or the child has exited. Says whether it has.
        pub(super) fn wait_beside(&self, stdout: impl AsFd) -> io::Result<bool> {
            let mut fds = [
                PollFd::new(&self.0, PollFlags::IN),
                PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN),
            ];
            loop {
                match poll(&mut fds, None) {
                    Err(Errno::INTR) => {}
                    polled => {
                        polled?;
                        return Ok(!fds[0].revents().is_empty());
                    }
                }
            }
        }

        /// Waits for the exit, but not for long.
        pub(super) fn wait_a_moment(&self) {
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            let span = Timespec {
                tv_sec: 0,
                tv_nsec: EXIT_TIME_MAX.subsec_nanos().into(),
            };
            // Whatever comes of it, the status is asked for next.
            let _ = poll(&mut fds, Some(&span));
        }
    }
}
