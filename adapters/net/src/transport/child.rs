//! A server in a child process, connected by its standard input and output.
//!
//! The runtime starts it and waits for it: see [`Sockets::child_starter`](crate::Sockets::child_starter). All
//! else is here and the same everywhere.

use std::convert::Infallible;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use antiphon::CloseReason;
use async_channel::Receiver;

use super::child_output::ChildOutput;
use super::child_stderr::{OnStderr, Stderr, drain};
use crate::link::child_started::{Exit, SharedProcess, StartChild, StartedChild, cannot_start};
use crate::link::{Link, drive_on};
use crate::sockets::NetRuntime;
use antiphon_shell::{
    ConnectionConfig, Driver, Lock, Peer, Service, SharedRuntime, debug_fields, until,
};

/// How long after the exit of a child the end of its standard error is awaited, which a process that the
/// child has started may hold open.
const STDERR_TIMEOUT: Duration = Duration::from_millis(100);

/// How many bytes of the child's standard error are kept by default.
const DEFAULT_MAX_STDERR_BYTES: usize = 64 << 10;

/// Options of a child process. Made from [`ConnectionConfig`] or a [`Config`](antiphon::Config).
#[non_exhaustive]
pub struct ChildConfig {
    /// The options of the connection.
    pub connection: ConnectionConfig,
    /// How many of the last bytes of the child's standard error are kept. Default 64 KiB.
    pub max_stderr_bytes: usize,
    /// Is called with the child's standard error, in pieces of any size, on a task of the runtime, so it must
    /// not block. Default none.
    pub on_stderr: Option<OnStderr>,
}

impl<C: Into<ConnectionConfig>> From<C> for ChildConfig {
    fn from(connection: C) -> Self {
        Self {
            connection: connection.into(),
            max_stderr_bytes: DEFAULT_MAX_STDERR_BYTES,
            on_stderr: None,
        }
    }
}

debug_fields!(impl[] ChildConfig as "ChildConfig" { connection, max_stderr_bytes });

/// Returns a function that starts `command`. Its error names the command.
pub(crate) fn starter(command: Command, runtime: &NetRuntime) -> StartChild {
    let program = command.get_program().to_owned();
    let mut start = runtime.sockets().child_starter(command);
    Box::new(move || start().map_err(|error| cannot_start(&program, &error)))
}

/// A running child process and the connection to it.
///
/// Dropping it closes the connection and kills the child, which the runtime then reaps. To end it in order,
/// send the last messages of the protocol (LSP: `shutdown` and `exit`), then call [`close`](Self::close).
#[must_use = "dropping it kills the child"]
pub struct Child {
    peer: Peer,
    id: u32,
    process: SharedProcess,
    exit: Exit,
    stderr: Arc<Stderr>,
    /// It is closed once the standard error was read to its end. Nothing is ever sent.
    stderr_read: Arc<Receiver<Infallible>>,
    runtime: SharedRuntime,
}

debug_fields!(impl[] Child as "Child" { peer, id });

impl Child {
    /// Starts `command` and connects to its standard input and output. `service` answers its
    /// requests.
    ///
    /// # Errors
    /// The command cannot be started; the error names it. Or the runtime, which is none of this crate's,
    /// cannot start any.
    ///
    /// # Panics
    /// The runtime is tokio's, without its I/O.
    pub fn spawn(
        command: Command,
        options: impl Into<ChildConfig>,
        service: Arc<impl Service>,
        runtime: &NetRuntime,
    ) -> io::Result<Self> {
        let started = starter(command, runtime)()?;
        let (child, driver) = Self::of(started, options.into(), service, runtime);
        // The driver's result is dropped: the service and the peer tell how the connection ended.
        runtime.spawn(Box::pin(async { drop(driver.await) }));
        Ok(child)
    }

    /// Makes it of a child that was started. The driver has to be run.
    pub(crate) fn of(
        started: StartedChild,
        options: ChildConfig,
        service: Arc<impl Service>,
        runtime: &SharedRuntime,
    ) -> (Self, Driver) {
        let process = Arc::new(Lock::new(started.process));
        let (exit, watching) = Exit::of(&process);
        runtime.spawn(Box::pin(watching));

        let stderr = Arc::new(Stderr::new(options.max_stderr_bytes));
        let (reading, stderr_read) = async_channel::bounded::<Infallible>(1);
        let draining = drain(started.stderr, Arc::clone(&stderr), options.on_stderr);
        runtime.spawn(Box::pin(async move {
            draining.await;
            drop(reading);
        }));

        let output = ChildOutput::new(
            started.stdout,
            #[cfg(unix)]
            started.pipe,
            exit.clone(),
            Arc::clone(runtime),
        );
        let link = Link::from_futures_pair(output, started.stdin);
        let (peer, driver) = drive_on(link, options.connection, service, runtime);
        let child = Self {
            peer,
            id: started.id,
            process,
            exit,
            stderr,
            stderr_read: Arc::new(stderr_read),
            runtime: Arc::clone(runtime),
        };
        (child, driver)
    }

    /// The handle to the other side.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The last bytes that the child wrote to its standard error.
    pub fn stderr(&self) -> Vec<u8> {
        self.stderr.kept()
    }

    /// Waits for the child to exit. Returns `None` if that takes longer than `timeout`.
    ///
    /// # Errors
    /// The system does not report it, or the runtime has ended.
    pub async fn wait(&self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        let due = self.runtime.now() + timeout;
        until(&*self.runtime, due, self.exit.wait())
            .await
            .transpose()
    }

    /// Closes the connection, and with it the child's input, waits for the child to exit, and kills
    /// it after `timeout`. Afterwards [`stderr`](Self::stderr) has the last that it wrote.
    ///
    /// # Errors
    /// The system does not report how it ended, or the runtime has ended.
    pub async fn close(&self, timeout: Duration) -> io::Result<ExitStatus> {
        self.peer.close(CloseReason::Done);
        let status = match self.wait(timeout).await? {
            Some(status) => status,
            None => self.kill().await?,
        };
        let due = self.runtime.now() + STDERR_TIMEOUT;
        let _ = until(&*self.runtime, due, self.stderr_read.recv()).await;
        Ok(status)
    }

    /// Kills the child at once, also if the future is dropped before it is polled again, and reaps it. Returns
    /// the status of a child that had already exited.
    ///
    /// # Errors
    /// The system does not report how it ended, or the runtime has ended.
    pub async fn kill(&self) -> io::Result<ExitStatus> {
        // If it has exited, it cannot and need not be killed.
        let _ = self.process.lock().kill();
        self.exit.wait().await
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.peer.close(CloseReason::Done);
        // An error cannot be reported here.
        let _ = self.process.lock().kill();
    }
}
