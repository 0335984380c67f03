//! The plain peer: bytes and framings, written from the specifications alone. Nothing here knows
//! antiphon.
//!
//! The rule guarded here: everything that waits has a deadline, and reading goes on by itself, so
//! that a peer that talks is never held up by one that listens.

use std::any::Any;
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

/// A plain peer's end of a conversation.
pub trait Raw: Send {
    /// Sends a message.
    ///
    /// # Errors
    /// The transport is broken.
    fn send(&mut self, message: &[u8]) -> Result<(), String>;

    /// Sends bytes without any framing.
    ///
    /// # Errors
    /// The transport is broken, or is no stream.
    fn send_raw(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// The next message of the other side; none if it has ended the stream.
    ///
    /// # Errors
    /// It did not come in time, or what came is no message.
    fn receive(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, String>;

    /// Ends our direction.
    fn end(&mut self);

    /// Lets the connection go without a word.
    fn cut(&mut self);

    /// Stops reading, or reads again.
    fn hold(&mut self, is_held: bool);

    /// Waits until every exchange under way has ended.
    ///
    /// # Errors
    /// That took too long.
    fn settle(&mut self, deadline: Instant) -> Result<(), String> {
        let _ = deadline;
        Ok(())
    }
}

/// How messages are told apart on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One a line.
    Lines,
    /// Behind a header with their length.
    ContentLength,
}

/// Both directions of a byte stream, and how to cut it.
pub struct Stream {
    /// What comes in.
    pub reader: Box<dyn Read + Send>,
    /// What goes out; dropped, it ends that direction.
    pub writer: Box<dyn Write + Send>,
    /// Lets it go without a word.
    pub cut: Box<dyn FnMut() + Send>,
    /// What must live as long.
    pub keep: Box<dyn Any + Send>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// A conversation over a byte stream.
pub struct StreamRaw {
    framing: Framing,
    writer: Option<Box<dyn Write + Send>>,
    chunks: Receiver<Result<Vec<u8>, String>>,
    received: Vec<u8>,
    gate: Arc<Gate>,
    cut: Box<dyn FnMut() + Send>,
    _keep: Box<dyn Any + Send>,
}

impl std::fmt::Debug for StreamRaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamRaw").finish_non_exhaustive()
    }
}

/// Whether the reading thread is to pause.
#[derive(Default)]
struct Gate {
    is_held: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, is_held: bool) {
        *self.is_held.lock().expect("nothing panics under it") = is_held;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let held = self.is_held.lock().expect("nothing panics under it");
        drop(self.changed.wait_while(held, |is_held| *is_held));
    }
}

impl StreamRaw {
    /// Talks over `stream`; a thread reads until it ends.
    pub fn new(stream: Stream, framing: Framing) -> Self {
        let (sender, chunks) = mpsc::channel();
        let gate = Arc::new(Gate::default());
        let (mut reader, at_gate) = (stream.reader, Arc::clone(&gate));
        thread::spawn(move || {
            let mut buf = vec![0; 64 << 10];
            loop {
                at_gate.pass();
                let chunk = match reader.read(&mut buf) {
                    Ok(0) => return,
                    Ok(n) => Ok(buf[..n].to_vec()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => Err(error.to_string()),
                };
                let is_over = chunk.is_err();
                if sender.send(chunk).is_err() || is_over {
                    return;
                }
            }
        });
        Self {
            framing,
            writer: Some(stream.writer),
            chunks,
            received: Vec::new(),
            gate,
            cut: stream.cut,
            _keep: stream.keep,
        }
    }

    /// Takes a whole message out of what has been received.
    fn take(&mut self) -> Result<Option<Vec<u8>>, String> {
        let taken = match self.framing {
            Framing::Lines => take_line(&mut self.received),
            Framing::ContentLength => take_measured(&mut self.received)?,
        };
        Ok(taken)
    }
}

fn take_line(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = received.iter().position(|byte| *byte == b'\n')?;
    let mut line: Vec<u8> = received.drain(..=end).collect();
    line.pop();
    Some(line)
}

fn take_measured(received: &mut Vec<u8>) -> Result<Option<Vec<u8>>, String> {
    let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let header = String::from_utf8_lossy(&received[..end]).into_owned();
    let length = header.strip_prefix("Content-Length: ");
    let length = length.and_then(|digits| digits.parse::<usize>().ok());
    let length = length.ok_or_else(|| format!("no header: {header:?}"))?;
    if received.len() < end + 4 + length {
        return Ok(None);
    }
    let mut message: Vec<u8> = received.drain(..end + 4 + length).collect();
    Ok(Some(message.split_off(end + 4)))
}

impl Raw for StreamRaw {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        let framed = match self.framing {
            Framing::Lines => [message, b"\n"].concat(),
            Framing::ContentLength => {
                let header = format!("Content-Length: {}\r\n\r\n", message.len());
                [header.as_bytes(), message].concat()
            }
        };
        self.send_raw(&framed)
    }

    fn send_raw(&mut self, bytes: &[u8]) -> Result<(), String> {
        let writer = self.writer.as_mut().ok_or("the stream has been ended")?;
        let sent = writer.write_all(bytes).and_then(|()| writer.flush());
        sent.map_err(|error| format!("cannot send: {error}"))
    }

    fn receive(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.chunks.recv_timeout(left) {
                Ok(chunk) => self.received.extend(chunk?),
                Err(RecvTimeoutError::Timeout) => return Err("nothing came in time".to_owned()),
                Err(RecvTimeoutError::Disconnected) if self.received.is_empty() => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    let rest = String::from_utf8_lossy(&self.received);
                    return Err(format!("the stream ended in a message: {rest}"));
                }
            }
        }
    }

    fn end(&mut self) {
        self.writer = None;
    }

    fn cut(&mut self) {
        (self.cut)();
        self.writer = None;
    }

    fn hold(&mut self, is_held: bool) {
        self.gate.set(is_held);
    }
}

impl Drop for StreamRaw {
    fn drop(&mut self) {
        self.gate.set(false);
        (self.cut)();
    }
}
