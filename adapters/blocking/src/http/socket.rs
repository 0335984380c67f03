//! TCP sockets for ureq, which know whether a request can have reached the server, keep the deadlines, and
//! are idle for no longer than the server says.
//!
//! ureq's own sockets tell that an idle connection is over when it is taken up again, and not what
//! became of a request that met its end.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use antiphon_session::http::{Kept, RESET_LOOK_INTERVAL, RESET_TIME_MAX, idle_time_said};
use antiphon_session::keep_alive;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

use super::deadline::{Deadline, left};

/// The shortest time that one of several addresses is tried for.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(10);

/// Looks names up, for so long at the most.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) time_max: Duration,
}

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let timeout = within(timeout, self.time_max, Timeout::Resolve);
        DefaultResolver::default().resolve(uri, config, timeout)
    }
}

/// Makes the connections, each for so long at the most.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) time_max: Duration,
}

impl Connector for Sockets {
    type Out = Socket;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Socket>, Error> {
        let config = details.config;
        let timeout = within(details.timeout, self.time_max, Timeout::Connect);
        let stream = connect(&details.addrs, *timeout.after);
        Ok(Some(Socket {
            stream: stream.map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
                _ => Error::Other(Unconnected(error).into()),
            })?,
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
            kept: Kept::default(),
            deadline: Deadline::default(),
            is_new_request: true,
            is_head_over: false,
            idle_until: None,
        }))
    }
}

/// What is left of the caller's timeout, or `time_max` if that is less.
fn within(mut timeout: NextTimeout, time_max: Duration, reason: Timeout) -> NextTimeout {
    let after = match left(timeout) {
        Some(left) if left < time_max => left,
        _ => {
            timeout.reason = reason;
            time_max
        }
    };
    timeout.after = after.into();
    timeout
}

/// Connects to the first address that answers. Each is tried for half of the time that is left, the
/// last for all of it.
fn connect(addresses: &ResolvedSocketAddrs, time_max: Duration) -> io::Result<TcpStream> {
    let start = Instant::now();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let count = addresses.len();
    for (at, address) in addresses.iter().enumerate() {
        let left = time_max.saturating_sub(start.elapsed());
        let span = if at + 1 < count { left / 2 } else { left };
        match TcpStream::connect_timeout(address, span.max(ADDRESS_TIME_MIN)) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                keep_alive(&stream);
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
    deadline: Deadline,
    /// What is sent next begins a request.
    is_new_request: bool,
    /// The head of the reply has come.
    is_head_over: bool,
    /// The server may close it then, if it is idle.
    idle_until: Option<Instant>,
}

impl Socket {
    /// Whether nothing is there to be read: neither bytes nor the end.
    fn is_quiet(&self) -> io::Result<bool> {
        self.stream.set_nonblocking(true)?;
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false)?;
        Ok(peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    }

    /// Reads once. Gives none if nothing has come by the deadline.
    fn read(&mut self) -> Option<io::Result<usize>> {
        let buffer = self.buffers.input_append_buf();
        let once = |mut stream: &TcpStream| stream.read(buffer);
        let read = (self.deadline).wait(&self.stream, TcpStream::set_read_timeout, once)?;
        let span = match self.kept.may_be_reset(&read) {
            true => RESET_TIME_MAX,
            false => Duration::ZERO,
        };
        let stream = &self.stream;
        Some(self.kept.read(read, || reset_follows(stream, span)))
    }

    /// Writes so many bytes of the output. Gives none if they were not taken by the deadline.
    fn write(&mut self, amount: usize) -> Option<io::Result<()>> {
        let mut rest = &self.buffers.output()[..amount];
        while !rest.is_empty() {
            let once = |mut stream: &TcpStream| stream.write(rest);
            match (self.deadline).wait(&self.stream, TcpStream::set_write_timeout, once)? {
                Ok(0) => return Some(Err(io::ErrorKind::WriteZero.into())),
                Ok(n) => rest = &rest[n..],
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(()))
    }

    /// Looks into the head of the reply, if it has come, for how long the server keeps the connection.
    fn read_head(&mut self) {
        if self.is_head_over {
            return;
        }
        if let Some(said) = idle_time_in(self.buffers.input()) {
            self.is_head_over = true;
            self.idle_until = said.map(|span| Instant::now() + span);
        }
    }
}

/// What the head of a reply says of the time that the connection may be idle; none while the head is not
/// complete.
fn idle_time_in(input: &[u8]) -> Option<Option<Duration>> {
    let (mut said, mut is_first, mut is_interim) = (None, true, false);
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n")?.trim_ascii();
        match (is_first, line.is_empty()) {
            (true, true) => {}
            (true, false) => {
                // A reply may come behind others that only say `100 Continue` or the like.
                let status = line.split(|byte| *byte == b' ').nth(1);
                is_interim = status.is_some_and(|status| status.starts_with(b"1"));
                (said, is_first) = (None, false);
            }
            (false, true) if is_interim => is_first = true,
            (false, true) => return Some(said),
            (false, false) => said = said.or_else(|| idle_time_of(line)),
        }
    }
    None
}

/// What one line of a head says of that.
fn idle_time_of(line: &[u8]) -> Option<Duration> {
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    let is_it = name.eq_ignore_ascii_case("keep-alive");
    is_it.then(|| idle_time_said(value)).flatten()
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
        if self.is_new_request {
            // A kept one was asked by `is_open` just now.
            self.is_new_request = false;
            self.kept.begin();
            self.deadline = Deadline::default();
            (self.is_head_over, self.idle_until) = (false, None);
        }
        self.deadline.set(timeout);
        let written = self.write(amount);
        let written = written.ok_or(Error::Timeout(timeout.reason))?;
        self.kept.written(written).map_err(Error::Io)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.deadline.set(timeout);
        let read = self.read().ok_or(Error::Timeout(timeout.reason))?;
        let n = read.map_err(Error::Io)?;
        self.buffers.input_appended(n);
        self.read_head();
        Ok(n > 0)
    }

    /// Asked when a connection becomes idle, and when it is taken up again.
    fn is_open(&mut self) -> bool {
        self.is_new_request = true;
        let is_over = self.idle_until.is_some_and(|until| until <= Instant::now());
        !is_over && self.is_quiet().unwrap_or(false)
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket")
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::idle_time_in;

    #[test]
    fn the_head_of_the_reply_itself_says_how_long_a_connection_is_kept() {
        let seconds =
            |head: &str| idle_time_in(head.as_bytes()).map(|said| said.map(|s| s.as_secs()));
        let head =
            "HTTP/1.1 200 OK\r\nA: b\r\nKEEP-ALIVE: timeout=5\r\nKeep-Alive: timeout=9\r\n\r\n{}";
        assert_eq!(seconds(head), Some(Some(4)));
        assert_eq!(
            seconds("HTTP/1.1 200 OK\r\n\r\nkeep-alive: timeout=5\r\n\r\n"),
            Some(None)
        );
        // Not complete yet.
        for end in 0..head.find("{").unwrap() {
            assert_eq!(seconds(&head[..end]), None, "{end}");
        }
        let interim = "HTTP/1.1 100 Continue\r\nKeep-Alive: timeout=2\r\n\r\n";
        assert_eq!(seconds(interim), None);
        assert_eq!(seconds(&format!("{interim}{head}")), Some(Some(4)));
        assert_eq!(
            seconds(&format!("{interim}HTTP/1.1 204 \r\n\r\n")),
            Some(None)
        );
    }
}
