//! An echo of bytes in the place of JSON-RPC. A transport that works with it needs to know nothing
//! of the protocol.

use std::io::{self, Read, Write};
use std::task::{Context, Poll};

use antiphon_blocking::Link;
use antiphon_net::Io;

/// Writes back every byte that it reads from a link on threads, and returns when the input ends.
///
/// # Errors
/// Its reader or its writer failed.
pub fn echo_on_threads(link: Link) -> io::Result<()> {
    let (mut reader, mut writer, hang_up) = link.into_parts();
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<u8>>();
    // A thread of its own writes, so that reading goes on while the other side does not read.
    let writing = std::thread::spawn(move || {
        for bytes in receiver {
            writer.write_all(&bytes)?;
            writer.flush()?;
        }
        Ok(())
    });
    let mut buf = vec![0; 8192];
    loop {
        match reader.read(&mut buf)? {
            0 => break,
            n => drop(sender.send(buf[..n].to_vec())),
        }
    }
    drop(sender);
    let written = writing.join().expect("nothing panics");
    if let Some(hang_up) = hang_up {
        hang_up();
    }
    written
}

/// Writes back every byte that it reads from a task's stream, and closes it when the input ends.
///
/// # Errors
/// The stream failed.
pub async fn echo(mut io: impl Io) -> io::Result<()> {
    let (mut bytes, mut is_ended) = (Vec::new(), false);
    std::future::poll_fn(|cx| poll_echo(cx, &mut io, &mut bytes, &mut is_ended)).await
}

fn poll_echo(
    cx: &mut Context<'_>,
    io: &mut impl Io,
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
