//! The world of one run: nodes, the links between them, the clock, and what a step does.
//!
//! A run has two phases. *Safety*: steps by chance, faults and all; after every step the invariants
//! that hold at any moment are checked at every end. *Liveness* (`healing`): no new fault and no new
//! work; what is open has to settle within [`LIVENESS_NANOS`](crate::healing::LIVENESS_NANOS).

use antiphon::Framing;

use crate::checks::{Check, Checked};
use crate::counts::Counts;
use crate::end::End;
use crate::hostile::Hostile;
use crate::observer::{Frame, ItemKind, read_frame};
use crate::plant::Plant;
use crate::settings;
use crate::trace::Trace;
use crate::wire::{Spoilt, Wire};
use antiphon_test_support::random::Random;

/// One millisecond of virtual time, in nanoseconds.
pub const MILLI: u64 = 1_000_000;

/// How what has arrived is handed to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// In pieces by chance; sometimes reading stops half way, and clocks stand still or step back.
    Chance,
    /// In pieces by chance.
    Pieces,
    /// As much as fits.
    Whole,
    /// One byte at a time.
    Bytes,
    /// Three runs, by `Pieces`, `Whole` and `Bytes`, which have to be the same.
    Each,
}

impl Split {
    /// The split with this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [
            Self::Chance,
            Self::Pieces,
            Self::Whole,
            Self::Bytes,
            Self::Each,
        ];
        all.into_iter().find(|split| format!("{split:?}") == name)
    }
}

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionConfig {
    /// Steps of the safety phase; `None`: as many as chance says.
    pub steps: Option<u64>,
    /// Actions that are never taken: bit n is the n-th of `ACTIONS` in `steps`.
    pub without: u64,
    /// How input is split.
    pub split: Split,
    /// A planted fault.
    pub plant: Option<Plant>,
    /// Print every step.
    pub trace: bool,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            steps: None,
            without: 0,
            split: Split::Chance,
            plant: None,
            trace: false,
        }
    }
}

/// Two ends and the two directions between them. `wires[i]` carries what `ends[i]` writes.
pub struct Link {
    /// The ends. The second is not used if a hostile peer plays it.
    pub ends: [End; 2],
    /// The directions.
    pub wires: [Wire; 2],
    /// Plays the second end, if there is one.
    pub hostile: Option<Hostile>,
    /// How often the link was opened before.
    pub epoch: u64,
    /// How many bytes a direction carries before its writer has to wait.
    pub window: usize,
    /// The most that a byte travels, in nanoseconds.
    pub latency: u64,
}

/// Everything there is in one run.
pub struct World {
    /// Chance.
    pub rng: Random,
    /// Chance that decides nothing but how input is split.
    pub split_rng: Random,
    /// How the run is made.
    pub options: ConnectionConfig,
    /// The present, in nanoseconds.
    pub now: u64,
    /// The links.
    pub links: Vec<Link>,
    /// The node at which each end stands.
    pub nodes: Vec<usize>,
    /// What has occurred.
    pub counts: Counts,
    /// What happened.
    pub trace: Trace,
    /// No new work and no new fault.
    pub healing: bool,
    /// When healing began, in nanoseconds.
    pub healed: u64,
    /// Steps so far.
    pub steps: u64,
    /// Calls that have settled by an event.
    pub settled: u64,
    /// The last mark that was given out.
    marks: u64,
}

impl World {
    /// The world that follows from a seed.
    pub fn new(seed: u64, options: ConnectionConfig) -> Self {
        let mut rng = Random::for_purpose(seed, 1);
        let links = rng.size(2, 8);
        let star = rng.chance(50);
        let mut nodes = Vec::new();
        let mesh = [
            (0, 1),
            (0, 2),
            (1, 2),
            (0, 3),
            (1, 3),
            (2, 3),
            (0, 4),
            (1, 4),
        ];
        for (link, meshed) in mesh.into_iter().enumerate().take(links) {
            let (from, to) = if star { (0, link + 1) } else { meshed };
            nodes.extend([from, to]);
        }
        let mut world = Self {
            split_rng: Random::for_purpose(seed, 2),
            options,
            now: rng.within(1, 1000) * MILLI,
            links: Vec::new(),
            nodes,
            counts: Counts::default(),
            trace: Trace::new(options.trace),
            healing: false,
            healed: 0,
            steps: 0,
            settled: 0,
            marks: 10_000,
            rng,
        };
        for link in 0..links {
            let made = world.open(link, 0);
            world.links.push(made);
        }
        world
    }

