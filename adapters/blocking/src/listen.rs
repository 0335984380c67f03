//! Servers that listen: TCP and Unix sockets.
//!
//! The rules guarded here: a connection beyond the limit is closed at once instead of waiting
//! unseen; and what a server has made, it removes again.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon::CloseReason;
use antiphon_session::Options;

use crate::driver::{Driver, drive};
use crate::link::Link;
use crate::peer::Peer;
use crate::service::Service;

/// How many connections a server has at once, if nothing else is said.
const CONNECTIONS_MAX_DEFAULT: usize = 256;

/// How long to wait after the system refused to accept, for it may have no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where connections come from.
trait Accept: Send + 'static {
    type Address;

    fn accept(&self) -> io::Result<(Arrived, Self::Address)>;
}

/// A connection that has come in.
enum Arrived {
    Ready(Link),
    /// It has a handshake before it, which takes as long as the other side likes.
    #[cfg(feature = "tls")]
    Shaking(TcpStream, crate::tls::Acceptor),
}

impl Arrived {
    /// Closes it without a word.
    fn refuse(self) {
        match self {
            Self::Ready(mut link) => {
                if let Some(hang_up) = link.hang_up.take() {
                    hang_up();
                }
            }
            #[cfg(feature = "tls")]
            Self::Shaking(stream, _) => drop(stream),
        }
    }
}

/// A server on a TCP port.
#[derive(Debug)]
pub struct TcpServer {
    listener: TcpSocket,
    connections_max: usize,
}

/// A listener, and what its connections go through first.
#[derive(Debug)]
struct TcpSocket {
    listener: TcpListener,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Acceptor>,
}

impl TcpServer {
    /// Listens. Port 0 takes any that is free; [`local_addr`](Self::local_addr) tells which.
    ///
    /// # Errors
    /// The address is taken or not this machine's; the error names it.
    pub fn bind(address: impl ToSocketAddrs + fmt::Debug) -> io::Result<Self> {
        let listener = TcpListener::bind(&address).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot listen on {address:?}: {error}"),
            )
        })?;
        Ok(Self {
            listener: TcpSocket {
                listener,
                #[cfg(feature = "tls")]
                tls: None,
            },
            connections_max: CONNECTIONS_MAX_DEFAULT,
        })
    }

    /// The same with another limit on connections at once. Further ones are closed as soon as
    /// they are made. Default 256; each costs four threads.
    #[must_use]
    pub fn with_connections_max(mut self, connections_max: usize) -> Self {
        self.connections_max = connections_max;
        self
    }

    /// Has every connection go through a TLS handshake first, on its own thread. It takes an
    /// [`Acceptor`](crate::tls::Acceptor), or the configuration alone.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(mut self, acceptor: impl Into<crate::tls::Acceptor>) -> Self {
        self.listener.tls = Some(acceptor.into());
        self
    }

    /// The address listened on.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.listener.local_addr()
    }

    /// Serves in the background until what it gives is stopped or dropped. Every connection gets a
    /// service of its own from `make`, and all share the pool in `options`.
    ///
    /// # Errors
    /// The system refused a thread.
    pub fn start<S: Service>(
        self,
        options: impl Into<Options>,
        make: impl FnMut(SocketAddr) -> S + Send + 'static,
    ) -> io::Result<Running> {
        let address = self.local_addr()?;
        let knock = move || {
            drop(TcpStream::connect_timeout(
                &reachable(address),
                ACCEPT_PAUSE,
            ))
        };
        Running::start(self.listener, self.connections_max, options, make, knock)
    }

    /// The same over HTTP: every POST is a message. Connections cost no threads of their own; the
    /// methods of the service run on the pool in `options`. See [`http`](crate::http).
    ///
    /// # Errors
    /// The system refused a thread.
    #[cfg(feature = "http")]
    pub fn start_http<S: Service>(
        self,
        options: impl Into<crate::http::HttpOptions>,
        make: impl Fn(&antiphon_session::Context) -> S + Send + Sync + 'static,
    ) -> io::Result<crate::http::Running> {
        let TcpSocket {
            listener,
            #[cfg(feature = "tls")]
            tls,
        } = self.listener;
        let secure = |server: antiphon_async_std::TcpServer| {
            #[cfg(feature = "tls")]
            if let Some(acceptor) = tls {
                return acceptor.secure(server);
            }
            server
        };
        let connections_max = self.connections_max;
        crate::http::Running::start(listener, connections_max, options.into(), make, secure)
    }
}

