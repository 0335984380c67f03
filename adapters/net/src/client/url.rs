//! Targets that are given as the text of a URL.

#[cfg(feature = "websocket")]
use std::io;
use std::sync::Arc;

#[cfg(any(feature = "http", feature = "websocket"))]
use antiphon_shell::SharedRuntime;
#[cfg(feature = "http")]
use antiphon_shell::http::HttpUrl;
use antiphon_shell::{ClientConfig, ConnectError, ConnectionConfig};
#[cfg(feature = "websocket")]
use antiphon_websocket::WebSocketConfig;

use super::target::{TargetKind, refused as refused_url};
#[cfg(any(feature = "http", feature = "websocket"))]
use crate::link::Link;
use crate::link::{Connect, Connecting};
use crate::sockets::NetRuntime;
use crate::transport::tcp::{Address, connect_tcp};

/// What to connect to instead of `url`, and the options of the connections.
pub(super) fn resolve(
    url: &str,
    options: &ClientConfig,
    runtime: &NetRuntime,
) -> Result<(TargetKind, ConnectionConfig), ConnectError> {
    let refused = |why: &str| refused_url(url, why);
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
            Ok((TargetKind::Function(Arc::new(connect)), connection))
        }
        #[cfg(unix)]
        "unix" => {
            let (path, runtime) = (std::path::PathBuf::from(rest), NetRuntime::clone(runtime));
            let connect = move || runtime.sockets().connect_unix(path.clone());
            Ok((TargetKind::Function(Arc::new(connect)), connection))
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
                TargetKind::Function(connect),
                connection.with_websocket(websocket),
            ))
        }
        #[cfg(feature = "http")]
        "http" | "https" => {
            let there: HttpUrl = url.parse().map_err(ConnectError::Http)?;
            let (host, port) = (there.host().to_owned(), there.port());
            let connect =
                over_tls(host, port, there.is_tls(), options, runtime).map_err(refused)?;
            Ok((TargetKind::Http(url.to_owned(), connect), connection))
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
    runtime: &NetRuntime,
) -> impl Connect + use<> {
    let (timeout, runtime) = (options.connect_timeout, NetRuntime::clone(runtime));
    move || -> Connecting {
        let (address, runtime) = (address.clone(), NetRuntime::clone(&runtime));
        Box::pin(async move { connect_tcp(address, timeout, &runtime).await })
    }
}

/// Connects to a server by TCP, and by TLS if `is_tls`.
#[cfg(any(feature = "http", feature = "websocket"))]
fn over_tls(
    host: String,
    port: u16,
    is_tls: bool,
    options: &ClientConfig,
    runtime: &NetRuntime,
) -> Result<Arc<dyn Connect>, &'static str> {
    let tcp = over_tcp((host.clone(), port).into(), options, runtime);
    if !is_tls {
        return Ok(Arc::new(tcp));
    }
    let Some(tls) = options.tls.clone() else {
        return Err("it needs TLS: set `tls` in the options");
    };
    let (timeout, runtime) = (options.connect_timeout, NetRuntime::clone(runtime));
    Ok(Arc::new(move || -> Connecting {
        let (connecting, host) = (tcp.connect(), host.clone());
        let (tls, runtime) = (Arc::clone(&tls), SharedRuntime::clone(&runtime));
        Box::pin(async move {
            let Link { io, context } = connecting.await?;
            let (io, context) = tls.secure(io, context, host, timeout, runtime).await?;
            Ok(Link { io, context })
        })
    }))
}
