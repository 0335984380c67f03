//! The plain peer: bytes and framings, written from the specifications alone. Nothing here knows
//! antiphon.
//!
//! Rule: everything that waits has a deadline, and threads of their own read, so that the other side
//! can always go on writing.

pub mod http;
pub mod sockets;
pub mod stream;
pub mod tls;
pub mod websocket;

use std::any::Any;
use std::io::{Read, Write};
use std::time::Instant;

/// A plain peer's end of a conversation.
pub trait Raw: Send {
    /// Sends a message.
    ///
    /// # Errors
    /// The transport is broken.
    fn send(&mut self, message: &[u8]) -> Result<(), String>;

    /// Sends bytes without any framing.
    ///
    /// # Errors
    /// The transport is broken, or is no stream.
    fn send_raw(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// The next message of the other side; none if it has ended the stream.
    ///
    /// # Errors
    /// It did not come in time, or what came is no message.
    fn receive(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, String>;

    /// The next message after the last one of a script: none once the other side has ended.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    fn receive_last(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, String> {
        self.receive(deadline)
    }

    /// Ends our direction.
    fn end(&mut self);

    /// Cuts the connection, without a close frame or the like.
    fn cut(&mut self);

    /// Stops reading, or reads again. Does nothing over HTTP.
    fn hold(&mut self, is_held: bool);

    /// Waits until every exchange under way has ended. Only the HTTP client has exchanges to wait for.
    ///
    /// # Errors
    /// That took too long.
    fn settle(&mut self, deadline: Instant) -> Result<(), String> {
        let _ = deadline;
        Ok(())
    }
}

/// Both directions of a byte stream, and how to cut it.
pub struct Stream {
    /// What comes in.
    pub reader: Box<dyn Read + Send>,
    /// What goes out; dropped, it ends that direction.
    pub writer: Box<dyn Write + Send>,
    /// Cuts both directions.
    pub cut: Box<dyn FnMut() + Send>,
    /// What must live as long as the stream.
    pub keep: Box<dyn Any + Send>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
