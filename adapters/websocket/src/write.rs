//! What goes out after the handshake: a frame for each message, and the few control frames.
//!
//! The rule guarded here: a message is one unfragmented text frame, and a client masks every frame
//! with a key that nobody can foresee (RFC 6455 clauses 5.3 and 10.3).

use antiphon::websocket::CloseCode;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};

/// The longest reason behind the code of a close frame: 125 bytes less the code's two.
const REASON_BYTES_MAX: usize = 123;

/// Appends a message as one text frame.
pub(super) fn text(into: &mut Vec<u8>, message: &[u8], is_masked: bool) {
    frame(into, OpCode::Data(Data::Text), message, is_masked);
}

/// Appends a ping without payload: whatever comes in after it answers it.
pub(super) fn ping(into: &mut Vec<u8>, is_masked: bool) {
    frame(into, OpCode::Control(Control::Ping), &[], is_masked);
}

/// Appends the answer to a ping.
pub(super) fn pong(into: &mut Vec<u8>, payload: &[u8], is_masked: bool) {
    frame(into, OpCode::Control(Control::Pong), payload, is_masked);
}

/// Appends a close frame; without a code where the other side gave none.
pub(super) fn close(into: &mut Vec<u8>, code: Option<CloseCode>, reason: &str, is_masked: bool) {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let close = Frame::close(code.map(|code| CloseFrame {
        code: code.0.into(),
        reason: reason[..end].into(),
    }));
    frame(
        into,
        OpCode::Control(Control::Close),
        close.payload(),
        is_masked,
    );
}

/// A received close frame's payload and what it says.
pub(super) fn closing(frame: Option<CloseFrame>) -> (Option<CloseCode>, String) {
    match frame {
        Some(frame) => (
            Some(CloseCode(frame.code.into())),
            frame.reason.as_str().into(),
        ),
        None => (None, String::new()),
    }
}

fn frame(into: &mut Vec<u8>, opcode: OpCode, payload: &[u8], is_masked: bool) {
    let mask = is_masked.then(rand::random::<[u8; 4]>);
    let header = FrameHeader {
        opcode,
        mask,
        ..FrameHeader::default()
    };
    into.reserve(header.len(payload.len() as u64) + payload.len());
    // Writing to memory does not fail.
    let written = header.format(payload.len() as u64, into);
    debug_assert!(written.is_ok());
    let at = into.len();
    into.extend_from_slice(payload);
    if let Some(mask) = mask {
        apply(mask, &mut into[at..]);
    }
}

/// Masks, or unmasks, eight bytes at once.
pub(super) fn apply(mask: [u8; 4], payload: &mut [u8]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = payload.chunks_exact_mut(8);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        let masked = u64::from_ne_bytes(bytes) ^ wide;
        word.copy_from_slice(&masked.to_ne_bytes());
    }
    let rest = words.into_remainder();
    for (byte, key) in rest.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::apply;

    // WSK-02
    #[test]
    fn masking_by_words_is_masking_by_bytes() {
        let mask = [0x12, 0x00, 0xff, 0x80];
        for len in 0..40 {
            let plain: Vec<u8> = (0..len).map(|n: u8| n.wrapping_mul(37)).collect();
            let mut fast = plain.clone();
            apply(mask, &mut fast);
            let slow = plain.iter().enumerate().map(|(n, byte)| byte ^ mask[n % 4]);
            assert_eq!(fast, slow.collect::<Vec<u8>>(), "{len} bytes");
        }
    }
}
