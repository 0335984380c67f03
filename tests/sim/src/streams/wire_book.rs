//! What a server says on one connection, read with code of its own, and what it may say: the oracle.

use std::collections::{BTreeMap, BTreeSet};

use antiphon::pubsub::{Pattern, Publication};

use super::checks::{Check, Checked};
use super::settings::STYLES;
use crate::observer::{Item, ItemKind};
use crate::sessions::pipe::{Ears, WireKind};

/// What an answer means, by the id of its request.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    /// These patterns are subscribed to, as the step of this number.
    Subscribed(Vec<Pattern>, u64),
    /// These patterns are no longer subscribed to.
    Unsubscribed(Vec<Pattern>, u64),
    /// The subscription of this number is open.
    Opened(u64),
    /// The subscription of this number has ended.
    Ended(u64),
    /// The answer to a hostile message: an error with this code, or a result.
    Hostile(Option<i64>),
}

/// An event of a subscription, as the server has made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    /// The connection.
    pub(super) key: u64,
    /// The subscription.
    pub(super) sub: u64,
    /// The client's stream that has asked for it.
    pub(super) stream: u64,
}

/// The records of one connection.
#[derive(Debug)]
pub(super) struct WireBook {
    ears: Ears,
    meanings: BTreeMap<String, Meaning>,
    /// The patterns whose answers have left, with the steps at which they were subscribed to.
    active: BTreeMap<Pattern, u64>,
    /// The last unsubscribe of each pattern whose answer has left, as its step.
    undone: BTreeMap<Pattern, u64>,
    /// The subscriptions whose answers have left.
    opened: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    /// The last publication, how often it has left, and how often it may. A copy that follows another may leave
    /// although one of its two subscriptions has ended in between: nothing says which of them it was for.
    last: (u64, usize, usize),
    /// The last publication of each topic. Those of one topic keep their order; one that waits for the answer to a
    /// subscribe does not hold up other topics.
    last_of_topic: BTreeMap<String, u64>,
    seen: BTreeSet<u64>,
    /// States of topics, which are as new as their subscription.
    pub(super) firsts: BTreeSet<u64>,
    /// The last event of each subscription.
    last_of: BTreeMap<u64, u64>,
}

impl WireBook {
    pub(super) fn new(wire: WireKind) -> Self {
        Self {
            ears: Ears::new(wire),
            meanings: BTreeMap::new(),
            active: BTreeMap::new(),
            undone: BTreeMap::new(),
            opened: BTreeSet::new(),
            ended: BTreeSet::new(),
            last: (0, 0, 0),
            last_of_topic: BTreeMap::new(),
            seen: BTreeSet::new(),
            firsts: BTreeSet::new(),
            last_of: BTreeMap::new(),
        }
    }

    /// A request is served, and its answer will mean this.
    pub(super) fn expect(&mut self, request: String, meaning: Meaning) {
        self.meanings.insert(request, meaning);
    }

    /// Reads what leaves. Returns the messages.
    pub(super) fn hear(
        &mut self,
        bytes: &[u8],
        key: u64,
        copies: bool,
        published: &BTreeMap<u64, &'static str>,
        made: &BTreeMap<u64, Made>,
    ) -> Checked {
        let items = self.ears.hear(bytes);
        for item in items.map_err(|why| Check::NoPanic.broken(why))? {
            match item.kind {
                ItemKind::Notification if item.method == Publication::METHOD => {
                    let number = item.mark.unwrap_or_default();
                    let Some(topic) = published.get(&number) else {
                        return Err(Check::RightReceivers.broken(format!("{item:?}")));
                    };
                    self.publication(number, topic, copies)?;
                }
                ItemKind::Notification => {
                    let number = item.mark.unwrap_or_default();
                    if let Some(event) = made.get(&number) {
                        self.event(number, *event, key, &item)?;
                    }
                }
                ItemKind::Ok | ItemKind::Err(_) => self.answer(&item)?,
                ItemKind::Request => {}
            }
        }
        Ok(())
    }

