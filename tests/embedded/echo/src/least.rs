//! The least that an echo peer can be: version 2.0 in lines, requests and notifications, every check
//! and every limit; no batches, no cancels. Its configuration is known when it is built, so that
//! nothing else is in it.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod echo;

use antiphon::{CancelStyle, Config, Connection, FixedConfig};
use echo::MESSAGE_BYTES_MAX;

struct Least;

impl FixedConfig for Least {
    const CONFIG: Config = {
        let mut config = Config::new();
        config.message_bytes_max = MESSAGE_BYTES_MAX;
        config.batches = false;
        config.cancel_receive = CancelStyle::None;
        config.requests_max = 4;
        config.id_bytes_max = 64;
        config.outbox_bytes_soft = 1024;
        config.outbox_bytes_max = 4096;
        config
    };
}

fn run() -> ! {
    echo::serve(Connection::fixed(Least))
}
