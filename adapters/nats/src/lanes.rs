//! The order of commands: what appends to or trims one topic, and what concerns one subscription, is done one after the
//! other. Reads wait for nothing.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antiphon::durable::{Command, Completer, Completion, StoreError};
use tokio::time::Instant;

use crate::hub::Hub;

/// The most messages that are sent before their answers, and the most bytes, if they are more than one.
const MAX_MESSAGES: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// A command, until when it is to be done, and who is told.
pub(crate) struct Job {
    pub(crate) command: Command,
    pub(crate) deadline: Instant,
    done: Completer,
}

impl Job {
    pub(crate) fn new(command: Command, deadline: Instant, done: Completer) -> Self {
        Self {
            command,
            deadline,
            done,
        }
    }

    pub(crate) fn finish(self, result: Result<Completion, StoreError>) {
        // A panic of the program's ends nothing here.
        let _ = catch_unwind(AssertUnwindSafe(|| self.done.complete(result)));
    }

    /// How many bytes it appends.
    fn bytes(&self) -> Option<usize> {
        match &self.command {
            Command::Append { data, .. } => Some(data.bytes()),
            _ => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Lane {
    Topic(Arc<str>),
    Subscription(Arc<str>),
}

/// The commands that wait for an earlier one. A lane is there while it is run.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<HashMap<Lane, VecDeque<Job>>>);

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<Lane, VecDeque<Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Takes what is next in a lane: one command, or appends. If there is nothing, the lane is gone.
    fn next(&self, lane: &Lane) -> Vec<Job> {
        let mut lanes = self.lock();
        let Some(waiting) = lanes.get_mut(lane) else {
            return Vec::new();
        };
        let mut bytes = 0;
        let appends = waiting.iter().take(MAX_MESSAGES).take_while(|job| {
            let is_first = bytes == 0;
            bytes += job.bytes().unwrap_or(MAX_BYTES);
            job.bytes().is_some() && (is_first || bytes <= MAX_BYTES)
        });
        let count = appends.count().max(1).min(waiting.len());
        if count == 0 {
            lanes.remove(lane);
            return Vec::new();
        }
        waiting.drain(..count).collect()
    }
}

impl Hub {
    /// Takes a command, without waiting.
    pub(crate) fn submit(self: &Arc<Self>, job: Job, runtime: &tokio::runtime::Handle) {
        let lane = match &job.command {
            Command::Append { topic, .. } | Command::Trim { topic, .. } => {
                Lane::Topic(topic.clone())
            }
            Command::Attach { subscription, .. }
            | Command::Save { subscription, .. }
            | Command::Delete { subscription, .. } => Lane::Subscription(subscription.clone()),
            _ => {
                let hub = Arc::clone(self);
                runtime.spawn(async move { hub.execute(job).await });
                return;
            }
        };
        let mut lanes = self.lanes.lock();
        if let Some(waiting) = lanes.get_mut(&lane) {
            return waiting.push_back(job);
        }
        lanes.insert(lane.clone(), VecDeque::from([job]));
        let hub = Arc::clone(self);
        runtime.spawn(async move {
            loop {
                let mut jobs = hub.lanes.next(&lane);
                match (jobs.pop(), jobs.is_empty(), &lane) {
                    (None, ..) => return,
                    (Some(job), true, _) if job.bytes().is_none() => hub.execute(job).await,
                    (Some(job), _, Lane::Topic(topic) | Lane::Subscription(topic)) => {
                        jobs.push(job);
                        hub.append(topic, mem::take(&mut jobs)).await;
                    }
                }
            }
        });
    }

    /// Does a command that is no append.
    async fn execute(self: &Arc<Self>, job: Job) {
        let until = job.deadline;
        let done = match &job.command {
            Command::Read {
                topic,
                after,
                max_records,
                max_bytes,
            } => {
                self.read(topic, *after, (*max_records, *max_bytes), until)
                    .await
            }
            Command::Attach {
                subscription,
                topic,
                start,
                takes_over,
            } => {
                self.attach(subscription, topic, *start, *takes_over, until)
                    .await
            }
            Command::Save {
                subscription,
                fence,
                cursor,
            } => self.save(subscription, *fence, cursor, until).await,
            Command::Delete {
                subscription,
                fence,
            } => self.delete(subscription, *fence, until).await,
            Command::Trim { topic, up_to } => self.trim(topic, *up_to, until).await,
            // A later version of the core may have other commands.
            _ => Err(StoreError::Failed),
        };
        job.finish(done);
    }
}
