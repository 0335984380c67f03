//! The liveness phase: all is repaired, and then everything has to end or to come.

use super::checks::{Broken, Check, Checked};
use super::client::{Life, Source};
use super::flowing::ReaderLife;
use super::plant::Plant;
use super::settings::TOPICS;
use super::world::World;

/// All has to settle within so much virtual time after healing, in nanoseconds.
pub(super) const BOUND_NANOS: u64 = 30_000_000_000;

/// How far the clock goes on when nothing else happens, in nanoseconds.
const TICK_NANOS: u64 = 100_000_000;

/// All settles within so many rounds in which each end has a turn.
const MAX_TURNS: usize = 20_000;

impl World {
    /// Heals everything, and checks that all comes to its end. Returns how much virtual time it took.
    pub(super) fn liveness(&mut self) -> Result<u64, Broken> {
        self.is_healed = true;
        let start = self.now;
        for link in &mut self.links {
            for pipe in &mut link.pipes {
                pipe.is_stalled = self.plant == Some(Plant::StaysStalled);
            }
        }
        self.settle()?;
        // Links that were lost are opened again, once.
        for link in 0..self.links.len() {
            if self.links[link].ends.iter().any(|end| end.is_closed()) {
                let time = self.now;
                while !self.reconnect(link)? {
                    let is_late = self.now - time > BOUND_NANOS;
                    Check::Settles.that(!is_late, || format!("link {link} does not end"))?;
                    self.settle()?;
                    self.now += TICK_NANOS;
                    self.tell_all();
                }
            }
        }
        self.settle()?;
        for link in 0..self.links.len() {
            self.nothing_is_left(link)?;
        }
        for topic in TOPICS {
            self.all_get(topic)?;
        }
        self.all_events_come()?;
        Ok(self.now - start)
    }

    fn tell_all(&mut self) {
        for link in 0..self.links.len() {
            for at in [0, 1] {
                self.tell_time(link, at);
            }
        }
    }

    /// Has all ends take turns until nothing is left to do, however long the answers take.
    fn settle(&mut self) -> Checked {
        let (start, mut turns) = (self.now, 0);
        loop {
            turns += 1;
            Check::Settles.that(turns < MAX_TURNS, || "turns without end".into())?;
            let mut has_moved = false;
            for link in 0..self.links.len() {
                for at in [0, 1] {
                    has_moved |= self.turn(link, at)?;
                }
            }
            if has_moved {
                continue;
            }
            let mut late = None;
            for link in 0..self.links.len() {
                late = late.or(self.unsettled(link));
            }
            let Some((check, why)) = late else {
                return Ok(());
            };
            check.that(self.now - start < BOUND_NANOS, || why)?;
            let ends = self.links.iter().flat_map(|link| &link.ends);
            let due = ends.filter_map(super::end::End::due).min();
            let next = due.map_or(self.now + TICK_NANOS, |due| {
                due.as_nanos().max(self.now + 1)
            });
            self.now = next.min(self.now + TICK_NANOS);
            self.tell_all();
            for link in 0..self.links.len() {
                self.after(link)?;
            }
        }
    }

    /// What of a link is not settled, and the check that this breaks in the end.
    fn unsettled(&self, link: usize) -> Option<(Check, String)> {
        let one = &self.links[link];
        let waiting = self.hub.waiting(one.key);
        if waiting > 0 {
            return Some((Check::FeedsDrain, format!("link {link}: {waiting} wait")));
        }
        for (at, end) in one.ends.iter().enumerate() {
            if end.is_over {
                continue;
            }
            if !end.flows.is_at_rest() {
                let why = format!(
                    "link {link}, end {at}: produced {:?}, {} held, {:?}",
                    end.flows.producing,
                    end.flows.held.len(),
                    end.flows.consumers
                );
                let is_written = !end.session.has_transmit() && end.output.is_empty();
                let check = match is_written {
                    true => Check::FlowsEnd,
                    false => Check::Settles,
                };
                return Some((check, why));
            }
            let is_quiet = end.session.calls_open() == 0
                && end.session.requests_open() == 0
                && end.output.is_empty()
                && !end.session.has_transmit()
                && one.pipes[at].waiting() == 0;
            let is_ending = end.is_closed();
            if !is_quiet || is_ending {
                let why = format!("link {link}, end {at}: {:?}", end.session);
                return Some((Check::Settles, why));
            }
        }
        None
    }

