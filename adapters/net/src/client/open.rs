//! Makes clients.

use std::future::ready;
use std::io;
use std::sync::Arc;

use super::config::ClientConfig;
use super::connect_error::ConnectError;
use super::reconnecting::{Made, Making, Reconnecting, too_long};
use super::target::{Connect, Kind, Target};
use super::{Client, Way};
use crate::call_error::CallError;
use crate::driver::drive;
#[cfg(feature = "http")]
use crate::http::{HttpSend, connections::Connections, transmit::OverHttp};
use crate::lock::Lock;
use crate::options::ConnectionConfig;
use crate::runtime::{SharedRuntime, until};
use crate::service::Service;
use crate::transport::child::{Child, starter};
use crate::transport::link::Connecting;

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
            refuse_first_calls(&options)?;
            let (target, connection) = resolve(target, &options, runtime)?;
            #[cfg(feature = "http")]
            if let Kind::Http(url, connect) = target {
                return Self::over_http(&url, &options, connect, runtime);
            }
            let service = move || Arc::clone(&service);
            let Made {
                peer,
                running,
                child,
            } = maker(target, connection, service, runtime)?().await?;
            // The driver's result is dropped: the service and the peer's `closed` and `transport_error` tell
            // how the connection ended.
            runtime.spawn(Box::pin(async { drop(running.await) }));
            peer.opened().await?;
            Ok(Self(Arc::new(Way::Connection {
                peer,
                _child: child,
            })))
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
        let make = maker(target, connection, service, runtime)?;
        let reconnecting =
            Reconnecting::start(make, options, runtime).map_err(ConnectError::Strategy)?;
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
    /// [`ConnectError::Http`] for a URL that is not valid; [`ConnectError::Target`] for options with first calls.
    #[cfg(feature = "http")]
    pub fn with_send_on(
        url: &str,
        options: &ClientConfig,
        send: impl HttpSend,
        runtime: &SharedRuntime,
    ) -> Result<Self, ConnectError> {
        refuse_first_calls(options)?;
        let url = url.parse().map_err(ConnectError::Http)?;
        let http = OverHttp::new(url, options, send, SharedRuntime::clone(runtime));
        Ok(Self(Arc::new(Way::Http(Box::new(http)))))
    }
}

/// Refuses options with first calls, where none are made.
fn refuse_first_calls(options: &ClientConfig) -> Result<(), ConnectError> {
    match options.on_open {
        None => Ok(()),
        Some(_) => Err(ConnectError::Target(
            "`with_on_open` is for connections of `reconnect`: nothing here makes first calls"
                .into(),
        )),
    }
}

/// What to connect to instead of a URL, and the options of the connections.
fn resolve(
    target: Target,
    options: &ClientConfig,
    runtime: &SharedRuntime,
) -> Result<(Kind, ConnectionConfig), ConnectError> {
    let (kind, mut connection) = match target.0 {
        #[cfg(any(feature = "tokio", feature = "async-io"))]
        Kind::Url(url) => super::url::resolve(&url, options, runtime)?,
        other => {
            let _ = runtime;
            (other, options.connection.clone())
        }
    };
    let Some(auth) = &options.auth else {
        return Ok((kind, connection));
    };
    let is_sent = match &kind {
        #[cfg(feature = "http")]
        Kind::Http(..) => true,
        _ => connection.authorize(auth),
    };
    match is_sent {
        true => Ok((kind, connection)),
        false => Err(ConnectError::Target(
            "`with_auth` is for HTTP and WebSocket: nothing here sends a token".into(),
        )),
    }
}

/// Returns a function that makes connections to `target`.
fn maker<S: Service>(
    target: Kind,
    options: ConnectionConfig,
    service: impl Fn() -> Arc<S> + Send + Sync + 'static,
    runtime: &SharedRuntime,
) -> Result<Box<dyn Fn() -> Making + Send + Sync>, ConnectError> {
    let (service, runtime) = (Arc::new(service), SharedRuntime::clone(runtime));
    let connect: Arc<dyn Connect> = match target {
        Kind::Function(connect) => connect,
        Kind::Link(link) => {
            let link = Lock::new(Some(link));
            Arc::new(move || -> Connecting {
                let link = link.lock().take();
                Box::pin(ready(link.ok_or(io::ErrorKind::NotConnected.into())))
            })
        }
        Kind::Command(command) => {
            let start = Lock::new(starter(command, &runtime));
            return Ok(Box::new(move || {
                let started = start.lock()().map_err(lasting);
                let made = started.map(|started| {
                    let options = options.clone().into();
                    let (child, driver) = Child::of(started, options, service(), &runtime);
                    Made {
                        peer: child.peer().clone(),
                        running: Box::pin(driver),
                        child: Some(child),
                    }
                });
                Box::pin(ready(made))
            }));
        }
        Kind::Url(url) => {
            let why = "no runtime that connects is compiled in";
            return Err(ConnectError::target(&url, why));
        }
        #[cfg(feature = "http")]
        Kind::Http(url, _) => {
            let why = "connections over HTTP are made for calls";
            return Err(ConnectError::target(&url, why));
        }
    };
    Ok(Box::new(move || {
        let (connect, options) = (Arc::clone(&connect), options.clone());
        let (service, runtime) = (Arc::clone(&service), SharedRuntime::clone(&runtime));
        Box::pin(async move {
            let mut link = connect.connect().await?;
            let options = options.with_token(&*runtime).await?;
            link.context.draw_number();
            let (peer, driver) = drive(link, options, service(), &runtime);
            Ok(Made {
                peer,
                running: Box::pin(driver),
                child: None,
            })
        })
    }))
}

/// The error of a command that cannot be started. If its program does not exist, or may not be run, the kind is
/// [`InvalidInput`](io::ErrorKind::InvalidInput): no further attempt can succeed.
fn lasting(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            io::Error::new(io::ErrorKind::InvalidInput, error)
        }
        _ => error,
    }
}
