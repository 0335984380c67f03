//! One engine for every async runtime: connections as tasks, over any byte stream ([`Io`]) and any
//! executor with timers ([`Runtime`]).
//!
//! Programs use an adapter for their runtime, such as `antiphon-tokio` or `antiphon-async-std`,
//! which adds sockets, processes and timers, and shows everything here again.
#![forbid(unsafe_code)]

mod io;
mod runtime;

pub use io::{FuturesIo, FuturesPair, Io};
pub use runtime::{Runtime, SharedRuntime, Task, Timer, sleep_until, until};
