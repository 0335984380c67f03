//! A cell: an adapter on a transport, with our side of a conversation running in it.
//!
//! This module opens each transport, on both sides. Rule: every script gets connections and a
//! server of its own, so that none is affected by another.

use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{CancelAnswer, Config, Framing as StreamFraming};
use antiphon_net::SharedRuntime;
use antiphon_net::{ChildConfig, ConnectionConfig};
use antiphon_peer::contract::{Contract, with_room};
use antiphon_peer::desk::Desk;
use antiphon_peer::dialect;
use antiphon_peer::on_tasks::{self, Executor, TaskCaller};
use antiphon_peer::on_threads;
use antiphon_peer::runtime::Runtime;
use antiphon_peer::tls::Tls;
use antiphon_peer::transports::{Place, Reached, Serving, Web, listen, reach, start};

use crate::memory;
use crate::raw::http::{Dial, HttpClient, HttpServer};
use crate::raw::sockets::{tcp_stream, unix_stream};
use crate::raw::stream::{Framing, StreamRaw};
use crate::raw::websocket::{self, Side};
use crate::raw::{Raw, Stream, tls};

/// How many bytes a direction in memory holds: less than one large message.
const MEMORY_BYTES: usize = 16 << 10;
/// The path at which a server over HTTP or WebSocket answers.
const PATH: &str = "/rpc";
/// How long our client waits for the other side's end after its own.
const LINGER: Duration = Duration::from_secs(5);

/// What carries the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// Standard streams of a process, with Content-Length.
    Stdio,
    /// TCP, a message a line.
    Tcp,
    /// A Unix socket, a message a line.
    Unix,
    /// A pair of streams in memory, a message a line.
    Memory,
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Stdio,
        Self::Tcp,
        Self::Unix,
        Self::Memory,
        Self::Http,
        Self::Https,
        Self::Ws,
        Self::Wss,
    ];

    /// The name in scripts and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Memory => "memory",
            Self::Http => "http",
            Self::Https => "https",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// The transport of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    fn is_tls(self) -> bool {
        matches!(self, Self::Https | Self::Wss)
    }

    fn framing(self) -> StreamFraming {
        match self {
            Self::Stdio => StreamFraming::ContentLength,
            Self::Tcp | Self::Unix | Self::Memory => StreamFraming::Newline,
            Self::Http | Self::Https | Self::Ws | Self::Wss => StreamFraming::Messages,
        }
    }

    /// The target of the contract at an address.
    fn place(self, address: String) -> Place {
        match self {
            Self::Http | Self::Https | Self::Ws | Self::Wss => Place::Web(Web {
                is_http: matches!(self, Self::Http | Self::Https),
                is_tls: self.is_tls(),
                token: None,
                address,
                path: PATH.to_owned(),
                origins: Vec::new(),
            }),
            _ => Place::Tcp(address),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An adapter on a transport.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The adapter.
    pub runtime: Runtime,
    /// What runs its tasks; none for threads.
    pub executor: Option<Executor>,
    /// The transport.
    pub transport: Transport,
    /// The certificates that both sides show and trust.
    pub tls: Arc<Tls>,
}

/// Our server, and a plain peer connected to it.
pub struct ServerSide {
    /// The plain peer.
    pub raw: Box<dyn Raw>,
    /// Opens another connection to the same server; an error over standard streams.
    pub again: Box<dyn FnMut() -> Result<Box<dyn Raw>, String> + Send>,
}

impl fmt::Debug for ServerSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSide").finish_non_exhaustive()
    }
}

/// Gives the plain peer that our client has connected to, until a deadline.
pub type Accept = Box<dyn FnOnce(Instant) -> Result<Box<dyn Raw>, String>>;

/// Connects our client. It is called on the thread on which the client then stays.
pub type Connect = Box<dyn FnOnce() -> io::Result<Reached> + Send>;

/// Our client's way to a plain peer that waits for it.
pub struct ClientSide {
    /// Connects our client.
    pub connect: Connect,
    /// Gives the plain peer.
    pub accept: Accept,
    /// The messages that our client has received, and the answers that it gives.
    pub desk: Desk,
    /// Whether a cancelled call is not answered in this dialect.
    pub is_silent: bool,
}

impl fmt::Debug for ClientSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSide").finish_non_exhaustive()
    }
}

