//! Links between sessions, and one step after another: a pair, or a star around one application.

use std::cell::RefCell;
use std::rc::Rc;

use antiphon::service::Scheduler;
use antiphon::session::Order;

use super::book::Ending;
use super::checks::{Broken, Check, Checked};
use super::counts::Counts;
use super::layer;
use super::pipe::{End, Pipe, WireKind};
use super::plant::Plant;
use super::serving::{Membership, Plan, Wish};
use super::settings::{MAX_MESSAGE_BYTES, Settings};
use super::side::{Side, reset};
use crate::kinds;
use crate::runner::{Options, at_step};
use crate::trace::Trace;
use antiphon_test_support::random::Random;

/// Two sessions and what lies between them. The first belongs to the application in the middle.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) sides: [Side; 2],
    /// What goes from the side of this number to the other.
    pub(super) pipes: [Pipe; 2],
    settings: Settings,
    /// The transport was broken on purpose.
    pub(super) is_broken: bool,
}

/// A call on one link whose outcome answers a request that came on another.
#[derive(Debug)]
struct Relay {
    /// The link of the request.
    from: usize,
    /// The link of the call.
    to: usize,
    /// The number of the call.
    asked: u64,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) rng: Random,
    pub(super) now: u64,
    pub(super) links: Vec<Link>,
    pub(super) plant: Option<Plant>,
    pub(super) counts: Counts,
    pub(super) trace: Trace,
    pub(super) steps: u64,
    relays: Vec<Relay>,
    next_number: u64,
    options: Options<Plant>,
    /// Kinds of step that are left out: bit n is the n-th of `KINDS`.
    off: u64,
}

/// How many requests the application in the middle serves at once, over all its links.
const MAX_RUNNING: usize = 3;

/// The orders in which a side may serve, drawn by chance: half the sides have `Notifications`.
const ORDERS: [Order; 4] = [
    Order::Notifications,
    Order::Notifications,
    Order::Free,
    Order::Serial,
];

const MILLI: u64 = 1_000_000;

/// What a step does, each with its weight: how often, relative to the others.
pub(super) const KINDS: [(Kind, u64); 16] = [
    (Kind::Call, 10),
    (Kind::Batch, 3),
    (Kind::Notify, 8),
    (Kind::Flood, 1),
    (Kind::Work, 14),
    (Kind::Serve, 12),
    (Kind::Output, 12),
    (Kind::Write, 14),
    (Kind::Read, 16),
    (Kind::Time, 8),
    (Kind::Clock, 1),
    (Kind::Disturb, 4),
    (Kind::Stall, 2),
    (Kind::PutIn, 2),
    (Kind::Break, 1),
    (Kind::End, 1),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Batch,
    Notify,
    Flood,
    Work,
    Serve,
    Output,
    Write,
    Read,
    Time,
    Clock,
    Disturb,
    Stall,
    PutIn,
    Break,
    End,
}

impl World {
    pub(super) fn new(seed: u64, options: Options<Plant>) -> Self {
        let mut rng = Random::for_purpose(seed, 0x5e55_1085);
        let links = match rng.chance(60) {
            true => 1,
            false => rng.size(2, 4),
        };
        let mut counts = Counts::default();
        counts.add(if links == 1 {
            "link: pair"
        } else {
            "link: star"
        });
        let server = Rc::new(RefCell::new(Scheduler::new(MAX_RUNNING)));
        // From a random stream of its own, so that older seeds still give the runs that they gave.
        let mut orders = Random::for_purpose(seed, 0x04de_0001);
        let links = (0..links).map(|_| {
            let settings = Settings::draw(&mut rng);
            let mut side = || {
                let order = orders.pick(&ORDERS);
                Side::new(&settings, order, &mut rng, options.plant)
            };
            let mut sides = [side(), side()];
            sides[0].membership = Some(Membership::new(&server));
            Link {
                sides,
                pipes: [Pipe::new(settings.wire), Pipe::new(settings.wire)],
                settings,
                is_broken: false,
            }
        });
        let links = links.collect();
        // Runs differ in kind.
        let off = kinds::draw_off(&KINDS, &mut rng, (2, 60), 6);
        Self {
            rng,
            now: 0,
            links,
            plant: options.plant,
            counts,
            trace: Trace::new(options.trace),
            steps: 0,
            relays: Vec::new(),
            next_number: 1,
            off: off | options.without,
            options,
        }
    }

