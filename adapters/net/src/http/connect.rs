//! Clients with senders of their own, and endpoints, on the runtime of the calling task.

use super::endpoint::Endpoint;
use super::options::HttpConfig;
use crate::runtime::current;
use antiphon_shell::http::HttpSend;
use antiphon_shell::{Client, ClientConfig, ConnectError, Service};

/// Makes an endpoint, which serves `service` over HTTP: for
/// [`TcpServer::start_protocol`](crate::TcpServer::start_protocol), or for a route of a web
/// framework.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn endpoint<S: Service>(options: impl Into<HttpConfig>, service: S) -> Endpoint<S> {
    Endpoint::new(options, service, current())
}

/// Makes a client of the server at `url` that sends its requests with `send`, and not over connections of its
/// own. [`close`](Client::close) only drops the sender.
///
/// # Errors
/// [`ConnectError::Http`] for a URL that is not valid.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn with_send(
    url: &str,
    options: impl Into<ClientConfig>,
    send: impl HttpSend,
) -> Result<Client, ConnectError> {
    Client::with_send_on(url, &options.into(), send, &current())
}
