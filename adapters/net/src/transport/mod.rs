//! What connections run over: streams, processes, memory, queues of messages.

pub(crate) mod child;
pub(crate) mod child_output;
pub(crate) mod duplex;
pub(crate) mod io;
pub(crate) mod later;
pub(crate) mod link;
pub(crate) mod messages;
pub(crate) mod process;
pub(crate) mod socket;
pub(crate) mod stdio;
pub(crate) mod threads;
#[cfg(unix)]
pub(crate) mod unix;
