//! Messages that the transport keeps apart itself: WebSocket messages, HTTP bodies, queue entries.
//!
//! Here: the size check, which is all that is left to do. There is no state: every call is a frame
//! of its own.

use super::cut::{Cut, FrameLimits, Unread};

/// Treats all that is presented as one frame.
pub(super) fn cut(unread: Unread<'_>, limits: FrameLimits) -> Cut {
    let taken = unread.bytes.len();
    if taken == 0 {
        return unread.exhausted();
    }
    if taken > limits.max_frame_bytes {
        let bytes = Some(taken as u64);
        return Cut::Oversize { bytes, taken };
    }
    Cut::Frame {
        body: 0..taken,
        taken,
        unterminated: false,
    }
}
