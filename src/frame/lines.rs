//! Newline framing: one message per line.
//!
//! This module finds the end of a line and checks its length, but not whether the line is JSON.
//!
//! LF ends a line, and one CR before the LF is part of the line end. Blanks at the beginning of a
//! line are dropped, so blank lines and indentation are ignored. The limit counts neither these
//! blanks nor the line end. A line over the limit is reported once and skipped to its LF; the next
//! line is read as usual.
//!
//! ```text
//!  ␠ ␍ ␊ { " a " : 1 } ␍ ␊ { …           ┌──────────┐  too long, no LF yet  ┌──────────┐
//!  └─┬─┘ └─────┬─────┘ └┬┘               │ in line  │ ────────────────────▶ │ skipping │
//!  taken     body     taken              └──────────┘ ◀──────────────────── └──────────┘
//!  silently (≤ max)   with the body                          LF
//! ```

use core::ops::Range;

use super::cut::{Cut, FrameLimits, FramingError, Unread};
use super::find;
use crate::target::rare;

/// How far the current line was searched.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    /// How many bytes of the line, from its first that is not blank, are known to have no LF.
    scanned: usize,
    /// The line is over the limit and was reported; the rest of it is skipped.
    skipping: bool,
}

impl Lines {
    pub(super) const fn new() -> Self {
        Self {
            scanned: 0,
            skipping: false,
        }
    }

    #[inline]
    pub(super) fn cut(
        &mut self,
        unread: Unread<'_>,
        limits: FrameLimits,
    ) -> Result<Cut, FramingError> {
        // Nearly all lines begin directly after the last one, with a bracket.
        if self.scanned == 0 && !self.skipping && matches!(unread.bytes, [b'{' | b'[', ..]) {
            return self.cut_line(0, unread.bytes, unread, limits);
        }
        self.cut_any(unread, limits)
    }

    /// Returns the line that begins here, and the bytes taken with it, if it has the most common
    /// form: complete, with a bracket at its beginning and no CR at its end.
    #[inline]
    pub(super) fn whole(
        &self,
        unread: &[u8],
        limits: FrameLimits,
    ) -> Option<(Range<usize>, usize)> {
        if self.is_mid_frame() || !matches!(unread, [b'{' | b'[', ..]) {
            rare();
            return None;
        }
        let len = find::line_feed(unread)?;
        let is_plain = len <= limits.max_frame_bytes && without_cr(unread, len) == len;
        is_plain.then_some((0..len, len + 1))
    }

    /// See [`Cutter::goes_on`](super::Cutter::goes_on).
    #[inline]
    pub(super) fn goes_on(&mut self, unread: &[u8], limits: FrameLimits) -> bool {
        let goes_on = self.scanned > 0
            && unread.len() <= limits.max_frame_bytes
            && find::few_new(unread, self.scanned).is_some_and(|new| !find::is_in(b'\n', new));
        if goes_on {
            find::note_examined(unread.len() - self.scanned);
            self.scanned = unread.len();
        }
        goes_on
    }

    /// Cuts any line, also one that was searched in part, is being skipped, or begins with blanks.
    #[inline(never)]
    fn cut_any(&mut self, unread: Unread<'_>, limits: FrameLimits) -> Result<Cut, FramingError> {
        let mut start = 0;
        if self.skipping {
            let Some(line_feed) = find::line_feed(unread.bytes) else {
                return Ok(unread.exhausted());
            };
            self.skipping = false;
            start = line_feed + 1;
        }
        // `start` is at most one past an index that was found.
        let mut line = unread.bytes.get(start..).unwrap_or_default();
        if self.scanned == 0 {
            let blanks = find::blanks(line);
            start += blanks;
            line = line.get(blanks..).unwrap_or_default();
        }
        if line.is_empty() && self.scanned == 0 {
            return Ok(unread.exhausted());
        }
        self.cut_line(start, line, unread, limits)
    }

    pub(super) const fn is_mid_frame(&self) -> bool {
        self.skipping || self.scanned > 0
    }

    /// Returns the size of the longest body with its CR and its LF.
    pub(super) const fn max_input_bytes(limits: FrameLimits) -> usize {
        limits.max_frame_bytes.saturating_add(2)
    }

    /// Cuts `line`, which begins at `start` with a byte that is not blank and goes on to the end of
    /// the input.
    #[inline]
    fn cut_line(
        &mut self,
        start: usize,
        line: &[u8],
        unread: Unread<'_>,
        limits: FrameLimits,
    ) -> Result<Cut, FramingError> {
        // A line feed after this window comes too late.
        let window = line.len().min(Self::max_input_bytes(limits));
        let Some(unseen) = line.get(self.scanned..window) else {
            // The caller passed fewer bytes than before.
            return unread.incomplete(start);
        };
        let line_feed = find::line_feed(unseen).map(|n| self.scanned + n);
        let body_len = without_cr(line, line_feed.unwrap_or(window));
        if body_len > limits.max_frame_bytes {
            *self = Self {
                scanned: 0,
                skipping: line_feed.is_none(),
            };
            return Ok(Cut::Oversize {
                bytes: None,
                taken: start + line_feed.map_or(window, |n| n + 1),
            });
        }
        if line_feed.is_none() && !unread.at_end {
            self.scanned = window;
            return Ok(Cut::Incomplete { taken: start });
        }
        *self = Self::new();
        Ok(Cut::Frame {
            body: start..start + body_len,
            taken: start + line_feed.map_or(window, |n| n + 1),
            unterminated: line_feed.is_none(),
        })
    }
}

/// Returns the length of the first `len` bytes of `line` without a CR at their end. A CR at the end
/// of the input counts as part of a line end, because an LF may follow.
fn without_cr(line: &[u8], len: usize) -> usize {
    match line.get(..len) {
        Some([.., b'\r']) => len - 1,
        _ => len,
    }
}
