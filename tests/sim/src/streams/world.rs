//! Links between a server with a hub and its clients, and one step after another.

use std::collections::{BTreeMap, VecDeque};

use antiphon::CloseReason;
use antiphon::session::Phase;
use antiphon_test_support::random::Random;

use super::checks::{Broken, Checked};
use super::client::{Life, Stream};
use super::counts::Counts;
use super::end::{End, Tag};
use super::flowing::{Flow, ReaderLife};
use super::hub::Hub;
use super::plant::Plant;
use super::settings::{self, Settings, TOPICS};
use super::wire_book::{Made, WireBook};
use crate::kinds;
use crate::runner::{Options, at_step, leftover};
use crate::sessions::pipe::{Ears, Pipe, WireKind};
use crate::trace::Trace;

/// A server, a client, and what lies between them.
pub(super) struct Link {
    /// The server's end and the client's.
    pub(super) ends: [End; 2],
    /// What goes from the end of this number to the other.
    pub(super) pipes: [Pipe; 2],
    pub(super) settings: Settings,
    /// What each end says.
    pub(super) books: [WireBook; 2],
    /// Reads what the client is about to take.
    pub(super) ears: Ears,
    /// The streams that the server has given up, in the order in which the client is told.
    pub(super) given: VecDeque<u64>,
    /// The connection's number in the hub.
    pub(super) key: u64,
}

/// Everything there is in one run.
pub(super) struct World {
    pub(super) rng: Random,
    pub(super) now: u64,
    pub(super) links: Vec<Link>,
    pub(super) hub: Hub,
    /// The streams of all clients.
    pub(super) streams: BTreeMap<u64, Stream>,
    pub(super) flows: BTreeMap<u64, Flow>,
    pub(super) made: BTreeMap<u64, Made>,
    pub(super) plant: Option<Plant>,
    pub(super) counts: Counts,
    pub(super) trace: Trace,
    pub(super) steps: u64,
    pub(super) is_healed: bool,
    last: u64,
    last_key: u64,
    options: Options<Plant>,
    /// Kinds of step that are left out: bit n is the n-th of `KINDS`.
    off: u64,
}

const MILLI: u64 = 1_000_000;

/// What a step does, each with its weight: how often, relative to the others.
pub(super) const KINDS: [(Kind, u64); 24] = [
    (Kind::Read, 22),
    (Kind::Write, 20),
    (Kind::Work, 12),
    (Kind::Feed, 10),
    (Kind::Flows, 12),
    (Kind::Publish, 12),
    (Kind::Emit, 8),
    (Kind::Make, 10),
    (Kind::Answer, 8),
    (Kind::ReadStream, 14),
    (Kind::ReadFlow, 12),
    (Kind::OpenStream, 6),
    (Kind::CloseStream, 3),
    (Kind::OpenFlow, 4),
    (Kind::PassFlow, 2),
    (Kind::DropReader, 1),
    (Kind::Slow, 2),
    (Kind::Unsubscribe, 4),
    (Kind::GiveUp, 1),
    (Kind::Time, 6),
    (Kind::Stall, 2),
    (Kind::PutIn, 3),
    (Kind::Break, 1),
    (Kind::Reconnect, 3),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Work,
    Feed,
    Flows,
    Publish,
    Emit,
    Make,
    Answer,
    ReadStream,
    ReadFlow,
    OpenStream,
    CloseStream,
    OpenFlow,
    PassFlow,
    DropReader,
    Slow,
    Unsubscribe,
    GiveUp,
    Time,
    Stall,
    PutIn,
    Break,
    Reconnect,
}

impl World {
    pub(super) fn new(seed: u64, options: Options<Plant>) -> Self {
        let mut rng = Random::for_purpose(seed, 0x57_4ea1);
        let mut now = 0;
        if options.plant == Some(Plant::Leftover) {
            now += leftover();
        }
        // Runs differ in kind.
        let off = kinds::draw_off(&KINDS, &mut rng, (4, 40), 3);
        let mut world = Self {
            hub: Hub::new(settings::topics(&mut rng), options.plant),
            now,
            links: Vec::new(),
            streams: BTreeMap::new(),
            flows: BTreeMap::new(),
            made: BTreeMap::new(),
            plant: options.plant,
            counts: Counts::default(),
            trace: Trace::new(options.trace),
            steps: 0,
            is_healed: false,
            // No code of an error is as large.
            last: 100_000,
            last_key: 0,
            off: off | options.without,
            options,
            rng,
        };
        for _ in 0..world.rng.size(1, 3) {
            let link = world.connect();
            world.links.push(link);
        }
        world
    }

