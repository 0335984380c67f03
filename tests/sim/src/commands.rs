//! The application's own commands: calls, notifications, batches, cancels, answers, a close, and
//! every command that has to be refused.

use antiphon::{CallId, CloseReason, Instant, Json, Payload, SendError};

use crate::book::{Purpose, Said, spelled};
use crate::checks::{Broken, Check, Checked};
use crate::counts;
use crate::handlers::Unserialisable;
use crate::world::{MILLI, World};

impl World {
    /// Whether an end may speak of its own accord: its framing is known, and an exchange has one
    /// message only.
    fn may_speak(&mut self, e: usize) -> bool {
        let end = self.end(e);
        end.heard && !(end.config.exchange && end.said_once)
    }

    /// Makes a call with a payload of about `size` bytes. Returns the purpose if no call was made.
    ///
    /// # Errors
    /// What breaks.
    pub fn call(
        &mut self,
        e: usize,
        id: Option<&str>,
        method: &str,
        size: usize,
        deadline: Option<u64>,
        purpose: Purpose,
    ) -> Result<Option<Purpose>, Broken> {
        if !self.may_speak(e) {
            return Ok(Some(purpose));
        }
        let mark = self.mark();
        let named = self.rng.chance(20);
        let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
        let is_v1 = end.config.dialect.version == antiphon::VersionPolicy::V1Only;
        if named && !is_v1 {
            let text = format!("{{\"n\": {mark},\"x\":\"{}\"}}", "}".repeat(size));
            let params = Json::parse_str(&text).expect("params are JSON");
            return end.call(id, method, params, deadline, mark, purpose, counts);
        }
        let params = (mark, "a\n".repeat(size / 2));
        end.call(id, method, &params, deadline, mark, purpose, counts)
    }

    /// Tells the peer something.
    ///
    /// # Errors
    /// What breaks.
    pub fn notify(&mut self, e: usize, size: usize) -> Checked {
        if !self.may_speak(e) {
            return Ok(());
        }
        let mark = self.mark();
        let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
        let before = end.state();
        let params = (mark, "n".repeat(size));
        match end.run(|conn| conn.notify("tell", &params)) {
            Ok(()) => {
                end.said_once = true;
                end.book.said.push_back(Said::One(None, mark));
                end.lane(before, None)
            }
            Err(error) => {
                end.lane(before, Some(&error))?;
                end.refused(before, &error, counts)
            }
        }
    }

    /// A call as an application makes it.
    pub(crate) fn call_anything(&mut self, e: usize) -> Checked {
        let deadline = self.some_deadline();
        let size = match self.rng.below(12) {
            0 => self.rng.size(200, 5000),
            _ => self.rng.size(0, 60),
        };
        let method = self.rng.pick(&[
            "ask",
            "ask",
            "sub/ask",
            "a rather long method name, longer than some allow",
        ]);
        self.call(e, None, method, size, deadline, Purpose::Plain)?;
        Ok(())
    }

    /// A call with an id that the application chose.
    pub(crate) fn call_named(&mut self, e: usize) -> Checked {
        let n = self.mark();
        let id = match self.rng.below(8) {
            0 => "null".to_string(),
            1 => "true".to_string(),
            2 => format!("{n}.50"),
            3 => format!("{n}e2"),
            4 => format!("\"\\u0063{n}\""),
            5 => format!("-{n}"),
            6 => {
                // One that is in use, if there is any.
                let first = self.end(e).book.calls.values().next();
                first.map_or_else(|| format!("\"c{n}\""), |call| call.id.clone())
            }
            _ => format!("\"c{n}\""),
        };
        let deadline = self.some_deadline();
        self.call(e, Some(&id), "ask", 8, deadline, Purpose::Plain)?;
        Ok(())
    }

    /// A deadline, or none: one in ten has already passed.
    pub(crate) fn some_deadline(&mut self) -> Option<u64> {
        match self.rng.below(10) {
            0 => Some(self.now.saturating_sub(self.rng.below(5) * MILLI)),
            1..=3 => None,
            _ => Some(self.now + self.rng.within(1, 4000) * MILLI),
        }
    }

