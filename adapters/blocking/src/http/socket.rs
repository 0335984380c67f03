//! TCP sockets for ureq, which know whether a request can have reached the server.
//!
//! ureq's own sockets tell that an idle connection is over when it is taken up again, and not what
//! became of a request that met its end.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use antiphon_session::http::{Kept, RESET_LOOK_INTERVAL, RESET_TIME_MAX};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// The shortest time that one of several addresses is tried for.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(10);

/// Makes the connections.
#[derive(Debug)]
pub(super) struct Sockets;

impl Connector for Sockets {
    type Out = Socket;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Socket>, Error> {
        let config = details.config;
        Ok(Some(Socket {
            stream: connect(details).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => Error::Timeout(details.timeout.reason),
                _ => Error::Other(Unconnected(error).into()),
            })?,
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
            kept: Kept::default(),
            is_new_request: true,
        }))
    }
}

/// Connects to the first address that answers. Each is tried for half of the time that is left, the
/// last for all of it.
fn connect(details: &ConnectionDetails<'_>) -> io::Result<TcpStream> {
    let total = details.timeout.not_zero().map(|span| *span);
    let deadline = total.map(|span| Instant::now() + span);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let count = details.addrs.len();
    for (at, address) in details.addrs.iter().enumerate() {
        let connected = match deadline {
            None => TcpStream::connect(address),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let span = if at + 1 < count { left / 2 } else { left };
                TcpStream::connect_timeout(address, span.max(ADDRESS_TIME_MIN))
            }
        };
        match connected {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// No connection was made.
#[derive(Debug)]
pub(super) struct Unconnected(pub(super) io::Error);

impl fmt::Display for Unconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Unconnected {}

/// One connection.
pub(super) struct Socket {
    stream: TcpStream,
    buffers: LazyBuffers,
    kept: Kept,
    /// What is sent next begins a request.
    is_new_request: bool,
}

impl Socket {
    /// Whether nothing is there to be read: neither bytes nor the end.
    fn is_quiet(&self) -> io::Result<bool> {
        self.stream.set_nonblocking(true)?;
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false)?;
        Ok(peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    }
}

/// Whether the system knows of a reset that reading does not show.
fn was_reset(stream: &TcpStream) -> bool {
    matches!(stream.take_error(), Ok(Some(_)))
}

/// Whether a reset comes behind the end within `span`.
fn reset_follows(stream: &TcpStream, span: Duration) -> bool {
    let until = Instant::now() + span;
    loop {
        if was_reset(stream) {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(RESET_LOOK_INTERVAL));
    }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        let span = span_of(timeout)?;
        if self.is_new_request {
            // A kept one was asked by `is_open` just now.
            self.is_new_request = false;
            self.kept.begin();
        }
        self.stream.set_write_timeout(span)?;
        let written = self.stream.write_all(&self.buffers.output()[..amount]);
        let written = self.kept.written(written);
        written.map_err(|error| explain(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let span = span_of(timeout)?;
        let deadline = span.map(|span| Instant::now() + span);
        self.stream.set_read_timeout(span)?;
        let read = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if let Some(deadline) = deadline {
                        let left = deadline.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            return Err(Error::Timeout(timeout.reason));
                        }
                        self.stream.set_read_timeout(Some(left))?;
                    }
                }
                read => break read,
            }
        };
        let span = match self.kept.may_be_reset(&read) {
            true => RESET_TIME_MAX,
            false => Duration::ZERO,
        };
        let stream = &self.stream;
        let read = self.kept.read(read, || reset_follows(stream, span));
        let n = read.map_err(|error| explain(error, timeout))?;
        self.buffers.input_appended(n);
        Ok(n > 0)
    }

    /// Asked when a connection becomes idle, and when it is taken up again.
    fn is_open(&mut self) -> bool {
        self.is_new_request = true;
        self.is_quiet().unwrap_or(false)
    }
}

/// How long to wait; none for ever.
fn span_of(timeout: NextTimeout) -> Result<Option<Duration>, Error> {
    if timeout.after.is_zero() {
        return Err(Error::Timeout(timeout.reason));
    }
    Ok(timeout.not_zero().map(|span| *span))
}

fn explain(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket")
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}
