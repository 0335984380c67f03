//! TCP addresses, listening, and what the system knows of a socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::link::Link;
use crate::runtime::current;
use crate::sockets::NetRuntime;
use antiphon_shell::until;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A TCP address: a [`SocketAddr`], a host and a port, or text such as `localhost:80`.
#[derive(Clone, Debug)]
pub struct Address(AddressKind);

#[derive(Clone, Debug)]
enum AddressKind {
    Known(SocketAddr),
    Text(String),
}

impl Address {
    /// Returns all its socket addresses. A name is looked up on a thread.
    pub(crate) async fn resolve(self) -> io::Result<Vec<SocketAddr>> {
        let found = match self.0 {
            AddressKind::Known(address) => return Ok(vec![address]),
            AddressKind::Text(text) => blocking::unblock(move || text.to_socket_addrs()).await,
        };
        Ok(found.map_err(lookup_error)?.collect())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            AddressKind::Known(address) => address.fmt(f),
            AddressKind::Text(text) => f.write_str(text),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self(AddressKind::Known(address))
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        let known = text.parse().map(AddressKind::Known);
        Self(known.unwrap_or_else(|_| AddressKind::Text(text.to_owned())))
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

/// A host, which is a name or an address, and a port.
impl<H: ToString> From<(H, u16)> for Address {
    fn from((host, port): (H, u16)) -> Self {
        let host = host.to_string();
        Self(match host.parse::<IpAddr>() {
            Ok(host) => AddressKind::Known((host, port).into()),
            Err(_) => AddressKind::Text(format!("{host}:{port}")),
        })
    }
}

/// How long an attempt to connect may take, if no options say it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a TCP server: see [`Link::tcp`].
pub(crate) async fn connect_tcp(
    address: Address,
    timeout: Duration,
    runtime: &NetRuntime,
) -> io::Result<Link> {
    let named = address.to_string();
    let connecting = async {
        let mut failed = io::ErrorKind::InvalidInput.into();
        for address in address.resolve().await? {
            match runtime.sockets().connect_tcp(address).await {
                Ok(link) => return Ok(link),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    };
    let connected = until(&***runtime, runtime.now() + timeout, connecting).await;
    let connected = connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
    connected.map_err(|error| cannot_connect(named, &error))
}

/// Returns the error of a failed attempt to connect to `address`. It has the kind and the text of `error`, and
/// the address in front.
pub(crate) fn cannot_connect(address: impl fmt::Display, error: &io::Error) -> io::Error {
    let text = format!("cannot connect to {address}: {error}");
    io::Error::new(error.kind(), text)
}

/// What resolvers say of a name that does not exist: those of GNU, of macOS and the BSDs, and of musl.
const NO_SUCH_NAME: [&str; 3] = [
    "Name or service not known",
    "nodename nor servname provided, or not known",
    "Name does not resolve",
];

/// The error of Windows for a name that does not exist: `WSAHOST_NOT_FOUND`.
const HOST_NOT_FOUND: Option<i32> = Some(11_001);

/// Returns the error of a failed look-up. If the name does not exist, its kind is
/// [`InvalidInput`](io::ErrorKind::InvalidInput): the system has no kind for that, and a client does not
/// try again then.
pub fn lookup_error(error: io::Error) -> io::Error {
    let text = error.to_string();
    let is_unknown = NO_SUCH_NAME.iter().any(|known| text.contains(known));
    match is_unknown || (cfg!(windows) && error.raw_os_error() == HOST_NOT_FOUND) {
        true => io::Error::new(io::ErrorKind::InvalidInput, text),
        false => error,
    }
}

impl Link {
    /// Connects to a TCP server, within 10 s. Small messages are not delayed (`TCP_NODELAY`). TCP
    /// keep-alive is on: after 60 s of silence the system probes the other side, so that the loss
    /// of its power or network is noticed.
    ///
    /// # Errors
    /// The name has no address, or no address answered; [`TimedOut`](io::ErrorKind::TimedOut) if that
    /// took too long. The error's text has the address.
    pub async fn tcp(address: impl Into<Address>) -> io::Result<Self> {
        connect_tcp(address.into(), CONNECT_TIMEOUT, &current()).await
    }
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
