//! One direction of a link: bytes on their way, in order, late, stalled or lost with the link.

use std::collections::VecDeque;

use crate::observer::Frame;

/// Bytes that arrive together, or one whole message.
#[derive(Debug)]
struct Chunk {
    at: u64,
    bytes: Vec<u8>,
}

/// What one end has written and the other has not read.
#[derive(Debug, Default)]
pub struct Wire {
    chunks: VecDeque<Chunk>,
    /// Messages of an honest writer that have not arrived whole.
    frames: VecDeque<Frame>,
    /// Offset of the next byte that arrives.
    arrived: u64,
    /// Nothing arrives for the time being.
    pub stalled: bool,
    /// The writer has closed its side: nothing more goes in.
    pub shut: bool,
    /// The reader has been told that nothing more comes.
    pub end_told: bool,
    /// When the last of the bytes sent so far arrive.
    latest: u64,
}

impl Wire {
    /// Bytes on their way.
    pub fn waiting(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes.len()).sum()
    }

    /// Puts bytes on their way; they arrive at `at`, and never before what went earlier.
    pub fn send(&mut self, bytes: Vec<u8>, at: u64) {
        if self.shut || bytes.is_empty() {
            return;
        }
        self.latest = self.latest.max(at);
        let at = self.latest;
        self.chunks.push_back(Chunk { at, bytes });
    }

    /// Notes a message that is on its way.
    pub fn expect(&mut self, frame: Frame) {
        // One whose last byte did not go in any more never arrives whole.
        self.frames.push_back(frame);
    }

    /// When the next bytes arrive. 0 if nothing but the end is left for the reader; `None` if nothing
    /// is on its way, or it is stalled.
    pub fn next_at(&self) -> Option<u64> {
        let next = self.chunks.front().map(|chunk| chunk.at);
        let end = (self.shut && !self.end_told).then_some(0);
        next.or(end).filter(|_| !self.stalled)
    }

    /// How many bytes have arrived and can be read at once: all of a stream, or one whole message.
    pub fn readable(&self, now: u64, whole: bool) -> usize {
        if self.stalled {
            return 0;
        }
        let ready = self.chunks.iter().take_while(|chunk| chunk.at <= now);
        let ready = ready.map(|chunk| chunk.bytes.len());
        match whole {
            true => ready.take(1).sum(),
            false => ready.sum(),
        }
    }

    /// Reads `n` bytes.
    pub fn read(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(n);
        while bytes.len() < n {
            let Some(chunk) = self.chunks.front_mut() else {
                break;
            };
            let part = chunk.bytes.len().min(n - bytes.len());
            bytes.extend(chunk.bytes.drain(..part));
            if chunk.bytes.is_empty() {
                self.chunks.pop_front();
            }
        }
        bytes
    }

    /// Notes that `n` bytes have arrived, and gives the messages that are whole with them.
    pub fn arrive(&mut self, n: usize) -> Vec<Frame> {
        self.arrived += n as u64;
        let mut whole = Vec::new();
        while self
            .frames
            .front()
            .is_some_and(|frame| frame.end <= self.arrived)
        {
            whole.extend(self.frames.pop_front());
        }
        whole
    }

    /// Offset of the next byte that arrives.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The last message, when nothing more comes, if it lacks nothing but its line feed.
    pub fn last_line(&mut self) -> Option<Frame> {
        let whole = self
            .frames
            .front()
            .is_some_and(|frame| frame.end == self.arrived + 1);
        self.frames.pop_front().filter(|_| whole)
    }

    /// Loses all but the first `keep` bytes on their way, and closes.
    pub fn cut(&mut self, keep: usize) {
        let mut left = keep;
        for chunk in &mut self.chunks {
            chunk.bytes.truncate(left);
            left -= chunk.bytes.len();
        }
        self.chunks.retain(|chunk| !chunk.bytes.is_empty());
        self.shut = true;
        self.stalled = false;
    }

    /// As [`cut`](Self::cut) for whole messages: loses all but the first `keep` of them.
    pub fn cut_messages(&mut self, keep: usize) {
        self.chunks.truncate(keep);
        self.shut = true;
        self.stalled = false;
    }

    /// How many chunks are on their way.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Whether all has been read and the reader knows of the end.
    pub fn is_over(&self) -> bool {
        self.shut && self.end_told && self.chunks.is_empty()
    }

    /// A planted fault: the last chunk is lost, or comes twice, or loses its first byte.
    pub fn spoil(&mut self, how: Spoilt) {
        match how {
            Spoilt::Lost => drop(self.chunks.pop_back()),
            Spoilt::Twice => {
                let last = self.chunks.back().map(|last| (last.bytes.clone(), last.at));
                if let Some((bytes, at)) = last {
                    self.chunks.push_back(Chunk { at, bytes });
                }
            }
            Spoilt::Byte => {
                if let Some(last) = self.chunks.back_mut() {
                    last.bytes.remove(0);
                }
            }
        }
    }
}

/// How a planted fault spoils what is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoilt {
    /// It never arrives.
    Lost,
    /// It arrives twice.
    Twice,
    /// One byte of it is missing.
    Byte,
}
