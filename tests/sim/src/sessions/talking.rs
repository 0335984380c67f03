//! What a side says by itself, and how its bytes come and go: calls, reading and writing.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon::session::Session;
use antiphon::{CallId, Instant};

use super::book::{Ending, Open};
use super::checks::{Broken, Check, Checked};
use super::pipe::{End, Pipe, WireKind};
use super::plant::Plant;
use super::settings::MAX_READ_BYTES;
use super::side::{Side, reset};
use antiphon_test_support::heap::measured;
use antiphon_test_support::random::Random;

impl Side {
    /// Makes a call that is due in `span` milliseconds, or never. False if it was refused.
    pub(super) fn call(
        &mut self,
        number: u64,
        now: u64,
        span: Option<u64>,
    ) -> Result<bool, Broken> {
        self.present(now)?;
        let deadline = span.map(|span| self.told + Duration::from_millis(span));
        let called = self.ask(|session| session.call("m", &[number], deadline, number).ok());
        let Some(call) = called else {
            self.counts.add("call: refused");
            self.check()?;
            return Ok(false);
        };
        self.marks.push(self.session.transmit_queued());
        self.book.open.insert(
            number,
            Open {
                call: Some(call),
                deadline,
                is_unwanted: false,
            },
        );
        self.check()?;
        Ok(true)
    }

    pub(super) fn notify(&mut self, number: u64) -> Checked {
        let notified = self.ask(|session| session.notify("n", &[number]).is_ok());
        if notified {
            self.marks.push(self.session.transmit_queued());
        }
        self.check()
    }

    /// Sends a batch of a notification, which has the last number, and of calls before it. The first
    /// number is that of the message before, and is not used.
    pub(super) fn batch(
        &mut self,
        numbers: std::ops::Range<u64>,
        now: u64,
        span: Option<u64>,
    ) -> Checked {
        self.present(now)?;
        let deadline = span.map(|span| self.told + Duration::from_millis(span));
        let sent = self.ask(|session| {
            let mut calls: BTreeMap<u64, CallId> = BTreeMap::new();
            let mut batch = session.batch(deadline);
            for number in numbers.start + 1..numbers.end {
                if let Ok(handle) = batch.call::<()>("m", &[number], number) {
                    calls.insert(number, handle.call());
                }
            }
            let _ = batch.notify("n", &[numbers.end]);
            batch.send().is_ok().then_some(calls)
        });
        let Some(calls) = sent else {
            self.counts.add("call: refused");
            return self.check();
        };
        self.counts.add("call: in a batch");
        let open = |(number, call)| {
            (
                number,
                Open {
                    call: Some(call),
                    deadline,
                    is_unwanted: false,
                },
            )
        };
        self.book.open.extend(calls.into_iter().map(open));
        self.check()
    }

    /// Moves the deadline of an open call, or asks the peer twice to give it up, or neither. May then
    /// give it up itself.
    pub(super) fn disturb_call(&mut self, rng: &mut Random) -> Checked {
        let numbers: Vec<u64> = self.book.open.keys().copied().collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let number = rng.pick(&numbers);
        let Some(call) = self.book.open[&number].call else {
            return Ok(());
        };
        match rng.below(4) {
            0 => {
                let deadline = self.told + Duration::from_millis(rng.within(0, 3000));
                let moved = self.ask(|session| session.set_deadline(call, Some(deadline)));
                if let (Ok(()), Some(open)) = (moved, self.book.open.get_mut(&number)) {
                    open.deadline = Some(deadline);
                    self.counts.add("call: deadline moved");
                }
                self.check()?;
            }
            1 | 2 => {
                self.counts.add("call: cancel asked twice");
                if let Some(open) = self.book.open.get_mut(&number) {
                    open.is_unwanted = true;
                }
                let _ = self.ask(|session| (session.ask_cancel(call), session.ask_cancel(call)));
                self.check()?;
            }
            _ => {}
        }
        if rng.chance(30) {
            self.give_up(number, call)?;
        }
        Ok(())
    }

    fn give_up(&mut self, number: u64, call: CallId) -> Checked {
        let given_up = self.ask(|session| session.cancel(call));
        if let Some(waiter) = given_up {
            self.counts.add("outcome: cancelled here");
            let was_open = self.book.open.remove(&waiter).is_some() && waiter == number;
            Check::SettlesOnce.that(was_open, || format!("{waiter} was not open"))?;
            self.settled.push((waiter, Ending::Aborted));
        }
        self.check()?;
        let again = self.ask(|session| session.cancel(call));
        self.check()?;
        Check::SettlesOnce.that(again.is_none(), || format!("{number} is given up twice"))
    }

