//! The transport of a connection, as a task polls it, on any runtime: a byte stream in both
//! directions, or whole messages. A poll moves the bytes that it reports or none, so no byte is
//! lost between two polls.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

/// A byte stream in both directions. Reading and writing are independent of each other. Dropping it
/// closes the transport.
pub trait Io: Send + Unpin + 'static {
    /// Reads available bytes into `buf`, which is not empty; 0 bytes mean the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes a part of `buf`, which is not empty.
    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;

    /// Flushes what was written.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends our stream; the other side may still send.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether to wait for the other side's end of stream after ours. A socket that is closed
    /// before that may discard its last output; standard streams do not.
    fn awaits_end(&self) -> bool {
        true
    }

    /// Whether the system has something to be read now: bytes, the end, or an error. This makes a
    /// system call, because a runtime may not know of new input. Returns false if that cannot be
    /// found out. Nothing is read.
    fn has_input(&self) -> bool {
        false
    }

    /// Returns this transport as one of whole messages, if it is not a byte stream. Then each write
    /// is one message, and is written completely or not at all.
    fn as_messages(&mut self) -> Option<&mut dyn MessageTransport> {
        None
    }
}

/// A transport of whole messages in both directions. Dropping it closes the transport.
pub trait MessageTransport: Send + Unpin + 'static {
    /// Receives the next message; `None` at the end.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Vec<u8>>>>;

    /// Sends a whole message. If it is pending, it is polled again with the same message, or never.
    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>>;

    /// Ends our direction; the other side may still send.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl<T: Io> From<T> for Box<dyn Io> {
    fn from(io: T) -> Self {
        Box::new(io)
    }
}

/// Makes an [`Io`] of a transport of whole messages.
pub fn of_messages(messages: impl MessageTransport) -> impl Io {
    MessageIo(messages)
}

struct MessageIo<M>(M);

impl<M: MessageTransport> Io for MessageIo<M> {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_send(cx, buf).map_ok(|()| buf.len())
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close(cx)
    }

    fn as_messages(&mut self) -> Option<&mut dyn MessageTransport> {
        Some(&mut self.0)
    }
}

/// Lets other tasks run first.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| match std::mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
