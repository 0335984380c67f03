//! The application: how it handles a request, the end of a call, and a cancel.
//!
//! It does everything that a bad handler does: it answers late, twice, never, with values that
//! cannot be written, or after a cancel; it loses its token, calls back, and floods.

use antiphon::{ErrorObject, Json, RequestKey};
use serde::ser::{Error, Serialize, Serializer};

use crate::book::{Call, Held, Purpose};
use crate::checks::{Check, Checked};
use crate::counts;
use crate::end::{Seen, Settled};
use crate::observer::ItemKind;
use crate::plant::Plant;
use crate::world::{MILLI, World};

/// A value that has no JSON form.
pub struct Unserialisable;

impl Serialize for Unserialisable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("no form"))
    }
}

impl World {
    /// Does what an event asks for.
    ///
    /// # Errors
    /// What breaks.
    pub fn react(&mut self, e: usize, seen: Seen) -> Checked {
        match seen {
            Seen::Request(held, key) => self.serve(e, held, key),
            Seen::Settled(call, settled) => self.resume(e, call, settled),
            Seen::Cancelled(key) => self.stop(e, key),
            Seen::Closed => self.ended(e),
            Seen::Other => Ok(()),
        }
    }

    /// Handles a request.
    fn serve(&mut self, e: usize, held: Held, key: RequestKey) -> Checked {
        if self.healing {
            return self.answer_well(e, held);
        }
        match self.rng.below(24) {
            0..=6 => {
                self.counts.add("handler: at once");
                self.answer_well(e, held)
            }
            7 => {
                self.counts.add("handler: error");
                let code = self
                    .rng
                    .pick(&[-32602, -32603, -32000, -32005, 7, 1001, -32050]);
                self.answer_error(e, held, code)
            }
            8..=11 => {
                self.counts.add("handler: late");
                self.end(e).held.push(held);
                Ok(())
            }
            12 => {
                // As in a panic: the token is gone, and `End::abandon` answers later.
                self.counts.add("handler: dropped the token");
                self.end(e).lost.push(key);
                if self.options.plant == Some(Plant::Panics) {
                    panic!("a handler panics, and nobody catches it");
                }
                Ok(())
            }
            13 => {
                // Kept like a late one, but first in the list. It is answered at the latest when all heals.
                self.counts.add("handler: never");
                self.end(e).held.insert(0, held);
                Ok(())
            }
            14 => {
                self.counts.add("handler: unserialisable");
                let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
                let back = end.answer(held, Ok(&Unserialisable), counts)?;
                self.answer_instead(e, back)
            }
            15..=16 => {
                self.counts.add("handler: calls back");
                self.call_for(e, e, held)
            }
            17..=18 => {
                self.counts.add("handler: forwards");
                let node = self.nodes[e];
                let others = (0..self.nodes.len()).filter(|&o| o != e && self.nodes[o] == node);
                let others: Vec<usize> = others.filter(|&o| self.is_real(o)).collect();
                let to = if others.is_empty() {
                    e
                } else {
                    self.rng.pick(&others)
                };
                self.call_for(to, e, held)
            }
            19 => {
                self.counts.add("handler: floods");
                for _ in 0..self.rng.within(3, 20) {
                    self.notify(e, 40)?;
                }
                self.answer_well(e, held)
            }
            20 => {
                self.counts.add("handler: long answer");
                let size = self.rng.size(200, 900);
                self.answer_sized(e, held, size)
            }
            21 => {
                self.counts.add("handler: too large");
                let size = self.end(e).config.limits.max_outbox_bytes + 10;
                self.answer_sized(e, held, size)
            }
            22 => {
                self.counts.add("handler: unknown method");
                let Held { token, method, .. } = held;
                let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
                match end.run(|conn| conn.respond_unknown_method(token, &method)) {
                    // Its data is the method's name, not a mark.
                    Ok(()) => end.paid(key, ItemKind::Err(-32601), None, counts),
                    Err(rejected) => {
                        counts.add(counts::command(&rejected.error));
                        end.lost.push(key);
                        Ok(())
                    }
                }
            }
            _ => self.answer_elsewhere(e, held),
        }
    }

