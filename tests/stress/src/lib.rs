//! What every adapter must survive, written once and run over all of them.
//!
//! The async runtimes run the same functions, which take a [`Rt`]; the blocking adapter has its
//! own, for its shape is threads. [`Alloc`] counts what is held, so that a test can say that
//! nothing was left behind.

pub mod certificates;
mod echo;

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

use antiphon_async_std::{Executor, Futures};
use antiphon_net::{SharedRuntime, until};
use antiphon_tokio::Tokio;
pub use echo::{echo, echo_on_threads};

/// No test waits longer for anything.
pub const LONG: Duration = Duration::from_secs(30);

/// An async runtime under test.
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
    /// Runs `test` to its end on the runtime, which must come within [`LONG`].
    ///
    /// # Panics
    /// It does not.
    pub fn run<F: Future>(self, test: impl FnOnce(SharedRuntime) -> F) -> F::Output {
        self.run_for(LONG, test)
    }

    /// The same with another limit.
    ///
    /// # Panics
    /// It is not kept.
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

/// Runs one function of a [`Rt`] on every runtime, each as a test of its own.
#[macro_export]
macro_rules! on_every_runtime {
    ($($(#[$meta:meta])* $case:ident;)*) => {
        mod tokio_threads { $($(#[$meta])* #[test] fn $case() { super::$case($crate::Rt::Tokio); })* }
        mod tokio_local { $($(#[$meta])* #[test] fn $case() { super::$case($crate::Rt::TokioLocal); })* }
        mod smol { $($(#[$meta])* #[test] fn $case() { super::$case($crate::Rt::Smol); })* }
        mod async_std { $($(#[$meta])* #[test] fn $case() { super::$case($crate::Rt::AsyncStd); })* }
    };
}

/// Counts the bytes that are held. To be the `global_allocator` of a test.
#[derive(Debug)]
pub struct Alloc;

static HELD: AtomicIsize = AtomicIsize::new(0);

/// How many bytes are held now.
pub fn held() -> isize {
    HELD.load(Ordering::SeqCst)
}

fn count(bytes: isize) {
    HELD.fetch_add(bytes, Ordering::SeqCst);
}

// SAFETY: every method hands its arguments to the system's allocator as they are.
unsafe impl GlobalAlloc for Alloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.realloc(at, layout, size) }
    }
}
