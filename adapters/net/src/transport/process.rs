//! A child process whose standard streams carry a connection.
//!
//! The rules guarded here: the child's log is always read, so that it cannot block the child; and
//! no child outlives its handle.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::process::{self, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use antiphon::Config;

use crate::options::Options;
use crate::transport::child_output::{ChildOutput, lock};

/// How much of the child's log is kept, if nothing else is said.
const STDERR_BYTES_MAX_DEFAULT: usize = 64 << 10;

/// Sees the child's standard error as it comes, in pieces of any size.
type OnStderr = Box<dyn FnMut(&[u8]) + Send>;

/// How to speak to a child process. Made from [`Options`] or a [`Config`](antiphon::Config).
#[non_exhaustive]
pub struct ChildOptions {
    /// The connection.
    pub options: Options,
    /// How many of the last bytes of the child's standard error are kept. Default 64 KiB.
    pub stderr_bytes_max: usize,
    /// Sees the child's standard error as it comes, in pieces of any size. Default none.
    pub on_stderr: Option<OnStderr>,
}

impl From<Options> for ChildOptions {
    fn from(options: Options) -> Self {
        Self {
            options,
            stderr_bytes_max: STDERR_BYTES_MAX_DEFAULT,
            on_stderr: None,
        }
    }
}

impl From<Config> for ChildOptions {
    fn from(config: Config) -> Self {
        Options::from(config).into()
    }
}

impl fmt::Debug for ChildOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildOptions")
            .field("options", &self.options)
            .field("stderr_bytes_max", &self.stderr_bytes_max)
            .finish_non_exhaustive()
    }
}

/// A running child process. Dropping it kills and reaps the child.
#[must_use = "dropping it kills the child"]
pub struct Process {
    child: Arc<Mutex<process::Child>>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    program: String,
}

impl Process {
    /// Starts `command`, and gives what it writes and what it reads.
    ///
    /// # Errors
    /// The command cannot be started; the error names it. Or the system refused a thread.
    pub fn spawn(
        mut command: Command,
        stderr_bytes_max: usize,
        on_stderr: Option<OnStderr>,
    ) -> io::Result<(Self, ChildOutput, ChildStdin)> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("cannot start `{program}`: {error}"))
            })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        // From here on it is killed if it cannot be used.
        let process = Self {
            child: Arc::new(Mutex::new(child)),
            stderr: Arc::clone(&kept),
            program,
        };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        thread::Builder::new()
            .name("antiphon-stderr".into())
            .spawn(move || drain_stderr(stderr, &kept, stderr_bytes_max, on_stderr))?;
        let stdout = ChildOutput::new(stdout, &process.child)?;
        Ok((process, stdout, stdin))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.lock().id()
    }

    /// The last bytes that the child wrote to its standard error.
    pub fn stderr(&self) -> Vec<u8> {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().copied().collect()
    }

    /// How the child exited; none if it has not.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.lock().try_wait()
    }

    /// Kills the child at once, and reaps it. An exit before that keeps its status.
    ///
    /// # Errors
    /// The system does not tell how it ended.
    pub fn kill(&self) -> io::Result<ExitStatus> {
        let mut child = self.lock();
        // One that has exited cannot be killed, and need not be.
        let _ = child.kill();
        child.wait()
    }

    fn lock(&self) -> MutexGuard<'_, process::Child> {
        lock(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = self.kill();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("program", &self.program)
            .field("number", &self.id())
            .finish_non_exhaustive()
    }
}

/// Reads the child's log to its end, whatever becomes of the connection.
fn drain_stderr(
    mut stderr: ChildStderr,
    kept: &Mutex<VecDeque<u8>>,
    bytes_max: usize,
    mut on_stderr: Option<OnStderr>,
) {
    let mut piece = [0; 8 << 10];
    loop {
        let n = match stderr.read(&mut piece) {
            Ok(0) => return,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let read = &piece[..n];
        if let Some(see) = &mut on_stderr {
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| see(read)));
            if seen.is_err() {
                on_stderr = None;
            }
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&read[n.saturating_sub(bytes_max)..]);
        let excess = kept.len().saturating_sub(bytes_max);
        kept.drain(..excess);
    }
}
