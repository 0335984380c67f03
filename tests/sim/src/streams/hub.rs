//! The hub of the server, and beside it a simple second account of who gets what: the oracle.
//!
//! What waits for a connection is listed a second time, as numbers, with code of its own. So every
//! publication that leaves, and every number of lost ones, is known before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use antiphon::pubsub::{
    Feed, FeedLimits, FeedOverflow, Hold, Pattern, Publication, SubscribeError, TopicRequest,
    TopicSettings, Topics,
};
use antiphon::{Json, OwnedJson};

use super::checks::{Broken, Check, Checked};
use super::counts::Counts;
use super::plant::Plant;
use crate::skim;

/// A hash that is the same in every run.
pub(super) type Hash = BuildHasherDefault<DefaultHasher>;

/// The hub, and what the oracle knows of it.
#[derive(Debug)]
pub(super) struct Hub {
    topics: Topics<Hash>,
    members: BTreeMap<u64, Member>,
    /// The topic of each publication.
    pub(super) published: BTreeMap<u64, &'static str>,
    plant: Option<Plant>,
}

/// A connection in the hub.
#[derive(Debug)]
struct Member {
    feed: Feed,
    limits: FeedLimits,
    /// The second account.
    patterns: BTreeSet<Pattern>,
    waiting: VecDeque<Waiting>,
    /// The new patterns of each request whose answer is not sent.
    holds: Vec<(Hold, BTreeSet<Pattern>)>,
    lost: u64,
    has_overflowed: bool,
}

/// A publication that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u64,
    topic: &'static str,
    bytes: usize,
    /// It is the state of a topic, for a new subscription.
    is_first: bool,
    /// It has come while it had to wait for the answer to a subscribe, and has to still.
    is_held: bool,
}

/// What a server does after it has drained a feed.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// How many were dropped, if the feed has told it.
    pub(super) lost: Option<u64>,
    pub(super) has_overflowed: bool,
}

impl Hub {
    pub(super) fn new(settings: TopicSettings, plant: Option<Plant>) -> Self {
        Self {
            topics: Topics::new(settings, Hash::default()),
            members: BTreeMap::new(),
            published: BTreeMap::new(),
            plant,
        }
    }

    pub(super) fn settings(&self) -> &TopicSettings {
        self.topics.settings()
    }

    pub(super) fn join(&mut self, key: u64, limits: FeedLimits) {
        self.topics.add_connection(key);
        let member = Member {
            feed: Feed::new(limits),
            limits,
            patterns: BTreeSet::new(),
            waiting: VecDeque::new(),
            holds: Vec::new(),
            lost: 0,
            has_overflowed: false,
        };
        self.members.insert(key, member);
    }

    /// Takes a connection that has ended out.
    pub(super) fn leave(&mut self, key: u64) -> Checked {
        let Some(mut member) = self.members.remove(&key) else {
            return Ok(());
        };
        let had = self.topics.remove_connection(key);
        Check::LimitsHeld.that(had == member.patterns.len(), || {
            format!("{had} subscriptions of {:?}", member.patterns)
        })?;
        let lost = member.feed.close().map_or(0, |lost| lost.dropped);
        Check::LossTold.that(lost == member.lost, || {
            format!("{lost} lost at the end, not {}", member.lost)
        })
    }

    pub(super) fn topics_of(&self, key: u64) -> usize {
        let member = self.members.get(&key);
        member.map_or(0, |member| member.patterns.len())
    }

    /// The patterns to which a connection has subscribed.
    pub(super) fn patterns_of(&self, key: u64) -> Vec<Pattern> {
        let member = self.members.get(&key);
        let patterns = member.map(|member| member.patterns.iter().cloned().collect());
        patterns.unwrap_or_default()
    }

