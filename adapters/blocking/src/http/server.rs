//! The one thread of an HTTP server, and its end.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon::Instant;
use antiphon_async::http::{Endpoint, HttpOptions};
use antiphon_async::{Clock, Runtime, SharedRuntime, Task, Timer};
use antiphon_async_std::{Executor, Futures, TcpServer};
use antiphon_session::Context;
use async_executor::Executor as Tasks;
use async_io::{Async, block_on};

use super::service::{Done, OnPool};
use crate::service::Service;

/// A server that is running. Dropping it stops it.
#[must_use = "dropping it stops the server"]
pub struct Running {
    /// None once it is being stopped.
    server: Option<antiphon_async::Running>,
    stop: Done,
    thread: Option<JoinHandle<()>>,
}

/// The tasks of one thread, with timers.
struct OneThread {
    tasks: Weak<Tasks<'static>>,
    timers: SharedRuntime,
}

impl Clock for OneThread {
    fn now(&self) -> Instant {
        self.timers.now()
    }
}

impl Runtime for OneThread {
    fn spawn(&self, task: Task) {
        // A thread that has ended runs nothing; who waits for the task sees it dropped.
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.spawn(task).detach();
        }
    }

    fn timer(&self) -> Box<dyn Timer> {
        self.timers.timer()
    }
}

impl Running {
    pub(crate) fn start<S: Service>(
        listener: TcpListener,
        connections_max: usize,
        options: HttpOptions,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
        secure: impl FnOnce(TcpServer) -> TcpServer,
    ) -> io::Result<Self> {
        let tasks = Arc::new(Tasks::new());
        let runtime: SharedRuntime = Arc::new(OneThread {
            tasks: Arc::downgrade(&tasks),
            // Only its timers: tasks are run by the thread.
            timers: Futures::on(Executor::Other(drop)),
        });
        let listener = Async::new(listener)?.into();
        let server = TcpServer::from_listener_on(listener, Arc::clone(&runtime))?;
        let endpoint = Endpoint::new(options, OnPool::new(make), runtime);
        let stop = Done::default();
        let stopping = stop.clone();
        let thread = thread::Builder::new()
            .name("antiphon-http".into())
            .spawn(move || {
                block_on(tasks.run(stopping.wait()));
                // What is left of the tasks is dropped here, and with it every connection.
            })?;
        let server = secure(server)
            .with_connections_max(connections_max)
            .start_protocol(endpoint);
        Ok(Self {
            server: Some(server),
            stop,
            thread: Some(thread),
        })
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.server
            .as_ref()
            .map_or(0, antiphon_async::Running::connections)
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
        self.server = None;
        self.stop.tell();
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed.
            let _ = thread.join();
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
