//! Cutting a stream of bytes into frames, and putting frames into a stream.
//!
//! Here: [`Framer`], usable alone (the Debug Adapter Protocol frames other JSON the same way), and
//! the writing side for the outbox. Not here: any look into a body; the caller decides whether it
//! is JSON. Each framing has a file of its own with its rules and its picture: `lines`,
//! `content_length`, `concatenated`, `messages`, `detect`.
//!
//! The framer buffers nothing and allocates nothing. Bytes presented again are not examined again,
//! so feeding one byte at a time is linear. However the input is split, the same frames, over-long
//! frames and errors come out.
//!
//! ```text
//!            unread: received and not yet taken
//!  ┌────────┬──────────────────────┬────┬───────────────────────┐
//!  │ blanks │ body                 │ LF │ later frames          │
//!  └────────┴──────────────────────┴────┴───────────────────────┘
//!           └──── Frame::body ─────┘    │
//!  └───────────── Frame::taken ─────────┘
//! ```
//!
//! ```
//! use antiphon::{Cut, Framer, Framing};
//!
//! let mut framer = Framer::new(Framing::ContentLength, 1 << 20, 8 << 10);
//! let mut unread: &[u8] = b"Content-Length: 2\r\n\r\n{}Content-Le";
//! let Cut::Frame { body, taken, .. } = framer.cut(unread, false)? else { panic!() };
//! assert_eq!(&unread[body], b"{}");
//! unread = &unread[taken..];
//! assert_eq!(framer.cut(unread, false)?, Cut::Incomplete { taken: 0 });
//! assert!(framer.is_mid_frame());
//! # Ok::<(), antiphon::FramingError>(())
//! ```

mod concatenated;
mod content_length;
mod cut;
mod detect;
mod find;
mod lines;
mod messages;
#[cfg(test)]
mod tests;
pub(crate) mod write;

use core::ops::Range;

use concatenated::Concatenated;
use content_length::ContentLength;
use cut::Unread;
use detect::{Detect, Detected};
use lines::Lines;

use crate::target::SMALL;

pub(crate) use cut::FrameLimits;
pub use cut::{Cut, Framing, FramingError};

/// Cuts a stream into frames, resumably and without memory of its own.
///
/// Present all bytes that were received and not yet taken; take what the answer says; present the
/// rest, followed by more, as often as you like. Any order of calls is legal, and none panics.
#[derive(Clone, Debug)]
pub struct Framer {
    framing: Framing,
    limits: FrameLimits,
    cutter: Cutter,
}

/// What a [`Framer`] remembers between calls. Framing and limits are given with each call, because
/// a connection has them in its configuration. If the configuration is known when the program is
/// built, the other framings are left out of the program.
#[derive(Clone, Debug)]
pub(crate) struct Cutter {
    codec: Codec,
    /// Offset within the stream of the first byte the next call presents.
    position: u64,
}

/// The framing in force and how far it has come.
#[derive(Clone, Debug)]
enum Codec {
    Lines(Lines),
    ContentLength(ContentLength),
    Concatenated(Concatenated),
    Messages,
    Detect(Detect),
    /// The place of the next frame cannot be known, in a stream of this framing.
    Failed(Framing, FramingError),
}

impl Codec {
    const fn new(framing: Framing) -> Self {
        match framing {
            Framing::Newline => Self::Lines(Lines::new()),
            Framing::ContentLength => Self::ContentLength(ContentLength::new()),
            Framing::Concatenated => Self::Concatenated(Concatenated::new()),
            Framing::Messages => Self::Messages,
            Framing::Detect => Self::Detect(Detect::new()),
        }
    }

    #[inline]
    const fn concatenated(&self) -> Option<&Concatenated> {
        match self {
            Self::Concatenated(codec) => Some(codec),
            _ => None,
        }
    }
}

impl Framer {
    /// A framer at the start of a stream.
    ///
    /// * `max_frame_bytes`: the longest body, in bytes and without header or delimiter, that becomes a frame;
    ///   strictly longer ones become [`Cut::Oversize`]. JSON-RPC peers commonly use 1 MiB.
    /// * `max_header_bytes`: the longest header block of [`Framing::ContentLength`], in bytes with its empty line; a
    ///   longer one ends the stream. 8 KiB is what HTTP servers commonly grant; real blocks have about 80 bytes.
    ///
    /// The framer holds no bytes; the limits decide how many its caller must be able to hold, see
    /// [`max_input_bytes`](Self::max_input_bytes).
    #[must_use]
    pub const fn new(framing: Framing, max_frame_bytes: usize, max_header_bytes: usize) -> Self {
        Self {
            framing,
            limits: FrameLimits {
                max_frame_bytes,
                max_header_bytes,
            },
            cutter: Cutter::new(framing),
        }
    }

