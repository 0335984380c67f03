//! The async runtimes: the calling thread, and one worker for all tasks, or the calling thread alone.
//!
//! Rule: every row has the same, bare or not. The figures that the targets rest on were taken with a worker, and an
//! ordinary program has one; with a single thread no other has to be woken, which makes bare rows look better.

use std::future::Future;
use std::rc::Rc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use antiphon_smol::{Executor, set_executor};
use tokio::runtime::Builder;

use crate::row::Outcome;

/// Where smol's tasks run: on the worker, or on the thread that waits for one.
static TASKS: async_executor::Executor<'static> = async_executor::Executor::new();

/// Whether tasks have a thread of their own.
static HAS_WORKER: AtomicBool = AtomicBool::new(false);

/// Gives the runtimes that are made from now on a worker.
pub(crate) fn use_worker() {
    HAS_WORKER.store(true, Ordering::Relaxed);
}

/// A runtime. Without a worker, its tasks run while somebody waits for a future.
#[derive(Clone)]
pub(crate) enum Runtime {
    Tokio(Rc<tokio::runtime::Runtime>),
    Smol,
}

impl Runtime {
    pub(crate) fn tokio() -> Outcome<Self> {
        let mut builder = match HAS_WORKER.load(Ordering::Relaxed) {
            true => Builder::new_multi_thread(),
            false => Builder::new_current_thread(),
        };
        let runtime = builder.worker_threads(1).enable_all().build()?;
        Ok(Self::Tokio(Rc::new(runtime)))
    }

    pub(crate) fn smol() -> Self {
        // From the second runtime on this changes nothing.
        set_executor(Executor::Other(|task| TASKS.spawn(task).detach()));
        static WORKER: Once = Once::new();
        if HAS_WORKER.load(Ordering::Relaxed) {
            WORKER.call_once(|| {
                thread::spawn(|| async_io::block_on(TASKS.run(std::future::pending::<()>())));
            });
        }
        Self::Smol
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Tokio(runtime) => runtime.block_on(future),
            Self::Smol if HAS_WORKER.load(Ordering::Relaxed) => async_io::block_on(future),
            Self::Smol => async_io::block_on(TASKS.run(future)),
        }
    }

    /// Runs a future in a task of its own and gives its output; the calling thread waits for it.
    pub(crate) fn run_task<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Outcome<T> {
        match self {
            Self::Tokio(runtime) => Ok(runtime.block_on(runtime.spawn(task))?),
            Self::Smol => Ok(self.block_on(TASKS.spawn(task))),
        }
    }

    /// Starts futures in tasks of their own; what is returned waits for the outputs of all.
    pub(crate) fn spawn_all<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        tasks: Vec<F>,
    ) -> impl Future<Output = Outcome<Vec<T>>> + use<T, F> {
        type Joined<T> = std::pin::Pin<Box<dyn Future<Output = Outcome<T>>>>;
        let spawn = |task: F| -> Joined<T> {
            match self {
                Self::Tokio(runtime) => {
                    let joined = runtime.spawn(task);
                    Box::pin(async { Ok(joined.await?) })
                }
                Self::Smol => {
                    let joined = TASKS.spawn(task);
                    Box::pin(async { Ok(joined.await) })
                }
            }
        };
        let all: Vec<_> = tasks.into_iter().map(spawn).collect();
        async {
            let mut outputs = Vec::with_capacity(all.len());
            for one in all {
                outputs.push(one.await?);
            }
            Ok(outputs)
        }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Tokio(runtime) => drop(runtime.spawn(task)),
            Self::Smol => TASKS.spawn(task).detach(),
        }
    }
}
