//! The least configuration: no batches, no cancels, small limits, and known when the program is built.

use antiphon::{CancelStyle, Config, FixedConfig};

use crate::echo::MAX_MESSAGE_BYTES;

pub struct Least;

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