impl Accept for TcpSocket {
    type Address = SocketAddr;

    fn accept(&self) -> io::Result<(Arrived, SocketAddr)> {
        let (stream, address) = self.listener.accept()?;
        #[cfg(feature = "tls")]
        if let Some(acceptor) = &self.tls {
            return Ok((Arrived::Shaking(stream, acceptor.clone()), address));
        }
        Ok((Arrived::Ready(Link::from_tcp(stream)?), address))
    }
}

/// The address by which this machine reaches itself.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// A server on a Unix socket. The socket's path is removed when the server stops.
#[cfg(unix)]
#[derive(Debug)]
pub struct UnixServer {
    listener: UnixSocket,
    connections_max: usize,
}

/// A listener that removes its path.
#[cfg(unix)]
#[derive(Debug)]
struct UnixSocket {
    listener: std::os::unix::net::UnixListener,
    path: antiphon_session::UnixPath,
}

#[cfg(unix)]
impl UnixServer {
    /// Listens at `path`. A socket there that nobody answers on is left from a server that was
    /// killed, and is replaced; one that is answered, or anything that is no socket, is not.
    ///
    /// # Errors
    /// The path is taken or cannot be made; the error names it.
    pub fn bind(path: impl Into<std::path::PathBuf>) -> io::Result<Self> {
        let (listener, path) = antiphon_session::bind_unix(path.into())?;
        Ok(Self {
            listener: UnixSocket { listener, path },
            connections_max: CONNECTIONS_MAX_DEFAULT,
        })
    }

    /// The same with another limit on connections at once. Further ones are closed as soon as
    /// they are made. Default 256; each costs four threads.
    #[must_use]
    pub fn with_connections_max(mut self, connections_max: usize) -> Self {
        self.connections_max = connections_max;
        self
    }

    /// Serves in the background until what it gives is stopped or dropped. Every connection gets a
    /// service of its own from `make`, and all share the pool in `options`.
    ///
    /// # Errors
    /// The system refused a thread.
    pub fn start<S: Service>(
        self,
        options: impl Into<Options>,
        mut make: impl FnMut() -> S + Send + 'static,
    ) -> io::Result<Running> {
        let path = self.listener.path.as_path().to_owned();
        let knock = move || drop(std::os::unix::net::UnixStream::connect(&path));
        let make = move |_| make();
        Running::start(self.listener, self.connections_max, options, make, knock)
    }
}

#[cfg(unix)]
impl Accept for UnixSocket {
    type Address = ();

    fn accept(&self) -> io::Result<(Arrived, ())> {
        let (stream, _) = self.listener.accept()?;
        Ok((Arrived::Ready(Link::from_unix(stream)?), ()))
    }
}

/// A server that is running. Dropping it stops it.
#[must_use = "dropping it stops the server"]
pub struct Running {
    room: Arc<Room>,
    /// Makes a connection, so that a listener that waits sees that it is to stop.
    knock: Box<dyn Fn() + Send + Sync>,
    accepting: Option<JoinHandle<()>>,
}

/// The connections of a server.
struct Room {
    stopping: AtomicBool,
    open: Mutex<HashMap<u32, Inside>>,
}

/// A connection of a server.
#[derive(Clone)]
enum Inside {
    Open(Peer),
    /// In its handshake: what cuts it.
    #[cfg(feature = "tls")]
    Shaking(Arc<TcpStream>),
}

