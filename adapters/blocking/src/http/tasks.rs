//! The thread that reads and writes for HTTP, in a program without a runtime: one for all clients
//! and servers. It is started for the first of them.

use std::future::pending;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use antiphon_net::SharedRuntime;
use antiphon_net::{Executor, Futures};
use async_io::block_on;

static TASKS: async_executor::Executor<'static> = async_executor::Executor::new();

/// Returns the runtime whose tasks run on the thread for HTTP. The first call starts that thread.
///
/// # Errors
/// The system refused the thread.
pub(super) fn runtime() -> io::Result<SharedRuntime> {
    static IS_STARTED: Mutex<bool> = Mutex::new(false);
    let mut is_started = IS_STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_started {
        let run = || block_on(TASKS.run(pending::<()>()));
        let thread = thread::Builder::new().name("antiphon-http".into());
        thread.spawn(run)?;
        *is_started = true;
    }
    Ok(Futures::on(Executor::Other(|task| {
        TASKS.spawn(task).detach()
    })))
}
