//! A plain peer over a socket: bytes as they stand, and a deadline for everything.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
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

    /// Whether nothing comes for a while.
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

    /// Ends our direction only.
    ///
    /// # Panics
    /// The connection is gone.
    pub fn end(&self) {
        let ended = self.reader.get_ref().shutdown(Shutdown::Write);
        ended.expect("the connection is there");
    }
}