    /// A link that has just been opened.
    pub fn open(&mut self, link: usize, epoch: u64) -> Link {
        let connection = (epoch * 8 + link as u64) as u32;
        let mut pair = settings::pair(&mut self.rng, connection);
        if self.options.split != Split::Chance {
            // Which calls are joined to a batch depends on when output is taken, and that on how input
            // is split.
            for end in &mut pair.ends {
                end.limits.max_joined_calls = 0;
            }
        }
        let [first, second] = pair.ends;
        self.trace.say(|| match pair.hostile {
            true => format!("link {link} opens: {first:?} and a hostile peer"),
            false => format!("link {link} opens: {first:?} and {second:?}"),
        });
        let (honest, now, plant) = (!pair.hostile, self.now, self.options.plant);
        let hostile = pair.hostile.then(|| Hostile::new(&first, &mut self.rng));
        Link {
            ends: [first, second].map(|config| End::new(config, honest, now, plant)),
            wires: [Wire::default(), Wire::default()],
            hostile,
            epoch,
            window: self.rng.pick(&[200, 1000, 5000]),
            latency: self.rng.pick(&[1, 10, 100, 400]) * MILLI,
        }
    }

    /// An end by its place among all.
    pub fn end(&mut self, e: usize) -> &mut End {
        &mut self.links[e / 2].ends[e % 2]
    }

    /// Whether a connection plays this end, and no hostile peer.
    pub fn is_real(&self, e: usize) -> bool {
        e % 2 == 0 || self.links[e / 2].hostile.is_none()
    }

    /// Whether the peer of this end is a connection too.
    pub(crate) fn is_honest(&self, e: usize) -> bool {
        self.links[e / 2].hostile.is_none()
    }

