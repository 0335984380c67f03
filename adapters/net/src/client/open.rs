//! Makes clients.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use antiphon::Closed;

use super::config::ClientConfig;
use super::connect_error::ConnectError;
use super::reconnecting::{Driven, Making, Reconnecting};
#[cfg(feature = "http")]
use super::target::Connect;
#[cfg(not(any(feature = "tokio", feature = "async-io")))]
use super::target::without_query;
use super::target::{Kind, Target};
use super::{Client, Way};
use crate::call_error::CallError;
use crate::driver::{Driver, drive};
#[cfg(feature = "http")]
use crate::http::{HttpSend, connections::Connections, transmit::OverHttp};
use crate::lock::Lock;
use crate::options::ConnectionConfig;
use crate::peer::Peer;
use crate::runtime::{SharedRuntime, until};
use crate::service::Service;
use crate::transport::child::Child;

impl Client {
    /// Connects to `target` on `runtime`, and returns once messages can be exchanged: what an adapter's
    /// `connect` does.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_on(
        target: Target,
        options: ClientConfig,
        service: Arc<impl Service>,
        runtime: &SharedRuntime,
    ) -> Result<Self, ConnectError> {
        let deadline = runtime.now() + options.connect_timeout;
        let opening = async {
            let (target, connection) = resolve(target, &options, runtime)?;
            #[cfg(feature = "http")]
            if let Kind::Http(url, connect) = target {
                return Self::over_http(&url, &options, connect, runtime);
            }
            let (peer, running) = make(target, connection, || service, runtime).await?;
            let _child = match running {
                Running::Child(child) => Some(child),
                Running::Driver(driver) => {
                    // The driver's result is dropped: the service and the peer's `closed` and
                    // `transport_error` tell how the connection ended.
                    runtime.spawn(Box::pin(async { drop(driver.await) }));
                    peer.opened().await?;
                    None
                }
            };
            Ok(Self(Arc::new(Way::Connection { peer, _child })))
        };
        let opened = until(&**runtime, deadline, opening).await;
        opened.unwrap_or_else(|| Err(too_long().into()))
    }

    /// Makes connections to `target` on `runtime`, and replaces those that are lost: what an adapter's
    /// `reconnect` does. `service` makes the service of each connection. Returns once the first connection is
    /// open, or after the `connect_timeout` without one.
    ///
    /// # Errors
    /// See [`ConnectError`]. An attempt that failed is none, if there will be another one.
    pub async fn reconnect_on<S: Service>(
        target: Target,
        options: ClientConfig,
        service: impl Fn() -> Arc<S> + Send + Sync + 'static,
        runtime: &SharedRuntime,
    ) -> Result<Self, ConnectError> {
        let (service, inside) = (Arc::new(service), SharedRuntime::clone(runtime));
        let deadline = runtime.now() + options.connect_timeout;
        let (target, connection) = resolve(target, &options, runtime)?;
        #[cfg(feature = "http")]
        if let Kind::Http(url, connect) = target {
            let mut options = options;
            options.connection.retry.get_or_insert_default();
            return Self::over_http(&url, &options, connect, runtime);
        }
        if let Kind::Link(_) = target {
            return Err(ConnectError::Target("a link cannot be made again".into()));
        }
        let target = Lock::new(target);
        let making = move || -> Making {
            let (target, connection) = (target.lock().again(), connection.clone());
            let (service, runtime) = (Arc::clone(&service), SharedRuntime::clone(&inside));
            Box::pin(async move {
                let (peer, running) = make(target?, connection, || service(), &runtime).await?;
                let driven: Driven = match running {
                    Running::Child(child) => Box::pin(ended(child)),
                    Running::Driver(driver) => Box::into_pin(driver),
                };
                Ok((peer, driven))
            })
        };
        let reconnecting =
            Reconnecting::start(making, options, runtime).map_err(ConnectError::Strategy)?;
        match reconnecting.wait_open(deadline).await {
            Err(CallError::NoConnection(error)) if error.is_final() => {
                let last = error.last_error();
                Err(last
                    .unwrap_or_else(|| io::ErrorKind::NotConnected.into())
                    .into())
            }
            _ => Ok(Self(Arc::new(Way::Reconnecting(reconnecting)))),
        }
    }

    #[cfg(feature = "http")]
    fn over_http(
        url: &str,
        options: &ClientConfig,
        connect: Arc<dyn Connect>,
        runtime: &SharedRuntime,
    ) -> Result<Self, ConnectError> {
        let send = Connections::new(options, connect, SharedRuntime::clone(runtime));
        Self::with_send_on(url, options, send.map_err(ConnectError::Http)?, runtime)
    }

    /// Makes a client that sends its HTTP requests with `send`, on `runtime`: what an adapter's
    /// `http::with_send` does.
    ///
    /// # Errors
    /// [`ConnectError::Http`] for a URL that is not valid.
    #[cfg(feature = "http")]
    pub fn with_send_on(
        url: &str,
        options: &ClientConfig,
        send: impl HttpSend,
        runtime: &SharedRuntime,
    ) -> Result<Self, ConnectError> {
        let url = url.parse().map_err(ConnectError::Http)?;
        let http = OverHttp::new(url, options, send, SharedRuntime::clone(runtime));
        Ok(Self(Arc::new(Way::Http(Box::new(http)))))
    }
}

