//! A server in a child process, connected by its standard input and output.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use antiphon::CloseReason;

use crate::driver::drive;
use crate::peer::Peer;
use crate::runtime::{SharedRuntime, sleep_until};
use crate::service::Service;
use crate::transport::later::Later;
use crate::transport::link::Link;
use crate::transport::process::{ChildConfig, Process};

/// How long after the exit of a child the end of its standard error is awaited, which a process that the
/// child has started may hold open.
pub const STDERR_TIMEOUT: Duration = Duration::from_millis(100);

/// A running child process and the connection to it.
///
/// Dropping it closes the connection, kills the child and reaps it. To end it in order, send the
/// last messages of the protocol (LSP: `shutdown` and `exit`), then call [`close`](Self::close).
#[derive(Debug)]
#[must_use = "dropping it kills the child"]
pub struct Child {
    peer: Peer,
    process: Process,
    runtime: SharedRuntime,
}

impl Child {
    /// Starts `command` and connects to its standard input and output. `service` answers its
    /// requests. Its output is read as in [`Link::from_blocking`].
    ///
    /// # Errors
    /// The command cannot be started; the error names it.
    pub fn spawn(
        command: Command,
        options: impl Into<ChildConfig>,
        service: impl Service,
        runtime: &SharedRuntime,
    ) -> io::Result<Self> {
        let options = options.into();
        let (process, stdout, stdin) =
            Process::spawn(command, options.max_stderr_bytes, options.on_stderr)?;
        let link = Link::from_blocking(stdout, stdin);
        let (peer, driver) = drive(link, options.options, Arc::new(service), runtime);
        // The driver's result is dropped: the service and the peer tell how the connection ended.
        runtime.spawn(Box::pin(async { drop(driver.await) }));
        let runtime = Arc::clone(runtime);
        Ok(Self {
            peer,
            process,
            runtime,
        })
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
    pub async fn wait(&self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        let (deadline, mut later) = (self.runtime.now() + timeout, Later::new());
        loop {
            let status = self.process.wait(Duration::ZERO)?;
            let now = self.runtime.now();
            if status.is_some() || now >= deadline {
                return Ok(status);
            }
            sleep_until(&*self.runtime, deadline.min(now + later.longer())).await;
        }
    }

    /// Closes the connection, and with it the child's input, waits for the child to exit, and kills
    /// it after `timeout`. Afterwards [`stderr`](Self::stderr) has the last that it wrote.
    ///
    /// # Errors
    /// The system does not report how it ended.
    pub async fn close(&self, timeout: Duration) -> io::Result<ExitStatus> {
        self.peer.close(CloseReason::Done);
        let status = match self.wait(timeout).await? {
            Some(status) => status,
            None => self.kill()?,
        };
        let (deadline, mut later) = (self.runtime.now() + STDERR_TIMEOUT, Later::new());
        while !self.process.is_stderr_read() && self.runtime.now() < deadline {
            sleep_until(&*self.runtime, self.runtime.now() + later.longer()).await;
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
