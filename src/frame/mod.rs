//! Splits a stream of bytes into frames, and writes frames into a stream.
//!
//! [`Framer`] can be used alone: the Debug Adapter Protocol, for example, frames other JSON in the
//! same way. The body of a frame is not examined; the caller decides whether it is JSON. Each
//! framing has its own file, with its rules: `lines`, `content_length`, `concatenated`, `messages`,
//! `detect`. Their types are in `cut`, their searches in `find`; frames are written in `write`.
//!
//! The framer buffers nothing and allocates nothing. Bytes that are passed again are not examined
//! again, so passing one byte at a time has linear cost. However the input is split, the frames,
//! over-long frames and errors are the same.
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
pub(crate) use find::{line_break, line_feed};

/// Splits a stream into frames, without a buffer of its own.
///
/// Pass all bytes that were received and not yet taken, and drop as many as the result says. Pass
/// the rest again, followed by the bytes that arrive next. You may call the methods in any order,
/// and none panics.
#[derive(Clone, Debug)]
pub struct Framer {
    framing: Framing,
    limits: FrameLimits,
    cutter: Cutter,
}

/// The state of a [`Framer`] between calls. Framing and limits are passed with each call, because a
/// connection has them in its configuration. If the configuration is known at compile time, the
/// compiler leaves out the other framings.
#[derive(Clone, Debug)]
pub(crate) struct Cutter {
    codec: Codec,
    /// The position in the stream of the first byte that the next call passes.
    position: u64,
}

/// The framing in use, and its state.
#[derive(Clone, Debug)]
enum Codec {
    Lines(Lines),
    ContentLength(ContentLength),
    Concatenated(Concatenated),
    Messages,
    Detect(Detect),
    /// The beginning of the next frame cannot be found any more, in a stream of this framing.
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
    /// Makes a framer for the start of a stream.
    ///
    /// * `max_frame_bytes`: the longest body, in bytes and without header or delimiter, that becomes
    ///   a frame; a longer one becomes [`Cut::Oversize`]. JSON-RPC peers commonly use 1 MiB.
    /// * `max_header_bytes`: the longest header block of [`Framing::ContentLength`], in bytes with
    ///   its empty line; a longer one ends the stream. HTTP servers commonly allow 8 KiB; real blocks
    ///   have about 80 bytes.
    ///
    /// The framer stores no bytes; [`max_input_bytes`](Self::max_input_bytes) returns how many
    /// bytes its caller must be able to store.
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
    /// `at_end` says that no more bytes will follow. After [`Cut::Frame`] and [`Cut::Oversize`]
    /// call again with the bytes after `taken`, because they may have another frame.
    /// [`Framing::Messages`] takes `unread` as one message. It ignores an empty message, because it
    /// cannot be distinguished from no message.
    ///
    /// Passing fewer bytes than before (none, on a timer's tick) changes nothing: `Incomplete {
    /// taken: 0 }`. But at the end, bytes that were passed before and are missing count as
    /// [`FramingError::Truncated`].
    ///
    /// # Errors
    ///
    /// A [`FramingError`] when the beginning of the next frame cannot be found. It is final: every
    /// later call returns the same error, until [`reset`](Self::reset).
    pub fn cut(&mut self, unread: &[u8], at_end: bool) -> Result<Cut, FramingError> {
        self.cutter.cut(None, self.limits, unread, at_end)
    }

    /// Returns to the start of a new stream: state, detection and offsets are forgotten, limits are
    /// kept.
    pub fn reset(&mut self) {
        self.cutter = Cutter::new(self.framing);
    }

    /// The framing in use: for [`Framing::Detect`] the detected framing, or `Detect` while it is
    /// not known.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.cutter.framing()
    }

    /// Whether a frame has begun and is not complete; one that is being skipped counts.
    ///
    /// If the stream ends now, that frame is cut short. Use it to judge a peer that stalls.
    #[must_use]
    pub const fn is_mid_frame(&self) -> bool {
        self.cutter.is_mid_frame(None)
    }

    /// The most bytes that ever have to be passed in one call: after [`Cut::Incomplete`] fewer than
    /// this remain untaken. So a buffer of this size always has space for more input.
    ///
    /// It depends only on the framing and the limits, and never changes.
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
        // Even when both limits are zero, one byte must arrive before it can be refused.
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

    /// See [`Framer::cut`]; `only` is the framing of the framer, if it is known at compile time.
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

    /// Takes the frame that begins here, if it is complete and in the most common form. Returns the
    /// positions of its body, and how many bytes to drop. [`cut`](Self::cut) would find the same
    /// frame and take the same bytes.
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

    /// Whether the frame that has begun is obviously still incomplete. It examines only a few new
    /// bytes, so a frame that arrives byte by byte costs little per byte. Returns false if these
    /// are not enough to decide; then nothing has changed.
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

    /// Whether [`guess`](Self::guess) may find a frame: only in concatenated framing.
    #[inline]
    pub(crate) fn may_guess(&self, only: Option<Framing>) -> bool {
        !SMALL && may_be(only, Framing::Concatenated) && self.codec.concatenated().is_some()
    }

    /// Guesses the next value, if it is an object that ends with its line. If the caller finds that
    /// the line is one whole value, the caller takes it by [`pass`](Self::pass):
    /// [`cut`](Self::cut) would have found the same frame by counting brackets. Otherwise the
    /// caller calls `cut`.
    pub(crate) fn guess(&self, limits: FrameLimits, unread: &[u8]) -> Option<Range<usize>> {
        let codec = self.codec.concatenated();
        codec.and_then(|codec| codec.guess(unread, limits))
    }

    /// Takes the first bytes of the input, which end with a frame that [`guess`](Self::guess) has
    /// guessed right. ([`whole`](Self::whole) calls this itself.)
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

    /// Detects the framing if it is not known, and then cuts a frame by its codec.
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
            // Only `Messages` is left: the codec always fits the framing.
            _ => Ok(messages::cut(unread, limits)),
        }
    }
}

/// Whether a cutter for the framing `only` can have the codec of `framing`. Always true if `only`
/// is not known.
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
