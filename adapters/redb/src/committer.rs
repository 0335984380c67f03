//! The thread that commits groups of commands.
//!
//! ```text
//!   idle ── a command ──▶ collecting ── nothing more waits, 256 messages, 1 MiB, 2 ms ──▶ committing ── completions ──▶ idle
//!                                                                                         └─ failed: reopen
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use antiphon::durable::{Command, Completer, Completion, StoreError};
use redb::{Database, Error};

use crate::counted::Counts;
use crate::file::OpenError;
use crate::tables::{self, Lag, Tables, commits};

/// How long a group is collected, while as many publish as before.
const MAX_WAIT: Duration = Duration::from_millis(2);
/// The most commands and messages of a group, and the most bytes of its messages, if it has more than one.
const MAX_COMMANDS: usize = 1024;
const MAX_MESSAGES: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// What the thread is asked for.
pub(crate) enum Job {
    Command(Command, Completer),
    Lags(SyncSender<Vec<Lag>>),
}

type Outcome = Result<Completion, StoreError>;

pub(crate) struct Committer {
    open: Box<dyn Fn() -> Result<Database, OpenError> + Send>,
    /// `None` after a failure, until it is opened again.
    database: Option<Database>,
    counts: Arc<Counts>,
    /// How many messages the last group had.
    last: usize,
    #[cfg(test)]
    pub(crate) plant: crate::tests::Plant,
}

/// Commands that are done together.
#[derive(Default)]
struct Group {
    commands: Vec<(Command, Completer)>,
    messages: usize,
    bytes: usize,
    lags: Vec<SyncSender<Vec<Lag>>>,
}

impl Group {
    fn add(&mut self, job: Job) {
        match job {
            Job::Lags(sender) => self.lags.push(sender),
            Job::Command(command, done) => {
                if let Command::Append { data, .. } = &command {
                    self.messages += 1;
                    self.bytes += data.bytes();
                }
                self.commands.push((command, done));
            }
        }
    }

    fn is_full(&self) -> bool {
        self.commands.len() >= MAX_COMMANDS
            || self.messages >= MAX_MESSAGES
            || self.bytes >= MAX_BYTES
    }
}

impl Committer {
    pub(crate) fn new(
        open: impl Fn() -> Result<Database, OpenError> + Send + 'static,
        counts: Arc<Counts>,
    ) -> Result<Self, OpenError> {
        Ok(Self {
            database: Some(open()?),
            open: Box::new(open),
            counts,
            last: 1,
            #[cfg(test)]
            plant: crate::tests::planted(),
        })
    }

