//! A stream together with what its transport knows of the other side.

use std::fmt;
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

/// How many bytes each direction of a pair in memory holds.
const PAIR_BYTES: usize = 64 * 1024;

/// An attempt to connect, under way.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>;

/// Where connections come from.
pub trait Listen<L = Link>: Send + 'static {
    /// The next connection.
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<L>>;
}

/// A connection that a server has accepted.
pub trait Arrived: Send + 'static {
    /// What its transport knows of the other side.
    fn context_mut(&mut self) -> &mut Context;
}

impl Arrived for Link {
    fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }
}

/// A stream to talk over, whatever it is made of, and what its transport knows of the other side.
///
/// What was only lent stays open: a stream given here is dropped when the connection ends, and
/// nothing else is closed.
pub struct Link {
    /// The stream.
    pub io: Box<dyn Io>,
    /// What the transport knows, for the handlers to see.
    pub context: Context,
}

impl Link {
    /// A stream of which nothing is known.
    pub fn new(io: impl Io) -> Self {
        Self {
            io: Box::new(io),
            context: Context::new(),
        }
    }

    /// A transport of whole messages.
    pub fn messages(messages: impl MessageTransport) -> Self {
        Self::new(MessageIo(messages))
    }

    /// Two ends of a stream in memory, for a client and a server in one process.
    pub fn pair() -> (Self, Self) {
        let (near, far) = duplex(PAIR_BYTES);
        (Self::new(near), Self::new(far))
    }

    /// Puts in what the transport knows, for the handlers to see.
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

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