    /// A number that nothing else has.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A new connection.
    fn connect(&mut self) -> Link {
        let settings = Settings::draw(&mut self.rng);
        self.counts.add(match settings.wire {
            WireKind::Messages => "wire: messages",
            _ => "wire: stream",
        });
        self.last_key += 1;
        self.hub.join(self.last_key, settings.feeds);
        let mut end = || End::new(&settings, self.now, &mut self.rng);
        let wire = settings.wire;
        Link {
            ends: [end(), end()],
            pipes: [Pipe::new(wire), Pipe::new(wire)],
            settings,
            books: [WireBook::new(wire), WireBook::new(wire)],
            ears: Ears::new(wire),
            given: VecDeque::new(),
            key: self.last_key,
        }
    }

    /// Everything that may happen, in any order.
    pub(super) fn safety(&mut self) -> Checked {
        let drawn = self.rng.within(150, 400);
        let steps = self.options.steps.unwrap_or(drawn);
        while self.steps < steps {
            self.steps += 1;
            at_step(self.steps);
            let bit = kinds::draw(&KINDS, &mut self.rng);
            let link = self.rng.size(0, self.links.len() - 1);
            let at = self.rng.size(0, 1);
            if self.off >> bit & 1 == 0 {
                self.trace
                    .mix((bit as u64) << 8 | (link as u64) << 1 | at as u64);
                self.step(KINDS[bit].0, link, at)?;
                self.after(link)?;
                self.trace.say(|| {
                    let ends = &self.links[link].ends;
                    let [one, two] = [0, 1].map(|at| ends[at].session.phase());
                    let kind = KINDS[bit].0;
                    format!(
                        "{} {kind:?} link {link} end {at}: {one:?}, {two:?}",
                        self.steps
                    )
                });
            }
        }
        Ok(())
    }

    fn step(&mut self, kind: Kind, link: usize, at: usize) -> Checked {
        match kind {
            Kind::Read => {
                for _ in 0..self.rng.within(1, 3) {
                    self.read(link, at)?;
                }
            }
            Kind::Write => {
                self.write(link, at)?;
            }
            Kind::Work => {
                self.work(link, at)?;
            }
            Kind::Feed => {
                self.drain_feed(link)?;
            }
            Kind::Flows => {
                self.move_flows(link, at)?;
            }
            Kind::Publish => {
                for _ in 0..self.rng.pick(&[1, 1, 2, 6]) {
                    let topic = self.rng.pick(&TOPICS);
                    self.publish(topic)?;
                }
            }
            Kind::Emit => {
                for _ in 0..self.rng.pick(&[1, 2, 6]) {
                    self.emit(link)?;
                }
            }
            Kind::Make => {
                for _ in 0..self.rng.within(1, 3) {
                    self.make_item(link, at)?;
                }
            }
            Kind::Answer => {
                self.answer_pull(link, at);
            }
            Kind::ReadStream => {
                if let Some(stream) = self.stream_of(link) {
                    for _ in 0..self.rng.within(1, 4) {
                        self.read_stream(stream)?;
                    }
                }
            }
            Kind::ReadFlow | Kind::DropReader => {
                let readers = self.links[link].ends[at].flows.readers.len();
                if readers > 0 {
                    let reader = self.rng.size(0, readers - 1);
                    match kind {
                        Kind::ReadFlow => {
                            self.read_item(link, at, reader)?;
                        }
                        _ => self.drop_reader(link, at, reader)?,
                    }
                }
            }
            Kind::OpenStream => self.open_stream(link)?,
            Kind::CloseStream => {
                if let Some(stream) = self.stream_of(link) {
                    self.close_stream(stream)?;
                }
            }
            Kind::OpenFlow => self.open_flow(link, at)?,
            Kind::PassFlow => self.pass_flow(link, at)?,
            Kind::Slow => {
                self.answer_slow(link, at);
            }
            Kind::Unsubscribe => self.unsubscribe(link),
            Kind::GiveUp => self.give_up(link)?,
            Kind::Time => {
                self.now += self.rng.within(0, 300) * MILLI;
                self.tell_time(link, at);
            }
            Kind::Stall => {
                let pipe = &mut self.links[link].pipes[at];
                pipe.is_stalled = !pipe.is_stalled;
                self.counts.add("fault: stall");
            }
            Kind::PutIn => self.put_in(link, at),
            Kind::Break => {
                if self.rng.chance(60) {
                    self.break_link(link, at);
                }
            }
            Kind::Reconnect => {
                self.reconnect(link)?;
            }
        }
        Ok(())
    }

