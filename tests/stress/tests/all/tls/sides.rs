//! A server and a client of every adapter, with one interface.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon::{Config, OwnedError};
use antiphon_net::tls::{self, rustls};
use antiphon_net::websocket::WebSocketConfig;
use antiphon_net::{
    Answer, CallError, Client, ClientConfig, ConnectionConfig, Context, Peer, Request, Service,
};
use antiphon_stress::{LONG, Rt};

/// An adapter under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Blocking,
    Tokio,
    Smol,
    AsyncStd,
}

/// All of them.
pub(crate) const ALL: [Kind; 4] = [Kind::Blocking, Kind::Tokio, Kind::Smol, Kind::AsyncStd];

impl Kind {
    /// The runtime of smol or async-std.
    fn runtime(self) -> Rt {
        match self {
            Self::AsyncStd => Rt::AsyncStd,
            _ => Rt::Smol,
        }
    }
}

pub(crate) fn options() -> ConnectionConfig {
    let mut config = Config::new();
    config.limits.max_message_bytes = 4 << 20;
    ConnectionConfig::from(config)
}

fn tokio() -> Arc<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Arc::new(builder.worker_threads(2).enable_all().build().unwrap())
}

/// `echo` gives back what it gets, `who` the certificate of the client.
struct Answers;

fn answer(context: &Context, request: &Request) -> Result<Answer, OwnedError> {
    match request.method() {
        "echo" => Ok(Answer::new(request.raw_params())),
        "who" => Ok(Answer::new(&context.client_certificate)),
        _ => Err(request.unknown_method()),
    }
}

impl Service for Answers {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        answer(peer.context(), request)
    }
}

impl antiphon_blocking::Service for Answers {
    fn request(
        &mut self,
        peer: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        answer(peer.context(), request)
    }
}

/// A server that runs until it is dropped, and the errors of handshakes that failed.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    failures: Receiver<io::Error>,
    running: Option<Running>,
}

#[allow(dead_code)]
enum Running {
    Blocking(antiphon_blocking::Running),
    // The server is dropped before its runtime.
    Tokio(antiphon_tokio::Running, Arc<tokio::runtime::Runtime>),
    Futures(antiphon_async_std::Running),
}

impl Serving {
    pub(crate) fn new(kind: Kind, config: Arc<rustls::ServerConfig>) -> Self {
        Self::with_timeout(kind, config, LONG)
    }

    pub(crate) fn with_timeout(
        kind: Kind,
        config: Arc<rustls::ServerConfig>,
        timeout: Duration,
    ) -> Self {
        Self::start(kind, config, timeout, options())
    }

    /// A server of `wss`.
    pub(crate) fn of_websocket(kind: Kind, config: Arc<rustls::ServerConfig>) -> Self {
        let route = WebSocketConfig::server();
        Self::start(kind, config, LONG, options().with_websocket(route))
    }

    fn start(
        kind: Kind,
        config: Arc<rustls::ServerConfig>,
        timeout: Duration,
        options: ConnectionConfig,
    ) -> Self {
        let (tell, failures) = channel();
        let tell = Mutex::new(tell);
        let on_failure = move |context: &Context, error: &io::Error| {
            assert!(context.peer_addr.is_some());
            let told = match antiphon_net::tls::TlsFault::of(error) {
                Some(fault) => io::Error::new(error.kind(), fault.to_string()),
                None => error.kind().into(),
            };
            // The test may be over.
            let _ = tell.lock().unwrap().send(told);
        };
        let (address, running) = match kind {
            Kind::Blocking => {
                let acceptor = antiphon_blocking::tls::Acceptor::new(config).on_failure(on_failure);
                let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").unwrap();
                let server = server.with_tls(acceptor).handshake_timeout(timeout);
                let address = server.local_addr().unwrap();
                let running = server.start(options, |_| Answers).unwrap();
                (address, Running::Blocking(running))
            }
            Kind::Tokio => {
                let runtime = tokio();
                let _inside = runtime.enter();
                let acceptor = antiphon_tokio::tls::Acceptor::new(config).on_failure(on_failure);
                let server = antiphon_tokio::TcpServer::bind("127.0.0.1:0");
                let server = runtime.block_on(server).unwrap();
                let server = server.with_secure(acceptor).handshake_timeout(timeout);
                let address = server.local_addr();
                let running = server.start(options, |_| Answers);
                (address, Running::Tokio(running, Arc::clone(&runtime)))
            }
            Kind::Smol | Kind::AsyncStd => kind.runtime().run(|_| async {
                let acceptor =
                    antiphon_async_std::tls::Acceptor::new(config).on_failure(on_failure);
                let server = antiphon_async_std::TcpServer::bind("127.0.0.1:0").await;
                let server = server.unwrap().with_secure(acceptor);
                let server = server.handshake_timeout(timeout);
                let address = server.local_addr();
                (
                    address,
                    Running::Futures(server.start(options, |_| Answers)),
                )
            }),
        };
        Self {
            address,
            failures,
            running: Some(running),
        }
    }

