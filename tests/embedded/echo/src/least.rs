//! The least that an echo peer can be: version 2.0 in lines, requests and notifications, every check
//! and every limit; no batches, no cancels. Its configuration is known when it is built, so that
//! nothing else is in it.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod clock;
mod echo;

use antiphon::{CancelStyle, Config, Connection, FixedConfig};
use echo::MAX_MESSAGE_BYTES;

struct Least;

impl FixedConfig for Least {
    const CONFIG: Config = {
        let mut config = Config::new();
        config.limits.max_message_bytes = MAX_MESSAGE_BYTES;
        config.dialect.batches = false;
        config.dialect.cancel_receive = CancelStyle::None;
        config.limits.max_open_requests = 4;
        config.limits.max_id_bytes = 64;
        config.limits.soft_max_outbox_bytes = 1024;
        config.limits.max_outbox_bytes = 4096;
        config
    };
}

fn run() -> ! {
    echo::serve(Connection::fixed(Least))
}