    /// Publishes a number.
    pub(super) fn publish(
        &mut self,
        number: u64,
        topic: &'static str,
        filler: usize,
        counts: &mut Counts,
    ) -> Checked {
        let filler = "x".repeat(filler);
        let publication = Publication::new(topic, &(number, filler))
            .map_err(|error| Check::NoPanic.broken(error.to_string()))?;
        let publication = Arc::new(publication);
        self.published.insert(number, topic);
        let mut receivers = self.topics.receivers(&publication).to_vec();
        receivers.sort_unstable();
        if self.plant == Some(Plant::ReceiverMissed) && receivers.len() > 1 {
            receivers.pop();
        }
        let settings = self.topics.settings();
        let members = self.members.iter();
        let expected: Vec<u64> = members
            .flat_map(|(key, member)| vec![*key; member.copies(settings, topic)])
            .collect();
        Check::RightReceivers.that(receivers == expected, || {
            format!("{number} of {topic} to {receivers:?}, not {expected:?}")
        })?;
        counts.tally.publications += 1;
        for key in receivers {
            let Some(member) = self.members.get_mut(&key) else {
                continue;
            };
            member.feed.push(&publication);
            member.push(number, topic, publication.bytes(), counts);
            member.agrees()?;
        }
        Ok(())
    }

    /// Publishes to all but one connection, as a broken hub would.
    pub(super) fn pass_over(&mut self, key: u64) {
        self.topics.remove_connection(key);
        if let Some(member) = self.members.get_mut(&key) {
            member.patterns.clear();
        }
    }

    /// Does what a request asks for, and checks that it is refused only beyond a limit.
    pub(super) fn accept(
        &mut self,
        key: u64,
        request: TopicRequest,
        others: usize,
        counts: &mut Counts,
    ) -> Result<Result<(OwnedJson, Option<Hold>), SubscribeError>, Broken> {
        let (topics, is_subscribe) = (request.topics().to_vec(), request.is_subscribe());
        let settings = *self.topics.settings();
        let most = match self.plant {
            Some(Plant::LimitLess) => settings.max_per_connection.saturating_sub(1),
            _ => settings.max_per_connection,
        };
        let all: usize = self
            .members
            .values()
            .map(|member| member.patterns.len())
            .sum();
        let Some(mut member) = self.members.remove(&key) else {
            return Err(Check::LimitsHeld.broken(format!("{key} is not in the hub")));
        };
        let before = member.patterns.clone();
        let is_expected = if topics.len() > most {
            false
        } else if is_subscribe {
            let mut wanted = before.clone();
            wanted.extend(topics.iter().cloned());
            let more = wanted.len() - before.len();
            let is_within = more == 0
                || wanted.len() + others <= most && all + more <= settings.max_subscriptions;
            if is_within {
                member.patterns = wanted;
            }
            is_within
        } else {
            topics.iter().for_each(|topic| {
                member.patterns.remove(topic);
            });
            let ended: Vec<Pattern> = before.difference(&member.patterns).cloned().collect();
            let waited = member.waiting.len();
            let left: BTreeMap<&str, usize> = super::settings::TOPICS
                .iter()
                .map(|topic| (*topic, member.copies(&settings, topic)))
                .collect();
            member.unsubscribe(&ended, &left);
            for (_, patterns) in &mut member.holds {
                patterns.retain(|pattern| !ended.contains(pattern));
            }
            // What stays may only be for a subscription whose answer is awaited.
            for one in &mut member.waiting {
                one.is_held |= ended.iter().any(|pattern| pattern.matches(one.topic));
            }
            member.let_go();
            if member.waiting.len() < waited {
                counts.add("topics: unsubscribe drops what waits");
            }
            true
        };
        let accepted = request.accept(&mut self.topics, key, others, &mut member.feed);
        Check::LimitsHeld.that(accepted.is_ok() == is_expected, || {
            format!("{topics:?} to {before:?} and {others} others, of {all}: {accepted:?}")
        })?;
        if let Ok((_, hold)) = &accepted {
            let new: BTreeSet<Pattern> = member.patterns.difference(&before).cloned().collect();
            Check::HubOrder.that(hold.is_some() != new.is_empty(), || {
                format!("{hold:?} for {new:?}")
            })?;
            member.holds.extend(hold.map(|hold| (hold, new)));
        } else {
            counts.add(match accepted {
                Err(SubscribeError::HubLimit) => "topics: limit of the hub",
                _ => "topics: limit of a connection",
            });
        }
        let held = self.topics.subscriptions_of(key);
        Check::LimitsHeld.that(held == member.patterns.len(), || {
            format!("{held} subscriptions, not {:?}", member.patterns)
        })?;
        member.agrees()?;
        self.members.insert(key, member);
        Ok(accepted)
    }