    /// Does jobs until no more can come.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let group = self.collect(first, jobs, Instant::now() + MAX_WAIT);
            self.last = group.messages;
            self.finish(group);
        }
    }

    /// Collects what waits. If the last group had more messages, publishers are about to come back, so it waits for them.
    fn collect(&self, first: Job, jobs: &Receiver<Job>, until: Instant) -> Group {
        let mut group = Group::default();
        group.add(first);
        while !group.is_full() {
            let left = until.saturating_duration_since(Instant::now());
            let next = match group.messages > 0 && group.messages < self.last {
                true => jobs.recv_timeout(left).ok(),
                // What is taken from the queue must be done.
                false if left.is_zero() => None,
                false => jobs.try_recv().ok(),
            };
            let Some(next) = next else {
                break;
            };
            group.add(next);
        }
        group
    }

    fn finish(&mut self, group: Group) {
        let is_read = |command: &Command| matches!(command, Command::Read { .. });
        let (reads, writes): (Vec<_>, Vec<_>) = group
            .commands
            .into_iter()
            .partition(|(command, _)| is_read(command));
        let (commands, completers): (Vec<Command>, Vec<Completer>) = writes.into_iter().unzip();
        #[cfg(test)]
        let (commands, completers) = self.plant.before(commands, completers);
        let outcomes = self.write(&commands);
        // What they say is stored can be read by the next command of any thread.
        complete(completers, outcomes);
        let (commands, completers): (Vec<Command>, Vec<Completer>) = reads.into_iter().unzip();
        let outcomes = commands.iter().map(|command| self.read(command)).collect();
        complete(completers, outcomes);
        for sender in group.lags {
            let lags = self.with(tables::lags).unwrap_or_default();
            // If nobody waits any more, nobody is told.
            let _ = sender.send(lags);
        }
    }

    /// Writes a group, as a whole or not at all.
    fn write(&mut self, commands: &[Command]) -> Vec<Outcome> {
        if commands.is_empty() {
            return Vec::new();
        }
        let before = self.with(commits);
        #[cfg(test)]
        let plant = self.plant;
        let written = self.with(|database| {
            #[cfg_attr(not(test), allow(unused_mut))]
            let mut write = database.begin_write()?;
            #[cfg(test)]
            plant.begin(&mut write);
            let mut outcomes = Vec::with_capacity(commands.len());
            {
                let mut tables = Tables::open(&write)?;
                tables.count_commit()?;
                for command in commands {
                    outcomes.push(tables.execute(command)?);
                    #[cfg(test)]
                    plant.after(&mut tables, command)?;
                }
            }
            write.commit()?;
            Ok(outcomes)
        });
        match written {
            Ok(outcomes) => {
                self.counts.commits.fetch_add(1, Ordering::Relaxed);
                outcomes
            }
            Err(is_full) => {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                // A commit that failed may have been done. Whether it was is read from the file; that it is there does not
                // say that it would survive.
                let after = self.with(commits);
                let is_undone = before.is_ok() && before == after;
                let error = match is_full && is_undone {
                    true => StoreError::Full,
                    false => StoreError::Failed,
                };
                commands.iter().map(|_| Err(error)).collect()
            }
        }
    }

    fn read(&mut self, command: &Command) -> Outcome {
        let Command::Read {
            topic,
            after,
            max_records,
            max_bytes,
        } = command
        else {
            return Err(StoreError::Failed);
        };
        self.with(|database| tables::read(database, topic, *after, *max_records, *max_bytes))
            .unwrap_or(Err(StoreError::Failed))
    }

    /// Lends the database, which is opened again if it has failed before. An error says whether the disk is full.
    fn with<R>(&mut self, act: impl FnOnce(&Database) -> Result<R, Error>) -> Result<R, bool> {
        if self.database.is_none() {
            self.database = (self.open)().ok();
        }
        let database = self.database.as_ref().ok_or(false)?;
        let done = catch_unwind(AssertUnwindSafe(|| act(database)));
        match done {
            Ok(Ok(done)) => Ok(done),
            failed => {
                let database = self.database.take();
                let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
                Err(matches!(failed, Ok(Err(error)) if is_full(&error)))
            }
        }
    }
}

fn complete(completers: Vec<Completer>, outcomes: Vec<Outcome>) {
    for (completer, outcome) in completers.into_iter().zip(outcomes) {
        // A panic of the program's ends nothing here.
        let _ = catch_unwind(AssertUnwindSafe(|| completer.complete(outcome)));
    }
}

fn is_full(error: &Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error, Error::Io(error) if matches!(error.kind(), StorageFull | QuotaExceeded))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use antiphon::durable::{Command, Completer, StoreError};
    use redb::backends::InMemoryBackend;

    use super::{Committer, Job};
    use crate::file;

    // PER-04
    #[test]
    fn a_group_whose_time_is_over_leaves_the_next_command_in_the_queue() {
        let open = || file::open_backend(InMemoryBackend::new(), &Arc::default());
        let committer = Committer::new(open, Arc::default()).unwrap();
        let (jobs, queue) = channel();
        let trim = |told: std::sync::mpsc::Sender<Result<_, StoreError>>| {
            let topic = "orders".into();
            let done = Completer::new(move |result| told.send(result).unwrap());
            Job::Command(Command::Trim { topic, up_to: 1 }, done)
        };
        let (told, completions) = channel();
        jobs.send(trim(told.clone())).unwrap();
        let group = committer.collect(trim(told), &queue, Instant::now());
        assert_eq!(group.commands.len(), 1);
        assert!(
            completions.try_recv().is_err(),
            "the other one has not failed"
        );
        assert!(queue.try_recv().is_ok(), "it waits");
    }
}