    /// A batch, sent, dropped or leaked.
    pub(crate) fn batch(&mut self, e: usize) -> Checked {
        if !self.may_speak(e) {
            return Ok(());
        }
        // Sometimes more than `max_batch_calls`, which is 1 to 9 here.
        let entries = self.rng.size(0, 11);
        // 0: dropped, 1: leaked, anything else: sent.
        let fate = self.rng.below(8);
        let marks: Vec<(u64, bool)> = (0..entries)
            .map(|_| (self.mark(), self.rng.chance(70)))
            .collect();
        let deadline = self.some_deadline();
        let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
        let before = end.state();
        let mut made: Vec<(u64, Option<CallId>)> = Vec::new();
        let mut refused = Vec::new();
        let result = end.run(|conn| -> Result<bool, SendError> {
            let mut batch = conn.batch(deadline.map(Instant::from_nanos));
            for &(mark, is_call) in &marks {
                let params = &(mark, "b");
                if is_call {
                    match batch.call::<()>("ask", params, mark) {
                        Ok(handle) => made.push((mark, Some(handle.call()))),
                        // A refused entry is left out of the batch.
                        Err(rejected) => refused.push(rejected.error),
                    }
                } else if batch.notify("tell", params).is_ok() {
                    made.push((mark, None));
                }
            }
            match fate {
                0 => {
                    drop(batch);
                    Ok(false)
                }
                1 => {
                    core::mem::forget(batch);
                    Ok(false)
                }
                _ => batch.send().map(|()| true),
            }
        });
        refused
            .iter()
            .for_each(|error| counts.add(counts::command(error)));
        if fate == 1 {
            // Any next command takes back what was leaked, even one that is refused.
            let left = end.run(|conn| conn.set_deadline(absent(), None));
            Check::TokenSafety.that(left.is_err(), || "an absent call moved".into())?;
        }
        match result {
            Ok(true) => {
                end.lane(before, None)?;
                let scheme = end.config.dialect.id_scheme;
                let entry = |(mark, call): &(u64, Option<CallId>)| {
                    (call.map(|call| spelled(scheme, call.number())), *mark)
                };
                let said: Vec<_> = made.iter().map(entry).collect();
                end.said_once = true;
                end.book.said.push_back(Said::Batch(said.clone()));
                for ((mark, call), (id, _)) in made.into_iter().zip(said) {
                    if let (Some(call), Some(id)) = (call, id) {
                        end.open(call, id, deadline, mark, Purpose::Plain);
                    }
                }
                Ok(())
            }
            Ok(false) => {
                counts.add(if fate == 0 {
                    "fault: builder dropped"
                } else {
                    "fault: builder leaked"
                });
                Check::NoTrace.that(end.state() == before, || {
                    format!("a builder left {before:?} as {:?}", end.state())
                })
            }
            Err(error) => end.refused(before, &error, counts),
        }
    }