/// Reads the words of a `config` line.
///
/// # Errors
/// One is no preset and no limit.
pub fn config_of(words: &[String], transport: Transport) -> Result<Config, String> {
    let presets: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.contains('='))
        .collect();
    let mut config = match presets.as_slice() {
        [] => dialect::of_contract(),
        [name] => dialect::named(name).ok_or_else(|| format!("no preset {name}"))?,
        _ => return Err("more than one preset".to_owned()),
    };
    config.framing = transport.framing();
    dialect::raise_limits(&mut config);
    for limit in words.iter().filter(|word| word.contains('=')) {
        dialect::set_limit(&mut config, limit).map_err(|why| format!("{limit}: {why}"))?;
    }
    Ok(config)
}

/// The words of a `config` line as arguments of the contract's program.
fn arguments_of(words: &[String]) -> impl Iterator<Item = String> + '_ {
    words.iter().flat_map(|word| match word.contains('=') {
        false => ["--preset".to_owned(), word.clone()],
        true => ["--limit".to_owned(), word.clone()],
    })
}

impl Cell {
    /// Starts our server and connects a plain peer to it.
    ///
    /// # Errors
    /// Something failed; the text says what.
    pub fn open_server(&self, words: &[String]) -> Result<ServerSide, String> {
        let options = with_room(config_of(words, self.transport)?);
        let any_port = || self.transport.place("127.0.0.1:0".to_owned());
        match self.transport {
            Transport::Stdio => self.server_process(words),
            Transport::Memory => self.server_in_memory(options),
            Transport::Unix => {
                let path = socket_path();
                let place = Place::Unix(path.to_string_lossy().into_owned());
                let serving = self.listen(&place, options)?;
                connected(move || {
                    let serving: &Serving = &serving;
                    let stream = UnixStream::connect(&serving.address).map_err(told)?;
                    raw_on(unix_stream(stream)?, Framing::Lines)
                })
            }
            Transport::Tcp => {
                let serving = self.listen(&any_port(), options)?;
                let dial = self.dial(&serving)?;
                connected(move || {
                    let _serving: &Serving = &serving;
                    raw_on(dial()?, Framing::Lines)
                })
            }
            Transport::Ws | Transport::Wss => {
                let serving = self.listen(&any_port(), options)?;
                let dial = self.dial(&serving)?;
                connected(move || {
                    let serving: &Serving = &serving;
                    let mut stream = dial()?;
                    websocket::ask(&mut stream, &serving.address, PATH)?;
                    raw_on(stream, Framing::WebSocket(Side::Client))
                })
            }
            Transport::Http | Transport::Https => {
                let serving = self.listen(&any_port(), options)?;
                let dial = self.dial(&serving)?;
                connected(move || {
                    let _serving: &Serving = &serving;
                    Ok(Box::new(HttpClient::new(Arc::clone(&dial), PATH)))
                })
            }
        }
    }

    /// How a plain peer connects to our server, through TLS or not.
    fn dial(&self, serving: &Serving) -> Result<Dial, String> {
        let address = serving.address.clone();
        if !self.transport.is_tls() {
            return Ok(Arc::new(move || {
                tcp_stream(TcpStream::connect(&address).map_err(told)?)
            }));
        }
        let config = self.tls.client().map_err(told)?;
        Ok(Arc::new(move || {
            let socket = TcpStream::connect(&address).map_err(told)?;
            tls::client(socket, Arc::clone(&config))
        }))
    }

    fn listen(&self, place: &Place, options: ConnectionConfig) -> Result<Serving, String> {
        let executor = self.executor.as_ref();
        listen(executor, place, &self.tls, options, Contract::default()).map_err(told)
    }

