//! Makes clients.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use antiphon::Closed;

use super::config::ClientConfig;
use super::connect_error::ConnectError;
use super::reconnecting::{Driven, Making, Reconnecting};
use super::target::{Connect, Kind, Target, without_query};
use super::{Client, Way};
use crate::call_error::CallError;
use crate::driver::drive;
#[cfg(feature = "http")]
use crate::http::{HttpSend, connections::Connections, transmit::OverHttp};
use crate::options::ConnectionConfig;
use crate::runtime::{SharedRuntime, until};
use crate::service::Service;
use crate::transport::child::Child;
use crate::transport::link::Link;

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
            match target {
                Kind::Function(connect) => {
                    let link = connect.connect().await?;
                    open(link, connection, service, runtime).await
                }
                Kind::Link(link) => open(link, connection, service, runtime).await,
                Kind::Command(command) => {
                    let child = Child::spawn(command, connection, service, runtime)?;
                    Ok(Self(Arc::new(Way::Connection {
                        peer: child.peer().clone(),
                        _child: Some(child),
                    })))
                }
                #[cfg(feature = "http")]
                Kind::Http(url, connect) => Self::over_http(&url, &options, connect, runtime),
                Kind::Url(url) => Err(no_runtime(&url)),
            }
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
        let making: Box<dyn Fn() -> Making + Send + Sync> = match target {
            Kind::Function(connect) => {
                let connect: Arc<dyn Connect> = connect.into();
                Box::new(move || {
                    let (connect, options) = (Arc::clone(&connect), connection.clone());
                    let (service, runtime) = (Arc::clone(&service), SharedRuntime::clone(&inside));
                    Box::pin(async move {
                        let (link, options) =
                            prepare(connect.connect().await?, options, &runtime).await?;
                        let (peer, driver) = drive(link, options, service(), &runtime);
                        let driven: Driven = Box::pin(driver);
                        Ok((peer, driven))
                    })
                })
            }
            Kind::Command(command) => {
                let command = crate::lock::Lock::new(command);
                Box::new(move || {
                    let command = again(&command.lock());
                    let spawned = Child::spawn(command, connection.clone(), service(), &inside);
                    Box::pin(async move {
                        let child = spawned?;
                        let peer = child.peer().clone();
                        let driven: Driven = Box::pin(ended(child));
                        Ok((peer, driven))
                    })
                })
            }
            Kind::Link(_) => {
                return Err(ConnectError::Target("a link cannot be made again".into()));
            }
            #[cfg(feature = "http")]
            Kind::Http(url, connect) => {
                let mut options = options;
                options.connection.retry.get_or_insert_default();
                return Self::over_http(&url, &options, connect, runtime);
            }
            Kind::Url(url) => return Err(no_runtime(&url)),
        };
        let making = move || making();
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
        connect: Box<dyn Connect>,
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
        other => {
            let _ = runtime;
            Ok((other, options.connection.clone()))
        }
    }
}

fn no_runtime(url: &str) -> ConnectError {
    ConnectError::target(
        without_query(url),
        "no runtime that connects is compiled in",
    )
}

/// Gets what a connection needs beside its link.
async fn prepare(
    mut link: Link,
    options: ConnectionConfig,
    runtime: &SharedRuntime,
) -> io::Result<(Link, Arc<ConnectionConfig>)> {
    let options = options.with_token(&**runtime).await?;
    link.context.draw_number();
    Ok((link, Arc::new(options)))
}

/// Runs a connection over `link` in the background, and returns once its handshake has ended.
async fn open(
    link: Link,
    options: ConnectionConfig,
    service: Arc<impl Service>,
    runtime: &SharedRuntime,
) -> Result<Client, ConnectError> {
    let (link, options) = prepare(link, options, runtime).await?;
    let (peer, driver) = drive(link, options, service, runtime);
    // The driver's result is dropped: the service and the peer's `closed` and `transport_error` tell
    // how the connection ended.
    runtime.spawn(Box::pin(async { drop(driver.await) }));
    peer.opened().await?;
    Ok(peer.into())
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

/// A command that does the same.
fn again(command: &Command) -> Command {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        again.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => again.env(name, value),
            None => again.env_remove(name),
        };
    }
    again
}

fn too_long() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the attempt to connect took too long",
    )
}
