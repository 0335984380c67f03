//! The liveness phase: the network is repaired, handlers answer, hostile peers hang up; then every
//! open call must end, and every link must end in order.

use crate::checks::{Check, Checked};
use crate::plant::Plant;
use crate::world::{MILLI, World};

/// The bound: at most so long after healing every call has settled, in nanoseconds of virtual time.
pub const LIVENESS_NANOS: u64 = 10_000 * MILLI;

impl World {
    /// Heals everything and waits for it to settle. Gives how long that took, in nanoseconds.
    ///
    /// # Errors
    /// The invariant that broke.
    pub fn liveness(&mut self) -> Result<u64, crate::checks::Broken> {
        self.healing = true;
        let healed = self.now;
        self.healed = healed;
        self.trace
            .say(|| format!("all heals at {} ms", healed / MILLI));
        for l in 0..self.links.len() {
            for side in 0..2 {
                self.links[l].wires[side].stalled = false;
            }
            if self.links[l].hostile.is_some() {
                // The hostile peer hangs up.
                self.links[l].wires[1].shut = true;
            }
            self.mend(2 * l)?;
            if self.is_real(2 * l + 1) {
                self.mend(2 * l + 1)?;
            }
        }
        self.until(healed + LIVENESS_NANOS, Self::is_settled)?;
        let took = self.now - healed;
        self.nothing_held()?;
        self.say_goodbye()?;
        let parting = self.now;
        self.until(parting + LIVENESS_NANOS, Self::is_over)?;
        for l in 0..self.links.len() {
            self.check_end(l)?;
        }
        Ok(took)
    }

    /// Answers everything that handlers keep, and gives every call a deadline within the bound.
    fn mend(&mut self, e: usize) -> Checked {
        let by = self.now + LIVENESS_NANOS * 8 / 10;
        let end = self.end(e);
        for (mark, call) in end.call_ids.clone() {
            // Handlers that wait for a call of their own have to answer before their caller gives up.
            let inner = end
                .book
                .calls
                .get(&mark)
                .is_some_and(|call| matches!(call.purpose, crate::book::Purpose::For { .. }));
            let by = by - if inner { 2000 * MILLI } else { 0 };
            let unlimited = end
                .book
                .calls
                .get(&mark)
                .is_some_and(|call| call.deadline.is_none_or(|deadline| deadline > by));
            if unlimited {
                let moved = end
                    .run(|conn| conn.set_deadline(call, Some(antiphon::Instant::from_nanos(by))));
                Check::Getters.that(moved.is_ok(), || {
                    "the deadline of an open call cannot be set".into()
                })?;
                if let Some(call) = end.book.calls.get_mut(&mark) {
                    call.deadline = Some(by);
                }
            }
        }
        self.answer_all(e)
    }

    /// Answers everything that handlers keep or have lost. With `Plant::HandlerKeeps` it stops
    /// while one keeps a request.
    fn answer_all(&mut self, e: usize) -> Checked {
        while !self.end(e).held.is_empty() || !self.end(e).lost.is_empty() {
            if self.options.plant == Some(Plant::HandlerKeeps) && !self.end(e).held.is_empty() {
                return Ok(());
            }
            self.answer_held(e)?;
        }
        Ok(())
    }

    /// Lets everything run until `done`, at most until the time `bound`.
    fn until(&mut self, bound: u64, done: impl Fn(&mut Self) -> bool) -> Checked {
        loop {
            let mut busy = false;
            for e in 0..self.nodes.len() {
                if !self.is_real(e) {
                    continue;
                }
                busy |= self.turn(e)?;
                self.counted(e / 2)?;
            }
            if done(self) {
                return Ok(());
            }
            // A call that timed out at one end may have made a handler answer at another.
            let ends = self.real_ends();
            let keeps = self.options.plant == Some(Plant::HandlerKeeps);
            let waits = |end: &crate::end::End| {
                let works = !end.held.is_empty() || !end.lost.is_empty();
                end.conn.poll_transmit().is_some() || works && !keeps
            };
            if busy || ends.into_iter().any(|e| waits(self.end(e))) {
                continue;
            }
            let Some(next) = self.next_of_all().filter(|next| *next <= bound) else {
                let open: Vec<String> = self.open_work();
                let why = format!(
                    "at {} ms, bound {} ms, open: {open:?}",
                    self.now / MILLI,
                    bound / MILLI
                );
                return Err(Check::Liveness.broken(why));
            };
            self.now = next.max(self.now + 1);
        }
    }

