//! Transports: streams, processes, memory, queues of messages.
//!
//! Each becomes a [`Link`](link::Link), which holds an [`Io`](io::Io): what a task polls.
//!
//! | file | has |
//! |---|---|
//! | `io` | the interface: bytes in both directions, or whole messages |
//! | `link` | an open transport, and what it knows of the other side |
//! | `futures`, `tokio` | streams of the runtimes |
//! | `threads` | a blocking reader and writer, on threads of their own |
//! | `tcp`, `unix`, `socket` | sockets: addresses, listening, options |
//! | `stdio` | this process's standard streams |
//! | `later` | tries again when a stream would block |
//! | `duplex` | a stream in memory |
//! | `messages` | whole messages: a queue, a channel |
//! | `child` | a server in a child process |
//! | `child_started`, `child_tokio`, `child_async_io` | how each runtime starts one |
//! | `child_output`, `child_stderr` | its standard output and standard error |

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
