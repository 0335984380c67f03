//! A child process whose standard streams are a connection. Its standard error is always read, so
//! that it cannot block the child, and no child outlives its handle.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon::Config;

use crate::debug::debug_fields;
use crate::lock::Lock;
use crate::options::ConnectionConfig;
use crate::transport::child_output::{ChildOutput, wait_for_exit};

/// How many bytes of the child's standard error are kept by default.
const DEFAULT_MAX_STDERR_BYTES: usize = 64 << 10;

/// Is called with the child's standard error, in pieces of any size.
type OnStderr = Box<dyn FnMut(&[u8]) + Send>;

/// Options of a child process. Made from [`ConnectionConfig`] or a [`Config`](antiphon::Config).
#[non_exhaustive]
pub struct ChildConfig {
    /// The options of the connection.
    pub options: ConnectionConfig,
    /// How many of the last bytes of the child's standard error are kept. Default 64 KiB.
    pub max_stderr_bytes: usize,
    /// Is called with the child's standard error, in pieces of any size. Default none.
    pub on_stderr: Option<OnStderr>,
}

impl From<ConnectionConfig> for ChildConfig {
    fn from(options: ConnectionConfig) -> Self {
        Self {
            options,
            max_stderr_bytes: DEFAULT_MAX_STDERR_BYTES,
            on_stderr: None,
        }
    }
}

impl From<Config> for ChildConfig {
    fn from(config: Config) -> Self {
        ConnectionConfig::from(config).into()
    }
}

debug_fields!(impl[] ChildConfig as "ChildConfig" { options, max_stderr_bytes });

/// A running child process. Dropping it kills and reaps the child.
#[must_use = "dropping it kills the child"]
pub struct Process {
    id: u32,
    child: Arc<Lock<Child>>,
    stderr: Arc<Lock<VecDeque<u8>>>,
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
        let mut child = command.spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy();
            io::Error::new(error.kind(), format!("cannot start `{program}`: {error}"))
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on the child is killed if it cannot be used.
        let mut process = Self {
            id: child.id(),
            child: Arc::new(Lock::new(child)),
            stderr: Arc::default(),
            reading: None,
        };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let kept = Arc::clone(&process.stderr);
        let reading = thread::Builder::new()
            .name("antiphon-stderr".into())
            .spawn(move || drain_stderr(stderr, &kept, max_stderr_bytes, on_stderr))?;
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
        self.stderr.lock().iter().copied().collect()
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
fn drain_stderr(
    mut stderr: ChildStderr,
    kept: &Lock<VecDeque<u8>>,
    max_bytes: usize,
    mut on_stderr: Option<OnStderr>,
) {
    let mut piece = [0; 8 << 10];
    loop {
        let n = match stderr.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
            Ok(n) => n,
        };
        let read = &piece[..n];
        if let Some(see) = &mut on_stderr {
            if catch_unwind(AssertUnwindSafe(|| see(read))).is_err() {
                on_stderr = None;
            }
        }
        let mut kept = kept.lock();
        kept.extend(&read[n.saturating_sub(max_bytes)..]);
        let excess = kept.len().saturating_sub(max_bytes);
        kept.drain(..excess);
    }
}
