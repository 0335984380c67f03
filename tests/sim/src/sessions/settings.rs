//! What differs between one link and another, drawn by the seed.

use std::time::Duration;

use antiphon::session::{Session, SessionConfig, WhenFull, Wire};
use antiphon::{CancelAnswer, CancelStyle, Config, Framing, Instant};

use super::layer::Frames;
use super::pipe::WireKind;
use antiphon_test_support::random::Random;

/// The most bytes that one read brings.
pub(super) const MAX_READ_BYTES: usize = 1500;
/// No notification that a side sends has fewer bytes. Shorter ones, the ping of a layer and what the
/// network puts in, are not in the records.
pub(super) const NOTIFICATION_BYTES_MIN: usize = 40;
pub(super) const MAX_MESSAGE_BYTES: usize = 600;

/// What both ends of a link agree on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) wire: WireKind,
    cancels: CancelStyle,
    answer: CancelAnswer,
    /// The network may put in messages that neither side has said.
    pub(super) is_rough: bool,
}

impl Settings {
    pub(super) fn draw(rng: &mut Random) -> Self {
        let wire = match rng.below(6) {
            0 | 1 => WireKind::Stream(Framing::Newline),
            2 => WireKind::Stream(Framing::ContentLength),
            3 => WireKind::Stream(Framing::Concatenated),
            4 => WireKind::Messages,
            _ => WireKind::Layered,
        };
        let (cancels, answer) = match rng.below(3) {
            0 => (CancelStyle::None, CancelAnswer::RequestCancelled),
            1 => (CancelStyle::Lsp, CancelAnswer::Lsp),
            _ => (CancelStyle::Mcp, CancelAnswer::Silent),
        };
        let is_rough = rng.chance(25);
        Self {
            wire,
            cancels,
            answer,
            is_rough,
        }
    }

    pub(super) fn cancel_is_silent(&self) -> bool {
        self.answer == CancelAnswer::Silent
    }

    /// The limits of one end.
    pub(super) fn config(&self, rng: &mut Random) -> SessionConfig {
        let millis = Duration::from_millis;
        let mut config = Config::new();
        config.framing = match self.wire {
            WireKind::Stream(framing) => framing,
            WireKind::Messages | WireKind::Layered => Framing::Messages,
        };
        (config.dialect.cancel_send, config.dialect.cancel_receive) = (self.cancels, self.cancels);
        config.dialect.cancel_answer = self.answer;
        config.dialect.cancel_on_timeout = rng.chance(50);
        config.limits.max_message_bytes = MAX_MESSAGE_BYTES;
        config.limits.max_open_calls = rng.size(2, 16);
        config.limits.max_open_requests = rng.size(2, 10);
        config.limits.max_batch_items = 6;
        config.limits.max_batch_reply_bytes = 1000;
        config.limits.max_id_bytes = 40;
        config.limits.soft_max_outbox_bytes = rng.size(100, 2000);
        config.limits.max_outbox_bytes = rng.size(2000, 8000);
        config.timeouts.message_timeout = rng.chance(50).then(|| millis(rng.within(300, 3000)));
        config.timeouts.write_timeout = rng.chance(70).then(|| millis(rng.within(300, 3000)));
        config.timeouts.drain_timeout = Some(millis(rng.within(500, 3000)));
        let mut session = SessionConfig::from(config);
        session.max_queued_messages = rng.size(1, 12);
        session.max_queued_bytes = rng.size(60, 1500);
        session.linger = millis(rng.within(100, 1000));
        session.refuse_http = rng.chance(40);
        if rng.chance(35) {
            session.when_full = WhenFull::Drop;
        }
        session
    }

    pub(super) fn session(&self, config: SessionConfig, now: Instant) -> Session<u64> {
        let wire = match self.wire {
            WireKind::Stream(_) => Wire::Stream,
            WireKind::Messages => Wire::Messages,
            WireKind::Layered => Wire::Layered(Box::new(Frames::new(MAX_MESSAGE_BYTES, now))),
        };
        Session::new(config, wire, now)
    }
}

/// How many bytes of memory a session of these limits may hold. A message counts as twice its bytes,
/// because a text may be copied while it grows, and `WORK_BYTES` for what is kept with it.
pub(super) fn max_memory_bytes(config: &SessionConfig) -> isize {
    const WORK_BYTES: usize = 600;
    let core = config.config.memory_bytes_max_for::<u64>();
    // The unread rest of the input is in a buffer that may have grown to twice its bytes; a factor of 3
    // leaves some slack.
    let input = 3 * config.config.max_input_bytes() + 3 * MAX_READ_BYTES;
    // Twice the limits while a call is open, and what the last read has brought: a third of its bytes is
    // more messages than it can have.
    let messages = 2 * config.max_queued_messages + MAX_READ_BYTES / 3;
    let bytes = 2 * config.max_queued_bytes + 2 * MAX_READ_BYTES;
    let requests = 2 * config.config.limits.max_open_requests;
    let queue =
        (messages + requests + config.config.limits.max_open_calls) * WORK_BYTES + 2 * bytes;
    // The layer's pending input and output, and what a session is made of.
    (core + input + queue + 4 * MAX_READ_BYTES + 16_384) as isize
}
