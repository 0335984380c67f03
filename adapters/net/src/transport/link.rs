//! A stream together with what its transport knows of the other side.

use std::fmt;

use crate::Context;

use crate::transport::io::Io;
use crate::transport::messages::{MessageIo, Messages};

/// A stream to talk over, whatever it is made of, and what its transport knows. The adapters make
/// them of their runtime's sockets; any [`Io`] becomes one by [`new`](Self::new).
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
    pub fn messages(messages: impl Messages) -> Self {
        Self::new(MessageIo(messages))
    }

    /// The same with what the transport knows.
    #[must_use]
    pub fn with_context(mut self, context: Context) -> Self {
        self.context = context;
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
