//! What a connection is driven over, as a task polls it, whatever runtime it is of: a byte stream
//! both ways, or whole messages. A poll moves what it says or nothing, so a task that is dropped
//! between two polls has lost no byte.

use std::io;
use std::task::{Context, Poll};

/// A byte stream both ways. Reading and writing are independent of each other; dropping it lets
/// the transport go.
pub trait Io: Send + Unpin + 'static {
    /// Reads what is there into `buf`, which is not empty; 0 bytes are the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes a part of `buf`, which is not empty.
    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;

    /// Flushes what was written.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends the stream towards the other side, which may go on sending.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether the other side's end of stream is to be awaited after ours, for the linger at most.
    /// A socket that is closed before takes back what it has sent last; standard streams do not.
    fn awaits_end(&self) -> bool {
        true
    }

    /// Whether the system holds something to be read now: bytes, the end, or an error. It is asked
    /// by a call of its own, since a runtime may know only what it saw when it last looked. False
    /// where that cannot be told. Nothing is taken.
    fn has_input(&self) -> bool {
        false
    }

    /// Whether the system knows of an error that reading does not show: once the other side has
    /// ended its direction, a reset reads as that end. False where that cannot be told.
    fn was_reset(&self) -> bool {
        false
    }

    /// Gives this transport as one of whole messages, if it is none of bytes. Each write is one
    /// message then, and is taken whole or not at all.
    fn as_messages(&mut self) -> Option<&mut dyn MessageTransport> {
        None
    }
}

/// A transport of whole messages, both ways. Dropping it lets the transport go.
pub trait MessageTransport: Send + Unpin + 'static {
    /// Receives the next message; `None` at the end.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Vec<u8>>>>;

    /// Sends a message whole. Pending, it is polled again with the message that it had, or never.
    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>>;

    /// Ends the transport towards the other side, which may go on sending.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl Io for Box<dyn Io> {
    fn has_input(&self) -> bool {
        (**self).has_input()
    }

    fn was_reset(&self) -> bool {
        (**self).was_reset()
    }

    fn awaits_end(&self) -> bool {
        (**self).awaits_end()
    }

    fn as_messages(&mut self) -> Option<&mut dyn MessageTransport> {
        (**self).as_messages()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        (**self).poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        (**self).poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_close(cx)
    }
}