    fn publication(&mut self, number: u64, topic: &str, copies: bool) -> Checked {
        let active = self.active.keys();
        let matching = active.filter(|pattern| pattern.matches(topic)).count();
        if matching == 0 {
            let mut undone = self.undone.keys();
            let check = match undone.any(|pattern| pattern.matches(topic)) {
                true => Check::NotAfterUnsubscribe,
                false => Check::NotBeforeAnswer,
            };
            return Err(check.broken(format!("{number} of {topic}; active: {:?}", self.active)));
        }
        if self.firsts.contains(&number) {
            let is_new = self.seen.insert(number);
            return Check::DeliveredOnce.that(is_new, || format!("state {number} again"));
        }
        let most = if copies { matching } else { 1 };
        let (last, times, allowed) = self.last;
        self.last = match number == last {
            true => (number, times + 1, allowed.max(most)),
            false => (number, 1, most),
        };
        let (_, times, most) = self.last;
        let is_again = number != last && !self.seen.insert(number);
        Check::DeliveredOnce.that(times <= most && !is_again, || {
            format!("{number} of {topic} leaves again, {most} times at most")
        })?;
        let last = self.last_of_topic.insert(topic.to_owned(), number);
        Check::HubOrder.that(last.is_none_or(|last| number >= last), || {
            format!("{number} of {topic} leaves after {last:?}")
        })
    }

    fn event(&mut self, number: u64, event: Made, key: u64, item: &Item) -> Checked {
        Check::OwnStreamOnly.that(event.key == key, || {
            format!("{number} of connection {} leaves on {key}", event.key)
        })?;
        let is_style = STYLES.iter().any(|style| style.method() == item.method);
        Check::OwnStreamOnly.that(is_style, || format!("{item:?}"))?;
        let (is_opened, is_ended) = (
            self.opened.contains(&event.sub),
            self.ended.contains(&event.sub),
        );
        Check::NotBeforeAnswer.that(is_opened || is_ended, || format!("{number} of {event:?}"))?;
        Check::NotAfterUnsubscribe.that(!is_ended, || format!("{number} of {event:?}"))?;
        let last = self.last_of.insert(event.sub, number).unwrap_or_default();
        Check::DeliveredOnce.that(number != last, || format!("{number} leaves twice"))?;
        Check::HubOrder.that(number > last, || format!("{number} leaves after {last}"))
    }

    fn answer(&mut self, item: &Item) -> Checked {
        let id = item.id.clone().unwrap_or_default();
        let Some(meaning) = self.meanings.remove(&id) else {
            return Ok(());
        };
        if let Meaning::Hostile(code) = meaning {
            let is_right = match (item.kind, code) {
                (ItemKind::Ok, None) => true,
                (ItemKind::Err(sent), Some(code)) => sent == code,
                _ => false,
            };
            return Check::HostileAnswered.that(is_right, || format!("{item:?}, not {code:?}"));
        }
        if item.kind != ItemKind::Ok {
            return Ok(());
        }
        match meaning {
            Meaning::Subscribed(patterns, step) => {
                for pattern in patterns {
                    if self
                        .undone
                        .get(&pattern)
                        .is_none_or(|undone| *undone < step)
                    {
                        self.active.insert(pattern, step);
                    }
                }
            }
            Meaning::Unsubscribed(patterns, step) => {
                for pattern in patterns {
                    if self.active.get(&pattern).is_some_and(|since| *since < step) {
                        self.active.remove(&pattern);
                    }
                    self.undone.insert(pattern, step);
                }
            }
            Meaning::Opened(sub) => {
                self.opened.insert(sub);
            }
            Meaning::Ended(sub) => {
                self.ended.insert(sub);
            }
            Meaning::Hostile(_) => {}
        }
        Ok(())
    }
}
