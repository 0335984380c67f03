//! Durable subscriptions in one file.
//!
//! ```text
//!   submit ─▶ queue ─▶ the committer's thread: a group of commands ─▶ one transaction ─▶ one sync ─▶ completions
//! ```
//!
//! | file | has |
//! |---|---|
//! | `committer` | the thread: groups, commits, and what follows a failure |
//! | `tables` | what is in the file, and what each command does |
//! | `file` | opening a file, and what is refused |
//! | `counted` | the syncs of a backend |

mod committer;
mod counted;
mod file;
mod tables;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, sync_channel};
use std::thread::{self, JoinHandle};

use antiphon::durable::{Command, Completer, Durability, Store};
use redb::StorageBackend;

use committer::{Committer, Job};
use counted::Counts;
pub use file::OpenError;
pub use tables::Lag;

/// A store in one file. [`Durability::Disk`]: what is stored survives the loss of power.
///
/// ```
/// use antiphon::durable::{Command, Completer, Completion, MessageData, Store, Wall};
/// use antiphon_redb::RedbStore;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("orders.redb");
/// let store = RedbStore::open(&path)?;
/// let (sender, stored) = std::sync::mpsc::channel();
/// let append = Command::Append {
///     topic: "orders".into(),
///     at: Wall::from_millis(0),
///     data: MessageData::write(&["tea"]).unwrap(),
///     dedupe: None,
/// };
/// store.submit(append, Completer::new(move |result| sender.send(result).unwrap()));
/// assert_eq!(stored.recv().unwrap(), Ok(Completion::Appended { sequence: 1 }));
/// assert_eq!(store.stats().commits, 1);
/// # Ok::<(), antiphon_redb::OpenError>(())
/// ```
pub struct RedbStore {
    /// `None` only while it is being dropped.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedbStats {
    /// The groups of commands that were committed.
    pub commits: u64,
    /// The syncs that these took: one each, and one when the file grows.
    pub syncs: u64,
    /// The groups that failed.
    pub failures: u64,
    /// The bytes of the file.
    pub bytes: u64,
}

impl RedbStore {
    /// Opens a file, or makes one if there is none. The whole file is read and checked.
    ///
    /// # Errors
    /// The file is not one of this format, is damaged, or is open elsewhere.
    ///
    /// # Panics
    /// The system starts no thread.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref().to_path_buf();
        let counts = Arc::new(Counts::default());
        file::create(&path)?;
        let own = Arc::clone(&counts);
        Self::start(counts, move || file::open(&path, &own))
    }

    /// Opens a store over another storage than a file. `make` is called once now, and again after each failure.
    ///
    /// # Errors
    /// What it has is not of this format, or is damaged.
    ///
    /// # Panics
    /// The system starts no thread.
    pub fn with_backend<B: StorageBackend>(
        make: impl Fn() -> B + Send + 'static,
    ) -> Result<Self, OpenError> {
        let counts = Arc::new(Counts::default());
        let own = Arc::clone(&counts);
        Self::start(counts, move || file::open_backend(make(), &own))
    }

    fn start(
        counts: Arc<Counts>,
        open: impl Fn() -> Result<redb::Database, OpenError> + Send + 'static,
    ) -> Result<Self, OpenError> {
        let committer = Committer::new(open, Arc::clone(&counts))?;
        counts.syncs.store(0, Ordering::Relaxed);
        let (jobs, queue) = std::sync::mpsc::channel();
        let thread = thread::Builder::new().name("antiphon-redb".into());
        let thread = thread.spawn(move || committer.run(&queue));
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread.expect("the system starts a thread")),
            counts,
        })
    }

    /// What it has done.
    pub fn stats(&self) -> RedbStats {
        RedbStats {
            commits: self.counts.commits.load(Ordering::Relaxed),
            syncs: self.counts.syncs.load(Ordering::Relaxed),
            failures: self.counts.failures.load(Ordering::Relaxed),
            bytes: self.counts.bytes.load(Ordering::Relaxed),
        }
    }

    /// How far each subscription is behind. It waits for the commands before it, so not to be called in a task.
    pub fn lags(&self) -> Vec<Lag> {
        let (sender, lags) = sync_channel(1);
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(Job::Lags(sender)));
        match sent {
            Some(Ok(())) => lags.recv().unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

impl Store for RedbStore {
    fn durability(&self) -> Durability {
        Durability::Disk
    }

    fn submit(&self, command: Command, done: Completer) {
        if let Some(jobs) = &self.jobs {
            // If the thread has ended, the completer is dropped, and the command has failed.
            let _ = jobs.send(Job::Command(command, done));
        }
    }
}

/// What was submitted is done first.
impl Drop for RedbStore {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A completion on that thread may drop the last owner.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedbStore").field(&self.stats()).finish()
    }
}

#[cfg(test)]
mod tests;
