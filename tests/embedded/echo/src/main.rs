//! An echo peer on a bare microcontroller with everything that a connection can do for one that only
//! answers: any framing, batches, cancels, both versions, as its configuration says at run time.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod echo;

use antiphon::{Config, Connection};
use echo::MESSAGE_BYTES_MAX;

fn config() -> Config {
    let mut config = Config::new();
    config.message_bytes_max = MESSAGE_BYTES_MAX;
    config.batch_items_max = 4;
    config.batch_reply_bytes_max = 1024;
    config.requests_max = 4;
    config.calls_max = 4;
    config.id_bytes_max = 64;
    config.outbox_bytes_soft = 1024;
    config.outbox_bytes_max = 4096;
    config
}

fn run() -> ! {
    echo::serve(Connection::new(config()))
}
