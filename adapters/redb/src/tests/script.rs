//! Random commands, which a store in memory answers alike; and how tests ask a store.

use std::sync::mpsc::channel;

use antiphon::durable::{Command, Completer, Completion, MemoryStore, Store, StoreError};
use redb::backends::InMemoryBackend;

use super::commands::random_command;
pub(super) use super::commands::{Random, append, attach, read};
use crate::RedbStore;

/// The answer to one command.
pub(super) fn ask(store: &RedbStore, command: Command) -> Result<Completion, StoreError> {
    let (sender, answer) = channel();
    store.submit(
        command,
        Completer::new(move |result| sender.send(result).unwrap()),
    );
    answer.recv().unwrap()
}

// PER-04 PER-05
#[test]
fn every_command_is_answered_as_by_the_store_in_memory() {
    let redb = RedbStore::with_backend(InMemoryBackend::new).unwrap();
    let mut memory = MemoryStore::new(1 << 30);
    let mut random = Random(7);
    for step in 0..3000 {
        let command = random_command(&mut random);
        let expected = memory.execute(&command);
        assert_eq!(
            ask(&redb, command.clone()),
            expected,
            "step {step}: {command:?}"
        );
    }
}
