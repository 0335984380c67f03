//! An open transport, with the facts that it knows about the other side, and what it is made of.
//!
//! Each transport becomes a [`Link`], which holds an [`Io`](antiphon_shell::Io): what a task polls.
//!
//! | file | has |
//! |---|---|
//! | `mod` | an open transport, and what it knows of the other side |
//! | `futures`, `tokio` | streams of the runtimes |
//! | `threads` | a blocking reader and writer, on threads of their own |
//! | `socket` | options of sockets |
//! | `stdio` | this process's standard streams |
//! | `later` | tries again when a stream would block |
//! | `duplex` | a stream in memory |
//! | `messages` | whole messages: a queue, a channel |
//! | `child_started`, `child_tokio`, `child_async_io` | how each runtime starts a child process |

#[cfg(feature = "async-io")]
pub(crate) mod child_async_io;
pub(crate) mod child_started;
#[cfg(feature = "tokio")]
pub(crate) mod child_tokio;
pub(crate) mod duplex;
pub(crate) mod futures;
pub(crate) mod messages;
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub(crate) mod socket;
pub(crate) mod stdio;
pub(crate) mod threads;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;
pub(crate) mod would_block;

use std::future::Future;
use std::io;
#[cfg(any(feature = "tokio", feature = "async-io"))]
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use antiphon_shell::{
    ConnectionConfig, Context, Driver, Io, MessageTransport, Peer, Service, SharedRuntime,
    debug_fields, drive, of_messages,
};
use duplex::duplex;

/// How many bytes each direction of a pair in memory holds.
const PAIR_BYTES: usize = 64 * 1024;

/// A running attempt to connect.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>;

/// Makes a connection. Any function that returns a [`Connecting`] is one.
pub trait Connect: Send + Sync + 'static {
    /// Begins an attempt.
    fn connect(&self) -> Connecting;
}

impl<F: Fn() -> Connecting + Send + Sync + 'static> Connect for F {
    fn connect(&self) -> Connecting {
        self()
    }
}

/// Returns new connections.
pub trait Listen: Send + 'static {
    /// Returns the next connection.
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<Link>>;
}

/// An open transport (a socket, a pipe, a child process, a channel of whole messages), with the
/// facts that it knows about the other side. The transport is dropped when the connection ends;
/// nothing else is closed.
pub struct Link {
    /// The transport.
    pub io: Box<dyn Io>,
    /// The facts that the transport knows, for handlers.
    pub context: Context,
}

impl Link {
    /// Makes a link with an empty context.
    pub fn new(io: impl Into<Box<dyn Io>>) -> Self {
        let (io, context) = (io.into(), Context::new());
        Self { io, context }
    }

    /// Makes a link of a transport of whole messages.
    pub fn messages(messages: impl MessageTransport) -> Self {
        Self::new(of_messages(messages))
    }

    /// Makes two ends of a stream in memory, for a client and a server in one process.
    pub fn pair() -> (Self, Self) {
        let (near, far) = duplex(PAIR_BYTES);
        (Self::new(near), Self::new(far))
    }

    /// Sets the facts that the transport knows, for handlers.
    #[must_use]
    pub fn with_context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    #[cfg(any(feature = "tokio", feature = "async-io"))]
    pub(crate) fn with_addresses(
        mut self,
        peer: io::Result<SocketAddr>,
        local: io::Result<SocketAddr>,
    ) -> Self {
        // A peer that is gone already has no address any more.
        self.context.peer_addr = peer.ok();
        self.context.local_addr = local.ok();
        self
    }
}

debug_fields!(impl[] Link as "Link" { context });

/// Prepares a connection over a link, as an adapter's `drive` does, on `runtime`.
pub fn drive_on<S: Service>(
    link: Link,
    options: impl Into<Arc<ConnectionConfig>>,
    service: Arc<S>,
    runtime: &SharedRuntime,
) -> (Peer, Driver) {
    drive(link.io, link.context, options, service, runtime)
}
