//! Where the contract is served and reached, on every adapter.
//!
//! Here: sockets, standard streams and child processes, by the adapters' own names for them. The
//! rule guarded here: a transport is named once for threads and once for tasks, and nothing else
//! of the contract knows which it is.

use std::fmt;
use std::io;
use std::process::Command;
use std::time::Duration;

use antiphon::Closed;
use antiphon_session::{ChildOptions, Options};

use crate::caller::{Caller, END_TIME_MAX};
use crate::contract::Contract;
use crate::desk::Desk;
use crate::on_tasks::{Executor, TaskCaller};
use crate::on_threads::Threads;

/// How long a server may take from the end of its output to its exit, to be told how it ended.
const EXIT_TIME_MAX: Duration = Duration::from_millis(200);

/// The transport of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Our own stdin and stdout.
    Stdio,
    /// The stdin and stdout of a process that we start.
    Child(Vec<String>),
    /// A TCP address, `HOST:PORT`.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(String),
}

impl Place {
    fn unfit(&self) -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, format!("not over {self:?}"))
    }
}

/// A server that listens.
#[must_use = "dropping it stops the server"]
pub struct Serving {
    /// The address that it really has, for a port that was 0.
    pub address: String,
    running: Running,
}

enum Running {
    Threads(antiphon_blocking::Running),
    Tasks(antiphon_async::Running, Executor),
}

impl Serving {
    /// Serves until the listener ends.
    pub fn wait(self) {
        match self.running {
            Running::Threads(running) => running.wait(),
            Running::Tasks(running, executor) => executor.block_on(running.wait()),
        }
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serving({})", self.address)
    }
}

/// A way to a peer that has been found.
pub struct Reached {
    /// What calls it.
    pub caller: Box<dyn Caller>,
    /// The process that was started, if one was.
    pub child: Option<StartedChild>,
}

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reached").finish_non_exhaustive()
    }
}

/// A process that was started, of whichever adapter.
#[derive(Debug)]
pub enum StartedChild {
    /// The blocking adapter's.
    Threads(antiphon_blocking::Child),
    /// The async adapters'.
    Tasks(antiphon_async::Child, Executor),
}

impl StartedChild {
    /// Says how it has ended, or ends within 200 ms.
    pub fn how_ended(&self) -> Option<String> {
        let waited = match self {
            Self::Threads(child) => child.wait(EXIT_TIME_MAX),
            Self::Tasks(child, executor) => executor.block_on(child.wait(EXIT_TIME_MAX)),
        };
        let status = waited.ok()??;
        Some(format!("the server has ended: {status}"))
    }

    /// Ends it, in good order if it does so within 2 s.
    pub fn close(self) {
        let ended = match self {
            Self::Threads(child) => child.close(END_TIME_MAX),
            Self::Tasks(child, executor) => executor.block_on(child.close(END_TIME_MAX)),
        };
        // A child that does not leave is killed, and how it ended is not ours to judge.
        drop(ended);
    }
}

/// The contract's server on the blocking adapter, or on an executor.
///
/// # Errors
/// The place is taken, or cannot be listened on.
pub fn listen(
    executor: Option<&Executor>,
    place: &Place,
    options: Options,
    contract: Contract,
) -> io::Result<Serving> {
    let (address, running) = match executor {
        None => on_threads::listen(place, options, contract)?,
        Some(executor) => {
            let (address, running) = match executor {
                Executor::Tokio(runtime) => {
                    runtime.block_on(on_tokio::listen(place, options, contract))?
                }
                Executor::AsyncIo => {
                    executor.block_on(on_futures::listen(place, options, contract))?
                }
            };
            (address, Running::Tasks(running, executor.clone()))
        }
    };
    Ok(Serving { address, running })
}

/// Serves on our own stdin and stdout until the input ends.
///
/// # Errors
/// The transport failed.
pub fn serve_stdio(
    executor: Option<&Executor>,
    options: Options,
    contract: Contract,
) -> io::Result<Closed> {
    match executor {
        None => antiphon_blocking::serve_stdio(options, Threads(contract)),
        Some(Executor::Tokio(runtime)) => {
            runtime.block_on(on_tokio::serve_stdio(options, contract))
        }
        Some(executor) => executor.block_on(on_futures::serve_stdio(options, contract)),
    }
}

/// Connects to a peer; `desk` answers what it asks.
///
/// # Errors
/// Nobody is there.
pub fn reach(
    executor: Option<&Executor>,
    place: &Place,
    options: Options,
    desk: Desk,
) -> io::Result<Reached> {
    let caller: Box<dyn Caller> = match executor {
        None => Box::new(on_threads::reach(place, options, desk)?),
        Some(executor) => Box::new(match executor {
            Executor::Tokio(runtime) => {
                let (peer, its) = runtime.block_on(on_tokio::reach(place, options, desk))?;
                TaskCaller::new(peer, its, executor.clone())
            }
            Executor::AsyncIo => {
                let (peer, its) = executor.block_on(on_futures::reach(place, options, desk))?;
                TaskCaller::new(peer, its, executor.clone())
            }
        }),
    };
    Ok(Reached {
        caller,
        child: None,
    })
}

