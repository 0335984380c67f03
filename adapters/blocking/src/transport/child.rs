//! A server in a child process, connected by its standard input and output.

use std::io;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use antiphon::CloseReason;
use antiphon_net::{ChildConfig, Later, Peer, Process, STDERR_TIMEOUT};

use crate::driver::connect;
use crate::serve::Service;
use crate::transport::link::Link;

/// A running child process and the connection to it.
///
/// Dropping it closes the connection, kills the child and reaps it. To end it in order, send the
/// last messages of the protocol (LSP: `shutdown` and `exit`), then call [`close`](Self::close).
#[derive(Debug)]
#[must_use = "dropping it kills the child"]
pub struct Child {
    peer: Peer,
    process: Process,
}

impl Child {
    /// Starts `command` and connects to its standard input and output. `service` answers its
    /// requests.
    ///
    /// # Errors
    /// The command cannot be started; the error's text has its name. Or the system refused a
    /// thread.
    pub fn spawn(
        command: Command,
        options: impl Into<ChildConfig>,
        service: impl Service,
    ) -> io::Result<Self> {
        let options = options.into();
        let (process, stdout, stdin) =
            Process::spawn(command, options.max_stderr_bytes, options.on_stderr)?;
        let peer = connect(Link::new(stdout, stdin), options.options, service)?;
        Ok(Self { peer, process })
    }

    /// The handle to the other side.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The last bytes that the child wrote to its standard error.
    pub fn stderr(&self) -> Vec<u8> {
        self.process.stderr()
    }

    /// Waits for the child to exit. Returns `None` if that takes longer than `timeout`.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        self.process.wait(timeout)
    }

    /// Closes the connection, and with it the child's input, waits for the child to exit, and kills
    /// it after `timeout`. Afterwards [`stderr`](Self::stderr) has the last that it wrote.
    ///
    /// # Errors
    /// The system does not report how it ended.
    pub fn close(&self, timeout: Duration) -> io::Result<ExitStatus> {
        self.peer.close(CloseReason::Done);
        let status = match self.wait(timeout)? {
            Some(status) => status,
            None => self.kill()?,
        };
        let (began, mut later) = (Instant::now(), Later::new());
        while !self.process.is_stderr_read() && began.elapsed() < STDERR_TIMEOUT {
            later.pause();
        }
        Ok(status)
    }

    /// Kills the child at once, and reaps it. Returns the status of a child that had already
    /// exited.
    ///
    /// # Errors
    /// The system does not report how it ended.
    pub fn kill(&self) -> io::Result<ExitStatus> {
        self.process.kill()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.peer.close(CloseReason::Done);
    }
}
