//! Transports: streams, processes, memory, queues of messages.

pub(crate) mod child;
#[cfg(feature = "async-io")]
pub(crate) mod child_async_io;
pub(crate) mod child_output;
pub(crate) mod child_started;
pub(crate) mod child_stderr;
#[cfg(feature = "tokio")]
pub(crate) mod child_tokio;
pub(crate) mod duplex;
pub(crate) mod futures;
pub(crate) mod io;
pub(crate) mod later;
pub(crate) mod link;
pub(crate) mod messages;
pub(crate) mod socket;
pub(crate) mod stdio;
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub(crate) mod tcp;
pub(crate) mod threads;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;
#[cfg(unix)]
pub(crate) mod unix;