impl Inside {
    fn close(&self) {
        match self {
            Self::Open(peer) => peer.close(CloseReason::GoingAway),
            #[cfg(feature = "tls")]
            Self::Shaking(stream) => {
                // A stream that is closed already is what is wanted.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Inside>> {
        // Nothing that can panic runs under the lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn start<L: Accept, S: Service>(
        listener: L,
        connections_max: usize,
        options: impl Into<Options>,
        mut make: impl FnMut(L::Address) -> S + Send + 'static,
        knock: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let room = Arc::new(Room {
            stopping: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let (inside, options) = (Arc::clone(&room), options.into());
        let accepting = thread::Builder::new()
            .name("antiphon-accept".into())
            .spawn(move || {
                let mut number = 0_u32;
                loop {
                    let accepted = listener.accept();
                    if inside.stopping.load(Ordering::SeqCst) {
                        return;
                    }
                    match accepted {
                        Ok((arrived, address)) if inside.lock().len() < connections_max => {
                            number = number.wrapping_add(1);
                            // A panic costs this one connection, which is dropped.
                            if let Ok(service) = catch_unwind(AssertUnwindSafe(|| make(address))) {
                                let options = options.clone();
                                match arrived {
                                    Arrived::Ready(link) => {
                                        open(&inside, number, link, options, service)
                                    }
                                    #[cfg(feature = "tls")]
                                    Arrived::Shaking(stream, acceptor) => {
                                        shake(
                                            &inside,
                                            number,
                                            (stream, acceptor),
                                            options,
                                            service,
                                        );
                                    }
                                }
                            }
                        }
                        Ok((arrived, _)) => arrived.refuse(),
                        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                        Err(_) => thread::sleep(ACCEPT_PAUSE),
                    }
                }
            })?;
        Ok(Self {
            room,
            knock: Box::new(knock),
            accepting: Some(accepting),
        })
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.room.lock().len()
    }

    /// Stops listening and closes every connection.
    pub fn stop(self) {}

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(accepting) = self.accepting.take() {
            // It ends only when it is told to, or with a panic, which has been printed.
            let _ = accepting.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.room.stopping.store(true, Ordering::SeqCst);
        if let Some(accepting) = self.accepting.take() {
            (self.knock)();
            // A panic in it has been printed.
            let _ = accepting.join();
        }
        let open: Vec<Inside> = self.room.lock().values().cloned().collect();
        for inside in open {
            inside.close();
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

/// Serves one connection on threads of its own.
fn open(room: &Arc<Room>, number: u32, link: Link, options: Options, service: impl Service) {
    let (peer, driver) = enter(room, number, link, options, service);
    let inside = Arc::clone(room);
    let started = thread::Builder::new()
        .name("antiphon-time".into())
        .spawn(move || stay(&inside, number, peer, driver));
    if started.is_err() {
        room.lock().remove(&number);
    }
}

/// The same with a handshake before it.
#[cfg(feature = "tls")]
fn shake(
    room: &Arc<Room>,
    number: u32,
    (stream, acceptor): (TcpStream, crate::tls::Acceptor),
    options: Options,
    service: impl Service,
) {
    // Without a way to cut it there is no connection; the peer sees it closed.
    let Ok(control) = stream.try_clone() else {
        return;
    };
    room.lock()
        .insert(number, Inside::Shaking(Arc::new(control)));
    let inside = Arc::clone(room);
    let started = thread::Builder::new()
        .name("antiphon-time".into())
        .spawn(move || match acceptor.accept(stream) {
            Ok(link) => {
                let (peer, driver) = enter(&inside, number, link, options, service);
                if inside.stopping.load(Ordering::SeqCst) {
                    peer.close(CloseReason::GoingAway);
                }
                stay(&inside, number, peer, driver);
            }
            // The acceptor has told it to whoever wants to know.
            Err(_) => drop(inside.lock().remove(&number)),
        });
    if started.is_err() {
        room.lock().remove(&number);
    }
}

fn enter(
    room: &Room,
    number: u32,
    mut link: Link,
    mut options: Options,
    service: impl Service,
) -> (Peer, Driver) {
    options.config.connection = number;
    link.context.connection = number;
    let (peer, driver) = drive(link, options, service);
    room.lock().insert(number, Inside::Open(peer.to_unowned()));
    (peer, driver)
}

fn stay(room: &Room, number: u32, peer: Peer, driver: Driver) {
    // Without threads there is no connection; the peer sees it closed.
    let _ = driver.run();
    room.lock().remove(&number);
    drop(peer);
}
