//! Commands for the tests of a store, those of other crates too.

use antiphon::durable::{Command, Cursor, MessageData, Start, Wall};

pub(super) fn append(topic: &str, data: &str, name: Option<&str>) -> Command {
    Command::Append {
        topic: topic.into(),
        at: Wall::from_millis(1_700_000_000_000),
        data: MessageData::write(data).unwrap(),
        dedupe: name.map(Into::into),
    }
}

pub(super) fn read(topic: &str, after: u64) -> Command {
    Command::Read {
        topic: topic.into(),
        after,
        max_records: 5000,
        max_bytes: u32::MAX,
    }
}

pub(super) fn attach(subscription: &str, topic: &str) -> Command {
    Command::Attach {
        subscription: subscription.into(),
        topic: topic.into(),
        start: Start::EarliestRetained,
        takes_over: true,
    }
}

/// Numbers that look random, from a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// Any command, also such as fail.
pub(super) fn random_command(random: &mut Random) -> Command {
    let topic = ["a", "b.c", "d"][random.below(3) as usize];
    let name = format!("s{}", random.below(4));
    let fence = random.below(60);
    match random.below(10) {
        0..=3 => {
            let dedupe = format!("n{}", random.below(20));
            let dedupe = Some(&*dedupe).filter(|_| random.below(3) == 0);
            append(topic, &"x".repeat(random.below(200) as usize), dedupe)
        }
        4 | 5 => Command::Read {
            topic: topic.into(),
            after: random.below(40),
            max_records: random.below(6) as u32 + 1,
            max_bytes: random.below(500) as u32,
        },
        6 => Command::Attach {
            subscription: name.into(),
            topic: topic.into(),
            start: [Start::Latest, Start::EarliestRetained][random.below(2) as usize],
            takes_over: true,
        },
        7 => Command::Save {
            subscription: name.into(),
            fence,
            cursor: Cursor {
                start: 0,
                floor: random.below(9),
                above: (10..10 + random.below(4)).collect(),
            },
        },
        8 => Command::Delete {
            subscription: name.into(),
            fence: [0, fence][random.below(2) as usize],
        },
        _ => Command::Trim {
            topic: topic.into(),
            up_to: random.below(60),
        },
    }
}
