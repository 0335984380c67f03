//! TLS between a plain peer and its socket.
//!
//! Rule: a thread that waits for bytes of the socket does not hold the lock of the TLS state, so that
//! another thread can write meanwhile.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::Stream;

/// The TLS client on a socket, for a server at 127.0.0.1.
///
/// # Errors
/// The handshake failed.
pub fn client(socket: TcpStream, config: Arc<ClientConfig>) -> Result<Stream, String> {
    let name = ServerName::try_from("127.0.0.1").map_err(|error| error.to_string())?;
    let tls = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
    stream(socket, tls.into())
}

/// The TLS server on a socket.
///
/// # Errors
/// The handshake failed.
pub fn server(socket: TcpStream, config: Arc<ServerConfig>) -> Result<Stream, String> {
    let tls = ServerConnection::new(config).map_err(|error| error.to_string())?;
    stream(socket, tls.into())
}

fn stream(mut socket: TcpStream, mut tls: Connection) -> Result<Stream, String> {
    let told = |error: io::Error| format!("TLS: {error}");
    socket.set_nodelay(true).map_err(told)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket).map_err(told)?;
    }
    tls.set_buffer_limit(None);
    let shared = Arc::new(Shared {
        tls: Mutex::new(tls),
        sending: Mutex::new(socket.try_clone().map_err(told)?),
    });
    let control = socket.try_clone().map_err(told)?;
    Ok(Stream {
        reader: Box::new(Reader {
            shared: Arc::clone(&shared),
            socket,
            records: Vec::new(),
        }),
        writer: Box::new(Writer(shared)),
        // Fails if the socket has ended already.
        cut: Box::new(move || drop(control.shutdown(Shutdown::Both))),
        keep: Box::new(()),
    })
}

struct Shared {
    tls: Mutex<Connection>,
    /// Locked before the state, so that records leave in their order.
    sending: Mutex<TcpStream>,
}

impl Shared {
    fn tls(&self) -> MutexGuard<'_, Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and sends what that leads to.
    fn send<T>(&self, change: impl FnOnce(&mut Connection) -> io::Result<T>) -> io::Result<T> {
        let mut socket = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = Vec::new();
        let mut tls = self.tls();
        let changed = change(&mut tls);
        while tls.wants_write() {
            tls.write_tls(&mut records)?;
        }
        drop(tls);
        socket.write_all(&records)?;
        changed
    }
}

struct Reader {
    shared: Arc<Shared>,
    socket: TcpStream,
    /// What has been received and not yet taken by the TLS state, which takes only so much at a time.
    records: Vec<u8>,
}

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.shared.tls().reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if self.records.is_empty() {
                let mut records = vec![0; 16 << 10];
                let n = self.socket.read(&mut records)?;
                self.records.extend_from_slice(&records[..n]);
            }
            let mut tls = self.shared.tls();
            // No bytes tell the state that the socket has ended.
            let taken = tls.read_tls(&mut self.records.as_slice())?;
            self.records.drain(..taken);
            tls.process_new_packets().map_err(io::Error::other)?;
            let wants_write = tls.wants_write();
            drop(tls);
            if wants_write {
                self.shared.send(|_| Ok(()))?;
            }
        }
    }
}

struct Writer(Arc<Shared>);

impl Write for Writer {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.send(|tls| tls.writer().write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let said = self.0.send(|tls| {
            tls.send_close_notify();
            Ok(())
        });
        // Fails if the socket has ended already.
        drop(said);
        let socket = &self.0.sending;
        let socket = socket.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = socket.shutdown(Shutdown::Write);
    }
}