    /// Cancels an open call (`how` is 0), asks the peer to cancel it (1), or moves its deadline (2).
    /// Without an open call, does so with one that was never made.
    pub(crate) fn touch_call(&mut self, e: usize, how: u64) -> Checked {
        let deadline = self.some_deadline();
        let chosen = self.rng.next();
        let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
        let before = end.state();
        if end.call_ids.is_empty() {
            let error = end.run(|conn| match how {
                0 => conn
                    .cancel(absent())
                    .map_or(Err(SendError::NotOpen), |_| Ok(())),
                1 => conn.ask_cancel(absent()),
                _ => conn.set_deadline(absent(), None),
            });
            return match error {
                Err(error) => end.refused(before, &error, counts),
                Ok(()) => Err(Check::TokenSafety.broken("a call that never was is open")),
            };
        }
        let at = (chosen % end.call_ids.len() as u64) as usize;
        let (mark, call) = end.call_ids[at];
        let id = end
            .book
            .calls
            .get(&mark)
            .map(|call| call.id.clone())
            .unwrap_or_default();
        match how {
            0 => {
                end.book.cancels.push(id);
                let tag = end.run(|conn| conn.cancel(call));
                Check::SettlesOnce.that(tag == Some(mark), || format!("cancel gave {tag:?}"))?;
                end.call_ids.swap_remove(at);
                let call = end.book.settle(mark, call.number())?;
                counts.add("outcome: cancelled here");
                self.resume(e, call, crate::end::Settled::Otherwise)
            }
            1 => match end.run(|conn| conn.ask_cancel_because(call, Some("changed mind"))) {
                Ok(()) => {
                    end.book.cancels.push(id);
                    Ok(())
                }
                Err(error) => end.refused(before, &error, counts),
            },
            _ => {
                let at = deadline.map(Instant::from_nanos);
                let moved = end.run(|conn| conn.set_deadline(call, at));
                Check::Getters.that(moved.is_ok(), || "an open call has no deadline".into())?;
                if let Some(call) = end.book.calls.get_mut(&mark) {
                    call.deadline = deadline;
                }
                Ok(())
            }
        }
    }

    /// A command that has to be refused.
    pub(crate) fn misuse(&mut self, e: usize) -> Checked {
        if !self.may_speak(e) {
            return Ok(());
        }
        let which = self.rng.below(7);
        let end = self.end(e);
        let is_v1 = end.config.dialect.version == antiphon::VersionPolicy::V1Only;
        let too_large = "z".repeat(end.config.limits.max_outbox_bytes + 1);
        let named = Json::parse_str("{\"a\":1}").expect("it is JSON");
        match which {
            0 => self.refused_call(e, None, " ", &[1]),
            1 => self.refused_call(e, None, "ask", &7),
            2 if is_v1 => self.refused_call(e, None, "ask", named),
            2 | 3 => self.refused_call(e, None, "ask", &Unserialisable),
            4 => self.refused_call(e, None, "ask", &[too_large]),
            5 => self.refused_call(e, Some("false"), "ask", ()),
            _ => {
                let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
                let before = end.state();
                match end.run(|conn| conn.notify("", ())) {
                    Err(error) => end.refused(before, &error, counts),
                    Ok(()) => Err(Check::NoTrace.broken("a blank method was sent")),
                }
            }
        }
    }

    fn refused_call(
        &mut self,
        e: usize,
        id: Option<&str>,
        method: &str,
        params: impl Payload,
    ) -> Checked {
        let mark = self.mark();
        let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
        let back = end.call(id, method, params, None, mark, Purpose::Plain, counts)?;
        Check::NoTrace.that(back.is_some(), || format!("{method:?} was sent"))
    }

    /// Answers a request whose token was lost or, if there is none, one that a handler keeps.
    pub(crate) fn answer_held(&mut self, e: usize) -> Checked {
        let chosen = self.rng.next();
        let end = self.end(e);
        if let Some(key) = end.lost.pop() {
            let (end, counts) = (&mut self.links[e / 2].ends[e % 2], &mut self.counts);
            return end.abandon(key, counts);
        }
        if end.held.is_empty() {
            return Ok(());
        }
        let at = (chosen % end.held.len() as u64) as usize;
        let held = end.held.remove(at);
        self.answer_well(e, held)
    }

    /// Closes an end.
    pub(crate) fn close(&mut self, e: usize) {
        let reason = self.rng.pick(&[
            CloseReason::Done,
            CloseReason::GoingAway,
            CloseReason::PeerMisbehaved,
            CloseReason::TransportFailed,
            CloseReason::Other("enough"),
        ]);
        let end = self.end(e);
        end.book.ending = true;
        end.run(|conn| conn.close(reason));
    }
}

/// A call that no connection here has made.
fn absent() -> CallId {
    let mut config = antiphon::Config::new();
    config.connection = u32::MAX;
    let mut other: antiphon::Connection<u64> = antiphon::Connection::new(config);
    other
        .call("ask", (), None, 0)
        .expect("a fresh connection takes a call")
}
