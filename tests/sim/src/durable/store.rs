//! The store: it takes the commands of all hubs in their order, commits them in groups, and tells what has come of them
//! sooner or later.
//!
//! ```text
//!   hub ─▶ waiting ── execute ──▶ group ── commit ──▶ done ── complete ──▶ hub
//!             └── a crash loses these ──┘              └── late, twice, never
//! ```

use std::collections::{BTreeMap, VecDeque};

use antiphon::durable::{
    Command, CommandId, Completion, Cursor, DurableTopic, MemoryStore, StoreError,
};

use super::checks::Broken;
use super::plant::Plant;
use super::world::World;

type Outcome = Result<Completion, StoreError>;

/// A command, and where it came from.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) hub: usize,
    /// Which life of the hub.
    pub(super) life: u64,
    pub(super) id: CommandId,
    pub(super) command: Command,
    pub(super) since: u64,
}

/// A command whose outcome is on its way.
#[derive(Debug)]
struct Done {
    job: Job,
    outcome: Outcome,
    /// Not before this time.
    at: u64,
    /// Of a subscription that was attached: which of those of its name.
    incarnation: u64,
}

#[derive(Debug)]
pub(super) struct Store {
    kept: MemoryStore,
    /// With what the open group has done.
    open: MemoryStore,
    pub(super) waiting: VecDeque<Job>,
    group: Vec<(Job, Outcome)>,
    done: Vec<Done>,
    owners: BTreeMap<String, usize>,
    /// That a topic has grown, of which a hub is not told yet.
    grown: Vec<(usize, String, u64)>,
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            kept: MemoryStore::new(1 << 24),
            open: MemoryStore::new(1 << 24),
            waiting: VecDeque::new(),
            group: Vec::new(),
            done: Vec::new(),
            owners: BTreeMap::new(),
            grown: Vec::new(),
        }
    }

    /// Forgets what a hub has asked for that was killed. The first of it may have arrived already.
    pub(super) fn forget(&mut self, hub: usize, arrived: usize) -> bool {
        let mut left = arrived;
        self.waiting.retain(|job| {
            let stays = job.hub != hub || left > 0;
            left -= usize::from(job.hub == hub && left > 0);
            stays
        });
        let was_done = self.done.iter().any(|done| done.job.hub == hub);
        self.done.retain(|done| done.job.hub != hub);
        was_done
    }

    /// Ends without a word: what is not committed is lost.
    pub(super) fn lose(&mut self) {
        self.group.clear();
        self.waiting.clear();
        self.open = self.kept.clone();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.group.is_empty()
            && self.done.is_empty()
            && self.grown.is_empty()
    }

    /// Whether something waits to be committed.
    pub(super) fn has_group(&self) -> bool {
        !self.group.is_empty()
    }
}

impl World {
    /// The store does its next command.
    pub(super) fn execute(&mut self) -> bool {
        let Some(job) = self.store.waiting.pop_front() else {
            return false;
        };
        let faults = if self.is_healed {
            0
        } else {
            self.settings.faults
        };
        if let Command::Read { .. } = job.command {
            // What is not committed cannot be read.
            let outcome = match self.rng.chance(faults) {
                true => {
                    self.counts.add("store: read failed");
                    Err(StoreError::Failed)
                }
                false => self.store.kept.execute(&job.command),
            };
            self.finish(job, outcome, 0);
            return true;
        }
        if self.rng.chance(faults) {
            let (error, name) = self.rng.pick(&[
                (StoreError::Busy, "store: busy"),
                (StoreError::Full, "store: full"),
            ]);
            self.counts.add(name);
            self.finish(job, Err(error), 0);
            return true;
        }
        let outcome = match self.refused(&job) {
            Some(error) => Err(error),
            None => self.store.open.execute(&self.planted(&job.command)),
        };
        let outcome = match (self.plant, outcome) {
            (Some(Plant::SequenceAgain), Ok(Completion::Appended { sequence })) if sequence > 3 => {
                Ok(Completion::Appended { sequence: 3 })
            }
            (_, outcome) => outcome,
        };
        if self.plant == Some(Plant::ToldBeforeCommit) {
            self.finish(job.clone(), outcome.clone(), 0);
        }
        self.store.group.push((job, outcome));
        true
    }