    /// The error of the next handshake that failed.
    pub(crate) fn failure(&self) -> io::Error {
        self.failures.recv_timeout(LONG).expect("a failure")
    }

    pub(crate) fn stop(&mut self) {
        self.running = None;
    }
}

/// A client, in a connection.
pub(crate) struct Caller {
    client: Client,
    /// What the client runs on, if it is tokio: it is dropped after it.
    runtime: Option<Arc<tokio::runtime::Runtime>>,
}

impl Caller {
    pub(crate) fn new(
        kind: Kind,
        address: SocketAddr,
        name: &str,
        config: Arc<rustls::ClientConfig>,
    ) -> io::Result<Self> {
        match kind {
            Kind::Blocking => {
                let link = antiphon_blocking::tls::connect(address, name, config)?;
                let client = antiphon_blocking::connect(link, options(), Answers)?;
                Ok(Self::of(client, None))
            }
            Kind::Tokio => {
                let runtime = tokio();
                let client = runtime.block_on(async {
                    let link = antiphon_tokio::tls::connect(address, name, config).await?;
                    antiphon_tokio::connect(link, options(), Answers).await
                })?;
                Ok(Self::of(client, Some(runtime)))
            }
            Kind::Smol | Kind::AsyncStd => kind.runtime().run(|_| async {
                let link = antiphon_async_std::tls::connect(address, name, config).await?;
                let client = antiphon_async_std::connect(link, options(), Answers).await?;
                Ok(Self::of(client, None))
            }),
        }
    }

    /// A client of a WebSocket.
    pub(crate) fn of_websocket(
        kind: Kind,
        url: &str,
        config: Option<Arc<rustls::ClientConfig>>,
    ) -> io::Result<Self> {
        let mut options = ClientConfig::from(options());
        options.tls = config.map(|config| Arc::new(tls::Connector::from(config)) as _);
        match kind {
            Kind::Blocking => {
                let client = antiphon_blocking::connect(url, options, Answers)?;
                Ok(Self::of(client, None))
            }
            Kind::Tokio => {
                let runtime = tokio();
                let client = antiphon_tokio::connect(url, options, Answers);
                let client = runtime.block_on(client)?;
                Ok(Self::of(client, Some(runtime)))
            }
            Kind::Smol | Kind::AsyncStd => kind.runtime().run(|_| async {
                let client = antiphon_async_std::connect(url, options, Answers);
                Ok(Self::of(client.await?, None))
            }),
        }
    }

    fn of(client: Client, runtime: Option<Arc<tokio::runtime::Runtime>>) -> Self {
        Self { client, runtime }
    }

    fn run<F: Future>(&self, work: F) -> F::Output {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => async_io::block_on(work),
        }
    }

    pub(crate) fn echo(&self, text: &str) -> Result<String, CallError> {
        let got: Result<(String,), _> = self.run(self.client.call("echo", &(text,)));
        got.map(|(text,)| text)
    }

    pub(crate) fn who(&self) -> Result<Option<Vec<u8>>, CallError> {
        self.run(self.client.call("who", ()))
    }

    /// Ends the conversation in good order, and waits for the end.
    pub(crate) fn end(&self) {
        self.client.close();
        self.wait_closed();
    }

    fn wait_closed(&self) {
        let peer = self.client.peer().expect("a connection");
        self.run(peer.wait_closed(LONG)).expect("an end");
    }

    /// Waits for the end of the connection, and returns the error that ended it, if there was one.
    pub(crate) fn broken_by(&self) -> Option<io::Error> {
        self.wait_closed();
        self.client.last_error()
    }
}
