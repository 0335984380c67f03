//! Random commands, which a store in memory answers alike.

use antiphon::durable::MemoryStore;

use super::commands;
use super::server::{Server, ask, programs};

// PER-04 PER-05
#[test]
fn every_command_is_answered_as_by_the_store_in_memory() {
    for program in programs() {
        let server = Server::start(&program);
        let nats = server.store();
        let mut memory = MemoryStore::new(1 << 30);
        let mut random = commands::Random(7);
        for step in 0..3000 {
            let command = commands::random_command(&mut random);
            let expected = memory.execute(&command);
            assert_eq!(
                ask(&nats, command.clone()),
                expected,
                "step {step}: {command:?}"
            );
        }
    }
}
