//! Which runtime a task is on.

use super::SharedRuntime;
#[cfg(feature = "async-io")]
use super::futures::Futures;
#[cfg(feature = "tokio")]
use super::tokio::Tokio;

/// The runtime of the calling task: tokio's, where there is one, or else the reactor of smol and
/// async-std.
///
/// # Panics
/// There is none: outside of a tokio runtime, if tokio is the only one that is built in.
#[track_caller]
pub fn current() -> SharedRuntime {
    #[cfg(feature = "tokio")]
    if let Some(runtime) = Tokio::here() {
        return runtime;
    }
    #[cfg(feature = "async-io")]
    return Futures::current();
    #[cfg(not(feature = "async-io"))]
    panic!("there is no tokio runtime here: call it from a task, or after `Runtime::enter`");
}
