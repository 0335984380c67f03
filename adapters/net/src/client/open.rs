//! Makes clients.

use std::future::ready;
use std::io;
use std::sync::Arc;

use antiphon_shell::{
    Client, ClientConfig, ConnectError, ConnectionConfig, Lock, Made, Making, Service,
};

use super::target::{Target, TargetKind, refused};
#[cfg(feature = "http")]
use crate::http::connections::HttpConnections;
use crate::link::{Connect, Connecting, drive_on};
use crate::sockets::NetRuntime;
use crate::transport::child::{Child, starter};

/// Connects to `target` on `runtime`, and returns once messages can be exchanged: what an adapter's
/// `connect` does.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect_on(
    target: Target,
    options: ClientConfig,
    service: Arc<impl Service>,
    runtime: &NetRuntime,
) -> Result<Client, ConnectError> {
    let (target, connection) = resolve(target, &options, runtime)?;
    #[cfg(feature = "http")]
    if let TargetKind::Http(url, connect) = target {
        return over_http(&url, &options, connect, runtime);
    }
    let make = maker(target, connection, move || Arc::clone(&service), runtime)?;
    Client::connecting(make, &options, runtime).await
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
    runtime: &NetRuntime,
) -> Result<Client, ConnectError> {
    let (target, connection) = resolve(target, &options, runtime)?;
    #[cfg(feature = "http")]
    if let TargetKind::Http(url, connect) = target {
        let mut options = options;
        options.connection.retry.get_or_insert_default();
        return over_http(&url, &options, connect, runtime);
    }
    if let TargetKind::Link(_) = target {
        return Err(ConnectError::Target("a link cannot be made again".into()));
    }
    let make = maker(target, connection, service, runtime)?;
    Client::reconnecting(make, options, runtime).await
}

#[cfg(feature = "http")]
fn over_http(
    url: &str,
    options: &ClientConfig,
    connect: Arc<dyn Connect>,
    runtime: &NetRuntime,
) -> Result<Client, ConnectError> {
    let send = HttpConnections::new(options, connect, runtime.clone().into());
    Client::with_send_on(url, options, send.map_err(ConnectError::Http)?, runtime)
}

/// What to connect to instead of a URL, and the options of the connections.
fn resolve(
    target: Target,
    options: &ClientConfig,
    runtime: &NetRuntime,
) -> Result<(TargetKind, ConnectionConfig), ConnectError> {
    let (kind, mut connection) = match target.0 {
        #[cfg(any(feature = "tokio", feature = "async-io"))]
        TargetKind::Url(url) => super::url::resolve(&url, options, runtime)?,
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
        TargetKind::Http(..) => true,
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
    target: TargetKind,
    options: ConnectionConfig,
    service: impl Fn() -> Arc<S> + Send + Sync + 'static,
    runtime: &NetRuntime,
) -> Result<Box<dyn Fn() -> Making + Send + Sync>, ConnectError> {
    let (service, runtime) = (Arc::new(service), NetRuntime::clone(runtime));
    let connect: Arc<dyn Connect> = match target {
        TargetKind::Function(connect) => connect,
        TargetKind::Link(link) => {
            let link = Lock::new(Some(link));
            Arc::new(move || -> Connecting {
                let link = link.lock().take();
                Box::pin(ready(link.ok_or(io::ErrorKind::NotConnected.into())))
            })
        }
        TargetKind::Command(command) => {
            let start = Lock::new(starter(command, &runtime));
            return Ok(Box::new(move || {
                let started = start.lock()().map_err(lasting);
                let made = started.map(|started| {
                    let options = options.clone().into();
                    let (child, driver) = Child::of(started, options, service(), &runtime);
                    Made {
                        peer: child.peer().clone(),
                        running: Box::pin(driver),
                        held: Some(Box::new(child)),
                    }
                });
                Box::pin(ready(made))
            }));
        }
        TargetKind::Url(url) => {
            let why = "no runtime that connects is compiled in";
            return Err(refused(&url, why));
        }
        #[cfg(feature = "http")]
        TargetKind::Http(url, _) => {
            let why = "connections over HTTP are made for calls";
            return Err(refused(&url, why));
        }
    };
    Ok(Box::new(move || {
        let (connect, options) = (Arc::clone(&connect), options.clone());
        let (service, runtime) = (Arc::clone(&service), NetRuntime::clone(&runtime));
        Box::pin(async move {
            let mut link = connect.connect().await?;
            let options = options.with_token(&**runtime).await?;
            link.context.draw_number();
            let (peer, driver) = drive_on(link, options, service(), &runtime);
            Ok(Made {
                peer,
                running: Box::pin(driver),
                held: None,
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