    /// A mark that nothing else has.
    pub fn mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }

    /// Counts a fault, unless all is being healed.
    pub fn fault(&mut self, name: &'static str) {
        if !self.healing {
            self.counts.add(name);
        }
    }

    /// Checks every invariant that holds at any moment, at every end.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Checked {
        for link in &self.links {
            let real = if link.hostile.is_some() { 1 } else { 2 };
            for end in &link.ends[..real] {
                end.check()?;
            }
        }
        Ok(())
    }

    /// Lets an end write up to `most` bytes of its output, or one whole message; with `take`, all of it.
    /// Nothing is written while the window is full.
    ///
    /// # Errors
    /// If something else leaves than what was said.
    pub fn write(&mut self, e: usize, most: usize, take: bool) -> Checked {
        let (now, healing, plant) = (self.now, self.healing, self.options.plant);
        let link = &mut self.links[e / 2];
        let (end, wire) = (&mut link.ends[e % 2], &mut link.wires[e % 2]);
        if wire.waiting() >= link.window && !wire.shut && !healing {
            self.fault("fault: window full");
            return Ok(());
        }
        let bytes = if take {
            let mut bytes = Vec::new();
            end.run_write(|conn| conn.take_transmit(&mut bytes));
            bytes
        } else {
            let shown = end.conn.poll_transmit().unwrap_or_default();
            let whole = end.config.framing == Framing::Messages;
            let n = if whole {
                shown.len()
            } else {
                most.min(shown.len())
            };
            let bytes = shown[..n].to_vec();
            end.run_write(|conn| conn.consume_transmit(n));
            bytes
        };
        if bytes.is_empty() {
            return Ok(());
        }
        self.trace.bytes(&bytes);
        self.trace
            .say(|| format!("  {e} writes {:?}", String::from_utf8_lossy(&bytes)));
        let mut frames = Vec::new();
        let mut seen = bytes.clone();
        if plant == Some(Plant::OutputDamaged) && seen[0] == b'{' {
            seen[0] = b'x';
        }
        let read = end.observer.feed(&seen, &mut frames);
        read.map_err(|why| Check::OutputValid.broken(why))?;
        twist(&mut frames, plant);
        for frame in &frames {
            end.book.has_left(frame, &end.config)?;
        }
        let delay = if healing {
            5 * MILLI
        } else {
            1 + self.rng.below(link.latency)
        };
        let single = frames.len() == 1 && frames[0].bytes + 1 >= bytes.len();
        let answer = single && matches!(frames[0].items[0].kind, ItemKind::Ok);
        wire.send(bytes, now + delay);
        if let Some(hostile) = &mut link.hostile {
            frames.iter().for_each(|frame| hostile.hears(frame));
        } else {
            frames.into_iter().for_each(|frame| wire.expect(frame));
        }
        if wire.shut || link.hostile.is_some() {
            return Ok(());
        }
        match plant {
            Some(Plant::FrameLost) if single => wire.spoil(Spoilt::Lost),
            Some(Plant::AnswerDelivered) if answer => wire.spoil(Spoilt::Twice),
            Some(Plant::ByteLost) => wire.spoil(Spoilt::Byte),
            _ => {}
        }
        Ok(())
    }

    /// The message shown could not be delivered.
    ///
    /// # Errors
    /// If it is not what was said.
    pub fn fail_write(&mut self, e: usize) -> Checked {
        let plant = self.options.plant;
        let end = self.end(e);
        let Some(shown) = end.conn.poll_transmit() else {
            return Ok(());
        };
        let Some(frame) = read_frame(shown) else {
            return Err(Check::OutputValid.broken("unreadable message"));
        };
        end.book.has_left(&frame, &end.config)?;
        for item in &frame.items {
            let call = item.mark.and_then(|mark| end.book.calls.get_mut(&mark));
            if let Some(call) = call.filter(|_| plant != Some(Plant::UnsentLie)) {
                call.left = false;
            }
        }
        // The message may be an answer without a mark, which does not tell its request: so none of those
        // that were delivered here is expected to be answered any more.
        end.book.delivered.clear();
        end.run_write(|conn| conn.fail_transmit());
        self.fault("fault: message lost before it left");
        Ok(())
    }

    /// Closes the wires of ends that are over, lets a hostile peer of such an end hang up, by chance, and
    /// opens a link again whose ends are all closed.
    pub fn tidy(&mut self, l: usize) -> Checked {
        let real = if self.links[l].hostile.is_some() {
            1
        } else {
            2
        };
        for side in 0..real {
            let link = &mut self.links[l];
            let end = &link.ends[side];
            let over = end.conn.is_closed()
                || end.book.closed.is_some()
                    && end.conn.requests_open() == 0
                    && end.conn.poll_transmit().is_none();
            if over {
                link.wires[side].shut = true;
                link.wires[side].stalled = false;
            }
        }
        let link = &mut self.links[l];
        if link.hostile.is_some()
            && link.wires[0].shut
            && !link.wires[1].shut
            && self.rng.chance(10)
        {
            link.wires[1].shut = true;
        }
        let all_closed = link.ends[..real].iter().all(|end| end.conn.is_closed());
        if !all_closed || self.healing {
            return Ok(());
        }
        self.check_end(l)?;
        let epoch = self.links[l].epoch + 1;
        self.links[l] = self.open(l, epoch);
        self.fault("fault: reopened");
        Ok(())
    }

    /// What has to hold of a link that is over: every call has settled, and every answer that was given
    /// has left, unless the connection has dropped its output.
    ///
    /// # Errors
    /// What does not.
    pub fn check_end(&self, l: usize) -> Checked {
        let link = &self.links[l];
        let real = if link.hostile.is_some() { 1 } else { 2 };
        for end in &link.ends[..real] {
            let book = &end.book;
            Check::SettlesOnce.that(book.calls.is_empty(), || {
                format!("{} calls never settled", book.calls.len())
            })?;
            let is_owed = |said: &&crate::book::Said| matches!(said, crate::book::Said::Answer(_));
            let owed = book.said.iter().find(is_owed);
            Check::AnsweredOnce.that(book.silenced || owed.is_none(), || {
                format!("{owed:?} was given and never left")
            })?;
        }
        Ok(())
    }
}

/// Changes the frames that leave as the planted fault says.
fn twist(frames: &mut Vec<Frame>, plant: Option<Plant>) {
    let is_answer = |frame: &Frame| !frame.array && frame.items[0].kind == ItemKind::Ok;
    match plant {
        Some(Plant::FramesSwapped) if frames.len() > 1 => frames.swap(0, 1),
        Some(Plant::AnswerTwice) => {
            if let Some(answer) = frames.iter().find(|frame| is_answer(frame)) {
                let twice = answer.clone();
                frames.push(twice);
            }
        }
        Some(Plant::IdRespelled) => {
            for frame in frames.iter_mut().filter(|frame| is_answer(frame)) {
                if let Some(id) = &mut frame.items[0].id {
                    *id = format!("{id}.0");
                }
            }
        }
        _ => {}
    }
}