/// What to connect to instead of a URL, and the options of the connections.
fn resolve(
    target: Target,
    options: &ClientConfig,
    runtime: &SharedRuntime,
) -> Result<(Kind, ConnectionConfig), ConnectError> {
    match target.0 {
        #[cfg(any(feature = "tokio", feature = "async-io"))]
        Kind::Url(url) => super::url::resolve(&url, options, runtime),
        #[cfg(not(any(feature = "tokio", feature = "async-io")))]
        Kind::Url(url) => {
            let _ = runtime;
            let why = "no runtime that connects is compiled in";
            Err(ConnectError::target(without_query(&url), why))
        }
        other => Ok((other, options.connection.clone())),
    }
}

/// What runs a connection.
enum Running {
    Driver(Box<Driver>),
    Child(Child),
}

/// Makes one connection.
async fn make<S: Service>(
    target: Kind,
    options: ConnectionConfig,
    service: impl FnOnce() -> Arc<S>,
    runtime: &SharedRuntime,
) -> io::Result<(Peer, Running)> {
    let mut link = match target {
        Kind::Link(link) => link,
        Kind::Function(connect) => connect.connect().await?,
        Kind::Command(command) => {
            let child = Child::spawn(command, options, service(), runtime)?;
            return Ok((child.peer().clone(), Running::Child(child)));
        }
        // A URL was resolved, and HTTP makes connections for calls.
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    let options = options.with_token(&**runtime).await?;
    link.context.draw_number();
    let (peer, driver) = drive(link, options, service(), runtime);
    Ok((peer, Running::Driver(Box::new(driver))))
}

/// Waits until the connection to a child ends, and then kills the child, if it has not exited.
async fn ended(child: Child) -> io::Result<Closed> {
    const LONG: Duration = Duration::from_secs(3600);
    let peer = child.peer();
    loop {
        if let Some(why) = peer.wait_closed(LONG).await {
            return peer.transport_error().map_or(Ok(why), Err);
        }
    }
}

impl Kind {
    /// This target once more.
    fn again(&self) -> io::Result<Self> {
        match self {
            Self::Function(connect) => Ok(Self::Function(Arc::clone(connect))),
            Self::Command(command) => Ok(Self::Command(same(command))),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A command that does the same.
fn same(command: &Command) -> Command {
    let mut same = Command::new(command.get_program());
    same.args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        same.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => same.env(name, value),
            None => same.env_remove(name),
        };
    }
    same
}

fn too_long() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the attempt to connect took too long",
    )
}