    /// The contract's program as a child.
    fn server_process(&self, words: &[String]) -> Result<ServerSide, String> {
        let mut command = Command::new(std::env::current_exe().map_err(told)?);
        command.args(["contract", "--runtime", self.runtime.name()]);
        command.args(arguments_of(words));
        command.args(["server", "stdio:lsp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().map_err(told)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stream = Stream {
            reader: Box::new(stdout.ok_or("no stdout")?),
            writer: Box::new(stdin.ok_or("no stdin")?),
            // Its pipes end when both are dropped; there is no other way to cut them.
            cut: Box::new(|| {}),
            keep: Box::new(Reaped(child)),
        };
        let raw = StreamRaw::new(stream, Framing::ContentLength);
        Ok(ServerSide {
            raw: Box::new(raw),
            again: Box::new(|| Err("a process has one pair of standard streams".to_owned())),
        })
    }

    fn server_in_memory(&self, options: ConnectionConfig) -> Result<ServerSide, String> {
        let (cell, contract) = (self.clone(), Contract::default());
        connected(move || {
            let stream = cell.serve_in_memory(options.clone(), contract.clone())?;
            raw_on(stream, Framing::Lines)
        })
    }

    fn serve_in_memory(
        &self,
        options: ConnectionConfig,
        contract: Contract,
    ) -> Result<Stream, String> {
        let Some((executor, runtime)) = self.tasks() else {
            let (near, far) = antiphon_blocking::duplex(MEMORY_BYTES);
            let serve =
                move || antiphon_blocking::serve(near, options, on_threads::router(contract));
            thread::spawn(serve);
            return Ok(memory::of_threads(far));
        };
        let (near, far) = antiphon_net::duplex(MEMORY_BYTES);
        let service = Arc::new(on_tasks::router(contract, Arc::clone(&runtime)));
        let link = antiphon_net::Link::new(near);
        let (peer, driver) = antiphon_net::drive_on(link, options, service, &runtime);
        executor.block_on(async {
            runtime.spawn(Box::pin(async move {
                // The plain peer sees how the connection ends.
                drop(driver.await);
                drop(peer);
            }));
        });
        Ok(memory::of_tasks(far))
    }

    /// The executor, and its runtime as `antiphon-net` takes it.
    fn tasks(&self) -> Option<(&Executor, SharedRuntime)> {
        let executor = self.executor.as_ref()?;
        Some((executor, runtime_of(executor)))
    }

    /// Prepares a plain peer, and the way in which our client connects to it.
    ///
    /// # Errors
    /// Something failed; the text says what.
    pub fn open_client(&self, words: &[String]) -> Result<ClientSide, String> {
        let config = config_of(words, self.transport)?;
        let mut options = with_room(config);
        options.linger = LINGER;
        let desk = Desk::default();
        let (cell, kept) = (self.clone(), desk.clone());
        let side = |connect, accept| ClientSide {
            connect,
            accept,
            desk,
            is_silent: config.dialect.cancel_answer == CancelAnswer::Silent,
        };
        match self.transport {
            Transport::Stdio => {
                let listener = TcpListener::bind("127.0.0.1:0").map_err(told)?;
                let address = listener.local_addr().map_err(told)?.to_string();
                let connect = move || {
                    let mut command = Command::new(std::env::current_exe()?);
                    command.args(["relay", &address]);
                    let options = ChildConfig::from(options);
                    start(cell.executor.as_ref(), command, options, kept)
                };
                let accept = move |deadline| {
                    let socket = accept_tcp(&listener, deadline)?;
                    raw_on(tcp_stream(socket)?, Framing::ContentLength)
                };
                Ok(side(Box::new(connect), Box::new(accept)))
            }
            Transport::Unix => {
                let path = socket_path();
                let listener = UnixListener::bind(&path).map_err(told)?;
                let place = Place::Unix(path.to_string_lossy().into_owned());
                let connect = move || cell.reach(&place, options, kept);
                let accept = move |deadline| {
                    listener.set_nonblocking(true).map_err(told)?;
                    let stream = accepted(deadline, || listener.accept())?.0;
                    std::fs::remove_file(&path).map_err(told)?;
                    stream.set_nonblocking(false).map_err(told)?;
                    raw_on(unix_stream(stream)?, Framing::Lines)
                };
                Ok(side(Box::new(connect), Box::new(accept)))
            }
            Transport::Memory => {
                let (connect, far) = self.client_in_memory(options, kept);
                let accept = |_| raw_on(far, Framing::Lines);
                Ok(side(connect, Box::new(accept)))
            }
            Transport::Tcp
            | Transport::Http
            | Transport::Https
            | Transport::Ws
            | Transport::Wss => {
                let listener = TcpListener::bind("127.0.0.1:0").map_err(told)?;
                let address = listener.local_addr().map_err(told)?.to_string();
                let place = self.transport.place(address);
                let accept = self.accept(listener)?;
                let connect = move || cell.reach(&place, options, kept);
                Ok(side(Box::new(connect), accept))
            }
        }
    }

    fn reach(&self, place: &Place, options: ConnectionConfig, desk: Desk) -> io::Result<Reached> {
        reach(self.executor.as_ref(), place, &self.tls, options, desk)
    }

    /// How a plain peer takes the connection of our client, through TLS or not.
    fn accept(&self, listener: TcpListener) -> Result<Accept, String> {
        let config = match self.transport.is_tls() {
            true => Some(self.tls.server().map_err(told)?),
            false => None,
        };
        let wrap = move |socket| match &config {
            Some(config) => tls::server(socket, Arc::clone(config)),
            None => tcp_stream(socket),
        };
        let transport = self.transport;
        Ok(Box::new(move |deadline| match transport {
            Transport::Http | Transport::Https => {
                Ok(Box::new(HttpServer::start(listener, wrap)?) as Box<dyn Raw>)
            }
            Transport::Ws | Transport::Wss => {
                let mut stream = wrap(accept_tcp(&listener, deadline)?)?;
                websocket::agree(&mut stream)?;
                raw_on(stream, Framing::WebSocket(Side::Server))
            }
            _ => raw_on(wrap(accept_tcp(&listener, deadline)?)?, Framing::Lines),
        }))
    }

    fn client_in_memory(&self, options: ConnectionConfig, desk: Desk) -> (Connect, Stream) {
        let Some((executor, runtime)) = self.tasks() else {
            let (near, far) = antiphon_blocking::duplex(MEMORY_BYTES);
            let connect = move || {
                let peer = antiphon_blocking::attach(near, options, desk)?;
                Ok(Reached {
                    caller: Box::new(peer),
                    child: None,
                })
            };
            return (Box::new(connect), memory::of_threads(far));
        };
        let (near, far) = antiphon_net::duplex(MEMORY_BYTES);
        let executor = executor.clone();
        let connect = move || {
            let link = antiphon_net::Link::new(near);
            let (peer, driver) = antiphon_net::drive_on(link, options, Arc::new(desk), &runtime);
            runtime.spawn(Box::pin(async move {
                // The peer says how the connection ends.
                drop(driver.await);
            }));
            Ok(Reached {
                caller: Box::new(TaskCaller::new(peer, runtime, executor)),
                child: None,
            })
        };
        (Box::new(connect), memory::of_tasks(far))
    }
}

/// The runtime that every server and client of this process gets.
fn runtime_of(executor: &Executor) -> SharedRuntime {
    executor.block_on(async { antiphon_net::current().into() })
}

/// Checks that tasks run on threads of this adapter, and not on another one's that is compiled in too.
///
/// # Errors
/// They run elsewhere; the text says on which thread.
pub fn check_home(runtime: Runtime, executor: &Executor) -> Result<(), String> {
    const MAX_WAIT: Duration = Duration::from_secs(5);
    let threads = match runtime {
        Runtime::Blocking => return Ok(()),
        Runtime::Tokio => "tokio-",
        Runtime::Smol => "smol-",
        Runtime::AsyncStd => "async-std/",
    };
    let (tell, told) = mpsc::channel();
    runtime_of(executor).spawn(Box::pin(async move {
        // Fails if it took too long, so that nobody waits any more.
        let _ = tell.send(thread::current().name().map(str::to_owned));
    }));
    let name = told.recv_timeout(MAX_WAIT).map_err(|_| "no task runs")?;
    let is_home = name.as_ref().is_some_and(|name| name.starts_with(threads));
    match is_home {
        true => Ok(()),
        false => Err(format!("tasks of {runtime} run on thread {name:?}")),
    }
}

/// A child that is killed when its stream is dropped.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // It may be gone already, and how it went is seen on its streams.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn told(error: io::Error) -> String {
    error.to_string()
}

