//! A running server, and how to end it.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use antiphon::{Shutdown, ShutdownAction};

use super::connections::Connections;
use super::ending::End;
use antiphon_shell::SharedRuntime;

/// How long connections that are closed at the end of a shutdown may take to write queued output.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that is running. Dropping it stops it.
#[must_use = "dropping it stops the server"]
pub struct Running {
    pub(crate) connections: Arc<Connections>,
    pub(crate) runtime: SharedRuntime,
}

impl Running {
    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Stops listening and closes every connection at once.
    pub fn stop(self) {}

    /// Stops listening and closes every connection at once, and waits until the listener has
    /// stopped.
    pub async fn close(self) {
        self.connections.tell(End::Now);
        poll_fn(|cx| self.connections.poll_stopped(cx)).await;
    }

    /// Stops listening, lets running requests finish, and closes the connections that are left
    /// after `grace`; these then have 5 s to write queued output. Returns whether all connections
    /// had ended before `grace` was over.
    pub async fn shutdown(self, grace: Duration) -> bool {
        let mut shutdown = Shutdown::new(FLUSH_TIMEOUT);
        shutdown.begin(self.runtime.now(), grace);
        let mut timer = self.runtime.timer();
        poll_fn(|cx| {
            loop {
                let now = self.runtime.now();
                if self.connections.poll_over(cx).is_ready() {
                    shutdown.handle_idle(now);
                    shutdown.handle_flushed();
                }
                while let Some(action) = shutdown.poll_action(now) {
                    self.connections.tell(match action {
                        ShutdownAction::Drain => End::Drain,
                        ShutdownAction::Flush => End::Now,
                        ShutdownAction::Release => End::Release,
                    });
                }
                let Some(until_at) = shutdown.poll_timeout() else {
                    return Poll::Ready(shutdown.is_clean());
                };
                ready!(timer.poll_until(until_at, cx));
            }
        })
        .await
    }

    /// Waits until the listener ends. It ends only when the runtime ends, because this takes the only
    /// handle that can stop the server. Dropping the future stops the server.
    pub async fn wait(self) {
        poll_fn(|cx| self.connections.poll_stopped(cx)).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.connections.tell(End::Now);
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}
