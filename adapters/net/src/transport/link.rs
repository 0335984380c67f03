//! An open transport, with the facts that it knows about the other side.

use std::future::Future;
use std::io;
#[cfg(any(feature = "tokio", feature = "async-io"))]
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use super::duplex::duplex;
use super::io::{Io, MessageTransport};
use super::messages::MessageIo;
use crate::context::Context;
use crate::debug::debug_fields;

/// How many bytes each direction of a pair in memory holds.
const PAIR_BYTES: usize = 64 * 1024;

/// A running attempt to connect.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>;

/// Returns new connections.
pub trait Listen<L = Link>: Send + 'static {
    /// Returns the next connection.
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<L>>;
}

/// A connection that a server has accepted.
pub trait Arrived: Send + 'static {
    /// The facts that its transport knows about the other side.
    fn context_mut(&mut self) -> &mut Context;
}

impl Arrived for Link {
    fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }
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
    pub fn new(io: impl Io) -> Self {
        Self {
            io: Box::new(io),
            context: Context::new(),
        }
    }

    /// Makes a link of a transport of whole messages.
    pub fn messages(messages: impl MessageTransport) -> Self {
        Self::new(MessageIo(messages))
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
