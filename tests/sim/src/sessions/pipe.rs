//! One direction of a link, and how messages stand in it.

use std::collections::VecDeque;

use antiphon::Framing;

use super::layer;
use crate::observer::{Item, Observer, read_frame};

/// How many bytes a pipe holds before its writer has to wait.
pub(crate) const CAPACITY: usize = 3000;

/// What carries the messages of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireKind {
    Stream(Framing),
    Messages,
    Layered,
}

/// How a pipe ends after what is still in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Open,
    /// The writer has closed it.
    Closed,
    /// The link is lost: the reader's read fails.
    Lost,
}

/// What one end has written and the other has not read.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Pieces that are never read together: whole messages. A stream has one.
    pieces: VecDeque<Vec<u8>>,
    is_stream: bool,
    pub(crate) end: End,
    pub(crate) is_stalled: bool,
    /// Writing fails: nobody reads any more.
    pub(crate) is_unread: bool,
    /// The reader knows of the end.
    pub(crate) is_end_told: bool,
}

impl Pipe {
    pub(crate) fn new(wire: WireKind) -> Self {
        Self {
            pieces: VecDeque::new(),
            is_stream: wire != WireKind::Messages,
            end: End::Open,
            is_stalled: false,
            is_unread: false,
            is_end_told: false,
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// Whether a write fails.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_unread || self.end != End::Open
    }

    /// How many bytes a write can put in.
    pub(crate) fn capacity(&self) -> usize {
        match self.is_stalled {
            true => 0,
            // A message goes in whole, while fewer than 8 wait.
            false if !self.is_stream => usize::MAX * usize::from(self.pieces.len() < 8),
            false => CAPACITY.saturating_sub(self.waiting()),
        }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        match self.pieces.back_mut() {
            Some(last) if self.is_stream => last.extend_from_slice(bytes),
            _ => self.pieces.push_back(bytes.to_vec()),
        }
    }

    /// Takes up to `most` bytes of a stream, or one message.
    pub(crate) fn take(&mut self, most: usize) -> Option<Vec<u8>> {
        if self.is_stalled {
            return None;
        }
        let first = self.pieces.front_mut()?;
        if !self.is_stream || most >= first.len() {
            return self.pieces.pop_front();
        }
        Some(first.drain(..most).collect())
    }

    /// The end, if it is what the reader finds next.
    pub(crate) fn reached_end(&self) -> Option<End> {
        let is_next = !self.is_stalled && !self.is_end_told && self.pieces.is_empty();
        (is_next && self.end != End::Open).then_some(self.end)
    }

    /// Loses the link, and all but the first `keep` bytes on their way; of whole messages, all but the
    /// first `keep % 3`, so none, one or two remain. Returns whether any were lost.
    pub(crate) fn cut(&mut self, keep: usize) -> bool {
        self.end = End::Lost;
        self.is_stalled = false;
        let before = self.waiting();
        match self.is_stream {
            true => {
                if let Some(only) = self.pieces.front_mut() {
                    only.truncate(keep);
                }
            }
            false => self.pieces.truncate(keep % 3),
        }
        self.pieces.retain(|piece| !piece.is_empty());
        self.waiting() < before
    }
}

/// Reads messages off one direction, with code of its own.
#[derive(Debug)]
pub(crate) struct Ears {
    wire: WireKind,
    observer: Observer,
    pending: Vec<u8>,
    /// How many bytes of messages there were, with the framing of a stream, but without a layer's.
    pub(crate) heard: u64,
}

impl Ears {
    pub(crate) fn new(wire: WireKind) -> Self {
        let framing = match wire {
            WireKind::Stream(framing) => framing,
            WireKind::Messages | WireKind::Layered => Framing::Messages,
        };
        Self {
            wire,
            observer: Observer::new(framing),
            pending: Vec::new(),
            heard: 0,
        }
    }

    /// The messages that these bytes complete.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Result<Vec<Item>, String> {
        let mut frames = Vec::new();
        match self.wire {
            WireKind::Stream(_) => {
                self.heard += bytes.len() as u64;
                self.observer.feed(bytes, &mut frames)?;
            }
            WireKind::Messages => {
                self.heard += bytes.len() as u64;
                frames.push(read(bytes)?);
            }
            WireKind::Layered => {
                self.pending.extend_from_slice(bytes);
                while let Some((kind, len)) = layer::cut(&self.pending) {
                    if kind == layer::MESSAGE {
                        self.heard += (len - layer::HEADER) as u64;
                        frames.push(read(&self.pending[layer::HEADER..len])?);
                    }
                    self.pending.drain(..len);
                }
            }
        }
        Ok(frames.into_iter().flat_map(|frame| frame.items).collect())
    }

    /// The messages of a last line without its line feed: it is whole only because nothing follows.
    pub(crate) fn hear_end(&self) -> Vec<Item> {
        let is_line = self.wire == WireKind::Stream(Framing::Newline);
        let frame = is_line.then(|| self.observer.unfinished()).flatten();
        frame.map(|frame| frame.items).unwrap_or_default()
    }
}

fn read(text: &[u8]) -> Result<crate::observer::Frame, String> {
    let unreadable = || format!("unreadable: {:?}", String::from_utf8_lossy(text));
    read_frame(text).ok_or_else(unreadable)
}