    /// Answers on another connection than the request came from, then on the right one.
    fn answer_elsewhere(&mut self, e: usize, held: Held) -> Checked {
        let other = (e + 2) % self.nodes.len();
        let other = if self.is_real(other) {
            other
        } else {
            other & !1
        };
        let Held {
            token,
            mark,
            method,
        } = held;
        let before = self.end(other).state();
        let result = self.end(other).run(|conn| conn.respond(token, &1));
        let Err(rejected) = result else {
            return Err(Check::TokenSafety.broken("a token worked on another connection"));
        };
        self.counts.add("handler: foreign connection");
        let (end, counts) = (&mut self.links[other / 2].ends[other % 2], &mut self.counts);
        end.refused(before, &rejected.error, counts)?;
        let token = rejected.value;
        let held = Held {
            token,
            mark,
            method,
        };
        self.answer_well(e, held)
    }

    /// Answers with the mark of the request.
    ///
    /// # Errors
    /// What breaks.
    pub fn answer_well(&mut self, e: usize, held: Held) -> Checked {
        let size = self.rng.size(0, 40);
        self.answer_sized(e, held, size)
    }

    fn answer_sized(&mut self, e: usize, mut held: Held, size: usize) -> Checked {
        let end = &mut self.links[e / 2].ends[e % 2];
        if self.options.plant == Some(Plant::AnswersSwapped) {
            let other = end.held.iter_mut().find(|other| other.mark != held.mark);
            if let Some(other) = other {
                core::mem::swap(&mut other.mark, &mut held.mark);
            }
        }
        let Some(mark) = held.mark else {
            let back = end.answer(held, Ok(()), &mut self.counts)?;
            return self.answer_instead(e, back);
        };
        let text = format!("[{mark},\"{}\"]", "{\\u00e9}".repeat(size / 8));
        let json = Json::parse_str(&text).expect("a result is JSON");
        let back = match size % 2 {
            0 => end.answer(held, Ok(json), &mut self.counts)?,
            _ => end.answer(held, Ok(&(mark, "é{}".repeat(size / 4))), &mut self.counts)?,
        };
        // `End::paid` has tried to answer it a second time.
        self.counts.add("handler: twice");
        self.answer_instead(e, back)
    }

    /// If a result was refused and its request is `back`, sends an error in its place. If that is
    /// refused too, the request is abandoned later.
    fn answer_instead(&mut self, e: usize, back: Option<Held>) -> Checked {
        match back {
            Some(held) => self.answer_error(e, held, -32603),
            None => Ok(()),
        }
    }

    fn answer_error(&mut self, e: usize, held: Held, code: i64) -> Checked {
        let key = held.token.key();
        let data = held
            .mark
            .map(|mark| format!("[{mark},\"{}\"]", "d".repeat(mark as usize % 24)));
        let data = data
            .as_deref()
            .map(|data| Json::parse_str(data).expect("data is JSON"));
        let mut error = ErrorObject::new(code, "did not work");
        if let Some(data) = data {
            error = error.with_data(data);
        }
        let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
        let back = end.answer(held, Err::<(), _>(error), counts)?;
        if back.is_some() {
            end.lost.push(key);
        }
        Ok(())
    }

    /// Makes a call at end `to` whose answer will be the answer to `held`, open at end `from`.
    fn call_for(&mut self, to: usize, from: usize, held: Held) -> Checked {
        let epoch = self.links[from / 2].epoch;
        let purpose = Purpose::For {
            end: from,
            epoch,
            held,
        };
        let deadline = self
            .rng
            .chance(70)
            .then(|| self.now + self.rng.within(1, 3000) * MILLI);
        match self.call(to, None, "ask", 20, deadline, purpose)? {
            // The call could not be made: the request is answered with an error.
            Some(Purpose::For { held, .. }) => self.answer_error(from, held, -32000),
            _ => Ok(()),
        }
    }

