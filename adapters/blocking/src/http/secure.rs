//! Clients with TLS as the caller configured it: the engine's own connections, on a thread that
//! belongs to the client. (ureq takes no configuration of rustls.)

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use antiphon::Instant;
use antiphon_async::http::{Connections, HttpSend as _};
use antiphon_async::{Connecting, SharedRuntime, until};
use antiphon_session::http::{
    HttpClientOptions, HttpError, HttpRequest, HttpResponse, HttpScheme, HttpUrl,
};
use antiphon_session::tls::rustls::ClientConfig;
use async_io::block_on;

use super::client::Client;
use super::send::HttpSend;
use super::tasks::TaskThread;

/// A client of the server at `url`, which begins with `https://`, with TLS as `config` says. It has
/// a thread of its own.
///
/// # Errors
/// [`HttpError::Url`] or [`HttpError::Header`] for what cannot be used; [`HttpError::Connect`] if
/// the system refused a thread.
pub fn connect_tls(
    url: &str,
    options: impl Into<HttpClientOptions>,
    config: Arc<ClientConfig>,
) -> Result<Client, HttpError> {
    let options = options.into();
    let server: HttpUrl = url.parse()?;
    if server.scheme() == HttpScheme::Http {
        return Err(HttpError::Url("http is without TLS"));
    }
    let connect = move || -> Connecting {
        let (host, port) = (server.host().to_string(), server.port());
        let config = Arc::clone(&config);
        Box::pin(async move {
            let address = (&*host, port);
            let link = antiphon_async_std::tls::connect(address, &host, config).await;
            link.map(Into::into)
        })
    };
    let thread = TaskThread::start().map_err(HttpError::Connect)?;
    let runtime = thread.runtime();
    let send = OnThread {
        connections: Connections::new(&options, connect, Arc::clone(&runtime))?,
        runtime,
        _thread: thread,
    };
    Client::with_send(url, options, send)
}

/// Sends from the thread that calls; the connections run on their own.
struct OnThread {
    connections: Connections,
    runtime: SharedRuntime,
    /// Dropped last: it drops the connections' tasks.
    _thread: TaskThread,
}

impl HttpSend for OnThread {
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError> {
        let due = timeout.map_or(Instant::FAR_FUTURE, |span| self.runtime.now() + span);
        let sending = self.connections.send(request);
        let sent = block_on(until(&*self.runtime, due, sending));
        sent.unwrap_or(Err(HttpError::TimedOut))
    }
}

impl fmt::Debug for OnThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connections.fmt(f)
    }
}