    /// One turn of an end that does all it can. Returns whether it did anything.
    fn turn(&mut self, link: usize, at: usize) -> Result<bool, Broken> {
        let mut has_moved = false;
        while self.read(link, at)? {
            has_moved = true;
        }
        has_moved |= self.work(link, at)?;
        while self.answer_slow(link, at) {
            has_moved = true;
        }
        self.after(link)?;
        while self.make_item(link, at)? {
            has_moved = true;
        }
        while self.answer_pull(link, at) {
            has_moved = true;
        }
        has_moved |= self.move_flows(link, at)?;
        let mut reader = 0;
        while reader < self.links[link].ends[at].flows.readers.len() {
            match self.read_item(link, at, reader)? {
                true => has_moved = true,
                false => reader += 1,
            }
        }
        has_moved |= self.move_flows(link, at)?;
        if at == 0 {
            has_moved |= self.drain_feed(link)?;
        } else {
            self.unsubscribe(link);
            let numbers: Vec<u64> = self.streams.keys().copied().collect();
            for number in numbers {
                while self.streams[&number].link == link && self.read_stream(number)? {
                    has_moved = true;
                }
            }
        }
        self.after(link)?;
        while self.write(link, at)? {
            has_moved = true;
        }
        Ok(has_moved)
    }

    /// The server has no subscription without a reader.
    fn nothing_is_left(&self, link: usize) -> Checked {
        let one = &self.links[link];
        let is_read = |number: &u64| {
            let stream = self.streams.get(number);
            stream.is_some_and(|stream| matches!(stream.life, Life::Open(_)))
        };
        let left = one.ends[0].subs.iter().find(|sub| !is_read(&sub.stream));
        Check::NothingLeft.that(left.is_none(), || format!("link {link}: {left:?}"))?;
        for pattern in self.hub.patterns_of(one.key) {
            let mut streams = self.streams.values();
            let source = Source::Topic(pattern.clone());
            let is_read = streams.any(|stream| {
                stream.link == link
                    && stream.source == source
                    && matches!(stream.life, Life::Open(_))
            });
            Check::NothingLeft.that(is_read, || format!("link {link}: {pattern}"))?;
        }
        for end in &one.ends {
            let readers = &end.flows.readers;
            let left = readers.iter().find(|one| one.life != ReaderLife::Unwanted);
            Check::FlowsEnd.that(left.is_none(), || format!("link {link}: a reader is left"))?;
        }
        Ok(())
    }

    /// Every open stream of a topic gets what is published now, or is told that it was lost.
    fn all_get(&mut self, topic: &'static str) -> Checked {
        let streams = self.streams.iter();
        let open = streams.filter_map(|(number, stream)| match (&stream.source, stream.life) {
            (Source::Topic(pattern), Life::Open(_)) if pattern.matches(topic) => {
                Some((*number, stream.read))
            }
            _ => None,
        });
        let open: Vec<(u64, u64)> = open.collect();
        if self.plant == Some(Plant::HubForgets) {
            let key = self.links[0].key;
            self.hub.pass_over(key);
        }
        self.publish(topic)?;
        self.settle()?;
        for (number, before) in open {
            let stream = &self.streams[&number];
            let is_told = stream.read > before || !matches!(stream.life, Life::Open(_));
            Check::AllLater.that(is_told, || format!("{number} misses {topic}: {stream:?}"))?;
        }
        Ok(())
    }

    /// Every open subscription of a dialect gets an event.
    fn all_events_come(&mut self) -> Checked {
        let read = |world: &Self| -> Vec<(u64, u64)> {
            let streams = world.streams.iter();
            let open = streams.filter(|(_, stream)| {
                matches!(
                    (&stream.source, stream.life),
                    (Source::Sub(_), Life::Open(_))
                )
            });
            open.map(|(number, stream)| (*number, stream.read))
                .collect()
        };
        let open = read(self);
        for link in 0..self.links.len() {
            for sub in self.links[link].ends[0].subs.clone() {
                // The output may have space for one.
                self.emit_to(link, &sub)?;
                self.settle()?;
            }
        }
        for (number, before) in open {
            let stream = &self.streams[&number];
            let is_told = stream.read > before || !matches!(stream.life, Life::Open(_));
            Check::AllLater.that(is_told, || format!("{number} misses its event: {stream:?}"))?;
        }
        let late = self.streams.values().find(|one| !one.expected.is_empty());
        Check::AllLater.that(late.is_none(), || format!("not read: {late:?}"))
    }
}
