//! How often everything has happened that can happen to durable subscriptions, and how much was checked. What has never
//! happened was not tested.

/// Everything that is counted.
const CATALOGUE: &[&str] = &[
    "store: busy",
    "store: full",
    "store: read failed",
    "store: failed, and done all the same",
    "store: group failed and undone",
    "store: completes late",
    "store: late, and its message counts",
    "store: completes twice",
    "store: never completes",
    "store: completes out of order",
    "store: crash loses what was not committed",
    "hub: killed",
    "hub: killed between commit and answer",
    "hub: killed before a commit",
    "hub: told of another's messages",
    "hub: told of a takeover by another",
    "clock: jumps ahead",
    "clock: jumps back",
    "clock: an hour without trust",
    "link: cut",
    "link: cut loses messages",
    "link: cut, and the hub does not know",
    "link: reconnected",
    "link: reconnected to another hub",
    "link: stalled",
    "link: output full",
    "consumer: attached",
    "consumer: attached to several at once",
    "consumer: taken over",
    "consumer: rejected",
    "consumer: limit",
    "consumer: wrong topic",
    "consumer: answer replaced by an error",
    "consumer: unsubscribed, position kept",
    "consumer: deleted",
    "consumer: deleted by another",
    "consumer: failed by the store",
    "consumer: skipped ahead",
    "consumer: rewound",
    "message: again after its time",
    "message: again on a new connection",
    "message: window full",
    "message: given back",
    "message: no space at the reader",
    "message: told as missing",
    "ack: one",
    "ack: several",
    "ack: repeated",
    "ack: failed by the store",
    "ack: of what was never delivered",
    "ack: without being attached",
    "publish: stored",
    "publish: failed",
    "publish: refused, too many wait",
    "publish: named, and stored before",
    "retention: removed by count",
    "retention: removed by bytes",
    "retention: removed by age",
    "retention: unacknowledged message removed",
    "hostile: broken params",
];

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages that were stored.
    pub stored: u64,
    /// Messages that were delivered.
    pub delivered: u64,
    /// Of these, those that were delivered before.
    pub repeats: u64,
    /// Acknowledgements that were told to be stored.
    pub acknowledged: u64,
    /// Messages that were removed unacknowledged.
    pub lost: u64,
}

impl crate::runner::Tally for Tally {
    const CATALOGUE: &'static [&'static str] = CATALOGUE;

    fn add(&mut self, one: &Self) {
        self.stored += one.stored;
        self.delivered += one.delivered;
        self.repeats += one.repeats;
        self.acknowledged += one.acknowledged;
        self.lost += one.lost;
    }

    fn line(&self) -> Option<String> {
        let Self {
            stored,
            delivered,
            repeats,
            acknowledged,
            lost,
        } = self;
        Some(format!(
            "checked: {stored} messages stored, {delivered} deliveries, {repeats} of them repeats, \
             {acknowledged} acknowledged, {lost} removed and told"
        ))
    }
}

pub(super) type Counts = crate::runner::Counts<Tally>;