    /// A call has settled: answers the request that it was made for, if any.
    ///
    /// # Errors
    /// What breaks.
    pub fn resume(&mut self, e: usize, call: Call, settled: Settled) -> Checked {
        if self.healing && matches!(settled, Settled::TimedOut) {
            self.timed_out_while_healing(e, &call)?;
        }
        let Purpose::For { end, epoch, held } = call.purpose else {
            return Ok(());
        };
        if self.links[end / 2].epoch != epoch {
            // The link of the request is gone, and its token with it.
            return Ok(());
        }
        match settled {
            Settled::Ok(inner) => {
                let Some(mark) = held.mark else {
                    return self.answer_well(end, held);
                };
                let text = format!("[{mark},{inner}]");
                let Ok(json) = Json::parse_str(&text) else {
                    return self.answer_error(end, held, -32603);
                };
                let (at, counts) = (&mut self.links[end / 2].ends[end % 2], &mut self.counts);
                let back = at.answer(held, Ok(json), counts)?;
                self.answer_instead(end, back)
            }
            Settled::Err(code) => self.answer_error(end, held, code),
            Settled::TimedOut => self.answer_error(end, held, -32005),
            Settled::Otherwise => self.answer_error(end, held, -32603),
        }
    }

    /// Checks that a call did not time out whose request an honest peer has received.
    fn timed_out_while_healing(&mut self, e: usize, call: &Call) -> Checked {
        let link = &self.links[e / 2];
        if link.hostile.is_some() || link.ends[e % 2].book.unreadable.contains(&call.id) {
            return Ok(());
        }
        // One that was due soon may time out before its answer comes.
        if call
            .deadline
            .is_some_and(|deadline| deadline < self.healed + crate::healing::LIVENESS_NANOS / 2)
        {
            return Ok(());
        }
        // A request whose handler has made a call is answered only when that call has settled.
        let waits = |other: &Call| matches!(&other.purpose, Purpose::For { held, .. } if held.mark == Some(call.mark));
        let all = self
            .links
            .iter()
            .flat_map(|link| &link.ends)
            .flat_map(|end| end.book.calls.values());
        if matches!(call.purpose, Purpose::For { .. }) || { all }.any(waits) {
            return Ok(());
        }
        let peer = &link.ends[1 - e % 2];
        let lost = peer.book.closed.is_some() || link.wires.iter().any(|wire| wire.shut);
        Check::Liveness.that(lost || !peer.book.delivered.contains(&call.mark), || {
            format!("call {} was delivered and never answered", call.number)
        })
    }

    /// A request was cancelled by the peer, or by a close. Its handler stops, answers all the same, or
    /// does not care.
    fn stop(&mut self, e: usize, key: RequestKey) -> Checked {
        let end = &mut self.links[e / 2].ends[e % 2];
        let Some(at) = end.held.iter().position(|held| held.token.key() == key) else {
            return Ok(());
        };
        if end.book.debts.contains_key(&key) && self.rng.chance(50) {
            self.counts.add("handler: cancelled code");
            let Held { token, .. } = end.held.swap_remove(at);
            let code = match end.config.dialect.cancel_answer {
                antiphon::CancelAnswer::Lsp => -32800,
                _ => -32001,
            };
            return match end.run(|conn| conn.respond_cancelled(token)) {
                Ok(()) => end.paid(key, ItemKind::Err(code), None, &mut self.counts),
                Err(rejected) => {
                    self.counts.add(counts::command(&rejected.error));
                    end.lost.push(key);
                    Ok(())
                }
            };
        }
        if self.rng.chance(50) {
            self.counts.add("handler: after cancel");
            let mut held = end.held.swap_remove(at);
            held.mark = None;
            let owed = end.book.debts.contains_key(&key);
            if end.book.ending {
                self.counts.add("handler: after close");
            }
            let back = end.answer(held, Ok(()), &mut self.counts)?;
            Check::TokenSafety.that(owed || back.is_some(), || "a dead token worked".into())?;
            if owed && back.is_some() {
                end.lost.push(key);
            }
        }
        Ok(())
    }

    /// The event `Closed` has come. After a failure the application may close the connection.
    fn ended(&mut self, e: usize) -> Checked {
        let why = self.end(e).book.closed;
        let broke = matches!(why, Some(antiphon::Closed::Failed(_)));
        if broke && (self.healing || self.rng.chance(50)) {
            self.end(e)
                .run(|conn| conn.close(antiphon::CloseReason::TransportFailed));
        }
        Ok(())
    }
}
