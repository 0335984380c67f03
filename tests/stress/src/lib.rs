//! What every adapter must survive, written once and run over all of them.
//!
//! The async runtimes run the same functions, which take an [`Rt`]; the blocking adapter has
//! functions of its own, because it works with threads.

pub mod certificates;
mod echo;

use std::future::Future;
use std::time::Duration;

use antiphon_async_std::{Executor, Futures};
use antiphon_net::{SharedRuntime, until};
use antiphon_tokio::Tokio;
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
                let runtime = Tokio::current();
                limited(limit, &runtime.clone(), test(runtime)).await
            }),
            None => {
                let runtime = Futures::on(match self {
                    Self::AsyncStd => Executor::AsyncStd,
                    _ => Executor::Smol,
                });
                async_io::block_on(limited(limit, &runtime.clone(), test(runtime)))
            }
        }
    }
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
