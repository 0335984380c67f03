//! A plain peer over a socket: bytes as they stand, and a deadline for everything.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon_stress::LONG;

/// A TCP connection that knows nothing of JSON-RPC.
#[derive(Debug)]
pub struct Raw {
    reader: BufReader<TcpStream>,
}

impl Raw {
    /// Connects to a server of ours.
    ///
    /// # Panics
    /// There is none.
    pub fn connect(address: impl ToSocketAddrs) -> Self {
        Self::over(TcpStream::connect(address).expect("the server listens"))
    }

    /// Speaks over an accepted connection.
    ///
    /// # Panics
    /// The socket takes no timeout.
    pub fn over(stream: TcpStream) -> Self {
        stream
            .set_read_timeout(Some(LONG))
            .and_then(|()| stream.set_write_timeout(Some(LONG)))
            .expect("a timeout");
        Self {
            reader: BufReader::new(stream),
        }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// The other side does not take them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = self.reader.get_mut().write_all(bytes.as_ref());
        sent.expect("the bytes are taken");
    }

    /// Sends one line.
    ///
    /// # Panics
    /// The other side does not take it.
    pub fn send_line(&mut self, line: &str) {
        self.send(format!("{line}\n"));
    }

    /// A second handle on the same connection, to send with while another thread reads.
    ///
    /// # Panics
    /// The system has no more sockets.
    pub fn sender(&self) -> TcpStream {
        let again = self.reader.get_ref().try_clone();
        again.expect("a socket")
    }

    /// The next line without its end; empty at the end of the stream.
    ///
    /// # Panics
    /// None comes within [`LONG`].
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line);
        read.expect("a line");
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        line
    }

    /// Everything up to the end of the stream, which may be a reset.
    ///
    /// # Panics
    /// It does not end within [`LONG`].
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => {
                panic!("the stream does not end: {error}")
            }
            _ => rest,
        }
    }

    /// Whether neither bytes nor the end of the stream come within `span`.
    ///
    /// # Panics
    /// The socket takes no timeout.
    pub fn is_silent_for(&mut self, span: Duration) -> bool {
        let timeout = |reader: &BufReader<TcpStream>, span| {
            reader
                .get_ref()
                .set_read_timeout(Some(span))
                .expect("a timeout");
        };
        timeout(&self.reader, span);
        let looked = self.reader.fill_buf().map(<[u8]>::len);
        timeout(&self.reader, LONG);
        matches!(looked, Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }

    /// The next byte, which stays to be read.
    ///
    /// # Panics
    /// None comes within [`LONG`].
    pub fn peek(&mut self) -> u8 {
        let come = self.reader.fill_buf().expect("a byte");
        *come.first().expect("a byte")
    }

    /// Reads so many bytes.
    ///
    /// # Panics
    /// They do not come within [`LONG`].
    pub fn read_exact(&mut self, bytes: &mut [u8]) {
        self.reader.read_exact(bytes).expect("the bytes");
    }

    /// The socket, for two threads. What has been read ahead is lost.
    ///
    /// # Panics
    /// The connection is gone.
    pub fn into_stream(self) -> TcpStream {
        self.reader.into_inner()
    }

    /// The address of the other side.
    ///
    /// # Panics
    /// The connection is gone.
    pub fn peer(&self) -> String {
        let address = self.reader.get_ref().peer_addr();
        address.expect("the connection is there").to_string()
    }

    /// Sends one line on a thread of its own, because the other side may not take it at once.
    pub fn sending_line(mut raw: Self, line: String) -> JoinHandle<Self> {
        thread::spawn(move || {
            raw.send_line(&line);
            raw
        })
    }

    /// Waits for something to read, and closes without reading it, so the other side sees a reset.
    ///
    /// # Panics
    /// Nothing comes.
    pub fn reset(self) {
        let peeked = self.reader.get_ref().peek(&mut [0]);
        assert!(peeked.is_ok_and(|n| n > 0), "there is something to read");
    }

    /// Ends our direction only.
    ///
    /// # Panics
    /// The connection is gone.
    pub fn end(&self) {
        let ended = self.reader.get_ref().shutdown(Shutdown::Write);
        ended.expect("the connection is there");
    }
}

impl Read for Raw {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buf)
    }
}
