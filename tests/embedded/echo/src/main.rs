//! An echo peer on a bare microcontroller with everything that a connection can do for one that only
//! answers: any framing, batches, cancels, both versions, as its configuration says at run time.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
#[path = "../../../../examples/firmware/src/clock.rs"]
mod clock;
mod echo;
mod memory;

use antiphon::{Config, Connection};
use echo::MAX_MESSAGE_BYTES;

fn config() -> Config {
    let mut config = Config::new();
    config.limits.max_message_bytes = MAX_MESSAGE_BYTES;
    config.limits.max_batch_items = 4;
    config.limits.max_batch_reply_bytes = 1024;
    config.limits.max_open_requests = 4;
    config.limits.max_open_calls = 4;
    config.limits.max_id_bytes = 64;
    config.limits.soft_max_outbox_bytes = 1024;
    config.limits.max_outbox_bytes = 4096;
    config
}

fn run() -> ! {
    echo::serve(Connection::new(config()), echo::echo)
}
