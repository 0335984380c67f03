//! A TLS connection as two halves, for a thread that reads and a thread that writes.
//!
//! ```text
//!   reader:  socket ──▶ wire bytes ──▶ ┌ lock ┐ ──▶ plaintext
//!   writer:  plaintext ──▶ ┌ lock ┐ ──▶ wire bytes ──▶ socket, one writer at a time
//! ```
//!
//! The lock of the TLS state is never held while the socket reads or writes. Records are written in
//! the order in which they were made. Received bytes are decrypted only when all earlier plaintext
//! has been read.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use antiphon_net::tls::{TlsError, explain};
use rustls::Connection;

use super::rustls;
use crate::Context;
use crate::transport::link::Link;

/// How many bytes one read of the socket takes at most: the largest record of TLS 1.3, without its
/// header (RFC 8446, 5.2).
const WIRE_BYTES: usize = 16 * 1024 + 256;

/// The largest output buffer that is kept for the next time, in bytes.
const OUT_BYTES_KEPT: usize = 4 * 1024;

/// Makes a link of a connection after its handshake.
pub(super) fn link(tls: Connection, stream: TcpStream, context: Context) -> io::Result<Link> {
    let (writer, control) = (stream.try_clone()?, stream.try_clone()?);
    let shared = Arc::new(Shared {
        tls: Mutex::new(tls),
        wire: Mutex::new(Wire {
            socket: writer,
            out: Vec::new(),
        }),
    });
    let reader = Reader {
        shared: Arc::clone(&shared),
        socket: stream,
        wire: vec![0; WIRE_BYTES].into(),
        next: 0,
        end: 0,
    };
    let link = Link::new(reader, Writer { shared }).with_context(context);
    Ok(link.with_hang_up(move || {
        // If it is closed already, that is fine.
        let _ = control.shutdown(Shutdown::Both);
    }))
}

/// What the two halves share.
struct Shared {
    tls: Mutex<Connection>,
    /// It is locked before `tls` by a thread that needs both, so that records are written in their
    /// order.
    wire: Mutex<Wire>,
}

/// The writing side of the socket, and the output that was taken from the TLS state for it.
struct Wire {
    socket: TcpStream,
    out: Vec<u8>,
}

impl Wire {
    /// Takes the output of the TLS state, whose lock the caller holds.
    fn collect(&mut self, tls: &mut Connection) -> io::Result<()> {
        while tls.wants_write() {
            tls.write_tls(&mut self.out)?;
        }
        Ok(())
    }

    /// Writes the output that was taken.
    fn send(&mut self) -> io::Result<()> {
        let sent = self.socket.write_all(&self.out);
        self.out.clear();
        if self.out.capacity() > OUT_BYTES_KEPT {
            self.out = Vec::new();
        }
        sent
    }
}

impl Shared {
    fn tls(&self) -> MutexGuard<'_, Connection> {
        // If the TLS state has panicked, it fails when it is used again.
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        // No code that can panic leaves it in an invalid state.
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes output of the TLS state itself, such as alerts and new keys. Does nothing if another
    /// thread is writing, because that thread checks for more before it ends.
    fn send_rest(&self) -> io::Result<()> {
        while self.tls().wants_write() {
            let mut wire = match self.wire.try_lock() {
                Ok(wire) => wire,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(()),
            };
            wire.collect(&mut self.tls())?;
            wire.send()?;
        }
        Ok(())
    }
}

/// The reading half. It decrypts.
struct Reader {
    shared: Arc<Shared>,
    socket: TcpStream,
    /// Bytes from the socket; `next..end` is still to be decrypted.
    wire: Box<[u8]>,
    next: usize,
    end: usize,
}

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.shared.tls().reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // This includes the end, announced or not.
                read => return read,
            }
            if self.next == self.end {
                self.next = 0;
                self.end = 0;
                self.end = self.socket.read(&mut self.wire)?;
            }
            let decrypted = self.decrypt();
            // A failure to write is ignored here, because input that the peer sent before can still
            // be read.
            let _ = self.shared.send_rest();
            decrypted?;
        }
    }
}

impl Reader {
    /// Passes received bytes to the TLS state; no bytes mean the end.
    fn decrypt(&mut self) -> io::Result<()> {
        let mut tls = self.shared.tls();
        let mut fresh = &self.wire[self.next..self.end];
        let taken = tls.read_tls(&mut fresh)?;
        self.next += taken;
        let failed = |error| io::Error::new(io::ErrorKind::InvalidData, TlsError::from(error));
        tls.process_new_packets().map(drop).map_err(failed)
    }
}

/// The writing half. It encrypts.
struct Writer {
    shared: Arc<Shared>,
}

impl Write for Writer {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut wire = self.shared.wire();
        let n = {
            let mut tls = self.shared.tls();
            // The buffer of the TLS state is empty now, so it accepts some bytes.
            let n = tls.writer().write(buf).map_err(explain)?;
            wire.collect(&mut tls)?;
            n
        };
        wire.send()?;
        drop(wire);
        self.shared.send_rest()?;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        // No bytes are held back.
        Ok(())
    }
}

/// Ends our stream; the other side may still send.
impl Drop for Writer {
    fn drop(&mut self) {
        let mut wire = self.shared.wire();
        let collected = {
            let mut tls = self.shared.tls();
            tls.send_close_notify();
            wire.collect(&mut tls)
        };
        // If it is closed already, that is fine.
        let _ = collected.and_then(|()| wire.send());
        let _ = wire.socket.shutdown(Shutdown::Write);
    }
}
