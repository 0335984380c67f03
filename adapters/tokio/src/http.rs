//! JSON-RPC over HTTP on tokio. See [`antiphon_async::http`].

pub use antiphon_async::http::*;

use antiphon_async::Service;

use crate::runtime::Tokio;

/// Puts a service behind HTTP: for [`TcpServer::start_protocol`](crate::TcpServer::start_protocol),
/// or for a route of a web framework.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn endpoint<S: Service>(options: impl Into<HttpOptions>, service: S) -> Endpoint<S> {
    Endpoint::new(options, service, Tokio::current())
}
