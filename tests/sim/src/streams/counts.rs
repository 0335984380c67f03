//! How often everything has happened that can happen to streams, and how much was checked. What has
//! never happened was not tested.

/// Everything that is counted.
const CATALOGUE: &[&str] = &[
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

impl crate::runner::Tally for Tally {
    const CATALOGUE: &'static [&'static str] = CATALOGUE;

    fn add(&mut self, one: &Self) {
        self.streams += one.streams;
        self.publications += one.publications;
        self.events += one.events;
        self.lost += one.lost;
        self.flows += one.flows;
        self.items += one.items;
    }

    fn line(&self) -> Option<String> {
        let Self {
            streams,
            publications,
            events,
            lost,
            flows,
            items,
        } = self;
        Some(format!(
            "checked: {streams} streams, {publications} publications, {events} events read and {lost} \
             told as lost, {flows} flows, {items} items"
        ))
    }
}

pub(super) type Counts = crate::runner::Counts<Tally>;
