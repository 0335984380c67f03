//! What differs between one run, link and end and another, drawn by the seed.

use std::time::Duration;

use antiphon::flow::FlowConfig;
use antiphon::pubsub::{FeedLimits, FeedOverflow, TopicSettings};
use antiphon::session::{Bound, Overflow, SessionConfig};
use antiphon::{CancelAnswer, CancelStyle, Config, Framing, Style};
use antiphon_test_support::random::Random;

use crate::sessions::pipe::WireKind;

/// How the subscriptions of dialects are named. Both number their streams alike.
pub(super) const STYLES: [Style; 2] = [Style::ETHEREUM, Style::SUBSTRATE_NEW_HEADS];

/// What is published. No digits, so that the first number of a notification is that of its event.
pub(super) const TOPICS: [&str; 6] = ["a.x", "a.y", "b.x", "b.y.z", "c", "a.x.é"];

/// What is subscribed to.
pub(super) const PATTERNS: [&str; 10] = [
    "a.x", "a.y", "b.x", "b.y.z", "c", "a.*", "*.x", "b.>", "a.>", ">",
];

/// What the ends of a link agree on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) wire: WireKind,
    pub(super) feeds: FeedLimits,
    cancels: CancelStyle,
    answer: CancelAnswer,
    /// The network may put in messages that neither end has said.
    pub(super) is_rough: bool,
}

impl Settings {
    pub(super) fn draw(rng: &mut Random) -> Self {
        let wire = match rng.below(4) {
            0 | 1 => WireKind::Stream(Framing::Newline),
            2 => WireKind::Stream(Framing::ContentLength),
            _ => WireKind::Messages,
        };
        let mut feeds = FeedLimits::new();
        feeds.max_messages = rng.size(0, 8);
        feeds.max_bytes = rng.pick(&[1, 60, 200, 1 << 20]);
        feeds.overflow = rng.pick(&[
            FeedOverflow::DropConnection,
            FeedOverflow::DropMessage,
            FeedOverflow::KeepLatest,
        ]);
        let (cancels, answer) = match rng.below(3) {
            0 => (CancelStyle::None, CancelAnswer::RequestCancelled),
            1 => (CancelStyle::Lsp, CancelAnswer::Lsp),
            _ => (CancelStyle::Mcp, CancelAnswer::Silent),
        };
        let is_rough = rng.chance(40);
        Self {
            wire,
            feeds,
            cancels,
            answer,
            is_rough,
        }
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
        config.limits.max_message_bytes = 4000;
        config.limits.max_open_calls = rng.pick(&[3, 8, 100, 100]);
        // Far above the pulls that may wait: what a connection refuses is not the matter here.
        config.limits.max_open_requests = 200;
        config.limits.soft_max_outbox_bytes = rng.size(50, 1500);
        config.limits.max_outbox_bytes = 60_000;
        config.timeouts.message_timeout = rng.chance(30).then(|| millis(rng.within(500, 5000)));
        config.timeouts.write_timeout = rng.chance(40).then(|| millis(rng.within(800, 5000)));
        config.timeouts.drain_timeout = Some(millis(rng.within(500, 3000)));
        let mut session = SessionConfig::from(config);
        session.linger = millis(rng.within(100, 1000));
        session
    }
}

/// What a hub allows.
pub(super) fn topics(rng: &mut Random) -> TopicSettings {
    let mut topics = TopicSettings::new();
    topics.max_per_connection = rng.size(1, 7);
    topics.max_subscriptions = rng.pick(&[2, 6, 100_000, 100_000]);
    topics.once_per_subscription = rng.chance(30);
    topics.wildcards = rng.chance(90);
    topics
}

/// What one end allows its flows.
pub(super) fn flows(rng: &mut Random) -> FlowConfig {
    let mut flows = FlowConfig::new();
    flows.max_flows = rng.size(1, 4);
    flows.max_pulls = rng.size(1, 10);
    flows.idle_timeout = rng
        .chance(20)
        .then(|| Duration::from_millis(rng.within(200, 4000)));
    flows
}

/// How many events wait for a reader, and which is dropped.
pub(super) fn bound(rng: &mut Random) -> Bound {
    Bound {
        max_events: rng.size(0, 6),
        overflow: rng.pick(&[Overflow::DropOldest, Overflow::DropNewest]),
    }
}
