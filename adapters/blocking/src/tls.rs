//! TLS over TCP, with the caller's configuration.
//!
//! The caller's configuration selects the cryptography (a `CryptoProvider`), the roots and the
//! certificates; this crate selects none. rustls supports TLS 1.2 and 1.3 and nothing older. If a
//! server requires client certificates, the client's is
//! [`Context::client_certificate`](crate::Context::client_certificate).
//!
//! TLS announces the end of each direction, so a stream that was cut differs from one that has
//! ended: without the announcement a read fails with
//! [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
//!
//! ```no_run
//! use antiphon::Config;
//! use antiphon_blocking::tls::{self, rustls};
//! use antiphon_blocking::{TcpServer, connect};
//! use std::sync::Arc;
//!
//! # fn example(
//! #     server_config: Arc<rustls::ServerConfig>,
//! #     client_config: Arc<rustls::ClientConfig>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let server = TcpServer::bind("0.0.0.0:7777")?.with_tls(server_config);
//! let running = server.start(Config::new(), |_| ())?;
//!
//! let link = tls::connect("api.example:7777", "api.example", client_config)?;
//! let client = connect(link, Config::new(), ())?;
//! # drop((client, running));
//! # Ok(()) }
//! ```

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;

pub use antiphon_net::tls::{Acceptor, Connector, TlsError, TlsFault, rustls};
use async_io::block_on;
use rustls::ClientConfig;

use crate::link::Link;

/// Connects to a TLS server over TCP, and checks that its certificate is for `name`, a host name or
/// an address. Connecting may take 10 s for each address of the host, and the handshake another
/// 10 s. `TCP_NODELAY` is on.
///
/// # Errors
/// No address answered; [`TimedOut`](io::ErrorKind::TimedOut) if connecting or the handshake took
/// too long; `name` is neither a host name nor an address; a [`TlsError`], which [`TlsFault::of`]
/// reads.
///
/// HTTP/1.1 is offered in the place of HTTP/2 and HTTP/3, which are not spoken here (ALPN).
pub fn connect(
    address: impl ToSocketAddrs,
    name: &str,
    config: Arc<ClientConfig>,
) -> io::Result<Link> {
    shake(Link::tcp(address)?, name, config)
}

/// Performs the handshake as a TLS client, on a connected TCP stream. It may take 10 s.
///
/// # Errors
/// As [`connect`].
pub fn client(stream: TcpStream, name: &str, config: Arc<ClientConfig>) -> io::Result<Link> {
    shake(Link::from_tcp(stream)?, name, config)
}

fn shake(link: Link, name: &str, config: Arc<ClientConfig>) -> io::Result<Link> {
    block_on(antiphon_net::tls::client(link.0, name, config)).map(Link)
}
