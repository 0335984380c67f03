//! The commands that a store was given, until each has its completion.
//!
//! ```text
//!   submit ─▶ to be given out ── poll ──▶ at the store ── its completion comes ──▶ finish: once
//!                                              └── its time is over ──▶ counts as failed; a later completion
//!                                                                       finds nothing here
//! ```
//!
//! All have the same time, so the oldest is the first whose time is over.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::settings::DurableSettings;
use super::store::{Command, CommandId, StoreError};
use crate::shared::Arc;
use crate::time::Instant;

/// An entry of a request: the number of the request, and the entry's index.
pub(super) type Waiter = (u64, usize);

#[derive(Debug)]
pub(super) struct Open {
    deadline: Option<Instant>,
    pub(super) command: Command,
    /// The entries of requests that its completion settles.
    pub(super) waiters: Vec<Waiter>,
    /// The subscription for which messages are read; none for the retention of the topic.
    pub(super) reader: Option<Arc<str>>,
}

#[derive(Debug, Default)]
pub(super) struct Commands {
    last: u64,
    open: BTreeMap<CommandId, Open>,
    waiting: VecDeque<(CommandId, Command)>,
    /// How many appends are open, and the bytes of their data.
    appends: usize,
    append_bytes: usize,
    /// Appends whose time is over, with their topics.
    overdue: BTreeMap<CommandId, Arc<str>>,
}

impl Commands {
    /// Takes a command, to be given out next.
    pub(super) fn submit(
        &mut self,
        command: Command,
        waiters: Vec<Waiter>,
        reader: Option<Arc<str>>,
        deadline: Option<Instant>,
    ) -> CommandId {
        self.last += 1;
        let id = CommandId(self.last);
        if let Command::Append { data, .. } = &command {
            self.appends += 1;
            self.append_bytes += data.bytes();
        }
        self.waiting.push_back((id, command.clone()));
        let open = Open {
            deadline,
            command,
            waiters,
            reader,
        };
        self.open.insert(id, open);
        id
    }

    /// Checks whether a further append may wait.
    pub(super) fn check(&self, bytes: usize, settings: &DurableSettings) -> Result<(), StoreError> {
        let has_space = self.appends < settings.max_publishes
            && bytes <= settings.max_publish_bytes.saturating_sub(self.append_bytes);
        match has_space || self.appends == 0 {
            true => Ok(()),
            false => Err(StoreError::Busy),
        }
    }

    pub(super) fn poll(&mut self) -> Option<(CommandId, Command)> {
        self.waiting.pop_front()
    }

    pub(super) fn has_next(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Ends a command that has its completion.
    pub(super) fn finish(&mut self, id: CommandId) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if let Command::Append { data, .. } = &open.command {
            self.appends -= 1;
            self.append_bytes -= data.bytes();
        }
        Some(open)
    }

    /// Ends an attach to this subscription that was given out before a command.
    pub(super) fn finish_attach(
        &mut self,
        name: &Arc<str>,
        before: CommandId,
    ) -> Option<(CommandId, Open)> {
        let is_own = |open: &Open| match &open.command {
            Command::Attach { subscription, .. } => subscription == name,
            _ => false,
        };
        let mut open = self.open.range(..before);
        let id = *open.find(|(_, open)| is_own(open))?.0;
        Some((id, self.finish(id)?))
    }

    /// Ends a command whose time is over. Of so many appends their late completions are still of interest.
    pub(super) fn expire(&mut self, now: Instant, max_overdue: usize) -> Option<(CommandId, Open)> {
        self.deadline().filter(|deadline| *deadline <= now)?;
        let id = *self.open.first_key_value()?.0;
        let open = self.finish(id)?;
        if let Command::Append { topic, .. } = &open.command {
            self.overdue.insert(id, topic.clone());
            if self.overdue.len() > max_overdue {
                self.overdue.pop_first();
            }
        }
        Some((id, open))
    }

    /// The topic of an append that is answered after its time.
    pub(super) fn finish_overdue(&mut self, id: CommandId) -> Option<Arc<str>> {
        self.overdue.remove(&id)
    }

    /// When the time of the oldest command is over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.first_key_value()?.1.deadline
    }

    /// How many commands are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
