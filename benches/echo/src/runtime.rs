//! The async runtimes, each on the calling thread alone.

use std::future::Future;
use std::rc::Rc;

use antiphon_async_std::{Executor, set_executor};
use tokio::runtime::Builder;

use crate::row::Outcome;

/// Where smol's tasks run: on whatever thread waits for one.
static TASKS: async_executor::Executor<'static> = async_executor::Executor::new();

/// A runtime that runs while somebody waits for a future.
#[derive(Clone)]
pub(crate) enum Runtime {
    Tokio(Rc<tokio::runtime::Runtime>),
    Smol,
}

impl Runtime {
    pub(crate) fn tokio() -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self::Tokio(Rc::new(runtime)))
    }

    pub(crate) fn smol() -> Self {
        // It was chosen before if this is not the first.
        set_executor(Executor::Other(|task| TASKS.spawn(task).detach()));
        Self::Smol
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Tokio(runtime) => runtime.block_on(future),
            Self::Smol => async_io::block_on(TASKS.run(future)),
        }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Tokio(runtime) => drop(runtime.spawn(task)),
            Self::Smol => TASKS.spawn(task).detach(),
        }
    }
}