    /// Whether another hub owns the subscription of a command.
    fn refused(&mut self, job: &Job) -> Option<StoreError> {
        let (name, may_take, takes) = match &job.command {
            Command::Attach {
                subscription,
                takes_over,
                ..
            } => (subscription, *takes_over, true),
            Command::Delete {
                subscription,
                fence: 0,
            } => (subscription, false, false),
            _ => return None,
        };
        let owner = self.store.owners.get(&**name).copied();
        let owner = owner.filter(|owner| *owner != job.hub && self.hubs[*owner].topics.holds(name));
        if owner.is_some() && !may_take {
            return Some(StoreError::Held);
        }
        if takes {
            self.store.owners.insert(name.to_string(), job.hub);
        }
        None
    }

    /// The command that is done instead, with a planted fault.
    fn planted(&self, command: &Command) -> Command {
        match (self.plant, command) {
            (Some(Plant::TrimForgotten), Command::Trim { topic, .. }) => Command::Trim {
                topic: topic.clone(),
                up_to: 0,
            },
            (
                Some(Plant::SaveForgotten | Plant::CursorAhead),
                Command::Save {
                    subscription,
                    fence,
                    cursor,
                },
            ) => Command::Save {
                subscription: subscription.clone(),
                fence: *fence,
                cursor: match self.plant {
                    Some(Plant::CursorAhead) => Cursor {
                        floor: cursor.floor + 1,
                        ..cursor.clone()
                    },
                    _ => Cursor::at(cursor.start),
                },
            },
            _ => command.clone(),
        }
    }

    /// The store commits what it has done.
    pub(super) fn commit(&mut self) -> Result<bool, Broken> {
        let group = std::mem::take(&mut self.store.group);
        if group.is_empty() {
            return Ok(false);
        }
        let faults = if self.is_healed {
            0
        } else {
            self.settings.faults
        };
        let fails = self.rng.chance(faults);
        if fails && self.rng.chance(50) {
            self.counts.add("store: group failed and undone");
            self.store.open = self.store.kept.clone();
            for (job, _) in group {
                self.finish(job, Err(StoreError::Failed), 0);
            }
            return Ok(true);
        }
        self.store.kept = self.store.open.clone();
        for (job, outcome) in group {
            let Ok(done) = &outcome else {
                self.finish(job, outcome, 0);
                continue;
            };
            self.book.commit(&self.planted(&job.command), done)?;
            let mut incarnation = 0;
            match (&job.command, done) {
                (Command::Append { topic, .. }, Completion::Appended { sequence }) => {
                    self.counts.tally.stored += 1;
                    for hub in 0..self.hubs.len() {
                        if hub != job.hub || self.hubs[hub].life != job.life {
                            let grown = (hub, topic.to_string(), *sequence);
                            self.store.grown.push(grown);
                        }
                    }
                }
                (Command::Attach { subscription, .. }, Completion::Attached { fence, .. }) => {
                    incarnation = self.book.subs[&**subscription].incarnation;
                    for hub in 0..self.hubs.len() {
                        if hub == job.hub {
                            continue;
                        }
                        self.learn_takeover(hub, subscription, *fence);
                        if self.plant != Some(Plant::BothAttached) {
                            self.counts.add("hub: told of a takeover by another");
                            self.hubs[hub].topics.handle_takeover(subscription, *fence);
                            self.after(hub)?;
                        }
                    }
                }
                _ => {}
            }
            let is_told = self.plant == Some(Plant::ToldBeforeCommit);
            if fails {
                self.counts.add("store: failed, and done all the same");
                self.finish(job, Err(StoreError::Failed), incarnation);
            } else if !is_told {
                self.finish(job, outcome, incarnation);
            }
        }
        Ok(true)
    }

