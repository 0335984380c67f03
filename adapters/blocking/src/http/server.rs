//! A server over HTTP: the one of `antiphon-net`, run on the background thread for HTTP.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use antiphon_net::http::{Endpoint, HttpConfig};
use antiphon_net::{Context, TcpServer};

use super::service::OnPool;
use super::tasks::runtime;
use crate::serve::Service;
use crate::server::running::Running;

/// Starts a server on `listener`. `prepare` sets the server's limits, hooks and TLS.
pub(crate) fn start<S: Service>(
    listener: TcpListener,
    options: HttpConfig,
    make: impl Fn(&Context) -> S + Send + Sync + 'static,
    prepare: impl FnOnce(TcpServer) -> TcpServer,
) -> io::Result<Running> {
    let runtime = runtime()?;
    let server = TcpServer::from_listener_on(listener, Arc::clone(&runtime))?;
    let endpoint = Endpoint::new(options, OnPool::new(make), runtime);
    Ok(Running::new(prepare(server).start_protocol(endpoint)))
}