    /// A stream of a link that has a reader.
    fn stream_of(&mut self, link: usize) -> Option<u64> {
        let streams = self.streams.iter();
        let own = streams.filter(|(_, stream)| stream.link == link && stream.route().is_some());
        let own: Vec<u64> = own.map(|(number, _)| *number).collect();
        match own.is_empty() {
            true => None,
            false => Some(self.rng.pick(&own)),
        }
    }

    /// What has to happen after everything: calls settle, and what waited for an answer goes on.
    pub(super) fn after(&mut self, link: usize) -> Checked {
        for at in [0, 1] {
            while let Some(settled) = self.links[link].ends[at].session.poll_settled() {
                let (call, outcome) = (settled.call, settled.outcome);
                match settled.waiter {
                    Tag::Ask | Tag::Unsubscribe => {}
                    Tag::Topic(stream) | Tag::Sub(stream) => {
                        self.settle_stream(stream, &outcome)?;
                    }
                    Tag::Flow(number) => self.settle_flow(link, at, number, &outcome)?,
                    Tag::Pass => self.end_passed(link, at, call),
                    Tag::Pull(pull) => self.settle_pull(link, at, call, pull, outcome)?,
                }
            }
            self.end_flows(link, at);
            let end = &self.links[link].ends[at];
            self.trace.say(|| {
                let session = &end.session;
                let (calls, requests) = (session.calls_open(), session.requests_open());
                let is_idle = calls == 0 && requests == 0 && !session.has_transmit();
                match is_idle && session.phase() == Phase::Draining {
                    true => format!("  end {at} drains, and nothing is open"),
                    false => format!("  end {at}: {calls} calls, {requests} requests"),
                }
            });
        }
        self.open_answered(link)?;
        self.end_pipes(link)
    }

    /// Whether a link can be opened again.
    pub(super) fn is_over(&self, link: usize) -> bool {
        self.links[link].ends.iter().all(|end| end.is_over)
    }

    /// Opens a link again whose ends are both over, and its streams over the new connection.
    pub(super) fn reconnect(&mut self, link: usize) -> Result<bool, Broken> {
        if !self.is_over(link) {
            return Ok(false);
        }
        self.counts.add("fault: reconnected");
        // All that has come is read before, and ends are told.
        let streams = self.streams.iter();
        let own = streams.filter(|(_, stream)| stream.link == link && stream.route().is_some());
        let own: Vec<u64> = own.map(|(number, _)| *number).collect();
        for number in own {
            while self.streams[&number].route().is_some() && self.read_stream(number)? {}
        }
        for at in [0, 1] {
            self.end_readers(link, at)?;
        }
        let made = self.connect();
        self.links[link] = made;
        let waiting = self.streams.iter();
        let waiting = waiting.filter(|(_, one)| one.link == link && one.life == Life::Waiting);
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            self.counts
                .add("stream: subscribes again after a reconnect");
            self.subscribe(number, false)?;
        }
        Ok(true)
    }

    /// Reads the flows of an end whose connection is over to their ends.
    fn end_readers(&mut self, link: usize, at: usize) -> Checked {
        self.end_flows(link, at);
        let mut reader = 0;
        while reader < self.links[link].ends[at].flows.readers.len() {
            let before = self.links[link].ends[at].flows.readers.len();
            let life = self.links[link].ends[at].flows.readers[reader].life;
            match life {
                ReaderLife::Open(_) => {
                    if !self.read_item(link, at, reader)? {
                        let why = format!("link {link}: a reader gets no end");
                        return Err(super::checks::Check::FlowsEnd.broken(why));
                    }
                }
                _ => {
                    self.links[link].ends[at].flows.readers.swap_remove(reader);
                }
            }
            let after = self.links[link].ends[at].flows.readers.len();
            if after == before {
                reader += usize::from(!matches!(life, ReaderLife::Open(_)));
            }
        }
        Ok(())
    }

    /// Tells a session the present, so that what is due ends.
    pub(super) fn tell_time(&mut self, link: usize, at: usize) {
        let end = &mut self.links[link].ends[at];
        end.present(self.now);
        end.session.handle_timeout(end.told);
    }

    fn break_link(&mut self, link: usize, at: usize) {
        let streams = self.streams.values();
        let mut open = streams.filter(|one| one.link == link && one.route().is_some());
        let has_open = open.next().is_some();
        let end = &mut self.links[link].ends[at];
        match self.rng.below(6) {
            0 => {
                self.counts.add("end: drain");
                end.drains = true;
                end.session.drain();
            }
            1 => {
                self.counts.add("end: close");
                end.session.close(CloseReason::Done);
            }
            way => self.break_wire(link, at, way),
        }
        if has_open && self.links[link].ends[1].session.phase() == Phase::Open {
            self.counts.add("fault: cut with open streams");
        }
    }
}
