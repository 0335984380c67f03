//! The adapter that runs the contract, by name.

use std::fmt;
use std::io;
use std::sync::Arc;

use antiphon_async_std::set_executor;

use crate::on_tasks::Executor;

/// An adapter, and for the async ones what runs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// Threads.
    #[default]
    Blocking,
    /// tokio, on two threads.
    Tokio,
    /// smol.
    Smol,
    /// async-std.
    AsyncStd,
}

impl Runtime {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Blocking, Self::Tokio, Self::Smol, Self::AsyncStd];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Tokio => "tokio",
            Self::Smol => "smol",
            Self::AsyncStd => "async-std",
        }
    }

    /// The runtime of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|runtime| runtime.name() == name)
    }

    /// Starts it; `None` for threads, where there is nothing to start. One process cannot run both
    /// smol and async-std.
    ///
    /// # Errors
    /// The system refused a thread, or the other of smol and async-std runs already.
    pub fn start(self) -> io::Result<Option<Executor>> {
        let chosen = match self {
            Self::Blocking => return Ok(None),
            Self::Tokio => {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build()?;
                return Ok(Some(Executor::Tokio(Arc::new(runtime))));
            }
            Self::Smol => antiphon_async_std::Executor::Smol,
            Self::AsyncStd => antiphon_async_std::Executor::AsyncStd,
        };
        if set_executor(chosen) {
            return Ok(Some(Executor::AsyncIo));
        }
        Err(io::Error::other("an executor has been chosen already"))
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
