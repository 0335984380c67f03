//! The threads of the proxy: one reads and one writes on each side.
//!
//! This module only moves bytes. Rule: every thread holds one buffer at a time and gets it back
//! only when it is needed again, so no direction collects memory, and a side that does not read
//! stops only those that talk to it.

use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use antiphon_net::write_out;

const CHUNK: usize = 64 << 10;

/// Which of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Editor,
    Server,
}

/// What a thread tells the loop.
#[derive(Debug)]
pub(crate) enum Signal {
    /// Bytes came in. The buffer is to be given back.
    Read(Side, Vec<u8>),
    /// The side will say nothing more.
    Ended(Side),
    /// All was written; the buffer can be filled again.
    Written(Side, Vec<u8>),
    /// The side takes nothing more.
    WriteFailed(Side),
}

impl Signal {
    pub(crate) fn side(&self) -> Side {
        match *self {
            Self::Read(side, _)
            | Self::Ended(side)
            | Self::Written(side, _)
            | Self::WriteFailed(side) => side,
        }
    }
}

/// The loop's end of both threads of a side.
#[derive(Debug)]
pub(crate) struct Pipe {
    to_reader: Sender<Vec<u8>>,
    /// The reader's buffer, while it is not reading.
    read_buf: Option<Vec<u8>>,
    /// None once the side is closed for writing.
    to_writer: Option<Sender<Vec<u8>>>,
    /// The writer's buffer, while it is not writing.
    write_buf: Option<Vec<u8>>,
}

impl Pipe {
    pub(crate) fn spawn(
        side: Side,
        source: impl Read + Send + 'static,
        sink: impl Write + Send + 'static,
        signals: &Sender<Signal>,
    ) -> Self {
        let (to_reader, buffers) = mpsc::channel();
        let out = signals.clone();
        thread::spawn(move || read_all(side, source, &buffers, &out));
        let (to_writer, work) = mpsc::channel();
        let out = signals.clone();
        thread::spawn(move || write_all(side, sink, &work, &out));
        Self {
            to_reader,
            read_buf: Some(Vec::new()),
            to_writer: Some(to_writer),
            write_buf: Some(Vec::new()),
        }
    }

    /// Keeps a buffer whose bytes have been taken.
    pub(crate) fn put_back(&mut self, buf: Vec<u8>) {
        self.read_buf = Some(buf);
    }

    /// Lets the reader read once more, if it is not reading.
    pub(crate) fn read_on(&mut self) {
        if let Some(buf) = self.read_buf.take() {
            // Refused only by a reader that has ended.
            let _ = self.to_reader.send(buf);
        }
    }

    /// The writer's buffer, empty, if it is free to write.
    pub(crate) fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.write_buf.take()
    }

    pub(crate) fn write(&mut self, buf: Vec<u8>) {
        if let Some(to_writer) = &self.to_writer {
            // Refused only by a writer that has said that it failed.
            let _ = to_writer.send(buf);
        }
    }

    /// Takes the writer's buffer back.
    pub(crate) fn written(&mut self, mut buf: Vec<u8>) {
        buf.clear();
        self.write_buf = Some(buf);
    }

    /// Ends the direction of writing: the other process sees its input end.
    pub(crate) fn close(&mut self) {
        self.to_writer = None;
    }

    /// Whether the side can still be written to.
    pub(crate) fn is_open(&self) -> bool {
        self.to_writer.is_some()
    }

    /// Whether the writer has nothing to write.
    pub(crate) fn is_idle(&self) -> bool {
        self.write_buf.is_some()
    }
}

fn read_all(side: Side, mut source: impl Read, buffers: &Receiver<Vec<u8>>, out: &Sender<Signal>) {
    for mut buf in buffers {
        buf.resize(CHUNK, 0);
        let read = loop {
            match source.read(&mut buf) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.unwrap_or(0),
            }
        };
        if read == 0 {
            break;
        }
        buf.truncate(read);
        if out.send(Signal::Read(side, buf)).is_err() {
            return;
        }
    }
    // The loop may be gone already.
    let _ = out.send(Signal::Ended(side));
}

fn write_all(side: Side, mut sink: impl Write, work: &Receiver<Vec<u8>>, out: &Sender<Signal>) {
    for buf in work {
        let signal = match write_out(&mut sink, &buf) {
            Ok(()) => Signal::Written(side, buf),
            Err(_) => Signal::WriteFailed(side),
        };
        let failed = matches!(signal, Signal::WriteFailed(_));
        if out.send(signal).is_err() || failed {
            return;
        }
    }
}
