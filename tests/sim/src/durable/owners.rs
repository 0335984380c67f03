//! Which connection is attached to each subscription of a hub. It follows from the requests that the hub was given, and
//! from what its store and other hubs have told it; the machine is not asked.

use antiphon::durable::{Command, CommandId, Completion, StoreError};

use super::checks::{Check, Checked};
use super::server::Ticket;
use super::world::World;

/// A connection that is attached, whether it was told so or not.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// The request that has attached it.
    pub(super) by: Ticket,
    command: CommandId,
    fence: u64,
    pub(super) incarnation: u64,
    /// Which of all attachments.
    pub(super) serial: u64,
}

/// A command about a subscription, of which its hub has not learned what has come of it.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) command: Command,
    /// The request that has made it; none for a save.
    pub(super) by: Option<Ticket>,
    /// When it counts as failed.
    pub(super) until: u64,
}

impl World {
    /// A hub is about to be told what has come of a command.
    pub(super) fn learn(
        &mut self,
        at: usize,
        id: CommandId,
        outcome: &Result<Completion, StoreError>,
        incarnation: u64,
    ) {
        let Some(Open { command, by, .. }) = self.hubs[at].open.remove(&id) else {
            return;
        };
        match (command, outcome, by) {
            (
                Command::Attach { subscription, .. },
                Ok(Completion::Attached { fence, .. }),
                Some(by),
            ) => {
                let highest = self.hubs[at].fences.entry(subscription.to_string());
                let highest = highest.or_default();
                *highest = (*fence).max(*highest);
                let is_last = *highest == *fence;
                // One whose connection has ended takes nothing.
                if is_last && self.has_conn(by, at) {
                    self.leave(at, |name, _| *name == *subscription);
                    self.serials += 1;
                    let owner = Owner {
                        by,
                        command: id,
                        fence: *fence,
                        incarnation,
                        serial: self.serials,
                    };
                    let hub = &mut self.hubs[at];
                    hub.owners.insert(subscription.to_string(), owner);
                    if let Some(asked) = hub.asked.get_mut(&by) {
                        asked.attached.push(subscription.to_string());
                    }
                }
            }
            (Command::Delete { subscription, .. }, Ok(_) | Err(StoreError::Unknown), _) => {
                // What was asked for before was done before, and is deleted.
                self.hubs[at]
                    .open
                    .retain(|other, open| match &open.command {
                        Command::Attach {
                            subscription: own, ..
                        } => *own != subscription || *other > id,
                        _ => true,
                    });
                self.leave(at, |name, owner| {
                    *name == *subscription && owner.command < id
                });
            }
            (
                Command::Save {
                    subscription,
                    fence,
                    ..
                },
                Err(StoreError::Unknown | StoreError::Fenced),
                _,
            )
            | (
                Command::Delete {
                    subscription,
                    fence,
                },
                Err(StoreError::Fenced),
                _,
            ) => self.leave(at, |name, owner| {
                *name == *subscription && owner.fence == fence
            }),
            _ => {}
        }
    }

    /// A hub is about to be told that another has a subscription.
    pub(super) fn learn_takeover(&mut self, at: usize, name: &str, fence: u64) {
        let highest = self.hubs[at].fences.entry(name.to_string()).or_default();
        *highest = fence.max(*highest);
        self.leave(at, |own, owner| own == name && owner.fence < fence);
    }

    /// Connections of a hub are no longer attached.
    pub(super) fn leave(&mut self, at: usize, is_left: impl Fn(&str, &Owner) -> bool) {
        let book = &mut self.book;
        self.hubs[at].owners.retain(|name, owner| {
            let is_left = is_left(name, owner);
            if is_left && book.is_holder(name, at, owner.by.conn) {
                book.holders.remove(name);
            }
            !is_left
        });
    }

    /// A program is told that a connection has lost a subscription.
    pub(super) fn check_detached(&self, at: usize, name: &str, conn: u64) -> Checked {
        let owner = self.hubs[at].owners.get(name);
        let is_lost = owner.is_none_or(|owner| owner.by.conn != conn);
        Check::OneConsumer.that(is_lost, || {
            format!("{name} is not lost to {conn}: {owner:?}")
        })
    }
}