    /// Finds the next frame in `unread`: all bytes received and not yet taken, oldest first.
    ///
    /// `at_end` says that nothing will ever follow them. After [`Cut::Frame`] and [`Cut::Oversize`]
    /// call again with the bytes after `taken`, because there may be more. [`Framing::Messages`]
    /// treats `unread` as one message; an empty one is not seen, because it cannot be distinguished from no
    /// message at all.
    ///
    /// Presenting fewer bytes than before (none, on a timer's tick) changes nothing: `Incomplete { taken: 0 }`. But
    /// at the end, bytes that were seen and are gone count as [`FramingError::Truncated`].
    ///
    /// # Errors
    ///
    /// A [`FramingError`] when the place of the next frame cannot be known. It is final: every later call returns the
    /// same, until [`reset`](Self::reset).
    pub fn cut(&mut self, unread: &[u8], at_end: bool) -> Result<Cut, FramingError> {
        self.cutter.cut(None, self.limits, unread, at_end)
    }

    /// Returns to the start of a new stream: state, detection and offsets are forgotten, limits are kept.
    pub fn reset(&mut self) {
        self.cutter = Cutter::new(self.framing);
    }

    /// The framing in force: for [`Framing::Detect`] what was detected, or `Detect` while that is open.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.cutter.framing()
    }

    /// Whether a frame has begun and is not complete; one that is being skipped counts.
    ///
    /// Ending the stream now would cut it short. Use it to judge a peer that stalls.
    #[must_use]
    pub const fn is_mid_frame(&self) -> bool {
        self.cutter.is_mid_frame(None)
    }

    /// The most bytes that ever have to be presented at once: after [`Cut::Incomplete`] fewer than this remain
    /// untaken. A buffer of this size is never full without progress.
    ///
    /// It follows from the framing asked for, the limits and nothing else, and stays the same.
    #[must_use]
    pub const fn max_input_bytes(&self) -> usize {
        let lines = Lines::max_input_bytes(self.limits);
        let content_length = ContentLength::max_input_bytes(self.limits);
        let bytes = match self.framing {
            Framing::Newline => lines,
            Framing::ContentLength => content_length,
            Framing::Concatenated => Concatenated::max_input_bytes(self.limits),
            Framing::Messages => self.limits.max_frame_bytes,
            Framing::Detect => max(max(lines, content_length), detect::MAX_INPUT_BYTES),
        };
        // Even when both limits are zero a byte must come in to be refused.
        max(bytes, 1)
    }
}

impl Cutter {
    pub(crate) const fn new(framing: Framing) -> Self {
        Self {
            codec: Codec::new(framing),
            position: 0,
        }
    }

    /// See [`Framer::cut`]; `only` is the framing that it was made with, where that is known when the program is built.
    pub(crate) fn cut(
        &mut self,
        only: Option<Framing>,
        limits: FrameLimits,
        unread: &[u8],
        at_end: bool,
    ) -> Result<Cut, FramingError> {
        if let Codec::Failed(_, error) = self.codec {
            return Err(error);
        }
        let unread = Unread {
            bytes: unread,
            at_end,
            position: self.position,
        };
        let cut = self.cut_by_codec(only, limits, unread);
        match &cut {
            Ok(cut) => self.position = unread.offset(cut.consumed()),
            Err(error) => self.codec = Codec::Failed(self.framing(), *error),
        }
        cut
    }

    /// The frame that begins here, and how many bytes are taken with it, if it is complete and
    /// written as nearly every peer writes it. [`cut`](Self::cut) finds the same frame and takes
    /// the same bytes.
    #[inline]
    pub(crate) fn whole(
        &mut self,
        only: Option<Framing>,
        limits: FrameLimits,
        unread: &[u8],
    ) -> Option<(Range<usize>, usize)> {
        let (body, taken) = match &self.codec {
            _ if SMALL => None,
            Codec::Lines(codec) if may_be(only, Framing::Newline) => codec.whole(unread, limits),
            Codec::ContentLength(codec) if may_be(only, Framing::ContentLength) => {
                codec.whole(unread, limits)
            }
            _ => None,
        }?;
        self.pass(taken);
        Some((body, taken))
    }