    /// Puts the state of a topic before what waits, as a hub does for a new subscription.
    pub(super) fn push_first(&mut self, key: u64, number: u64, topic: &'static str) -> Checked {
        let publication = Publication::new(topic, &(number, ""))
            .map_err(|error| Check::NoPanic.broken(error.to_string()))?;
        self.published.insert(number, topic);
        let Some(member) = self.members.get_mut(&key) else {
            return Ok(());
        };
        member.feed.remove_first(topic);
        member.feed.push_first(&Arc::new(publication));
        let is_other = |waiting: &Waiting| !waiting.is_first || waiting.topic != topic;
        member.waiting.retain(is_other);
        if !member.has_overflowed {
            member.waiting.push_front(Waiting {
                number,
                topic,
                // Its size decides nothing that is checked here.
                bytes: format!(r#"{{"topic":"{topic}","data":[{number},""]}}"#).len(),
                is_first: true,
                is_held: is_held(&member.holds, topic),
            });
        }
        member.agrees()
    }

    /// The last publication that waits for a connection.
    pub(super) fn last_waiting(&self, key: u64) -> Option<(u64, &'static str)> {
        let last = self.members.get(&key)?.waiting.back()?;
        Some((last.number, last.topic))
    }

    /// The answer to a subscribe is in the output, or never will be.
    pub(super) fn release(&mut self, key: u64, hold: Hold) {
        if let Some(member) = self.members.get_mut(&key) {
            member.feed.release(hold);
            member.holds.retain(|(other, _)| *other != hold);
            member.let_go();
        }
    }

    /// Passes what waits for a connection to `send`, which says whether there was space.
    pub(super) fn drain(
        &mut self,
        key: u64,
        max_bytes: usize,
        mut send: impl FnMut(&Publication) -> bool,
    ) -> Result<Drained, Broken> {
        let Some(member) = self.members.get_mut(&key) else {
            return Ok(Drained::default());
        };
        let (mut checked, mut is_first) = (Ok(()), true);
        let (waiting, holds) = (&mut member.waiting, &member.holds);
        let mut space = max_bytes;
        member.feed.drain(max_bytes, |publication| {
            let number = skim::mark(publication.params().as_bytes());
            let at = waiting.iter().position(|one| !one.is_held);
            let next = at.map(|at| waiting[at].number);
            let is_right = number == next && (is_first || publication.bytes() <= space);
            if checked.is_ok() && !is_right {
                let why = format!("{number:?} leaves, not {next:?}; {holds:?} are held");
                checked = Err(Check::HubOrder.broken(why));
            }
            let is_sent = send(publication);
            if is_sent {
                space = space.saturating_sub(publication.bytes());
                is_first = false;
                at.and_then(|at| waiting.remove(at));
            }
            is_sent
        });
        checked?;
        member.agrees()?;
        let told = member.feed.poll_report().map(|lost| lost.dropped);
        let told = match self.plant {
            Some(Plant::LossMiscounted) => told.map(|lost| lost - 1),
            _ => told,
        };
        let is_due = member.waiting.is_empty() && member.lost > 0;
        let due = is_due.then_some(member.lost);
        Check::LossTold.that(told == due, || format!("{told:?} lost, not {due:?}"))?;
        if is_due {
            member.lost = 0;
        }
        Ok(Drained {
            lost: told,
            has_overflowed: member.has_overflowed,
        })
    }

    /// Whether a connection gets publications that wait for an answer, and others that do not.
    pub(super) fn overtakes(&self, key: u64) -> bool {
        self.members.get(&key).is_some_and(|member| {
            let held = member.waiting.iter().filter(|one| one.is_held).count();
            held > 0 && held < member.waiting.len()
        })
    }

    /// How many publications wait for a connection.
    pub(super) fn waiting(&self, key: u64) -> usize {
        self.members.get(&key).map_or(0, |member| member.feed.len())
    }
}

impl Member {
    /// How often the connection gets a topic.
    fn copies(&self, settings: &TopicSettings, topic: &str) -> usize {
        let matching = self.patterns.iter();
        let count = matching.filter(|pattern| pattern.matches(topic)).count();
        match settings.once_per_subscription {
            true => count,
            false => count.min(1),
        }
    }

