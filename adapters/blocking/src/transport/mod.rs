//! Transports: streams, processes, memory, queues of messages.

pub(crate) mod child;
pub(crate) mod duplex;
pub(crate) mod link;