    /// One turn of a driver's loop. Returns whether anything was read or written.
    fn turn(&mut self, e: usize) -> Result<bool, crate::checks::Broken> {
        let inert = self.options.plant == Some(Plant::StaysStalled) && e % 2 == 1;
        let wire = &self.links[e / 2].wires[1 - e % 2];
        let mut moved = wire.next_at().is_some_and(|at| at <= self.now) && !inert;
        match inert {
            true => self.poll(e, usize::MAX)?,
            false => self.deliver(e, usize::MAX)?,
        }
        self.answer_all(e)?;
        moved |= self.end(e).conn.poll_transmit().is_some();
        self.write(e, usize::MAX, false)?;
        // A connection that has ended without a close is closed once its requests are answered.
        self.poll(e, usize::MAX)?;
        moved |= self.end(e).conn.poll_transmit().is_some();
        Ok(moved)
    }

    /// The next moment at which anything happens anywhere.
    fn next_of_all(&self) -> Option<u64> {
        let mut next: Option<u64> = None;
        for (l, link) in self.links.iter().enumerate() {
            for side in 0..2 {
                if !self.is_real(2 * l + side) {
                    continue;
                }
                let timer = link.ends[side]
                    .conn
                    .poll_timeout()
                    .map(antiphon::Instant::as_nanos);
                let arrival = link.wires[1 - side].next_at();
                let both = timer.into_iter().chain(arrival).filter(|at| *at > self.now);
                next = both.chain(next).min();
            }
        }
        next
    }

    fn real_ends(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&e| self.is_real(e)).collect()
    }

    fn is_settled(&mut self) -> bool {
        let quiet = |e: usize, world: &mut Self| {
            let keeps = world.options.plant == Some(Plant::HandlerKeeps);
            let end = world.end(e);
            end.conn.calls_open() == 0
                && (end.conn.requests_open() == 0 || keeps)
                && end.conn.poll_transmit().is_none()
        };
        let ends = self.real_ends();
        ends.into_iter().all(|e| quiet(e, self))
            && self.links.iter().enumerate().all(|(l, link)| {
                let wires = if link.hostile.is_some() { 1..2 } else { 0..2 };
                wires
                    .into_iter()
                    .all(|side| link.wires[side].waiting() == 0 || !self.is_real(2 * l + 1 - side))
            })
    }

    fn nothing_held(&mut self) -> Checked {
        for e in self.real_ends() {
            let conn = &self.end(e).conn;
            let held = (
                conn.calls_open(),
                conn.requests_open(),
                conn.poll_transmit().map(<[u8]>::len),
            );
            Check::NothingHeld.that(held == (0, 0, None), || {
                format!("{e} holds {held:?}: calls, requests, output")
            })?;
        }
        Ok(())
    }

    /// Has every end drain, stop writing or close, by chance.
    fn say_goodbye(&mut self) -> Checked {
        for l in 0..self.links.len() {
            let real = if self.links[l].hostile.is_some() {
                1
            } else {
                2
            };
            for side in 0..real {
                let link = &mut self.links[l];
                match self.rng.below(3) {
                    0 => link.ends[side].run(|conn| conn.drain()),
                    1 => link.wires[side].shut = true,
                    _ => self.close(2 * l + side),
                }
            }
        }
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        self.real_ends()
            .into_iter()
            .all(|e| self.end(e).conn.is_closed())
    }

    fn open_work(&mut self) -> Vec<String> {
        let mut open = Vec::new();
        for e in self.real_ends() {
            let end = self.end(e);
            if !end.conn.is_closed() {
                open.push(format!("{e}: {:?}, told {:?}", end.conn, end.book.closed));
            }
        }
        open
    }
}
