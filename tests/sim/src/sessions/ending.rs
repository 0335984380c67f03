//! Liveness: the network heals and handlers answer, so all calls settle in time; then every link
//! is brought to its end, some of them while their peers are stalled for ever.

use antiphon::session::Phase;

use super::checks::{Broken, Check, Checked};
use super::pipe::End;
use super::plant::Plant;
use super::side::Side;
use super::world::World;

/// Within so much virtual time all settles, and within as much again all ends.
pub(super) const BOUND_NANOS: u64 = 20_000_000_000;

/// Time goes on by so much if no side wants to be woken, else to the next wake-up, but by no more
/// than 20 times as much.
const TICK_NANOS: u64 = 50_000_000;

/// All settles, and all ends, within so many rounds in which each side has a turn.
const MAX_TURNS: usize = 20_000;

/// How a link is brought to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Drain,
    DrainBoth,
    Close,
    HalfClose,
    Cut,
    DrainStalled,
    CloseStalled,
}

const WAYS: [Way; 7] = [
    Way::Drain,
    Way::DrainBoth,
    Way::Close,
    Way::HalfClose,
    Way::Cut,
    Way::DrainStalled,
    Way::CloseStalled,
];

impl World {
    /// Heals everything until all has settled, then ends it. Returns how much virtual time each took.
    pub(super) fn liveness(&mut self) -> Result<[u64; 2], Broken> {
        for link in &mut self.links {
            for pipe in &mut link.pipes {
                pipe.is_stalled = self.plant == Some(Plant::StaysStalled);
            }
            for side in &mut link.sides {
                side.repair_clock();
                side.give_up_unwanted()?;
            }
        }
        for link in 0..self.links.len() {
            self.after(link)?;
        }
        let settled = self.go_on(Check::SettlesInTime, |world, link| world.is_at_rest(link))?;
        for link in &self.links {
            for side in &link.sides {
                if side.phase() == Phase::Open && !link.is_broken {
                    side.book.nothing_is_lost()?;
                }
            }
        }
        for link in 0..self.links.len() {
            self.end(link)?;
            self.after(link)?;
        }
        let ended = self.go_on(Check::EndsInTime, |world, link| {
            world.links[link].sides.iter().all(Side::is_over)
        })?;
        Ok([settled, ended])
    }

    fn is_at_rest(&self, link: usize) -> bool {
        let link = &self.links[link];
        let is_read = |at: usize| {
            let reader = &link.sides[1 - at];
            link.pipes[at].waiting() == 0 || reader.is_over() || !reader.wants_input()
        };
        link.sides.iter().all(Side::is_at_rest) && is_read(0) && is_read(1)
    }

    /// Has all sides take turns until each link is done.
    fn go_on(
        &mut self,
        check: Check,
        is_done: impl Fn(&Self, usize) -> bool,
    ) -> Result<u64, Broken> {
        let (start, mut turns) = (self.now, 0);
        loop {
            turns += 1;
            check.that(turns < MAX_TURNS, || "turns without end".into())?;
            let mut has_moved = false;
            for link in 0..self.links.len() {
                for at in [0, 1] {
                    if check != Check::EndsInTime || self.plant != Some(Plant::EndUntold) {
                        has_moved |= self.turn(link, at)?;
                    }
                }
            }
            // What was just answered or begun may let more begin.
            if has_moved {
                continue;
            }
            let count = self.links.len();
            let Some(late) = (0..count).find(|link| !is_done(self, *link)) else {
                return Ok(self.now - start);
            };
            let sides = self.links.iter().flat_map(|link| &link.sides);
            let next = sides.filter_map(Side::wake_up_at).min();
            let next = next.map_or(self.now + TICK_NANOS, |next| next.max(self.now + 1));
            self.now = next.min(self.now + TICK_NANOS * 20);
            check.that(self.now - start <= BOUND_NANOS, || {
                let [one, two] = &self.links[late].sides;
                format!("link {late}: {:?} and {:?}", one.summary(), two.summary())
            })?;
        }
    }

    fn end(&mut self, link: usize) -> Checked {
        let way = self.rng.pick(&WAYS);
        let at = self.rng.below(2) as usize;
        let link = &mut self.links[link];
        match way {
            Way::Drain => link.sides[at].drain()?,
            Way::DrainBoth => {
                link.sides[0].drain()?;
                link.sides[1].drain()?;
            }
            Way::Close => link.sides[at].close()?,
            Way::HalfClose => {
                self.counts.add("end: half-close");
                link.pipes[at].end = End::Closed;
            }
            Way::Cut => {
                self.counts.add("end: cut");
                for pipe in &mut link.pipes {
                    pipe.cut(0);
                }
            }
            Way::DrainStalled | Way::CloseStalled => {
                for pipe in &mut link.pipes {
                    pipe.is_stalled = true;
                }
                // Something waits to be written and something to be answered, for ever.
                for side in &mut link.sides {
                    self.counts.add(match way {
                        Way::DrainStalled => "end: drain while stalled",
                        _ => "end: close while stalled",
                    });
                    // Above the number of every message so far.
                    let number = 1_000_000_000 + self.steps;
                    side.call(number, self.now, None)?;
                    side.take_output()?;
                    match way {
                        Way::DrainStalled => side.drain()?,
                        _ => side.close()?,
                    }
                }
            }
        }
        Ok(())
    }
}
