//! What every adapter must survive, written once and run over all of them.
//!
//! The async runtimes run the same functions, which take an [`Rt`]; the blocking adapter has
//! functions of its own, because it works with threads.

pub mod certificates;
mod echo;

use std::cell::Cell;
use std::future::Future;
use std::sync::Once;
use std::thread;
use std::time::Duration;

use antiphon_async_std::{Executor, set_executor};
use antiphon_net::{SharedRuntime, Task, current, until};
pub use echo::{echo, echo_on_threads};

/// How long a test waits for something that must come, unless it says otherwise.
pub const LONG: Duration = Duration::from_secs(30);

/// An async runtime under test. For smol and async-std the tests use the functions of `antiphon-async-std`:
/// those of `antiphon-smol` are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rt {
    /// tokio, on threads.
    Tokio,
    /// tokio, on one thread.
    TokioLocal,
    /// smol.
    Smol,
    /// async-std.
    AsyncStd,
}

impl Rt {
    /// The runtime whose task calls this; `None` outside of a task of smol or async-std.
    pub fn here() -> Option<Self> {
        use tokio::runtime::{Handle, RuntimeFlavor};
        if let Ok(tokio) = Handle::try_current() {
            return Some(match tokio.runtime_flavor() {
                RuntimeFlavor::CurrentThread => Self::TokioLocal,
                _ => Self::Tokio,
            });
        }
        if async_std::task::try_current().is_some() {
            return Some(Self::AsyncStd);
        }
        // smol has no such function, so the name of its threads shows it.
        let is_smol = thread::current().name()?.starts_with("smol-");
        is_smol.then_some(Self::Smol)
    }

    /// Runs `test` on the runtime, for at most [`LONG`].
    ///
    /// # Panics
    /// `test` takes longer.
    pub fn run<F: Future>(self, test: impl FnOnce(SharedRuntime) -> F) -> F::Output {
        self.run_for(LONG, test)
    }

    /// Runs `test` on the runtime, for at most `limit`.
    ///
    /// # Panics
    /// `test` takes longer.
    pub fn run_for<F: Future>(
        self,
        limit: Duration,
        test: impl FnOnce(SharedRuntime) -> F,
    ) -> F::Output {
        let tokio = match self {
            Self::Tokio => Some(
                tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build(),
            ),
            Self::TokioLocal => Some(
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build(),
            ),
            Self::Smol | Self::AsyncStd => None,
        };
        match tokio {
            Some(tokio) => tokio.expect("a runtime").block_on(async {
                let runtime: SharedRuntime = current().into();
                limited(limit, &runtime.clone(), test(runtime)).await
            }),
            None => {
                let _running = Running::new(self);
                let runtime = futures(self);
                async_io::block_on(limited(limit, &runtime.clone(), test(runtime)))
            }
        }
    }
}

/// smol or async-std.
fn futures(rt: Rt) -> SharedRuntime {
    let executor = match rt {
        Rt::AsyncStd => Executor::AsyncStd,
        _ => Executor::Smol,
    };
    executor.runtime().into()
}

thread_local! {
    /// The runtime of the test that runs on this thread, if that is smol or async-std.
    static NAMED: Cell<Option<Rt>> = const { Cell::new(None) };
}

/// Chooses the executor of this program. Functions such as `TcpServer::bind` and `connect` use it for
/// smol and for async-std, and tests on both run in one program; so it hands each task to the runtime of
/// the test or of the task that spawns it. The first connection fixes the choice, also one that spawns
/// nothing, as an HTTP client on threads makes it: call this before.
///
/// # Panics
/// It is too late.
pub fn choose_executor() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        let is_first = set_executor(Executor::Other(spawn));
        assert!(
            is_first,
            "a client of HTTP on threads needs `choose_executor` before"
        );
    });
}

/// A test that runs on smol or async-std.
struct Running;

impl Running {
    fn new(rt: Rt) -> Self {
        choose_executor();
        NAMED.set(Some(rt));
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        NAMED.set(None);
    }
}

fn spawn(task: Task) {
    let rt = NAMED.get().or_else(Rt::here);
    futures(rt.expect("a test or a task spawns it")).spawn(task);
}

async fn limited<F: Future>(limit: Duration, runtime: &SharedRuntime, test: F) -> F::Output {
    let deadline = runtime.now() + limit;
    let done = until(&**runtime, deadline, test).await;
    done.expect("it ends in time")
}

/// Runs each function, which takes an [`Rt`], on every runtime, as a test of its own.
#[macro_export]
macro_rules! on_every_runtime {
    ($($(#[$meta:meta])* $case:ident;)*) => {
        mod tokio_threads { $($(#[$meta])* #[test] fn $case() { super::$case($crate::Rt::Tokio); })* }
        mod tokio_local { $($(#[$meta])* #[test] fn $case() { super::$case($crate::Rt::TokioLocal); })* }
        mod smol { $($(#[$meta])* #[test] fn $case() { super::$case($crate::Rt::Smol); })* }
        mod async_std { $($(#[$meta])* #[test] fn $case() { super::$case($crate::Rt::AsyncStd); })* }
    };
}
