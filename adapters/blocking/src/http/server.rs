//! A server over HTTP: the engine's for tasks, on the thread of HTTP.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use antiphon_net::Context;
use antiphon_net::TcpServer;
use antiphon_net::http::{Endpoint, HttpOptions};
use async_io::block_on;

use super::service::OnPool;
use super::tasks::runtime;
use crate::service::Service;

/// A server that is running. Dropping it stops it.
#[must_use = "dropping it stops the server"]
pub struct Running {
    /// None once it has ended.
    server: Option<antiphon_net::Running>,
}

impl Running {
    pub(crate) fn start<S: Service>(
        listener: TcpListener,
        options: HttpOptions,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
        prepare: impl FnOnce(TcpServer) -> TcpServer,
    ) -> io::Result<Self> {
        let runtime = runtime()?;
        let server = TcpServer::from_listener_on(listener, Arc::clone(&runtime))?;
        let endpoint = Endpoint::new(options, OnPool::new(make), runtime);
        let server = prepare(server).start_protocol(endpoint);
        Ok(Self {
            server: Some(server),
        })
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.server
            .as_ref()
            .map_or(0, antiphon_net::Running::connections)
    }

    /// Stops listening and closes every connection at once.
    pub fn stop(self) {}

    /// Stops listening, lets the connections finish what has begun, and closes what is left after
    /// `grace`. Says whether all had ended by themselves.
    pub fn shutdown(mut self, grace: Duration) -> bool {
        match self.server.take() {
            Some(server) => block_on(server.shutdown(grace)),
            None => true,
        }
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(server) = self.server.take() {
            block_on(server.wait());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            block_on(server.shutdown(Duration::ZERO));
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
