//! A running server: [`antiphon_net::Running`], for a thread that waits.

use std::fmt;
use std::time::Duration;

use async_io::block_on;

/// A server that is running. Dropping it stops it.
#[must_use = "dropping it stops the server"]
pub struct Running {
    /// `None` once the server is being ended.
    server: Option<antiphon_net::Running>,
}

impl Running {
    pub(crate) fn new(server: antiphon_net::Running) -> Self {
        Self {
            server: Some(server),
        }
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        let server = self.server.as_ref();
        server.map_or(0, antiphon_net::Running::connections)
    }

    /// Stops listening and closes every connection.
    pub fn stop(self) {}

    /// Stops listening, lets running requests finish, and closes the connections that are left
    /// after `grace`; these then have 5 s to write queued output. Returns whether all connections
    /// had ended before `grace` was over.
    pub fn shutdown(mut self, grace: Duration) -> bool {
        let server = self.server.take();
        server.is_none_or(|server| block_on(server.shutdown(grace)))
    }

    /// Serves until the process ends: this does not return.
    pub fn wait(mut self) {
        if let Some(server) = self.server.take() {
            block_on(server.wait());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            block_on(server.close());
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}