    fn push(&mut self, number: u64, topic: &'static str, bytes: usize, counts: &mut Counts) {
        if self.has_overflowed {
            return;
        }
        if self.limits.overflow == FeedOverflow::KeepLatest {
            let earlier = self.waiting.iter().position(|one| one.topic == topic);
            if earlier.and_then(|at| self.waiting.remove(at)).is_some() {
                counts.add("feed: KeepLatest replaces");
            }
        }
        let is_over = |member: &Self| {
            let used: usize = member.waiting.iter().map(|one| one.bytes).sum();
            let is_full = member.waiting.len() >= member.limits.max_messages
                || used + bytes > member.limits.max_bytes;
            is_full && !member.waiting.is_empty()
        };
        while is_over(self) {
            counts.add(match self.limits.overflow {
                FeedOverflow::DropConnection => "feed: overflow, DropConnection",
                FeedOverflow::DropMessage => "feed: overflow, DropMessage",
                _ => "feed: overflow, KeepLatest",
            });
            if self.limits.overflow == FeedOverflow::DropConnection {
                self.lost += self.waiting.len() as u64 + 1;
                self.waiting.clear();
                self.has_overflowed = true;
                return;
            }
            self.waiting.pop_front();
            self.lost += 1;
        }
        self.waiting.push_back(Waiting {
            number,
            topic,
            bytes,
            is_first: false,
            is_held: is_held(&self.holds, topic),
        });
    }

    /// An answer has left, or a subscription has ended: what waited for nothing else may leave.
    fn let_go(&mut self) {
        for one in &mut self.waiting {
            one.is_held &= is_held(&self.holds, one.topic);
        }
    }

    /// Removes what only ended subscriptions have brought. `left` says how often each topic still comes.
    fn unsubscribe(&mut self, ended: &[Pattern], left: &BTreeMap<&str, usize>) {
        let (mut number, mut copies) = (0, 0);
        self.waiting.retain(|one| {
            if one.is_first && ended.iter().any(|pattern| pattern.as_str() == one.topic) {
                return false;
            }
            if !ended.iter().any(|pattern| pattern.matches(one.topic)) {
                return true;
            }
            if number != one.number {
                (number, copies) = (one.number, 0);
            }
            copies += 1;
            copies <= left[one.topic]
        });
    }

    /// The feed and the second account are the same.
    fn agrees(&self) -> Checked {
        let (len, bytes) = (self.feed.len(), self.feed.bytes());
        let used: usize = self.waiting.iter().map(|one| one.bytes).sum();
        let is_same = len == self.waiting.len()
            && bytes == used
            && self.feed.has_overflowed() == self.has_overflowed;
        Check::LossTold.that(is_same, || {
            format!("{len} wait, {bytes} bytes, not {:?}", self.waiting)
        })
    }
}

/// Whether a topic waits for the answer to a subscribe.
fn is_held(holds: &[(Hold, BTreeSet<Pattern>)], topic: &str) -> bool {
    let mut patterns = holds.iter().flat_map(|(_, patterns)| patterns);
    patterns.any(|pattern| pattern.matches(topic))
}

/// The number of an event.
pub(super) fn number_in(json: Json<'_>) -> Option<u64> {
    skim::mark(json.as_bytes())
}
