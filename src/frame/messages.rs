//! Messages that the transport delivers separately: WebSocket messages, HTTP bodies, queue entries.
//!
//! Only the size is checked. There is no state: every call passes one frame.

use super::cut::{Cut, FrameLimits, Unread};

/// Takes all bytes that are passed as one frame.
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