/// A server that is reached by connecting to it.
fn connected(
    mut connect: impl FnMut() -> Result<Box<dyn Raw>, String> + Send + 'static,
) -> Result<ServerSide, String> {
    Ok(ServerSide {
        raw: connect()?,
        again: Box::new(connect),
    })
}

fn raw_on(stream: Stream, framing: Framing) -> Result<Box<dyn Raw>, String> {
    Ok(Box::new(StreamRaw::new(stream, framing)))
}

fn accept_tcp(listener: &TcpListener, deadline: Instant) -> Result<TcpStream, String> {
    listener.set_nonblocking(true).map_err(told)?;
    let (stream, _) = accepted(deadline, || listener.accept())?;
    stream.set_nonblocking(false).map_err(told)?;
    Ok(stream)
}

/// Asks again and again until the deadline, because `accept` of the standard library takes none.
fn accepted<T>(deadline: Instant, mut accept: impl FnMut() -> io::Result<T>) -> Result<T, String> {
    loop {
        match accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            accepted => return accepted.map_err(told),
        }
        if Instant::now() >= deadline {
            return Err("our client did not connect in time".to_owned());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// An unused path for a Unix socket of this process.
fn socket_path() -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("antiphon-suite-{}-{number}", std::process::id());
    std::env::temp_dir().join(name)
}
