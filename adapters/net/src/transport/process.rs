//! A child process whose standard streams are read and written by threads, for the adapter for threads.
//!
//! Its output is that of [`child_output`](super::child_output), its standard error that of
//! [`child_stderr`](super::child_stderr).

use std::fmt;
use std::io::{self, ErrorKind, Read, Take};
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::io::retry_on_intr;

use super::child_output::{ChildExited, EXIT_TIMEOUT};
use super::child_started::cannot_start;
use super::child_stderr::{OnStderr, PIECE_BYTES, Stderr};
use super::later::Later;
use crate::lock::Lock;

/// A running child process. Dropping it kills and reaps the child.
#[must_use = "dropping it kills the child"]
pub struct Process {
    id: u32,
    child: Arc<Lock<Child>>,
    stderr: Arc<Stderr>,
    /// The thread that reads the child's standard error; `None` if it could not be started.
    reading: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `command`, and returns its output and its input.
    ///
    /// # Errors
    /// The command cannot be started; the error's text has its name. Or the system refused a
    /// thread.
    pub fn spawn(
        mut command: Command,
        max_stderr_bytes: usize,
        on_stderr: Option<OnStderr>,
    ) -> io::Result<(Self, ChildOutput, ChildStdin)> {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| cannot_start(command.get_program(), &error))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on the child is killed if it cannot be used.
        let mut process = Self {
            id: child.id(),
            child: Arc::new(Lock::new(child)),
            stderr: Arc::new(Stderr::new(max_stderr_bytes)),
            reading: None,
        };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let kept = Arc::clone(&process.stderr);
        let reading = thread::Builder::new()
            .name("antiphon-stderr".into())
            .spawn(move || drain_stderr(stderr, &kept, on_stderr))?;
        process.reading = Some(reading);
        let stdout = ChildOutput::new(stdout, &process.child)?;
        Ok((process, stdout, stdin))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The last bytes that the child wrote to its standard error.
    pub fn stderr(&self) -> Vec<u8> {
        self.stderr.kept()
    }

    /// Whether the child's standard error was read to its end.
    pub fn is_stderr_read(&self) -> bool {
        self.reading.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the child to exit. Returns `None` if that takes longer than `timeout`. No lock is
    /// held while waiting, so another thread can kill it.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        wait_for_exit(&self.child, timeout)
    }

    /// Kills the child at once, and reaps it. Returns the status of a child that had already
    /// exited.
    ///
    /// # Errors
    /// The system does not report how it ended.
    pub fn kill(&self) -> io::Result<ExitStatus> {
        let mut child = self.child.lock();
        // If it has exited, it cannot and need not be killed.
        let _ = child.kill();
        child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error cannot be reported here.
        let _ = self.kill();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.id).finish()
    }
}

/// Reads the child's standard error to its end, whatever happens to the connection.
fn drain_stderr(mut stderr: ChildStderr, kept: &Stderr, mut on_stderr: Option<OnStderr>) {
    let mut piece = [0; PIECE_BYTES];
    loop {
        match stderr.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(n) => kept.add(&piece[..n], &mut on_stderr),
        }
    }
}

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
            Ok(Some(status)) => Err(ChildExited::error(status)),
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
