//! The runtime of the calling task.

use crate::sockets::NetRuntime;

/// Returns the runtime of the calling task: tokio's, if there is one, or else async-io's, on which
/// smol and async-std run.
///
/// # Panics
/// There is none: the task is outside of a tokio runtime, and tokio is the only one that is
/// compiled in.
#[track_caller]
pub fn current() -> NetRuntime {
    #[cfg(feature = "tokio")]
    if let Some(runtime) = super::tokio::here() {
        return runtime;
    }
    #[cfg(feature = "async-io")]
    return super::futures::current();
    #[cfg(not(feature = "async-io"))]
    panic!("there is no tokio runtime here: call it from a task, or after `Runtime::enter`");
}
