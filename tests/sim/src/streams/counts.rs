//! How often everything has happened that can happen to streams, and how much was checked. What has
//! never happened was not tested.

use std::collections::BTreeMap;

/// Everything that is counted.
pub const CATALOGUE: &[&str] = &[
    "wire: stream",
    "wire: messages",
    "feed: overflow, DropConnection",
    "feed: overflow, DropMessage",
    "feed: overflow, KeepLatest",
    "feed: KeepLatest replaces",
    "feed: drained in parts",
    "feed: output full",
    "topics: subscribed",
    "topics: subscribed in a batch with a slow member",
    "topics: publication waits for a slow member",
    "topics: publication overtakes one that waits",
    "topics: answer and publication in one read",
    "topics: unsubscribed",
    "topics: unsubscribe with publications in flight",
    "topics: unsubscribe drops what waits",
    "topics: two streams of one pattern",
    "topics: state of a topic first",
    "topics: limit of a connection",
    "topics: limit of the hub",
    "topics: wildcards off",
    "subscription: opened",
    "subscription: in a batch with a slow member",
    "subscription: answer and event in one read",
    "subscription: unsubscribe with events in flight",
    "subscription: given up by the server",
    "subscription: ended in order by the server",
    "subscription: limit",
    "subscription: id used again",
    "subscription: call given up, its id comes late",
    "stream: client lags, oldest dropped",
    "stream: client lags, newest dropped",
    "stream: ends with its connection",
    "stream: subscribes again after a reconnect",
    "stream: refused",
    "stream: call refused by the client",
    "flow: result of a call",
    "flow: argument of a call",
    "flow: completed",
    "flow: failed by its producer",
    "flow: cancelled in mid-window",
    "flow: consumer dropped before its end",
    "flow: producer dropped",
    "flow: lost with its connection",
    "flow: timed out",
    "flow: idle, given up",
    "flow: ended with the call that has it",
    "flow: answers out of order",
    "flow: end overtakes items",
    "flow: window of several",
    "flow: limit of the producer",
    "flow: limit of the consumer",
    "flow: limit of pulls",
    "flow: ended by a drain",
    "flow: late id declined",
    "hostile: unknown flow",
    "hostile: flow of the other direction",
    "hostile: broken params of a flow",
    "hostile: cancel of an unknown flow",
    "hostile: invalid topic",
    "hostile: wildcard topic",
    "hostile: broken params of a topic",
    "hostile: unsubscribe of nothing",
    "hostile: event of an unknown id",
    "hostile: publication of nothing",
    "hostile: answer to nothing",
    "fault: split read",
    "fault: byte by byte",
    "fault: stall",
    "fault: pipe full",
    "fault: cut",
    "fault: cut loses bytes",
    "fault: cut with open streams",
    "fault: half-close",
    "fault: failed write",
    "fault: reconnected",
    "end: drain",
    "end: close",
];

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Streams that were opened: of topics, of subscriptions.
    pub streams: u64,
    /// Publications of the hub.
    pub publications: u64,
    /// Publications and events that a reader has got.
    pub events: u64,
    /// Events that a reader was told that it has lost.
    pub lost: u64,
    /// Flows that were opened.
    pub flows: u64,
    /// Items that a reader has got.
    pub items: u64,
}

/// How often each has occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    seen: BTreeMap<&'static str, u64>,
    /// How much was checked.
    pub tally: Tally,
}

impl Counts {
    pub(super) fn add(&mut self, name: &'static str) {
        debug_assert!(CATALOGUE.contains(&name), "{name} is not in the catalogue");
        *self.seen.entry(name).or_default() += 1;
    }

    /// Adds what another run has counted.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.seen {
            *self.seen.entry(name).or_default() += count;
        }
        let (sum, one) = (&mut self.tally, &other.tally);
        sum.streams += one.streams;
        sum.publications += one.publications;
        sum.events += one.events;
        sum.lost += one.lost;
        sum.flows += one.flows;
        sum.items += one.items;
    }

    /// What never occurred.
    pub fn zeros(&self) -> Vec<&'static str> {
        let never = |name: &&&str| !self.seen.contains_key(**name);
        CATALOGUE.iter().filter(never).copied().collect()
    }

    /// All of it, one line each.
    pub fn print(&self, mut line: impl FnMut(String)) {
        for name in CATALOGUE {
            let count = self.seen.get(name).copied().unwrap_or_default();
            line(format!("{count:>12}  {name}"));
        }
        let Tally {
            streams,
            publications,
            events,
            lost,
            flows,
            items,
        } = self.tally;
        line(format!(
            "checked: {streams} streams, {publications} publications, {events} events read and {lost} \
             told as lost, {flows} flows, {items} items"
        ));
    }
}
