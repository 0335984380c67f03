//! A server in a child process, spoken to over its standard input and output.
//!
//! The rules guarded here: the child's log is always read, so that it cannot block the child; and
//! no child outlives its handle.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::process::{self, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{CloseReason, Config};
use antiphon_session::Options;

use crate::driver::connect;
use crate::link::Link;
use crate::peer::Peer;
use crate::service::Service;

/// How much of the child's log is kept, if nothing else is said.
const STDERR_BYTES_MAX_DEFAULT: usize = 64 << 10;

/// The first and the longest pause between two looks at whether the child has exited.
const EXIT_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

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

/// A running child process and the connection to it.
///
/// Dropping it closes the connection, kills the child and reaps it. To end it in good order say
/// whatever the protocol says at the end, then call [`close`](Self::close).
#[must_use = "dropping it kills the child"]
pub struct Child {
    peer: Peer,
    process: Mutex<process::Child>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    program: String,
}

impl Child {
    /// Starts `command` and speaks to it over its standard input and output. `service` answers
    /// what it asks.
    ///
    /// # Errors
    /// The command cannot be started; the error names it.
    pub fn spawn(
        mut command: Command,
        options: impl Into<ChildOptions>,
        service: impl Service,
    ) -> io::Result<Self> {
        let ChildOptions {
            options,
            stderr_bytes_max,
            on_stderr,
        } = options.into();
        let program = command.get_program().to_string_lossy().into_owned();
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("cannot start `{program}`: {error}"))
            })?;
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let started = Self::attach(
            &mut process,
            options,
            service,
            (Arc::clone(&stderr), stderr_bytes_max, on_stderr),
        );
        match started {
            Ok(peer) => Ok(Self {
                peer,
                process: Mutex::new(process),
                stderr,
                program,
            }),
            Err(error) => {
                // It has been started for nothing.
                let _ = process.kill();
                let _ = process.wait();
                Err(error)
            }
        }
    }

    fn attach(
        process: &mut process::Child,
        options: Options,
        service: impl Service,
        (kept, bytes_max, on_stderr): (Arc<Mutex<VecDeque<u8>>>, usize, Option<OnStderr>),
    ) -> io::Result<Peer> {
        let pipes = (
            process.stdin.take(),
            process.stdout.take(),
            process.stderr.take(),
        );
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        thread::Builder::new()
            .name("antiphon-stderr".into())
            .spawn(move || drain_stderr(stderr, &kept, bytes_max, on_stderr))?;
        connect(Link::new(stdout, stdin), options, service)
    }

    /// The handle to the other side.
    pub fn peer(&self) -> &Peer {
        &self.peer
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

    /// Waits for the child to exit by itself. `None` if that takes longer than `timeout`.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + timeout;
        let (mut pause, pause_max) = EXIT_PAUSES;
        loop {
            // The lock is not held while waiting, so that another thread can kill it.
            if let Some(status) = self.lock().try_wait()? {
                return Ok(Some(status));
            }
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            thread::sleep(pause.min(deadline - now));
            pause = (pause * 2).min(pause_max);
        }
    }

    /// Ends the conversation: closes the connection, and with it the child's input, waits for the
    /// child to exit, and kills it after `timeout`.
    ///
    /// # Errors
    /// The system does not tell how it ended.
    pub fn close(self, timeout: Duration) -> io::Result<ExitStatus> {
        self.peer.close(CloseReason::Done);
        if let Some(status) = self.wait(timeout)? {
            return Ok(status);
        }
        self.kill()
    }

    /// Kills the child at once, and reaps it. An exit before that keeps its status.
    ///
    /// # Errors
    /// The system does not tell how it ended.
    pub fn kill(&self) -> io::Result<ExitStatus> {
        let mut process = self.lock();
        // One that has exited cannot be killed, and need not be.
        let _ = process.kill();
        process.wait()
    }

    fn lock(&self) -> MutexGuard<'_, process::Child> {
        // Nothing that can panic runs under the lock.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.peer.close(CloseReason::Done);
        // There is nobody left to tell.
        let _ = self.kill();
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("program", &self.program)
            .field("process", &self.id())
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