    /// An outcome is on its way, or gets lost on it.
    fn finish(&mut self, job: Job, outcome: Outcome, incarnation: u64) {
        let faults = if self.is_healed {
            0
        } else {
            self.settings.faults
        };
        let timeout = self.settings.durable.store_timeout;
        let (mut at, mut is_twice) = (self.now, false);
        if let Some(timeout) = timeout.map(|timeout| timeout.as_nanos() as u64) {
            // After its time a hub would never know what was done, if nobody told it.
            if self.rng.chance(faults) && self.now < job.since + timeout {
                self.counts.add("store: never completes");
                return;
            }
            if self.rng.chance(faults) {
                self.counts.add("store: completes late");
                at = job.since + timeout + 1;
            }
        }
        if self.rng.chance(faults) {
            self.counts.add("store: completes twice");
            is_twice = true;
        }
        let done = |job, outcome| Done {
            job,
            outcome,
            at,
            incarnation,
        };
        if is_twice {
            self.store.done.push(done(job.clone(), outcome.clone()));
        }
        self.store.done.push(done(job, outcome));
    }

    /// A hub is told one of the outcomes that are there.
    pub(super) fn complete(&mut self) -> Result<bool, Broken> {
        let now = self.now;
        let ready = |done: &Done| done.at <= now;
        let count = self.store.done.iter().filter(|done| ready(done)).count();
        if count == 0 {
            return Ok(false);
        }
        let nth = self.rng.size(0, count - 1);
        let mut indices = (0..self.store.done.len()).filter(|at| ready(&self.store.done[*at]));
        let index = indices.nth(nth).unwrap_or_default();
        let Done {
            job,
            outcome,
            incarnation,
            ..
        } = self.store.done.remove(index);
        if index > 0 {
            self.counts.add("store: completes out of order");
        }
        let hub = &mut self.hubs[job.hub];
        if hub.life != job.life {
            return Ok(true);
        }
        if let (Command::Append { .. }, Ok(_)) = (&job.command, &outcome) {
            if !hub.publishing.contains_key(&job.id) {
                self.counts.add("store: late, and its message counts");
            }
        }
        let (at, command) = (job.hub, &job.command);
        self.trace
            .say(|| format!("  hub {at}: {command:?}: {outcome:?}"));
        self.learn(at, job.id, &outcome, incarnation);
        self.hubs[at].topics.handle_completion(job.id, outcome);
        self.after(job.hub)?;
        Ok(true)
    }

    /// A hub is told that a topic has grown: late, and now and then again.
    pub(super) fn tell_grown(&mut self) -> Result<bool, Broken> {
        if self.store.grown.is_empty() {
            return Ok(false);
        }
        let index = self.rng.size(0, self.store.grown.len() - 1);
        let (hub, topic, last) = match !self.is_healed && self.rng.chance(10) {
            true => self.store.grown[index].clone(),
            false => self.store.grown.remove(index),
        };
        self.counts.add("hub: told of another's messages");
        if let Ok(topic) = DurableTopic::parse(&topic) {
            self.hubs[hub].topics.handle_grown(&topic, last);
        }
        self.after(hub)?;
        Ok(true)
    }

    /// The store ends at any moment and begins again: what it has not committed is lost.
    pub(super) fn crash_store(&mut self) {
        let group = std::mem::take(&mut self.store.group);
        if !group.is_empty() {
            self.counts.add("store: crash loses what was not committed");
        }
        self.store.open = self.store.kept.clone();
        let waiting = std::mem::take(&mut self.store.waiting);
        for job in group.into_iter().map(|(job, _)| job).chain(waiting) {
            self.finish(job, Err(StoreError::Failed), 0);
        }
    }
}
