//! Faults that the checker of crashes must catch, for tests only.

use std::cell::Cell;

use antiphon::durable::{Command, Completer, Completion};
use redb::{Durability, Error, WriteTransaction};

use crate::tables::Tables;

/// What is wrong with a committer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plant {
    #[default]
    Nothing,
    /// Messages are acknowledged before they are committed, each as the one behind the last.
    AcknowledgeBeforeCommit,
    /// Commits are not synced.
    CommitWithoutSync,
    /// The position is ahead of what was acknowledged: the cursor comes before the message.
    CursorBeforeMessage,
    /// A topic whose messages are all gone begins again with 1.
    SequenceRestartedAfterTrim,
}

thread_local! {
    static NEXT: Cell<Plant> = const { Cell::new(Plant::Nothing) };
}

/// The next store that this thread opens has the fault.
pub(super) fn plant(plant: Plant) {
    NEXT.set(plant);
}

pub(crate) fn planted() -> Plant {
    NEXT.take()
}

thread_local! {
    static SEQUENCES: Cell<u64> = const { Cell::new(0) };
}

impl Plant {
    pub(crate) fn before(
        self,
        commands: Vec<Command>,
        completers: Vec<Completer>,
    ) -> (Vec<Command>, Vec<Completer>) {
        if self != Self::AcknowledgeBeforeCommit {
            return (commands, completers);
        }
        let mut left = Vec::new();
        for (command, completer) in commands.iter().zip(completers) {
            match command {
                // There is one topic then.
                Command::Append { dedupe: None, .. } => {
                    let sequence = SEQUENCES.get() + 1;
                    SEQUENCES.set(sequence);
                    completer.complete(Ok(Completion::Appended { sequence }));
                    left.push(Completer::new(drop));
                }
                _ => left.push(completer),
            }
        }
        (commands, left)
    }

    pub(crate) fn begin(self, write: &mut WriteTransaction) {
        if self == Self::CommitWithoutSync {
            write.set_durability(Durability::None).unwrap();
        }
    }

    pub(crate) fn after(self, tables: &mut Tables<'_>, command: &Command) -> Result<(), Error> {
        match (self, command) {
            (Self::CursorBeforeMessage, Command::Save { .. }) => {
                let Command::Save {
                    subscription,
                    fence,
                    cursor,
                } = command.clone()
                else {
                    unreachable!();
                };
                let mut ahead = cursor;
                ahead.floor += 1;
                tables
                    .execute(&Command::Save {
                        subscription,
                        fence,
                        cursor: ahead,
                    })?
                    .ok();
                Ok(())
            }
            (Self::SequenceRestartedAfterTrim, Command::Trim { topic, .. }) => {
                tables.forget_if_empty(topic)
            }
            _ => Ok(()),
        }
    }
}
