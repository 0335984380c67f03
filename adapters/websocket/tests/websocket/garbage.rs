//! Random bytes, and frames with random faults: the WebSocket never panics, never goes on after an
//! end, and does the same however its input is split.

use antiphon::BinaryMessages;
use antiphon::session::LayerEvent;
use antiphon_test_support::random::Random;
use antiphon_websocket::{WebSocket, WebSocketConfig};

use super::support::{close, config, ended_as, feed, frame, make, open_server, output, text};

/// Random input; the seed is in the message of a failure.
struct Noise(Random);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    fn bytes(&mut self, max_len: usize) -> Vec<u8> {
        let len = self.below(max_len);
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    /// Frames, most of them valid, and now and then random bytes or a flipped bit.
    fn frames(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..1 + self.below(12) {
            // Anything; a whole binary message; the first part of a text; a middle part; a last
            // part; a ping; a whole text.
            let first = match self.below(12) {
                0 => self.below(256) as u8,
                1 => 0x82,
                2..5 => 0x01,
                5..7 => 0x00,
                7..9 => 0x80,
                9 => 0x89,
                _ => 0x81,
            };
            let payload = match self.below(8) {
                0 => self.bytes(300),
                1 => "añ€𝄞".repeat(self.below(1500)).into_bytes(),
                _ => b"[1]".to_vec(),
            };
            // One frame in 50 is not masked, so the server refuses it.
            out.extend(frame(first, &payload, self.below(50) > 0));
        }
        match self.below(4) {
            0 => out.extend(close(1000, "")),
            1 => out.extend(self.bytes(20)),
            _ => {}
        }
        if self.below(3) == 0 {
            let at = self.below(out.len());
            out[at] ^= 1 << self.below(8);
        }
        out
    }
}

/// The events that `pieces` give, in words, and the WebSocket's own output.
fn all(websocket: &mut WebSocket, pieces: &[&[u8]]) -> (String, Vec<u8>) {
    let mut told = String::new();
    for piece in pieces {
        for event in feed(websocket, piece) {
            assert!(!told.ends_with("Closed"), "something after the end: {told}");
            told += &match event {
                LayerEvent::Message(text) => format!("{:?} ", text.as_str()),
                LayerEvent::Ended(end) => format!("{} Closed", ended_as(&end)),
                other => format!("{other:?} "),
            };
        }
    }
    (told, output(websocket))
}

// WSK-15 TST-05
#[test]
fn frames_at_random_give_the_same_however_they_are_split() {
    let mut small = config();
    small.limits.max_message_bytes = 5000;
    for seed in 1..3000_u64 {
        let mut random = Noise(Random::new(seed));
        small.dialect.binary = match random.below(3) {
            0 => BinaryMessages::Ignore,
            1 => BinaryMessages::AsText,
            _ => BinaryMessages::Close,
        };
        let bytes = random.frames();
        let mut server = open_server(WebSocketConfig::server(), &small);
        let whole = all(&mut server, &[&bytes]);
        let (a, b) = (random.below(bytes.len()), random.below(bytes.len()));
        let pieces = [
            &bytes[..a.min(b)],
            &bytes[a.min(b)..a.max(b)],
            &bytes[a.max(b)..],
        ];
        let mut server = open_server(WebSocketConfig::server(), &small);
        assert_eq!(all(&mut server, &pieces), whole, "seed {seed}");
    }
}

// WSK-01 SEC-10
#[test]
fn bytes_at_random_open_nothing() {
    for seed in 1..3000_u64 {
        let mut random = Noise(Random::new(seed));
        let mut bytes = random.bytes(400);
        bytes.extend(b"\r\n\r\n");
        let client = WebSocketConfig::client("ws://a/").unwrap();
        for options in [WebSocketConfig::server(), client] {
            let mut websocket = make(options, &config());
            output(&mut websocket);
            let (told, _) = all(&mut websocket, &[&bytes, &text("[]")]);
            assert!(
                told.ends_with("Closed") && !told.contains("Opened"),
                "{seed}: {told}"
            );
        }
    }
}
