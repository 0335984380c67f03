//! Hubs, their store and their clients, and one step after another.

use antiphon_test_support::random::Random;

use super::book::Book;
use super::checks::Checked;
use super::client::Client;
use super::counts::Counts;
use super::plant::Plant;
use super::server::Hub;
use super::settings::{NAMES, Settings, TOPICS};
use super::store::Store;
use crate::kinds;
use crate::runner::{Options, at_step, leftover};
use crate::trace::Trace;

/// Everything there is in one run.
pub(super) struct World {
    pub(super) rng: Random,
    pub(super) now: u64,
    /// The time of day in milliseconds, which jumps.
    pub(super) wall: u64,
    pub(super) settings: Settings,
    pub(super) store: Store,
    pub(super) hubs: Vec<Hub>,
    pub(super) clients: Vec<Client>,
    /// Connections that have ended without their hubs knowing.
    pub(super) ghosts: Vec<(usize, u64)>,
    pub(super) book: Book,
    pub(super) plant: Option<Plant>,
    pub(super) counts: Counts,
    pub(super) trace: Trace,
    pub(super) steps: u64,
    pub(super) is_healed: bool,
    pub(super) last_message: u64,
    /// How often a connection was attached.
    pub(super) serials: u64,
    last_conn: u64,
    options: Options<Plant>,
    /// Kinds of step that are left out: bit n is the n-th of `KINDS`.
    off: u64,
}

pub(super) const MILLI: u64 = 1_000_000;

/// 2023-11-14T22:13:20Z.
const WALL: u64 = 1_700_000_000_000;

/// What a step does, each with its weight: how often, relative to the others.
pub(super) const KINDS: [(Kind, u64); 26] = [
    (Kind::Serve, 16),
    (Kind::Read, 16),
    (Kind::Deliver, 16),
    (Kind::Execute, 18),
    (Kind::Commit, 12),
    (Kind::Complete, 18),
    (Kind::Grown, 6),
    (Kind::Publish, 10),
    (Kind::Finish, 12),
    (Kind::Acknowledge, 10),
    (Kind::Subscribe, 6),
    (Kind::Time, 8),
    (Kind::Connect, 5),
    (Kind::PublishNamed, 2),
    (Kind::SubscribeAll, 2),
    (Kind::GiveBack, 2),
    (Kind::AcknowledgeBadly, 2),
    (Kind::WrongTopic, 1),
    (Kind::BrokenParams, 1),
    (Kind::Unsubscribe, 1),
    (Kind::Jump, 1),
    (Kind::Stall, 2),
    (Kind::Cut, 2),
    (Kind::EndGhost, 3),
    (Kind::KillHub, 1),
    (Kind::CrashStore, 1),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Serve,
    Read,
    Deliver,
    Execute,
    Commit,
    Complete,
    Grown,
    Publish,
    Finish,
    Acknowledge,
    Subscribe,
    Time,
    Connect,
    PublishNamed,
    SubscribeAll,
    GiveBack,
    AcknowledgeBadly,
    WrongTopic,
    BrokenParams,
    Unsubscribe,
    Jump,
    Stall,
    Cut,
    EndGhost,
    KillHub,
    CrashStore,
}

impl World {
    pub(super) fn new(seed: u64, options: Options<Plant>) -> Self {
        let mut rng = Random::for_purpose(seed, 0xd07ab1e);
        let now = match options.plant {
            Some(Plant::Leftover) => leftover(),
            _ => 0,
        };
        // Runs differ in kind.
        let off = kinds::draw_off(&KINDS, &mut rng, (3, 40), 2);
        let settings = Settings::draw(&mut rng);
        let mut world = Self {
            now,
            wall: WALL,
            store: Store::new(),
            hubs: Vec::new(),
            clients: Vec::new(),
            ghosts: Vec::new(),
            book: Book::default(),
            plant: options.plant,
            counts: Counts::default(),
            trace: Trace::new(options.trace),
            steps: 0,
            is_healed: false,
            last_message: 0,
            serials: 0,
            last_conn: 0,
            off: off | options.without,
            options,
            settings,
            rng,
        };
        for _ in 0..world.settings.hubs {
            let hub = world.new_hub(1);
            world.hubs.push(hub);
        }
        for _ in 0..world.settings.clients {
            let client = Client::new(world.settings.max_open);
            world.clients.push(client);
        }
        world
    }

    fn new_hub(&self, life: u64) -> Hub {
        let mut hub = Hub::new(&self.settings, life, self.plant);
        hub.begin(self.now, self.wall, &self.settings);
        hub
    }

