//! The thread that reads and writes for all connections of the program, clients and servers. It is started for
//! the first of them.

use std::future::{pending, poll_fn};
use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::task::Poll;
use std::thread;

use antiphon_net::{Executor, NetRuntime, SharedRuntime, Task, caught};
use async_io::block_on;

static TASKS: async_executor::Executor<'static> = async_executor::Executor::new();

static RUNTIME: LazyLock<NetRuntime> =
    LazyLock::new(|| Executor::Other(|task| TASKS.spawn(alone(task)).detach()).runtime());

/// Runs a task whose panic ends no other. Its connection ends.
async fn alone(task: Task) {
    let mut task = Some(task);
    poll_fn(|cx| {
        let Some(run) = &mut task else {
            return Poll::Ready(());
        };
        let polled = caught(|| run.as_mut().poll(cx)).unwrap_or(Poll::Ready(()));
        if polled.is_ready() {
            // What the task owns may panic when it is dropped.
            caught(|| drop(task.take()));
        }
        polled
    })
    .await;
}

/// Returns the runtime whose tasks run on that thread. The first call starts the thread.
///
/// # Errors
/// The system refused the thread.
pub(crate) fn runtime() -> io::Result<NetRuntime> {
    static IS_STARTED: Mutex<bool> = Mutex::new(false);
    let mut is_started = IS_STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_started {
        let run = || block_on(TASKS.run(pending::<()>()));
        thread::Builder::new()
            .name("antiphon-io".into())
            .spawn(run)?;
        *is_started = true;
    }
    Ok(NetRuntime::clone(&RUNTIME))
}

/// Returns the same runtime without starting the thread: for its clock and its timers, and for a connection
/// that the calling thread runs.
pub(crate) fn clock() -> SharedRuntime {
    SharedRuntime::clone(&RUNTIME)
}
