//! Durable subscriptions and topics for more than one machine, over NATS.
//!
//! ```text
//!   submit ─▶ lanes (the order) ─▶ log, cursors ─▶ link ─▶ JetStream
//!             └──────── a thread with a tokio runtime of its own ────────┘
//! ```
//!
//! | file | has |
//! |---|---|
//! | `lanes` | the order of commands |
//! | `log` | messages: a stream for each topic |
//! | `cursors` | positions: a bucket, whose keys are changed by compare and set |
//! | `hub` | what hubs over one store tell each other |
//! | `link` | the connection, and what a request becomes while the server is away |
//! | `names` | the names of streams, subjects and keys |
//! | `topics` | ephemeral topics |

mod cursors;
mod hub;
mod lanes;
mod link;
mod log;
mod names;
mod topics;

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use antiphon::durable::{Command, Completer, Durability, Observer, Store};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use hub::Hub;
use lanes::Job;
use link::Link;
pub use topics::NatsTopics;

/// Which servers, and what is kept there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NatsOptions {
    /// The addresses of one or more servers of a cluster, with commas in between: `nats://HOST:PORT`, `tls://…`, with
    /// `USER:PASSWORD@` or `TOKEN@` before the host.
    pub servers: String,
    /// What all names at the server begin with: letters, digits, `-` and `_`. Hubs with the same prefix share their
    /// topics. Default `antiphon`.
    pub prefix: String,
    /// How many servers keep each message and position. Default 1; 3 or 5 in a cluster.
    pub replicas: usize,
    /// How long a command may take, and the first connection. Default 5 s.
    pub timeout: Duration,
}

impl NatsOptions {
    /// The defaults.
    pub fn new(servers: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            prefix: "antiphon".into(),
            replicas: 1,
            timeout: Duration::from_secs(5),
        }
    }

    fn error(&self, reason: impl fmt::Display) -> ConnectError {
        let servers = self.servers.split(',').map(|server| {
            // Not what stands before the host.
            let (scheme, rest) = server.split_once("://").unwrap_or(("nats", server));
            let host = rest.rsplit('@').next().unwrap_or(rest);
            format!("{scheme}://{host}")
        });
        ConnectError {
            servers: servers.collect::<Vec<_>>().join(","),
            reason: reason.to_string(),
        }
    }

    fn check(&self) -> Result<(), ConnectError> {
        let is_valid = |letter: u8| letter.is_ascii_alphanumeric() || b"-_".contains(&letter);
        match (1..=32).contains(&self.prefix.len()) && self.prefix.bytes().all(is_valid) {
            true => Ok(()),
            false => Err(self.error("the prefix needs 1 to 32 letters, digits, `-` or `_`")),
        }
    }
}

/// Why there is no connection, or the server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    /// The servers, without passwords.
    pub servers: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.servers, self.reason)
    }
}

impl std::error::Error for ConnectError {}

/// A store in NATS JetStream, which hubs on many machines share. A subscription has one consumer at any time, wherever
/// it is. [`Durability::Process`] with fewer than three replicas: the server says that a message is stored before it has
/// reached the disk. Else [`Durability::Replicated`].
///
/// While the server is away commands wait for it, and fail as [`Failed`](antiphon::durable::StoreError::Failed) when
/// their time is over.
///
/// ```no_run
/// use antiphon_nats::{NatsOptions, NatsStore};
///
/// let store = NatsStore::connect(&NatsOptions::new("nats://127.0.0.1:4222"))?;
/// // let orders = antiphon_tokio::Durable::new(store);
/// # drop(store);
/// # Ok::<(), antiphon_nats::ConnectError>(())
/// ```
pub struct NatsStore {
    hub: Arc<Hub>,
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
    timeout: Duration,
    durability: Durability,
}

impl NatsStore {
    /// Connects to a server, which must have JetStream. It waits, so not to be called in a task.
    ///
    /// # Errors
    /// No server answers, it has no JetStream, or what is there has another number of replicas.
    pub fn connect(options: &NatsOptions) -> Result<Self, ConnectError> {
        options.check()?;
        let runtime = Runtime::start().map_err(|error| options.error(error))?;
        let own = options.clone();
        let hub = runtime.wait(options, async move {
            let hub = Hub::start(Link::open(&own).await?).await;
            hub.map_err(|error| own.error(error))
        })?;
        Ok(Self {
            hub,
            runtime: Some(runtime),
            timeout: options.timeout,
            durability: match options.replicas {
                0..=2 => Durability::Process,
                _ => Durability::Replicated,
            },
        })
    }
}

impl Store for NatsStore {
    fn durability(&self) -> Durability {
        self.durability
    }

    fn submit(&self, command: Command, done: Completer) {
        if let Some(runtime) = &self.runtime {
            let job = Job::new(command, Instant::now() + self.timeout, done);
            self.hub.submit(job, &runtime.handle);
        }
    }

    fn observe(&self, observer: Box<dyn Observer>) {
        // A store has one hub.
        let _ = self.hub.observer.set(observer);
    }
}

/// What was submitted is done first, without waiting for it here.
impl Drop for NatsStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let (hub, handle) = (Arc::clone(&self.hub), runtime.handle.clone());
            handle.spawn(async move {
                while !hub.lanes.is_empty() {
                    sleep(Duration::from_millis(5)).await;
                }
                drop(runtime);
            });
        }
    }
}

impl fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsStore")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

/// A thread with a tokio runtime, so that the program may have any other or none. When it is dropped, all its tasks end.
struct Runtime {
    handle: Handle,
    _until: oneshot::Sender<()>,
}

impl Runtime {
    fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (until, ended) = oneshot::channel();
        let handle = runtime.handle().clone();
        let run = move || {
            // An error: the sender was dropped.
            let _ = runtime.block_on(ended);
        };
        thread::Builder::new()
            .name("antiphon-nats".into())
            .spawn(run)?;
        Ok(Self {
            handle,
            _until: until,
        })
    }

    /// Does something on the thread, and waits for it.
    fn wait<T: Send + 'static>(
        &self,
        options: &NatsOptions,
        act: impl Future<Output = Result<T, ConnectError>> + Send + 'static,
    ) -> Result<T, ConnectError> {
        let (sender, done) = sync_channel(1);
        self.handle.spawn(async move {
            let result = act.await;
            // Nobody waits any more.
            let _ = sender.send(result);
        });
        let patience = options.timeout * 4;
        let result = done.recv_timeout(patience);
        result.unwrap_or_else(|_| Err(options.error("no answer in time")))
    }
}

#[cfg(test)]
mod tests;
