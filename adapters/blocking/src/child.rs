//! A server in a child process, connected by its standard input and output.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use antiphon_net::{ChildConfig, Peer};
use async_io::block_on;

use crate::driver::in_turn;
use crate::in_turn::InTurn;
use crate::runtime::runtime;
use crate::serve::Service;

/// A running child process and the connection to it.
///
/// Dropping it closes the connection, kills the child and reaps it. To end it in order, send the
/// last messages of the protocol (LSP: `shutdown` and `exit`), then call [`close`](Self::close).
#[derive(Debug)]
#[must_use = "dropping it kills the child"]
pub struct Child(antiphon_net::Child);

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
        let mut options = options.into();
        options.connection = in_turn(options.connection);
        let (service, _) = InTurn::new(service);
        antiphon_net::Child::spawn(command, options, Arc::new(service), &runtime()?).map(Self)
    }

    /// The handle to the other side.
    pub fn peer(&self) -> &Peer {
        self.0.peer()
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The last bytes that the child wrote to its standard error.
    pub fn stderr(&self) -> Vec<u8> {
        self.0.stderr()
    }

    /// Waits for the child to exit. Returns `None` if that takes longer than `timeout`.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        block_on(self.0.wait(timeout))
    }

    /// Closes the connection, and with it the child's input, waits for the child to exit, and kills
    /// it after `timeout`. Afterwards [`stderr`](Self::stderr) has the last that it wrote.
    ///
    /// # Errors
    /// The system does not report how it ended.
    pub fn close(&self, timeout: Duration) -> io::Result<ExitStatus> {
        block_on(self.0.close(timeout))
    }

    /// Kills the child at once, and reaps it. Returns the status of a child that had already
    /// exited.
    ///
    /// # Errors
    /// The system does not report how it ended.
    pub fn kill(&self) -> io::Result<ExitStatus> {
        block_on(self.0.kill())
    }
}

/// The process is gone when this returns.
impl Drop for Child {
    fn drop(&mut self) {
        // If it has ended by itself, that is fine.
        let _ = self.kill();
    }
}
