//! The order of commands: what appends to or trims one topic, and what concerns one subscription, is done one after the
//! other. Reads wait for nothing.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use antiphon::durable::{Command, Completer, Completion, StoreError};
use tokio::time::Instant;

use crate::hub::{Hub, lock};

/// The most messages that are sent before their answers.
const MAX_MESSAGES: usize = 256;

/// A command, until when it is to be done, and who is told.
pub(crate) struct Job {
    pub(crate) command: Command,
    pub(crate) deadline: Instant,
    pub(crate) done: Completer,
}

impl Job {
    pub(crate) fn finish(self, result: Result<Completion, StoreError>) {
        // A panic of the program's ends nothing here.
        let _ = catch_unwind(AssertUnwindSafe(|| self.done.complete(result)));
    }

    fn is_append(&self) -> bool {
        matches!(self.command, Command::Append { .. })
    }
}

/// A topic, or a subscription and true.
pub(crate) type Lane = (Arc<str>, bool);

/// The commands that wait for an earlier one. A lane is there while it is run.
pub(crate) struct Lanes {
    pub(crate) hub: Arc<Hub>,
    pub(crate) waiting: Mutex<HashMap<Lane, VecDeque<Job>>>,
}

impl Lanes {
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.waiting).is_empty()
    }

    /// Takes what is next in a lane: one command, or appends. If there is nothing, the lane is gone.
    fn next(&self, lane: &Lane) -> Vec<Job> {
        let mut lanes = lock(&self.waiting);
        let waiting = lanes.entry(lane.clone()).or_default();
        let appends = waiting.iter().take(MAX_MESSAGES);
        let appends = appends.take_while(|job| job.is_append()).count();
        let count = appends.max(1).min(waiting.len());
        if count == 0 {
            lanes.remove(lane);
            return Vec::new();
        }
        waiting.drain(..count).collect()
    }

    /// Takes a command, without waiting.
    pub(crate) fn submit(self: &Arc<Self>, job: Job, runtime: &tokio::runtime::Handle) {
        let lane = match &job.command {
            Command::Append { topic, .. } | Command::Trim { topic, .. } => (topic.clone(), false),
            Command::Attach { subscription, .. }
            | Command::Save { subscription, .. }
            | Command::Delete { subscription, .. } => (subscription.clone(), true),
            _ => {
                let lanes = Arc::clone(self);
                runtime.spawn(async move { lanes.execute(job).await });
                return;
            }
        };
        let mut lanes = lock(&self.waiting);
        if let Some(waiting) = lanes.get_mut(&lane) {
            return waiting.push_back(job);
        }
        lanes.insert(lane.clone(), VecDeque::from([job]));
        let lanes = Arc::clone(self);
        runtime.spawn(async move {
            loop {
                let mut jobs = lanes.next(&lane);
                match jobs.first().map(Job::is_append) {
                    Some(true) => lanes.hub.append(&lane.0, jobs).await,
                    Some(false) => lanes.execute(jobs.remove(0)).await,
                    None => return,
                }
            }
        });
    }

    /// Does a command that is no append.
    async fn execute(&self, job: Job) {
        let hub = &self.hub;
        let until = job.deadline;
        let done = match &job.command {
            Command::Read {
                topic,
                after,
                max_records,
                max_bytes,
            } => {
                let read = || hub.read(topic, *after, *max_records, *max_bytes, until);
                hub.link.persist(until, read).await.map_err(Into::into)
            }
            Command::Attach {
                subscription,
                topic,
                start,
                takes_over,
            } => {
                hub.attach(subscription, topic, *start, *takes_over, until)
                    .await
            }
            Command::Save {
                subscription,
                fence,
                cursor,
            } => hub.save(subscription, *fence, cursor, until).await,
            Command::Delete {
                subscription,
                fence,
            } => hub.delete(subscription, *fence, until).await,
            Command::Trim { topic, up_to } => {
                let trim = || hub.trim(topic, *up_to);
                hub.link.persist(until, trim).await.map_err(Into::into)
            }
            // A later version of the core may have other commands.
            _ => Err(StoreError::Failed),
        };
        job.finish(done);
    }
}
