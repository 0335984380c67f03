//! The tasks and timers of smol and of async-std, as the engine wants them.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use antiphon::Instant;
use antiphon_net::{Clock, Runtime, SharedRuntime, Task, Timer};

/// Where a program's tasks run. Timers and sockets are async-io's with either: it is the reactor
/// below both.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Executor {
    /// smol's global executor.
    #[cfg(feature = "smol")]
    Smol,
    /// async-std's. Discontinued upstream: for programs that are on it already.
    #[cfg(feature = "async-std")]
    AsyncStd,
    /// Any other: how it runs a task in the background.
    Other(fn(Task)),
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            #[cfg(feature = "smol")]
            Self::Smol => "Smol",
            #[cfg(feature = "async-std")]
            Self::AsyncStd => "AsyncStd",
            Self::Other(_) => "Other",
        })
    }
}

static EXECUTOR: OnceLock<Executor> = OnceLock::new();

/// Chooses where the tasks of this crate run, for the whole program. Without it smol, or async-std
/// if only that is compiled in. Says whether it was the first choice; a later one, or one after
/// the first connection, changes nothing.
pub fn set_executor(executor: Executor) -> bool {
    EXECUTOR.set(executor).is_ok()
}

fn default_executor() -> Executor {
    #[cfg(feature = "smol")]
    return Executor::Smol;
    #[cfg(all(feature = "async-std", not(feature = "smol")))]
    return Executor::AsyncStd;
    #[cfg(not(any(feature = "smol", feature = "async-std")))]
    Executor::Other(|task| {
        // Nobody chose: a thread is the one place that is always there.
        let builder = std::thread::Builder::new().name("antiphon-task".into());
        // Without threads there is no task; whoever waits for it sees it dropped.
        let _ = builder.spawn(|| async_io::block_on(task));
    })
}

/// The executor that was chosen, with async-io's timers.
#[derive(Debug)]
pub struct Futures {
    executor: Executor,
    epoch: std::time::Instant,
}

impl Futures {
    /// The program's executor: see [`set_executor`].
    pub fn current() -> SharedRuntime {
        Self::on(*EXECUTOR.get_or_init(default_executor))
    }

    /// Another executor than the program's.
    pub fn on(executor: Executor) -> SharedRuntime {
        Arc::new(Self {
            executor,
            epoch: std::time::Instant::now(),
        })
    }
}

impl Clock for Futures {
    fn now(&self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }
}

impl Runtime for Futures {
    fn spawn(&self, task: Task) {
        match self.executor {
            #[cfg(feature = "smol")]
            Executor::Smol => smol::spawn(task).detach(),
            #[cfg(feature = "async-std")]
            Executor::AsyncStd => drop(async_std::task::spawn(task)),
            Executor::Other(spawn) => spawn(task),
        }
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(IoTimer {
            epoch: self.epoch,
            set: None,
        })
    }

    fn sleep_until(&self, at: Instant) -> Task {
        if at == Instant::FAR_FUTURE {
            return Box::pin(pending());
        }
        let mut timer = async_io::Timer::at(self.epoch + at.saturating_since(Instant::ZERO));
        Box::pin(poll_fn(move |cx| Pin::new(&mut timer).poll(cx).map(drop)))
    }
}

struct IoTimer {
    epoch: std::time::Instant,
    set: Option<(Instant, async_io::Timer)>,
}

impl Timer for IoTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if at == Instant::FAR_FUTURE {
            self.set = None;
            return Poll::Pending;
        }
        let due = self.epoch + at.saturating_since(Instant::ZERO);
        let (_, timer) = match &mut self.set {
            Some(set) => {
                // Setting anew costs a lock. A timer that has fired is ready no second time.
                if set.0 != at || due <= std::time::Instant::now() {
                    set.0 = at;
                    set.1.set_at(due);
                }
                set
            }
            none => none.insert((at, async_io::Timer::at(due))),
        };
        Pin::new(timer).poll(cx).map(drop)
    }
}
