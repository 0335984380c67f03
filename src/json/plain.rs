//! Skips text without stops, many bytes at a time.
//!
//! This module selects the code that examines the bytes, and searches for the next stop: a quote, a
//! backslash or a control character, or the end of the text. What a stop means is decided in
//! `tokens`.
//!
//! `simd` is used on x86-64, `bytes` on bare metal, `swar` everywhere else. Built with
//! `--cfg antiphon_portable` or `--cfg antiphon_small`, the crate uses `swar` or `bytes` on any
//! target, so that they can be measured and tested.

#[cfg(any(target_os = "none", antiphon_small))]
use super::bytes::{self as twin, self as search};
use super::judge::{is_stop, marks};
#[cfg(all(
    not(any(target_os = "none", antiphon_small)),
    any(
        antiphon_portable,
        not(all(target_arch = "x86_64", target_feature = "sse2"))
    )
))]
use super::swar::{self as twin, self as search};
#[cfg(all(
    not(any(target_os = "none", antiphon_small)),
    all(target_arch = "x86_64", target_feature = "sse2"),
    not(antiphon_portable)
))]
use super::{simd as twin, stops as search};

pub(super) use search::{Stops, free_of_stops, short_string};
pub(super) use twin::{LONG, WIDTH, WINDOW, Windows};
pub(crate) use twin::{inside_of, text_of, value_of};

/// Returns the stops of the block that begins after the first `BEFORE` bytes of a window.
#[inline]
pub(super) fn stops_behind<const BEFORE: usize>(window: &[u8; WINDOW]) -> Stops {
    const { assert!(BEFORE + WIDTH <= WINDOW) };
    let block = window.get(BEFORE..).and_then(<[u8]>::first_chunk);
    // A window is large enough for `BEFORE` bytes and a block, so the compiler removes the default.
    Stops::of(block.unwrap_or(&[0; WIDTH]))
}

/// Returns the stops in the next [`LONG`] bytes of `text` from `pos` on, and where these bytes end.
/// If fewer are left, examines the next [`WIDTH`] bytes, or those that are left.
#[inline]
pub(super) fn long_stops_at(text: &[u8], pos: usize) -> (Stops, usize) {
    let rest = text.get(pos..).unwrap_or_default();
    if let Some(block) = rest.first_chunk() {
        return (Stops::of_long(block), pos + LONG);
    }
    if let Some(block) = rest.first_chunk() {
        return (Stops::of(block), pos + WIDTH);
    }
    (stops_at_end(text, pos), text.len().max(pos))
}

/// Returns the stops in the next [`LONG`] bytes, as [`long_stops_at`] does, for a text where
/// escapes are likely. Short escapes may be left out of the stops. Also returns whether there is
/// any stop, including those left out.
#[inline]
pub(super) fn escaped_stops_at(text: &[u8], pos: usize) -> (Stops, usize, bool) {
    let rest = text.get(pos..).unwrap_or_default();
    if let Some(block) = rest.first_chunk() {
        let (stops, is_any) = Stops::of_escaped(block);
        return (stops, pos + LONG, is_any);
    }
    let (stops, next) = long_stops_at(text, pos);
    (stops, next, stops.first().is_some())
}

/// Returns the stops if fewer bytes than a block are left: it examines the last whole block, and
/// leaves out the stops before `pos`.
#[inline]
fn stops_at_end(text: &[u8], pos: usize) -> Stops {
    let left = text.len().saturating_sub(pos);
    if let Some(last) = text.last_chunk::<WIDTH>() {
        return Stops::of(last).behind(WIDTH - left.min(WIDTH));
    }
    stops_of_few(text, pos)
}

/// Returns the stops from `pos` on in a text that is shorter than a block.
#[inline(never)]
fn stops_of_few(text: &[u8], pos: usize) -> Stops {
    // The bytes that fill the block up must not be stops.
    let mut block = [b' '; WIDTH];
    let left = text.get(pos..).unwrap_or_default();
    if let Some(place) = block.get_mut(..left.len()) {
        place.copy_from_slice(left);
    }
    Stops::of(&block)
}

/// Returns the first `"`, `\` or control character at or after `pos`, or the end of `text`.
#[inline]
pub(super) fn skip_plain(text: &[u8], pos: usize) -> usize {
    let mut pos = pos;
    loop {
        let (stops, next) = long_stops_at(text, pos);
        if let Some(n) = stops.first() {
            return pos + n;
        }
        if next >= text.len() {
            return next;
        }
        pos = next + free_of_stops(text, next);
    }
}

/// Whether a text has no stop at all. Its last block may overlap the one before, so a text of a
/// block or more need not be copied.
#[inline]
pub(super) fn is_plain(text: &[u8]) -> bool {
    if text.len() >= LONG {
        return is_plain_long(text);
    }
    let Some(last) = text.last_chunk::<WIDTH>() else {
        return is_plain_word(text);
    };
    let mut blocks = text.chunks_exact(WIDTH).filter_map(<[u8]>::first_chunk);
    blocks.all(|block| Stops::of(block).first().is_none()) && Stops::of(last).first().is_none()
}

#[inline(never)]
fn is_plain_long(text: &[u8]) -> bool {
    skip_plain(text, 0) == text.len()
}

/// Whether a text that is shorter than a block has no stop. It is read as two words that overlap,
/// as two half words, or a byte at a time. It is not copied into a block, because the search would
/// have to wait for the copy.
#[inline]
fn is_plain_word(text: &[u8]) -> bool {
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return twin::are_plain([first, last].map(|word| u64::from_le_bytes(*word)));
    }
    let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) else {
        return !text.iter().any(|&byte| is_stop(byte));
    };
    let halves = [u32::from_le_bytes(*first), u32::from_le_bytes(*last)].map(u64::from);
    marks(halves[0] | halves[1] << 32) == 0
}

/// A simple version, with which tests compare.
#[cfg(test)]
pub(super) fn skip_plain_naive(text: &[u8], pos: usize) -> usize {
    let mut pos = pos;
    while pos < text.len() && text[pos] != b'"' && text[pos] != b'\\' && text[pos] >= 0x20 {
        pos += 1;
    }
    pos
}
