//! Sockets as streams whose halves end independently.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

use super::Stream;

/// A socket's writing half, which ends its direction when it is dropped.
struct Half<S: Ends>(S);

trait Ends: io::Write + Send {
    fn end(&self);
}

impl Ends for TcpStream {
    fn end(&self) {
        // Fails if the socket has ended already.
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Ends for UnixStream {
    fn end(&self) {
        // Fails if the socket has ended already.
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl<S: Ends> io::Write for Half<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<S: Ends> Drop for Half<S> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A TCP connection.
///
/// # Errors
/// It cannot be shared between two threads.
pub fn tcp_stream(stream: TcpStream) -> Result<Stream, String> {
    stream.set_nodelay(true).map_err(told)?;
    let (writer, control) = (
        stream.try_clone().map_err(told)?,
        stream.try_clone().map_err(told)?,
    );
    Ok(Stream {
        reader: Box::new(stream),
        writer: Box::new(Half(writer)),
        // Fails if the socket has ended already.
        cut: Box::new(move || drop(control.shutdown(Shutdown::Both))),
        keep: Box::new(()),
    })
}

/// A connection over a Unix socket.
///
/// # Errors
/// It cannot be shared between two threads.
pub fn unix_stream(stream: UnixStream) -> Result<Stream, String> {
    let (writer, control) = (
        stream.try_clone().map_err(told)?,
        stream.try_clone().map_err(told)?,
    );
    Ok(Stream {
        reader: Box::new(stream),
        writer: Box::new(Half(writer)),
        // Fails if the socket has ended already.
        cut: Box::new(move || drop(control.shutdown(Shutdown::Both))),
        keep: Box::new(()),
    })
}

fn told(error: io::Error) -> String {
    error.to_string()
}