    /// Everything that may happen, in any order.
    pub(super) fn safety(&mut self) -> Checked {
        self.trace.say(|| format!("{:?}", self.settings));
        let drawn = self.rng.within(200, 500);
        let steps = self.options.steps.unwrap_or(drawn);
        while self.steps < steps {
            self.steps += 1;
            at_step(self.steps);
            let bit = kinds::draw(&KINDS, &mut self.rng);
            let client = self.rng.size(0, self.clients.len() - 1);
            if self.off >> bit & 1 == 0 {
                self.trace.mix((bit as u64) << 8 | client as u64);
                self.trace
                    .say(|| format!("{} {:?} {client}", self.steps, KINDS[bit].0));
                self.step(KINDS[bit].0, client)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, kind: Kind, client: usize) -> Checked {
        let hub = self.rng.size(0, self.hubs.len() - 1);
        let (name, topic) = self.rng.pick(&NAMES);
        let one = &mut self.clients[client];
        match kind {
            Kind::Serve => {
                self.serve(client)?;
            }
            Kind::Read => {
                for _ in 0..self.rng.within(1, 4) {
                    self.read(client)?;
                }
            }
            Kind::Deliver => {
                let most = self.rng.size(1, 6);
                self.deliver(client, most)?;
            }
            Kind::Execute => {
                for _ in 0..self.rng.within(1, 3) {
                    self.execute();
                }
            }
            Kind::Commit => {
                self.commit()?;
            }
            Kind::Complete => {
                for _ in 0..self.rng.within(1, 3) {
                    self.complete()?;
                }
            }
            Kind::Grown => {
                self.tell_grown()?;
            }
            Kind::Publish => {
                for _ in 0..self.rng.pick(&[1, 1, 2, 5]) {
                    let topic = self.rng.pick(&TOPICS);
                    self.publish(hub, topic, None);
                }
                self.after(hub)?;
            }
            Kind::PublishNamed => {
                let name = self.rng.pick(&["one", "two", "three"]);
                self.publish(hub, topic, Some(name));
                self.after(hub)?;
            }
            Kind::Finish => {
                one.finish(name);
            }
            Kind::GiveBack => {
                // What is given back must come again.
                if self.settings.durable.ack_timeout.is_some() && one.give_back(name) {
                    self.counts.add("message: given back");
                }
            }
            Kind::Acknowledge => {
                one.send_acks(self.rng.chance(50));
            }
            Kind::AcknowledgeBadly => {
                let last = self.book.logs.get(topic).map_or(0, |log| log.last);
                let sequence = (last + 3).saturating_sub(self.rng.below(8));
                let count = self.rng.size(1, 2);
                one.acknowledge(vec![(name, sequence); count]);
            }
            Kind::Subscribe => {
                one.subscribe(&[name], None);
            }
            Kind::SubscribeAll => {
                one.subscribe(&NAMES.map(|(name, _)| name), None);
            }
            Kind::WrongTopic => {
                one.subscribe(&[name], Some("letters"));
            }
            Kind::BrokenParams => one.ask_badly(),
            Kind::Unsubscribe => one.unsubscribe(name),
            Kind::Time => {
                let millis = self.rng.within(0, 1500);
                self.pass_time(millis * MILLI, millis)?;
            }
            Kind::Jump => {
                let millis = self.rng.within(1, 7_200_000);
                let is_ahead = self.rng.chance(50);
                self.wall = match is_ahead {
                    true => self.wall + millis,
                    false => self.wall - millis,
                };
                self.counts.add(match is_ahead {
                    true => "clock: jumps ahead",
                    false => "clock: jumps back",
                });
            }
            Kind::Stall => {
                one.is_stalled = !one.is_stalled && one.conn.is_some();
                self.counts.add("link: stalled");
            }
            Kind::Cut => self.cut(client)?,
            Kind::Connect => self.connect(client, hub),
            Kind::EndGhost => self.end_ghost()?,
            Kind::KillHub => self.kill(hub)?,
            Kind::CrashStore => self.crash_store(),
        }
        Ok(())
    }

    /// Time goes by, and the hubs are told.
    pub(super) fn pass_time(&mut self, nanos: u64, millis: u64) -> Checked {
        self.now += nanos;
        self.wall += millis;
        for hub in 0..self.hubs.len() {
            self.tell_time(hub)?;
        }
        Ok(())
    }

    pub(super) fn connect(&mut self, client: usize, hub: usize) {
        let one = &mut self.clients[client];
        if one.conn.is_some() {
            return;
        }
        self.last_conn += 1;
        if self.last_conn > self.settings.clients as u64 {
            self.counts.add("link: reconnected");
        }
        if one.hub != hub {
            self.counts.add("link: reconnected to another hub");
        }
        (one.conn, one.hub) = (Some(self.last_conn), hub);
        self.hubs[hub].topics.add_connection(self.last_conn);
    }

    /// A connection is lost, with what is on its way. Its hub may learn of that later.
    pub(super) fn cut(&mut self, client: usize) -> Checked {
        for _ in 0..self.rng.within(0, 2) {
            self.serve(client)?;
        }
        let one = &mut self.clients[client];
        let (Some(conn), hub) = (one.conn, one.hub) else {
            return Ok(());
        };
        self.counts.add("link: cut");
        if !one.up.is_empty() || !one.down.is_empty() {
            self.counts.add("link: cut loses messages");
        }
        one.disconnect(self.plant, self.settings.max_open);
        if !self.is_healed && self.rng.chance(40) {
            self.counts.add("link: cut, and the hub does not know");
            self.ghosts.push((hub, conn));
            return Ok(());
        }
        self.end_connection(hub, conn)
    }

    pub(super) fn end_ghost(&mut self) -> Checked {
        match self.ghosts.pop() {
            Some((hub, conn)) => self.end_connection(hub, conn),
            None => Ok(()),
        }
    }

    /// A hub is killed, and begins again with nothing but its store.
    fn kill(&mut self, at: usize) -> Checked {
        self.counts.add("hub: killed");
        let arrived = self.rng.size(0, 3);
        if self.store.has_group() {
            self.counts.add("hub: killed before a commit");
        }
        if self.store.forget(at, arrived) {
            self.counts.add("hub: killed between commit and answer");
        }
        // A store in its process ends with it.
        if self.hubs.len() == 1 && self.rng.chance(50) {
            self.store.lose();
        }
        for client in &mut self.clients {
            if client.hub == at {
                client.disconnect(self.plant, self.settings.max_open);
            }
        }
        self.ghosts.retain(|(hub, _)| *hub != at);
        self.book.holders.retain(|_, holder| holder.hub != at);
        self.hubs[at] = self.new_hub(self.hubs[at].life + 1);
        self.after(at)
    }
}
