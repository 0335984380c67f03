//! What the adapters' TLS streams have in common. The streams themselves are made by the adapters,
//! of the TLS crate of their runtime.
//!
//! The rule guarded here: an error of TLS says what it means, whenever it comes.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use super::explain;
use crate::transport::io::Io;

/// How much of what comes after a failed handshake is read, in bytes.
const LEFT_BYTES_MAX: usize = 256 * 1024;

/// A TLS stream whose errors are [`TlsError`](super::TlsError)s.
#[derive(Debug)]
pub struct TlsIo<T>(pub T);

impl<T: Io> Io for TlsIo<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buf).map_err(explain)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, buf).map_err(explain)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx).map_err(explain)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close(cx).map_err(explain)
    }

    fn has_input(&self) -> bool {
        self.0.has_input()
    }

    fn was_reset(&self) -> bool {
        self.0.was_reset()
    }
}

/// Writes a part of `buf` to what is below TLS, or fails: a stream that takes nothing and says so
/// would be asked again for ever.
pub fn poll_write_below(
    io: &mut dyn Io,
    cx: &mut Context<'_>,
    buf: &[u8],
) -> Poll<io::Result<usize>> {
    match io.poll_write(cx, buf) {
        Poll::Ready(Ok(0)) if !buf.is_empty() => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        written => written,
    }
}

/// Lets go of a stream whose handshake has failed, so that the other side can read why: a socket
/// that is closed with something unread in it takes back what it has sent last. Waits for the other
/// side's end, so somebody has to watch the time.
pub async fn let_go(mut io: Box<dyn Io>) {
    // Whoever can't be told has been told all that can be.
    let _ = poll_fn(|cx| io.poll_close(cx)).await;
    let (mut ignored, mut left) = ([0; 1024], LEFT_BYTES_MAX);
    while let Ok(n @ 1..) = poll_fn(|cx| io.poll_read(cx, &mut ignored)).await {
        left = left.saturating_sub(n);
        if left == 0 {
            break;
        }
    }
}