    /// Gives up the calls that the peer was asked to give up: in some dialects it does not answer them.
    pub(super) fn give_up_unwanted(&mut self) -> Checked {
        let unwanted = self.book.open.iter().filter(|(_, open)| open.is_unwanted);
        let unwanted: Vec<_> = unwanted
            .map(|(number, open)| (*number, open.call))
            .collect();
        for (number, call) in unwanted {
            if let Some(call) = call {
                self.give_up(number, call)?;
            }
        }
        Ok(())
    }

    /// Reads once. False if there was nothing to read, or nothing may be.
    pub(super) fn read(
        &mut self,
        pipe: &mut Pipe,
        now: u64,
        rng: &mut Random,
    ) -> Result<bool, Broken> {
        if self.session.is_input_over() {
            return Ok(false);
        }
        if !self.may_read() {
            self.counts.add("fault: reading paused");
            return Ok(false);
        }
        let most = match rng.below(4) {
            0 => 1,
            1 => rng.size(1, 40),
            _ => MAX_READ_BYTES,
        };
        if let Some(bytes) = pipe.take(most) {
            if most < MAX_READ_BYTES {
                self.counts.add("fault: split read");
            }
            self.present(now)?;
            self.book.hear(&bytes, self.phase);
            self.tell(|session| session.handle_input(&bytes))?;
            return Ok(true);
        }
        let Some(end) = pipe.reached_end() else {
            return Ok(false);
        };
        pipe.is_end_told = true;
        self.present(now)?;
        match end {
            End::Lost => self.fail_read()?,
            _ => {
                self.book.hear_end(self.phase);
                self.tell(Session::handle_eof)?;
            }
        }
        Ok(true)
    }

    pub(super) fn fail_read(&mut self) -> Checked {
        self.counts.add("fault: failed read");
        self.tell(|session| session.handle_read_failed(reset()))
    }

    pub(super) fn fail_write(&mut self) -> Checked {
        self.counts.add("fault: failed write");
        self.writing = None;
        self.tell(|session| session.handle_write_failed(reset()))
    }

    /// Takes output to be written. False if there is none, or while some is being written.
    pub(super) fn take_output(&mut self) -> Result<bool, Broken> {
        let (session, scratch) = (&mut self.session, &mut self.scratch);
        scratch.clear();
        let (has_some, used) = measured(|| {
            let mut output = Vec::new();
            let has_some = session.has_transmit();
            let taken = session.take_transmit(&mut output);
            // A copy leaves the session, so that its memory is freed before the measurement ends.
            scratch.extend_from_slice(&output[..output.len().min(scratch.capacity())]);
            (has_some == taken).then_some(taken)
        });
        self.live += used.left;
        let Some(taken) = has_some else {
            return Err(Check::OneWrite.broken("`has_transmit` and `take_transmit` differ"));
        };
        if !taken {
            return Ok(false);
        }
        Check::OneWrite.that(self.writing.is_none() && !self.scratch.is_empty(), || {
            "output was handed out while some was being written".into()
        })?;
        let mut bytes = self.scratch.clone();
        if self.plant == Some(Plant::OutputDamaged) {
            if let Some(at) = bytes.iter().position(|byte| *byte == b'{') {
                bytes[at] = b'!';
            }
        }
        self.book.say(&bytes)?;
        if self.plant == Some(Plant::AnswerTwice) {
            self.book.say(&bytes)?;
        }
        self.writing = Some((bytes, 0));
        if self.plant == Some(Plant::WrittenEarly) {
            self.tell(Session::handle_written)?;
        }
        self.check()?;
        Ok(true)
    }

    /// Writes some of the output that was taken. False if there was none, or no capacity for it; true
    /// also if writing failed.
    pub(super) fn write(
        &mut self,
        pipe: &mut Pipe,
        now: u64,
        rng: &mut Random,
    ) -> Result<bool, Broken> {
        let clock = Instant::from_nanos(self.clock(now));
        let Some((bytes, done)) = &mut self.writing else {
            return Ok(false);
        };
        if pipe.is_broken() {
            self.fail_write()?;
            return Ok(true);
        }
        let left = bytes.len() - *done;
        let capacity = pipe.capacity();
        let most = match self.wire {
            WireKind::Messages => capacity,
            _ if rng.chance(40) => capacity.min(rng.size(1, 60)),
            _ => capacity,
        };
        if most == 0 {
            self.counts.add("fault: pipe full");
            return Ok(false);
        }
        let count = left.min(most);
        pipe.put(&bytes[*done..*done + count]);
        *done += count;
        if count < left {
            self.counts.add("fault: partial write");
            self.told = self.told.max(clock);
            self.tell(|session| session.handle_write_progress(clock))?;
            return Ok(true);
        }
        let len = bytes.len() as u64;
        self.writing = None;
        self.written += len - u64::from(self.plant == Some(Plant::ByteUncounted));
        self.tell(Session::handle_written)?;
        Ok(true)
    }

    /// Whether output was taken and not all of it has been written.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }
}