/// Starts a server to speak to over its stdin and stdout; `desk` answers what it asks.
///
/// # Errors
/// It cannot be started.
pub fn start(
    executor: Option<&Executor>,
    command: Command,
    options: ChildOptions,
    desk: Desk,
) -> io::Result<Reached> {
    let (caller, child): (Box<dyn Caller>, _) = match executor {
        None => {
            let child = antiphon_blocking::Child::spawn(command, options, desk)?;
            let peer = child.peer().clone();
            (Box::new(peer), StartedChild::Threads(child))
        }
        Some(executor) => {
            let (child, its) = executor.block_on(async {
                match executor {
                    Executor::Tokio(_) => on_tokio::start(command, options, desk),
                    Executor::AsyncIo => on_futures::start(command, options, desk),
                }
            })?;
            let caller = TaskCaller::new(child.peer().clone(), its, executor.clone());
            let child = StartedChild::Tasks(child, executor.clone());
            (Box::new(caller), child)
        }
    };
    Ok(Reached {
        caller,
        child: Some(child),
    })
}

/// The transports of the blocking adapter.
mod on_threads {
    use super::{Contract, Desk, Options, Place, Running, Threads};
    use antiphon_blocking::{Link, Peer, TcpServer, connect};
    use std::io;

    pub(super) fn listen(
        place: &Place,
        options: Options,
        contract: Contract,
    ) -> io::Result<(String, Running)> {
        let service = Threads(contract);
        let (address, running) = match place {
            Place::Tcp(address) => {
                let server = TcpServer::bind(address.as_str())?;
                let address = server.local_addr()?.to_string();
                (address, server.start(options, move |_| service.clone())?)
            }
            #[cfg(unix)]
            Place::Unix(path) => {
                let server = antiphon_blocking::UnixServer::bind(path)?;
                let running = server.start(options, move || service.clone())?;
                (path.clone(), running)
            }
            _ => return Err(place.unfit()),
        };
        Ok((address, Running::Threads(running)))
    }

    pub(super) fn reach(place: &Place, options: Options, desk: Desk) -> io::Result<Peer> {
        let link = match place {
            Place::Tcp(address) => Link::tcp(address.as_str())?,
            #[cfg(unix)]
            Place::Unix(path) => Link::unix(path)?,
            _ => return Err(place.unfit()),
        };
        connect(link, options, desk)
    }
}

/// The transports of an async adapter: they have the same names in each.
macro_rules! transports {
    ($(#[$about:meta])* $module:ident, $adapter:ident, $current:path) => {
        $(#[$about])*
        mod $module {
            use super::{ChildOptions, Closed, Command, Contract, Desk, Options, Place};
            use crate::on_tasks::Tasks;
            use antiphon_async::{Child, Peer, Running, SharedRuntime};
            use std::io;
            use std::sync::Arc;
            use $adapter::{Link, TcpServer, connect};

            fn service(contract: Contract) -> Arc<Tasks> {
                Arc::new(Tasks::new(contract, $current()))
            }

            pub(super) async fn listen(
                place: &Place,
                options: Options,
                contract: Contract,
            ) -> io::Result<(String, Running)> {
                let service = service(contract);
                match place {
                    Place::Tcp(address) => {
                        let server = TcpServer::bind(address.as_str()).await?;
                        let address = server.local_addr().to_string();
                        Ok((address, server.start(options, move |_| Arc::clone(&service))))
                    }
                    #[cfg(unix)]
                    Place::Unix(path) => {
                        let server = $adapter::UnixServer::bind(path)?;
                        let running = server.start(options, move |_| Arc::clone(&service));
                        Ok((path.clone(), running))
                    }
                    _ => Err(place.unfit()),
                }
            }

            pub(super) async fn serve_stdio(
                options: Options,
                contract: Contract,
            ) -> io::Result<Closed> {
                $adapter::serve_stdio(options, service(contract)).await
            }

            pub(super) async fn reach(
                place: &Place,
                options: Options,
                desk: Desk,
            ) -> io::Result<(Peer, SharedRuntime)> {
                let link = match place {
                    Place::Tcp(address) => Link::tcp(address.as_str()).await?,
                    #[cfg(unix)]
                    Place::Unix(path) => Link::unix(path).await?,
                    _ => return Err(place.unfit()),
                };
                Ok((connect(link, options, desk), $current()))
            }

            pub(super) fn start(
                command: Command,
                options: ChildOptions,
                desk: Desk,
            ) -> io::Result<(Child, SharedRuntime)> {
                Ok(($adapter::spawn(command, options, desk)?, $current()))
            }
        }
    };
}

transports! {
    /// The transports of the tokio adapter.
    on_tokio, antiphon_tokio, antiphon_tokio::Tokio::current
}
transports! {
    /// The transports of the adapter for smol and async-std.
    on_futures, antiphon_async_std, antiphon_async_std::Futures::current
}
