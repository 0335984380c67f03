//! Where the contract is served and reached, on every adapter.
//!
//! Here: sockets, standard streams and child processes, by the adapters' own names for them. Each
//! transport is named once for threads and once for tasks; outside this module nothing of the
//! contract depends on the transport.

use std::fmt;
use std::io;
use std::process::Command;
use std::time::Duration;

use antiphon::Closed;
use antiphon_net::tls::Connector;
use antiphon_net::{ChildConfig, ClientConfig, ConnectionConfig, Context, http};

use crate::caller::{Caller, END_TIMEOUT};
use crate::contract::Contract;
use crate::desk::Desk;
use crate::on_tasks::{Executor, TaskCaller};
use crate::on_threads::router;
use crate::tls::Tls;

mod on_tasks;
mod on_threads;

use on_tasks::{on_futures, on_tokio};

/// How long a server may take from the end of its output to its exit, to be told how it ended.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);

/// How many calls over HTTP are under way at once; further ones wait.
const MAX_HTTP_CONNECTIONS: usize = 128;

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
    /// HTTP or WebSocket.
    Web(Web),
}

/// The target of HTTP or WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    /// Whether it is HTTP; else WebSocket.
    pub is_http: bool,
    /// Whether TLS is below.
    pub is_tls: bool,
    /// `HOST:PORT`.
    pub address: String,
    /// From the first slash on.
    pub path: String,
    /// The origins that a server lets in, over HTTP with CORS. Empty: only its own, without CORS.
    pub origins: Vec<String>,
    /// With a token a server over HTTP serves WebSockets and `/health`, too, and lets in who shows it: as a bearer, or
    /// as the subprotocol `token.TOKEN`.
    pub token: Option<String>,
}

impl Web {
    /// The target as a URL.
    pub fn url(&self) -> String {
        let scheme = match (self.is_http, self.is_tls) {
            (true, false) => "http",
            (true, true) => "https",
            (false, false) => "ws",
            (false, true) => "wss",
        };
        format!("{scheme}://{}{}", self.address, self.path)
    }

    /// A server's endpoint for HTTP and WebSocket on one port.
    fn one_port<S: 'static>(
        &self,
        options: ConnectionConfig,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> http::Web<S> {
        let token = self.token.clone();
        http::Web::new(options, make)
            .rules(self.rules())
            .health("/health", || async { true })
            .authorize(move |context| {
                let token = token.as_deref().unwrap_or_default();
                let bearer = context.header("authorization").unwrap_or_default();
                let offered = context.header("sec-websocket-protocol").unwrap_or_default();
                let mut offered = offered.split(',').map(str::trim);
                let is_offered = offered.any(|one| one.strip_prefix("token.") == Some(token));
                match is_offered || bearer.strip_prefix("Bearer ") == Some(token) {
                    true => Ok(()),
                    false => Err(http::Refusal::unauthorized("Bearer")),
                }
            })
    }

    /// Who may come in.
    fn rules(&self) -> http::WebRules {
        let mut rules = http::WebRules::new();
        rules.paths.push(self.path.clone());
        rules.origins.clone_from(&self.origins);
        rules.cors = (!self.origins.is_empty()).then(http::Cors::new);
        if let (Some(_), Some(cors)) = (&self.token, &mut rules.cors) {
            cors.headers.push("authorization".into());
        }
        rules
    }

    /// The host alone, as a certificate names it.
    fn host(&self) -> &str {
        let host = self.address.rsplit_once(':');
        let host = host.map_or(self.address.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio => f.write_str("standard streams"),
            Self::Child(_) => f.write_str("a child process"),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Unix(path) => write!(f, "unix:{path}"),
            Self::Web(web) => f.write_str(&web.url()),
        }
    }
}

impl Place {
    /// The error where an address is needed, and this is none.
    fn unfit(&self) -> io::Error {
        let why = format!("{self}: an address is needed here");
        io::Error::new(io::ErrorKind::Unsupported, why)
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
    Tasks(antiphon_net::Running, Executor),
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

/// A peer that was reached.
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
    Tasks(antiphon_net::Child, Executor),
}

impl StartedChild {
    /// Says how it has ended; `None` if it does not end within 200 ms.
    pub fn how_ended(&self) -> Option<String> {
        let waited = match self {
            Self::Threads(child) => child.wait(EXIT_TIMEOUT),
            Self::Tasks(child, executor) => executor.block_on(child.wait(EXIT_TIMEOUT)),
        };
        let status = waited.ok()??;
        Some(format!("the server has ended: {status}"))
    }

    /// Ends its input, and kills it if it does not exit within 2 s.
    pub fn close(self) {
        let ended = match self {
            Self::Threads(child) => child.close(END_TIMEOUT),
            Self::Tasks(child, executor) => executor.block_on(child.close(END_TIMEOUT)),
        };
        // How it ended is not reported.
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
    tls: &Tls,
    options: ConnectionConfig,
    contract: Contract,
) -> io::Result<Serving> {
    let (address, running) = match executor {
        None => on_threads::listen(place, tls, options, contract)?,
        Some(executor) => {
            let (address, running) = match executor {
                Executor::Tokio(runtime) => {
                    runtime.block_on(on_tokio::listen(place, tls, options, contract))?
                }
                Executor::AsyncIo => {
                    executor.block_on(on_futures::listen(place, tls, options, contract))?
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
    options: ConnectionConfig,
    contract: Contract,
) -> io::Result<Closed> {
    match executor {
        None => antiphon_blocking::serve_stdio(options, router(contract)),
        Some(Executor::Tokio(runtime)) => {
            runtime.block_on(on_tokio::serve_stdio(options, contract))
        }
        Some(executor) => executor.block_on(on_futures::serve_stdio(options, contract)),
    }
}

/// Connects to a peer; `desk` answers what it asks.
///
/// # Errors
/// Nothing listens there, or the connection cannot be set up.
pub fn reach(
    executor: Option<&Executor>,
    place: &Place,
    tls: &Tls,
    options: ConnectionConfig,
    desk: Desk,
) -> io::Result<Reached> {
    let caller = match executor {
        None => on_threads::reach(place, tls, options, desk)?,
        Some(executor) => executor.block_on(async {
            let executor = executor.clone();
            match executor {
                Executor::Tokio(_) => on_tokio::reach(place, tls, options, desk, executor).await,
                Executor::AsyncIo => on_futures::reach(place, tls, options, desk, executor).await,
            }
        })?,
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
    options: ChildConfig,
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

/// The options of an HTTP client that makes up to [`MAX_HTTP_CONNECTIONS`] calls at once.
fn http_client(web: &Web, tls: &Tls, options: &ConnectionConfig) -> io::Result<ClientConfig> {
    let mut client = ClientConfig::from(options.config);
    client.max_http_connections = MAX_HTTP_CONNECTIONS;
    if web.is_tls {
        client = client.with_tls(Connector::from(tls.client()?));
    }
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn a_place_without_an_address_is_refused_in_words() {
        let child = Place::Child(vec!["secret".to_string()]);
        for (place, words) in [
            (Place::Stdio, "standard streams: an address is needed here"),
            (child, "a child process: an address is needed here"),
        ] {
            assert_eq!(place.unfit().to_string(), words);
        }
    }
}
