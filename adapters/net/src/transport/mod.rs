//! What connects and listens: TCP, Unix sockets, child processes.
//!
//! | file | has |
//! |---|---|
//! | `tcp`, `unix` | sockets: addresses, connecting, listening |
//! | `child` | a server in a child process |
//! | `child_output`, `child_stderr` | its standard output and standard error |

pub(crate) mod child;
pub(crate) mod child_output;
pub(crate) mod child_stderr;
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub(crate) mod tcp;
#[cfg(all(unix, any(feature = "tokio", feature = "async-io")))]
pub(crate) mod unix;
