//! Targets that are given as the text of a URL.

#[cfg(feature = "websocket")]
use std::io;
use std::sync::Arc;

#[cfg(feature = "websocket")]
use antiphon_websocket::WebSocketConfig;

use super::config::ClientConfig;
use super::connect_error::ConnectError;
use super::target::{Connect, Kind};
#[cfg(feature = "http")]
use crate::http::url::{HttpScheme, HttpUrl};
use crate::options::ConnectionConfig;
use crate::runtime::SharedRuntime;
use crate::transport::link::Connecting;
use crate::transport::tcp::{Address, connect_tcp};

/// What to connect to instead of `url`, and the options of the connections.
pub(super) fn resolve(
    url: &str,
    options: &ClientConfig,
    runtime: &SharedRuntime,
) -> Result<(Kind, ConnectionConfig), ConnectError> {
    let refused = |why: &str| ConnectError::target(url, why);
    let refuse = |why: &str| Err(refused(why));
    let connection = options.connection.clone();
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    match &*scheme.to_ascii_lowercase() {
        "tcp" => {
            let address = rest.trim_end_matches('/');
            let port = address
                .rsplit_once(':')
                .map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(_))) {
                return refuse("a host and a port must follow, as in tcp://localhost:7777");
            }
            let connect = over_tcp(address.into(), options, runtime);
            Ok((Kind::Function(Arc::new(connect)), connection))
        }
        #[cfg(unix)]
        "unix" => {
            let (path, runtime) = (
                std::path::PathBuf::from(rest),
                SharedRuntime::clone(runtime),
            );
            let connect = move || runtime.connect_unix(path.clone());
            Ok((Kind::Function(Arc::new(connect)), connection))
        }
        #[cfg(feature = "websocket")]
        "ws" | "wss" => {
            let websocket = websocket(url, options).map_err(|error| refused(&error.to_string()))?;
            let Some(there) = websocket.url() else {
                return refuse("it is no URL of a WebSocket");
            };
            let (host, port) = (there.host().to_owned(), there.port());
            let connect =
                over_tls(host, port, there.is_tls(), options, runtime).map_err(refused)?;
            Ok((
                Kind::Function(connect),
                connection.with_websocket(websocket),
            ))
        }
        #[cfg(feature = "http")]
        "http" | "https" => {
            let there: HttpUrl = url.parse().map_err(ConnectError::Http)?;
            let is_tls = there.scheme() == HttpScheme::Https;
            let host = there.host().to_owned();
            let connect =
                over_tls(host, there.port(), is_tls, options, runtime).map_err(refused)?;
            Ok((Kind::Http(url.to_owned(), connect), connection))
        }
        #[cfg(not(feature = "websocket"))]
        "ws" | "wss" => refuse("the feature `websocket` is off"),
        #[cfg(not(feature = "http"))]
        "http" | "https" => refuse("the feature `http` is off"),
        _ => refuse("it must begin with tcp://, unix:, ws://, wss://, http:// or https://"),
    }
}

/// The WebSocket to `url`.
#[cfg(feature = "websocket")]
fn websocket(url: &str, options: &ClientConfig) -> io::Result<WebSocketConfig> {
    let mut websocket = WebSocketConfig::client(url)?;
    websocket.rules = options.websocket.clone();
    for (name, value) in &options.headers {
        websocket = websocket.with_header(name, value)?;
    }
    Ok(websocket)
}

fn over_tcp(
    address: Address,
    options: &ClientConfig,
    runtime: &SharedRuntime,
) -> impl Connect + use<> {
    let (timeout, runtime) = (options.connect_timeout, SharedRuntime::clone(runtime));
    move || -> Connecting {
        let (address, runtime) = (address.clone(), SharedRuntime::clone(&runtime));
        Box::pin(async move { connect_tcp(address, timeout, &*runtime).await })
    }
}

/// Connects to a server by TCP, and by TLS if `is_tls`.
#[cfg(any(feature = "http", feature = "websocket"))]
fn over_tls(
    host: String,
    port: u16,
    is_tls: bool,
    options: &ClientConfig,
    runtime: &SharedRuntime,
) -> Result<Arc<dyn Connect>, &'static str> {
    let tcp = over_tcp((host.clone(), port).into(), options, runtime);
    if !is_tls {
        return Ok(Arc::new(tcp));
    }
    #[cfg(feature = "tls")]
    {
        let Some(config) = options.tls.clone() else {
            return Err("it needs TLS: set `tls` in the options");
        };
        let (timeout, runtime) = (options.connect_timeout, SharedRuntime::clone(runtime));
        Ok(Arc::new(move || -> Connecting {
            let (connecting, host) = (tcp.connect(), host.clone());
            let (config, runtime) = (Arc::clone(&config), SharedRuntime::clone(&runtime));
            Box::pin(async move {
                crate::tls::client_on(connecting.await?, &host, config, timeout, &*runtime).await
            })
        }))
    }
    #[cfg(not(feature = "tls"))]
    {
        let _ = (host, options);
        Err("it needs TLS, and the feature `tls` is off")
    }
}
