//! TCP addresses, listening, and what the system knows of a socket.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use super::link::Link;
use super::socket::probe;
use crate::fault::{cannot_connect, lookup_error};
use crate::runtime::{Runtime, until};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A TCP address: a [`SocketAddr`], a host and a port, or text such as `localhost:80`.
#[derive(Clone, Debug)]
pub struct Address(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Known(SocketAddr),
    Host(String, u16),
    Text(String),
}

impl Address {
    /// Returns all its socket addresses. A name is looked up on a thread.
    pub(crate) async fn resolve(self) -> io::Result<Vec<SocketAddr>> {
        let found = match self.0 {
            Kind::Known(address) => return Ok(vec![address]),
            Kind::Host(host, port) => {
                blocking::unblock(move || (&*host, port).to_socket_addrs()).await
            }
            Kind::Text(text) => blocking::unblock(move || text.to_socket_addrs()).await,
        };
        Ok(found.map_err(lookup_error)?.collect())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Known(address) => address.fmt(f),
            Kind::Host(host, port) => write!(f, "{host}:{port}"),
            Kind::Text(text) => f.write_str(text),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self(Kind::Known(address))
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        let known = text.parse().map(Kind::Known);
        Self(known.unwrap_or_else(|_| Kind::Text(text.to_owned())))
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for Address {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<(&str, u16)> for Address {
    fn from((host, port): (&str, u16)) -> Self {
        let known = host.parse::<IpAddr>();
        Self(match known {
            Ok(host) => Kind::Known((host, port).into()),
            Err(_) => Kind::Host(host.to_owned(), port),
        })
    }
}

impl From<(String, u16)> for Address {
    fn from((host, port): (String, u16)) -> Self {
        (host.as_str(), port).into()
    }
}

impl From<(IpAddr, u16)> for Address {
    fn from(address: (IpAddr, u16)) -> Self {
        Self(Kind::Known(address.into()))
    }
}

impl From<(Ipv4Addr, u16)> for Address {
    fn from(address: (Ipv4Addr, u16)) -> Self {
        Self(Kind::Known(address.into()))
    }
}

impl From<(Ipv6Addr, u16)> for Address {
    fn from(address: (Ipv6Addr, u16)) -> Self {
        Self(Kind::Known(address.into()))
    }
}

/// A connected TCP stream of a runtime.
pub trait TcpSocket {
    /// Returns the system's socket.
    fn socket(&self) -> SockRef<'_>;

    /// Makes a link of it, without setting options.
    fn into_link(self) -> Link;
}

impl Link {
    /// Makes a link of a connected TCP stream. It sets `TCP_NODELAY` and [keep-alive](Self::tcp).
    ///
    /// # Errors
    /// The stream is broken.
    pub fn from_tcp(stream: impl TcpSocket) -> io::Result<Self> {
        prepare(&stream.socket())?;
        Ok(stream.into_link())
    }
}

/// Sets `TCP_NODELAY` and keep-alive on a TCP socket.
pub(crate) fn prepare(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    probe(socket);
    Ok(())
}

/// How long an attempt to connect may take, if no options say it.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a TCP server: see [`Link::tcp`].
pub(crate) async fn connect_tcp(
    address: Address,
    timeout: Duration,
    runtime: &dyn Runtime,
) -> io::Result<Link> {
    let named = address.to_string();
    let connecting = async {
        let mut failed = io::ErrorKind::InvalidInput.into();
        for address in address.resolve().await? {
            match runtime.connect_tcp(address).await {
                Ok(link) => return Ok(link),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    };
    let connected = until(runtime, runtime.now() + timeout, connecting).await;
    let connected = connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
    connected.map_err(|error| cannot_connect(named, &error))
}

/// Listens on the first of these addresses that works.
pub(crate) fn bind(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut failed = io::ErrorKind::InvalidInput.into();
    for address in addresses {
        match bind_one(*address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // On Windows this option would let another program take the port while it is in use.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether there is something to be read: bytes, the end, or an error.
pub(crate) fn has_input(socket: SockRef<'_>) -> bool {
    match socket.peek(&mut [MaybeUninit::uninit()]) {
        // Zero bytes are the end, which can be read too.
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
