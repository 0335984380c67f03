//! The liveness phase: all is repaired, and then everything has to come and to be acknowledged.

use super::checks::{Broken, Check, Checked};
use super::settings::{NAMES, TOPICS};
use super::world::{MILLI, World};

/// All has to settle within so much virtual time after healing, in nanoseconds.
pub(super) const BOUND_NANOS: u64 = 60_000_000_000;

/// How far the clock goes on when nothing else happens, in nanoseconds.
const TICK_NANOS: u64 = 100 * MILLI;

/// All settles within so many rounds in which each has a turn.
const MAX_TURNS: usize = 5000;

impl World {
    /// Heals everything, and checks that every consumer gets all there is. Returns how much virtual time it took.
    pub(super) fn liveness(&mut self) -> Result<u64, Broken> {
        self.is_healed = true;
        let start = self.now;
        for client in 0..self.clients.len() {
            self.clients[client].is_stalled = false;
            self.clients[client].make_space();
            self.cut(client)?;
        }
        while !self.ghosts.is_empty() {
            self.end_ghost()?;
        }
        self.pass_time(0, 0)?;
        self.settle(&[])?;
        for client in 0..self.clients.len() {
            self.connect(client, client % self.settings.hubs);
        }
        let max = self.settings.durable.max_per_connection;
        let mut owners = Vec::new();
        for (index, (name, _)) in NAMES.iter().enumerate() {
            let client = index % self.clients.len();
            if owners.iter().filter(|(_, other)| *other == client).count() < max {
                owners.push((*name, client));
            }
        }
        for _ in 0..2 {
            self.publish_everywhere()?;
            self.settle(&owners)?;
        }
        for (name, _) in &owners {
            let untold = self.book.untold(name);
            Check::TrimTold.that(untold.is_none(), || {
                format!("{name}: {untold:?} is removed")
            })?;
        }
        Ok(self.now - start)
    }

    /// Has all take turns until nothing is left to do, however long that takes.
    fn settle(&mut self, owners: &[(&'static str, usize)]) -> Checked {
        let (start, mut turns) = (self.now, 0);
        loop {
            turns += 1;
            let has_moved = self.turn(owners)?;
            if has_moved && turns < MAX_TURNS {
                continue;
            }
            let Some((check, why)) = self.unsettled(owners) else {
                return Ok(());
            };
            let is_early = self.now - start < BOUND_NANOS && turns < MAX_TURNS;
            check.that(is_early, || why)?;
            let due = self.hubs.iter().filter_map(|hub| hub.topics.poll_timeout());
            let due = due.map(|due| due.as_nanos()).min().unwrap_or(u64::MAX);
            let next = due.clamp(self.now + MILLI, self.now + TICK_NANOS);
            let nanos = next - self.now;
            self.pass_time(nanos, nanos / MILLI)?;
        }
    }

    /// All do what they can. Returns whether they did anything.
    fn turn(&mut self, owners: &[(&'static str, usize)]) -> Result<bool, Broken> {
        let mut has_moved = false;
        for (name, client) in owners {
            let one = &mut self.clients[*client];
            let (hub, conn) = (one.hub, one.conn.unwrap_or_default());
            let is_attached = one.is_attached(name) && self.book.is_holder(name, hub, conn);
            let topic = self.book.subs.get(*name).map(|sub| &*sub.topic);
            if !is_attached && one.subscribe(&[name], topic) {
                has_moved = true;
            }
        }
        for client in 0..self.clients.len() {
            while self.serve(client)? {
                has_moved = true;
            }
            has_moved |= self.deliver(client, 100)?;
            while self.read(client)? {
                has_moved = true;
            }
            let one = &mut self.clients[client];
            for (name, _) in NAMES {
                while one.finish(name) {
                    has_moved = true;
                }
            }
            has_moved |= one.send_acks(false);
        }
        while self.execute() {
            has_moved = true;
        }
        has_moved |= self.commit()?;
        while self.complete()? {
            has_moved = true;
        }
        while self.tell_grown()? {
            has_moved = true;
        }
        Ok(has_moved)
    }

    /// What is not settled, and the check that this breaks in the end.
    fn unsettled(&self, owners: &[(&'static str, usize)]) -> Option<(Check, String)> {
        if !self.store.is_idle() {
            return Some((Check::Settles, format!("{:?}", self.store)));
        }
        for (at, hub) in self.hubs.iter().enumerate() {
            if !hub.is_idle() {
                let why = format!("hub {at} waits for {}", hub.waits_for());
                return Some((Check::Settles, why));
            }
        }
        for (name, client) in owners {
            let one = &self.clients[*client];
            let conn = one.conn.unwrap_or_default();
            if !one.is_quiet() || !self.book.is_holder(name, one.hub, conn) {
                return Some((Check::Settles, format!("{name}: {one:?}")));
            }
            let sub = self.book.subs.get(*name)?;
            let log = self.book.logs.get(&sub.topic)?;
            let mut all = sub.cursor.start + 1..=log.last;
            let is_over = |one: u64| sub.is_saved(one) || one <= log.trimmed;
            if let Some(left) = all.find(|one| !is_over(*one)) {
                let (told, last) = (&sub.cursor, log.last);
                let why =
                    format!("{name}: {left} of {last} is not acknowledged: {told:?}, {one:?}");
                return Some((Check::Settles, why));
            }
        }
        // A hub learns from the next message what an append has done that failed.
        match owners.is_empty() {
            true => None,
            false => self.kept_too_much(),
        }
    }

    /// A topic that has more than its retention keeps.
    fn kept_too_much(&self) -> Option<(Check, String)> {
        let topic = TOPICS[0];
        let (log, retention) = (self.book.logs.get(topic)?, self.settings.retention);
        let kept = log.messages.range(log.trimmed + 1..);
        let bytes: usize = kept.map(|(_, (_, data))| data.bytes()).sum();
        let count = log.last - log.trimmed;
        let is_beyond = retention.max_count.is_some_and(|max| count > max)
            || count > 1 && retention.max_bytes.is_some_and(|max| bytes as u64 > max);
        let why = format!("{topic}: {count} messages, {bytes} bytes, {retention:?}");
        is_beyond.then_some((Check::RetentionHolds, why))
    }
}