    /// Everything that may happen, in any order.
    pub(super) fn safety(&mut self) -> Checked {
        let drawn = self.rng.within(120, 260);
        let steps = self.options.steps.unwrap_or(drawn);
        while self.steps < steps {
            self.steps += 1;
            at_step(self.steps);
            let bit = kinds::draw(&KINDS, &mut self.rng);
            let link = self.rng.below(self.links.len() as u64) as usize;
            let at = self.rng.below(2) as usize;
            if self.off >> bit & 1 == 0 {
                self.trace
                    .mix((bit as u64) << 8 | (link as u64) << 1 | at as u64);
                self.step(KINDS[bit].0, link, at)?;
                self.trace.say(|| {
                    let sides = &self.links[link].sides;
                    let [one, two] = [sides[0].phase(), sides[1].phase()];
                    format!(
                        "{} {:?} link {link} side {at}: {one:?}, {two:?}",
                        self.steps, KINDS[bit].0
                    )
                });
                self.after(link)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, kind: Kind, link: usize, at: usize) -> Checked {
        let (now, rng) = (self.now, &mut self.rng);
        let Link {
            sides,
            pipes,
            settings,
            ..
        } = &mut self.links[link];
        let side = &mut sides[at];
        match kind {
            Kind::Call => {
                let span = rng.chance(50).then(|| rng.within(0, 3000));
                self.next_number += 1;
                side.call(self.next_number, now, span)?;
            }
            Kind::Batch => {
                let span = rng.chance(50).then(|| rng.within(0, 3000));
                let count = rng.within(1, 4);
                let numbers = self.next_number..self.next_number + count;
                self.next_number = numbers.end;
                side.batch(numbers, now, span)?;
            }
            Kind::Notify => {
                self.next_number += 1;
                side.notify(self.next_number)?;
            }
            Kind::Flood => {
                for _ in 0..rng.within(3, 30) {
                    self.next_number += 1;
                    side.notify(self.next_number)?;
                }
            }
            Kind::Work => {
                side.finish_notification(rng)?;
                for _ in 0..rng.within(1, 6) {
                    if !side.work(rng, false)? {
                        break;
                    }
                }
            }
            Kind::Serve => {
                let wish = side.serve(rng, false)?;
                self.grant(wish, link, at)?;
            }
            Kind::Output => {
                side.take_output()?;
            }
            Kind::Write => {
                side.take_output()?;
                side.write(&mut pipes[at], now, rng)?;
            }
            Kind::Read => {
                for _ in 0..rng.within(1, 3) {
                    side.read(&mut pipes[1 - at], now, rng)?;
                }
            }
            Kind::Time => {
                self.now += rng.within(0, 400) * MILLI;
                side.handle_timeout(self.now)?;
            }
            Kind::Clock => side.disturb_clock(now, rng)?,
            Kind::Disturb => side.disturb_call(rng)?,
            Kind::Stall => {
                let pipe = &mut pipes[at];
                pipe.is_stalled = !pipe.is_stalled;
                self.counts.add("fault: stall");
            }
            Kind::PutIn => {
                if settings.is_rough {
                    self.put_in(link, at);
                }
            }
            Kind::Break => {
                if rng.chance(40) {
                    self.break_link(link, at)?;
                }
            }
            Kind::End => {
                if rng.chance(40) {
                    match rng.below(6) {
                        0..=2 => side.drain()?,
                        3 => side.close()?,
                        4 => {
                            let fault = rng.chance(50).then(|| reset().into());
                            side.abort(fault)?;
                        }
                        _ => {
                            let fault = rng.chance(50).then(|| reset().into());
                            side.lose_peer(fault)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts into a pipe what its writer has not said. From then on the reader's book does not know what
    /// arrives.
    fn put_in(&mut self, link: usize, at: usize) {
        let Link {
            sides,
            pipes,
            settings,
            ..
        } = &mut self.links[link];
        let pipe = &mut pipes[at];
        let is_first =
            pipe.waiting() == 0 && matches!(sides[1 - at].phase(), antiphon::session::Phase::Open);
        if sides[at].is_writing() || pipe.is_broken() {
            return;
        }
        let long = format!(
            r#"{{"jsonrpc":"2.0","method":"{}"}}"#,
            "x".repeat(MAX_MESSAGE_BYTES)
        );
        let is_stream = matches!(settings.wire, WireKind::Stream(_));
        let texts = [
            "garbage",
            r#"{"jsonrpc":"2.0","result":1,"id":987654}"#,
            r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"},"id":null}"#,
            r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":987654}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":987654}}"#,
            r#"{"jsonrpc":"2.0","method":"x","id":"x"}"#,
            r#"{"jsonrpc":"2.0","method":"x"}"#,
            r#"[1,{"jsonrpc":"2.0","method":"x","id":"y"}]"#,
            &long,
        ];
        let text = self.rng.pick(&texts);
        sides[1 - at].book.is_deaf = true;
        let mut bytes = Vec::new();
        match settings.wire {
            WireKind::Stream(_) if is_stream && is_first && self.rng.chance(40) => {
                self.counts.add("fault: http");
                bytes.extend_from_slice(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n");
            }
            WireKind::Stream(antiphon::Framing::ContentLength) if self.rng.chance(85) => {
                bytes.extend_from_slice(
                    format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes(),
                );
            }
            WireKind::Stream(_) => bytes.extend_from_slice(format!("{text}\n").as_bytes()),
            WireKind::Messages => bytes.extend_from_slice(text.as_bytes()),
            WireKind::Layered if self.rng.chance(15) => {
                self.counts.add("fault: broken layer");
                layer::frame(b'?', b"", &mut bytes);
            }
            WireKind::Layered => layer::frame(layer::MESSAGE, text.as_bytes(), &mut bytes),
        }
        self.counts.add("fault: garbage");
        pipe.put(&bytes);
    }

    /// Breaks a transport: cuts both directions, closes one, or fails a write or the reading of one side.
    fn break_link(&mut self, link: usize, at: usize) -> Checked {
        let Link {
            sides,
            pipes,
            is_broken,
            ..
        } = &mut self.links[link];
        *is_broken = true;
        match self.rng.below(4) {
            0 => {
                self.counts.add("fault: cut");
                for pipe in pipes {
                    let keep = self.rng.size(0, pipe.waiting());
                    if pipe.cut(keep) {
                        self.counts.add("fault: cut loses bytes");
                    }
                }
            }
            1 => {
                self.counts.add(match sides[at].is_writing() {
                    true => "fault: half-close in a message",
                    false => "fault: half-close",
                });
                pipes[at].end = End::Closed;
            }
            2 => sides[at].fail_write()?,
            _ => {
                pipes[1 - at].is_unread = true;
                sides[at].fail_read()?;
            }
        }
        Ok(())
    }

    /// Does what a handler wants done.
    fn grant(&mut self, wish: Wish, link: usize, at: usize) -> Checked {
        match wish {
            Wish::Nothing => {}
            Wish::CallBack => {
                self.next_number += 1;
                self.links[link].sides[at].call(self.next_number, self.now, Some(2000))?;
            }
            Wish::Relay(number) => {
                let to = self.rng.below(self.links.len() as u64) as usize;
                self.next_number += 1;
                let asked = self.next_number;
                // Only the application in the middle has other links. A handler whose choice falls on
                // the link of the request answers by itself.
                let may_ask = at == 0 && to != link;
                let is_asked =
                    may_ask && self.links[to].sides[0].call(asked, self.now, Some(2500))?;
                let running = &mut self.links[link].sides[at].running;
                if let Some(running) = running.iter_mut().find(|one| one.number == number) {
                    running.plan = if is_asked {
                        Plan::Relayed(asked)
                    } else {
                        Plan::Answer
                    };
                }
                if is_asked {
                    self.relays.push(Relay {
                        from: link,
                        to,
                        asked,
                    });
                    self.after(to)?;
                }
            }
        }
        Ok(())
    }

    /// Answers relayed requests whose calls have settled, and ends the pipes of sides that are over.
    pub(super) fn after(&mut self, link: usize) -> Checked {
        let settled = std::mem::take(&mut self.links[link].sides[0].settled);
        for (number, how) in settled {
            self.trace.mix(number);
            let is_it = |relay: &Relay| relay.to == link && relay.asked == number;
            if let Some(at) = self.relays.iter().position(is_it) {
                let relay = self.relays.swap_remove(at);
                let Self { links, rng, .. } = self;
                links[relay.from].sides[0].finish_relay(relay.asked, how, rng)?;
                self.after(relay.from)?;
            }
        }
        let running = self.links.iter().flat_map(|link| &link.sides[0].running);
        let running = running.filter(|one| one.has_permit).count();
        Check::ServerBounded.that(running <= MAX_RUNNING, || format!("{running} run"))?;
        let Link { sides, pipes, .. } = &mut self.links[link];
        for number in sides[1]
            .settled
            .drain(..)
            .map(|(number, _): (u64, Ending)| number)
        {
            self.trace.mix(number);
        }
        for at in [0, 1] {
            if sides[at].is_over() {
                sides[at].let_go();
                if pipes[at].end == End::Open {
                    pipes[at].end = End::Closed;
                }
                pipes[1 - at].is_unread = true;
            }
        }
        Ok(())
    }

    // Healing

    /// One turn of a shell that does all it can. Returns whether it did anything.
    pub(super) fn turn(&mut self, link: usize, at: usize) -> Result<bool, Broken> {
        let mut has_moved = false;
        let (now, rng) = (self.now, &mut self.rng);
        let Link { sides, pipes, .. } = &mut self.links[link];
        let side = &mut sides[at];
        while side.read(&mut pipes[1 - at], now, rng)? {
            has_moved = true;
        }
        side.finish_notification(rng)?;
        while side.work(rng, true)? {
            has_moved = true;
        }
        let running = side.running.len();
        for _ in 0..running {
            let wish = self.links[link].sides[at].serve(&mut self.rng, true)?;
            self.grant(wish, link, at)?;
        }
        let (now, rng) = (self.now, &mut self.rng);
        let Link { sides, pipes, .. } = &mut self.links[link];
        let side = &mut sides[at];
        has_moved |= side.running.len() < running;
        side.take_output()?;
        while side.write(&mut pipes[at], now, rng)? {
            has_moved = true;
            side.take_output()?;
        }
        // A shell sleeps until its session wants to be woken, and tells no time before.
        if side.wake_up_at().is_some_and(|due| due <= self.now) {
            side.handle_timeout(self.now)?;
        }
        self.after(link)?;
        Ok(has_moved)
    }
}