    /// Whether the frame that has begun is still incomplete, as [`cut`](Self::cut) would find. It
    /// looks only at a few bytes more than before, so a frame that comes in byte by byte costs
    /// little for each. False also if that is not enough to tell; nothing has changed then.
    #[inline]
    pub(crate) fn goes_on(
        &mut self,
        only: Option<Framing>,
        limits: FrameLimits,
        unread: &[u8],
    ) -> bool {
        match &mut self.codec {
            Codec::Lines(codec) if may_be(only, Framing::Newline) => codec.goes_on(unread, limits),
            Codec::ContentLength(codec) if may_be(only, Framing::ContentLength) => {
                codec.goes_on(unread, limits)
            }
            Codec::Concatenated(codec) if may_be(only, Framing::Concatenated) => {
                codec.goes_on(unread, limits)
            }
            _ => false,
        }
    }

    /// Whether there is any [`guess`](Self::guess): only of concatenated values.
    #[inline]
    pub(crate) fn may_guess(&self, only: Option<Framing>) -> bool {
        !SMALL && may_be(only, Framing::Concatenated) && self.codec.concatenated().is_some()
    }

    /// Where the next value stands, if it is an object that ends where a line does. A caller that
    /// finds a whole value there takes it by [`pass`](Self::pass): it is the frame that
    /// [`cut`](Self::cut) would have found by counting brackets. Any other caller cuts.
    pub(crate) fn guess(&self, limits: FrameLimits, unread: &[u8]) -> Option<Range<usize>> {
        let codec = self.codec.concatenated();
        codec.and_then(|codec| codec.guess(unread, limits))
    }

    /// Takes the first bytes of what was presented, after a right guess.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.position = self.position.saturating_add(bytes as u64);
    }

    /// See [`Framer::framing`].
    pub(crate) const fn framing(&self) -> Framing {
        match self.codec {
            Codec::Lines(_) => Framing::Newline,
            Codec::ContentLength(_) => Framing::ContentLength,
            Codec::Concatenated(_) => Framing::Concatenated,
            Codec::Messages => Framing::Messages,
            Codec::Detect(_) => Framing::Detect,
            Codec::Failed(framing, _) => framing,
        }
    }

    /// See [`Framer::is_mid_frame`].
    pub(crate) const fn is_mid_frame(&self, only: Option<Framing>) -> bool {
        match &self.codec {
            Codec::Lines(codec) if may_be(only, Framing::Newline) => codec.is_mid_frame(),
            Codec::ContentLength(codec) if may_be(only, Framing::ContentLength) => {
                codec.is_mid_frame()
            }
            Codec::Concatenated(codec) if may_be(only, Framing::Concatenated) => {
                codec.is_mid_frame()
            }
            Codec::Detect(codec) if may_be(only, Framing::Detect) => codec.is_mid_frame(),
            _ => false,
        }
    }

    fn cut_by_codec(
        &mut self,
        only: Option<Framing>,
        limits: FrameLimits,
        unread: Unread<'_>,
    ) -> Result<Cut, FramingError> {
        match &mut self.codec {
            Codec::Detect(detect) if may_be(only, Framing::Detect) => {
                match detect.detect(unread)? {
                    Detected::Not(cut) => return Ok(cut),
                    Detected::Framing(framing) => self.codec = Codec::new(framing),
                }
            }
            _ => {}
        }
        match &mut self.codec {
            Codec::Lines(codec) if may_be(only, Framing::Newline) => codec.cut(unread, limits),
            Codec::ContentLength(codec) if may_be(only, Framing::ContentLength) => {
                codec.cut(unread, limits)
            }
            Codec::Concatenated(codec) if may_be(only, Framing::Concatenated) => {
                codec.cut(unread, limits)
            }
            // Only whole messages are left: no codec is ever of another framing.
            _ => Ok(messages::cut(unread, limits)),
        }
    }
}

/// Whether a cutter made for the framing `only` can have the codec of `framing`. Always true if
/// `only` is not known.
const fn may_be(only: Option<Framing>, framing: Framing) -> bool {
    match only {
        None => true,
        Some(Framing::Detect) => !matches!(framing, Framing::Concatenated | Framing::Messages),
        Some(only) => only as u8 == framing as u8,
    }
}

/// `Ord::max` is not usable in a `const fn` yet.
const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}
