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
//! | `position` | what a key has |
//! | `topics` | ephemeral topics |
//! | `options`, `runtime` | the servers; the thread |

mod cursors;
mod hub;
mod lanes;
mod link;
mod log;
mod names;
mod options;
mod position;
mod runtime;
mod topics;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon::durable::{Command, Completer, Durability, Observer, Store};
use tokio::time::{Instant, sleep};

use hub::Hub;
use lanes::{Job, Lanes};
use link::Link;
pub use options::{ConnectError, NatsOptions};
use runtime::Runtime;
pub use topics::NatsTopics;

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
    lanes: Arc<Lanes>,
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
        let waiting = Mutex::default();
        Ok(Self {
            lanes: Arc::new(Lanes { hub, waiting }),
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
            let deadline = Instant::now() + self.timeout;
            let job = Job {
                command,
                deadline,
                done,
            };
            self.lanes.submit(job, &runtime.handle);
        }
    }

    fn observe(&self, observer: Box<dyn Observer>) {
        // A store has one hub.
        let _ = self.lanes.hub.observer.set(observer);
    }
}

/// What was submitted is done first, without waiting for it here.
impl Drop for NatsStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let (lanes, handle) = (Arc::clone(&self.lanes), runtime.handle.clone());
            handle.spawn(async move {
                while !lanes.is_empty() {
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

#[cfg(test)]
mod tests;
