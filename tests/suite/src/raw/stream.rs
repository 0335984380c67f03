//! A plain peer on a byte stream: lines, headers, or the frames of a WebSocket.

use std::any::Any;
use std::io::{ErrorKind, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use super::websocket::{Frame, Side};
use super::{Raw, Stream};

/// How messages are delimited on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One message a line.
    Lines,
    /// Each message after a header with its length.
    ContentLength,
    /// Each message a frame of a WebSocket, whose handshake is done.
    WebSocket(Side),
}

/// A conversation over a byte stream.
pub struct StreamRaw {
    framing: Framing,
    writer: Option<Box<dyn Write + Send>>,
    chunks: Receiver<Result<Vec<u8>, String>>,
    received: Vec<u8>,
    gate: Arc<Gate>,
    /// The code of the other side's close frame, and whether we have sent ours.
    closed: Option<u16>,
    has_said_close: bool,
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
            closed: None,
            has_said_close: false,
            cut: stream.cut,
            _keep: stream.keep,
        }
    }

    /// Takes a whole message out of what has been received.
    fn take(&mut self) -> Result<Option<Vec<u8>>, String> {
        let taken = match self.framing {
            Framing::Lines => take_line(&mut self.received),
            Framing::ContentLength => take_measured(&mut self.received)?,
            Framing::WebSocket(side) => self.take_frame(side)?,
        };
        Ok(taken)
    }

    /// Takes frames until one holds a message; answers pings, and remembers a close.
    fn take_frame(&mut self, side: Side) -> Result<Option<Vec<u8>>, String> {
        while let Some(frame) = side.take(&mut self.received)? {
            match frame {
                Frame::Text(text) => return Ok(Some(text)),
                Frame::Ping(data) => self.send_raw(&side.pong(&data))?,
                Frame::Pong => {}
                Frame::Close(code) => {
                    self.closed = Some(code);
                    if self.writer.is_some() && !self.has_said_close {
                        self.has_said_close = true;
                        self.send_raw(&side.close(code))?;
                    }
                }
            }
        }
        Ok(None)
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
            Framing::WebSocket(side) => side.text(message),
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
            if self.closed.is_some() {
                return Ok(None);
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

    /// Ends our direction. On a WebSocket that is a close frame, after which a server ends the stream
    /// and a client waits for that.
    fn end(&mut self) {
        if let Framing::WebSocket(side) = self.framing {
            if !self.has_said_close {
                self.has_said_close = true;
                // Fails if the other side has ended already.
                let _ = self.send_raw(&side.close(1000));
            }
            if side == Side::Client {
                return;
            }
        }
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
