//! An echo of bytes in the place of JSON-RPC. A transport that works with it needs to know nothing
//! of the protocol.

use std::io;
use std::task::{Context, Poll};

use antiphon_blocking::Link;
use antiphon_net::Io;

/// Writes back every byte that it reads from a link on threads, and returns when the input ends.
///
/// # Errors
/// The stream failed.
pub fn echo_on_threads(link: Link) -> io::Result<()> {
    antiphon_net::block_on(echo(antiphon_net::Link::from(link).io))
}

/// Writes back every byte that it reads from a task's stream, and closes it when the input ends.
///
/// # Errors
/// The stream failed.
pub async fn echo(mut io: Box<dyn Io>) -> io::Result<()> {
    let (mut bytes, mut is_ended) = (Vec::new(), false);
    std::future::poll_fn(|cx| poll_echo(cx, &mut *io, &mut bytes, &mut is_ended)).await
}

fn poll_echo(
    cx: &mut Context<'_>,
    io: &mut dyn Io,
    bytes: &mut Vec<u8>,
    is_ended: &mut bool,
) -> Poll<io::Result<()>> {
    let mut buf = vec![0; 8192];
    loop {
        if !*is_ended && bytes.len() < buf.len() {
            if let Poll::Ready(n) = io.poll_read(cx, &mut buf) {
                let n = n?;
                *is_ended = n == 0;
                bytes.extend_from_slice(&buf[..n]);
                continue;
            }
        }
        if bytes.is_empty() {
            std::task::ready!(io.poll_flush(cx))?;
            return match is_ended {
                true => io.poll_close(cx),
                false => Poll::Pending,
            };
        }
        let n = std::task::ready!(io.poll_write(cx, bytes))?;
        bytes.drain(..n);
    }
}
