//! Invariant: whatever two sessions are told, and in whatever order, each call settles once, a
//! session's phase never goes back, no deadline stays due once the time was given, and once the wire
//! is whole both come to their end.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use antiphon::session::{Order, Phase, Session, SessionConfig, Ticket, WhenFull, Wire, Work};
use antiphon::{CallId, CloseReason, ConnectionError, ErrorObject, Instant, OwnedOutcome};

use crate::PLANTED;
use crate::bytes::Bytes;
use crate::config::config;

const MAX_STEPS: usize = 300;

/// How often both sides take a turn until both are over.
const MAX_TURNS: usize = 200;

/// How much may be on its way to a side before more is thrown away.
const MAX_WIRE_BYTES: usize = 20_000;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut world = World::new(&mut bytes);
    let off = bytes.word();
    for _ in 0..MAX_STEPS {
        let Some(which) = bytes.some() else { break };
        let (op, side) = (which % 16, usize::from(which >> 4 & 1));
        // Swarm testing: an operation that is off in this run is never done.
        if off >> op & 1 == 0 {
            world.step(op, side, &mut bytes);
            world.check();
        }
    }
    world.end();
}

struct Side {
    session: Session<u64>,
    /// What is on its way here.
    wire: VecDeque<u8>,
    /// What was taken to be written.
    taken: Option<Vec<u8>>,
    tickets: Vec<Ticket>,
    order: Order,
    open: BTreeSet<u64>,
    calls: Vec<CallId>,
    phase: Phase,
}

impl Side {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let mut session = SessionConfig::from(config(bytes));
        let knobs = bytes.byte();
        session.config.timeouts.drain_timeout =
            session.config.timeouts.drain_timeout.or(Some(LONG));
        session.max_queued_messages = 1 + bytes.below(8);
        session.max_queued_bytes = 40 * (1 + bytes.below(40));
        session.refuse_http = knobs & 1 != 0;
        if knobs & 2 != 0 {
            session.when_full = WhenFull::Drop;
        }
        session.order = match knobs >> 2 & 3 {
            0 | 1 => Order::Notifications,
            2 => Order::Free,
            _ => Order::Serial,
        };
        let order = session.order;
        let session = Session::new(session, Wire::Stream, Instant::ZERO);
        Self {
            phase: session.phase(),
            session,
            wire: VecDeque::new(),
            taken: None,
            tickets: Vec::new(),
            order,
            open: BTreeSet::new(),
            calls: Vec::new(),
        }
    }

    fn read(&mut self, len: usize) {
        let len = len.min(self.wire.len());
        let bytes: Vec<u8> = self.wire.drain(..len).collect();
        self.session.handle_input(&bytes);
    }

    fn take_output(&mut self) {
        if self.taken.is_none() {
            let mut output = Vec::new();
            if self.session.take_transmit(&mut output) {
                assert!(!output.is_empty());
                self.taken = Some(output);
            }
        }
    }

    fn work(&mut self, may_begin: bool) -> bool {
        let work = self.session.poll_work(may_begin);
        let is_some = work.is_some();
        let begins = matches!(work, Some(Work::Request(..) | Work::Notification(_)));
        if begins && self.order == Order::Serial && self.phase.closed().is_none() {
            let mut keys = self.tickets.iter().map(Ticket::key);
            assert!(keys.all(|key| self.session.is_cancelled(key)));
        }
        match work {
            Some(Work::Request(_, ticket)) => {
                assert!(may_begin || self.phase.is_over());
                self.tickets.push(ticket);
            }
            Some(Work::Report(report)) => drop(report.to_string()),
            _ => {}
        }
        is_some
    }

    fn answer(&mut self, ticket: Ticket, how: u8) {
        let session = &mut self.session;
        // Each fails if the request is not open any more.
        let _ = match how % 8 {
            0 | 1 => session.respond(ticket, &how),
            2 => session.respond_err(ticket, &ErrorObject::invalid_params()),
            3 => session.respond_unknown_method(ticket, "m"),
            4 => session.respond_cancelled(ticket),
            5 => {
                session.refuse(ticket);
                Ok(())
            }
            6 => {
                session.abandon(ticket);
                Ok(())
            }
            _ => {
                session.handle_panic(Some(ticket), "");
                Ok(())
            }
        };
    }

    /// Takes what has settled, and checks what must hold after every step.
    fn check(&mut self) {
        while let Some(settled) = self.session.poll_settled() {
            let is_lost = matches!(settled.outcome, OwnedOutcome::TimedOut);
            if PLANTED && is_lost {
                continue;
            }
            assert!(self.open.remove(&settled.waiter), "it has settled before");
        }
        let phase = self.session.phase();
        assert!(
            rank(phase) >= rank(self.phase),
            "{:?} to {phase:?}",
            self.phase
        );
        if self.phase.is_over() {
            assert_eq!(phase, self.phase);
        }
        self.phase = phase;
        if phase.is_over() {
            assert!(self.open.is_empty(), "calls outlived the session");
            assert_eq!(self.session.calls_open(), 0);
            assert!(!self.session.has_transmit());
            assert_eq!(self.session.poll_timeout(), None);
        }
        if self.session.phase().closed().is_some() {
            assert!(self.session.wants_input() || self.session.is_input_over());
        }
    }
}

const LONG: Duration = Duration::from_secs(60);

/// The phases in their order.
fn rank(phase: Phase) -> u8 {
    match phase {
        Phase::Opening => 0,
        Phase::Open => 1,
        Phase::Draining => 2,
        Phase::InputEnded { .. } | Phase::LastWords { .. } => 3,
        Phase::Closing { .. } => 4,
        Phase::Over(_) => 5,
        _ => unreachable!("there is no other"),
    }
}

struct World {
    sides: [Side; 2],
    now: Instant,
    waiter: u64,
}

impl World {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        Self {
            sides: [Side::new(bytes), Side::new(bytes)],
            now: Instant::ZERO,
            waiter: 0,
        }
    }

    fn step(&mut self, op: u8, at: usize, bytes: &mut Bytes<'_>) {
        let side = &mut self.sides[at];
        match op {
            0 | 1 => {
                let after = bytes.byte();
                let deadline = self.now + Duration::from_millis(u64::from(after));
                self.waiter += 1;
                let waiter = self.waiter;
                let deadline = (after > 0).then_some(deadline);
                if let Ok(call) = side.session.call("m", (), deadline, waiter) {
                    side.open.insert(waiter);
                    side.calls.push(call);
                }
            }
            2 => {
                let mut batch = side.session.batch(None);
                let mut waiters = Vec::new();
                for _ in 0..1 + bytes.below(3) {
                    self.waiter += 1;
                    if batch.call::<()>("b", (), self.waiter).is_ok() {
                        waiters.push(self.waiter);
                    }
                }
                let _ = batch.notify("n", ());
                // A batch that was refused leaves none of its calls.
                if batch.send().is_ok() {
                    side.open.extend(waiters);
                }
            }
            3 => drop(side.session.notify("n", ())),
            4 => {
                let len = usize::from(bytes.byte());
                side.read(len);
            }
            5 => side.take_output(),
            6 => self.write(at),
            7 => drop(side.work(bytes.bit())),
            8 => {
                if !side.tickets.is_empty() {
                    let which = bytes.below(side.tickets.len());
                    let ticket = side.tickets.swap_remove(which);
                    side.answer(ticket, bytes.byte());
                }
            }
            9 => {
                if !side.calls.is_empty() {
                    let call = *bytes.one(&side.calls);
                    match bytes.below(3) {
                        0 => drop(side.session.ask_cancel(call)),
                        1 => drop(side.session.set_deadline(call, Some(self.now))),
                        _ => {
                            if let Some(waiter) = side.session.cancel(call) {
                                assert!(side.open.remove(&waiter), "it has settled before");
                            }
                        }
                    }
                }
            }
            10 => {
                self.now += Duration::from_millis(u64::from(bytes.byte()) * 4);
                match bytes.below(4) {
                    0 => side.session.handle_time(self.now),
                    1 => side.session.handle_write_progress(self.now),
                    _ => self.judge(at),
                }
            }
            11 => side.wire.extend(bytes.some_bytes()),
            12 => match bytes.below(4) {
                0 => side
                    .session
                    .handle_write_failed(ConnectionError::WriteTimedOut),
                1 => side.session.handle_read_failed(ConnectionError::Truncated),
                2 => side.session.handle_peer_gone(None),
                _ => side.session.abort(None),
            },
            13 => side.session.handle_eof(),
            14 => match bytes.below(4) {
                0 => side.session.close(CloseReason::Done),
                _ => side.session.drain(),
            },
            _ => match bytes.bit() {
                true => side.session.postpone(),
                false => side.session.handle_begun(),
            },
        }
    }

    /// Moves what one side has taken to the other.
    fn write(&mut self, at: usize) {
        if let Some(output) = self.sides[at].taken.take() {
            let wire = &mut self.sides[1 - at].wire;
            if wire.len() < MAX_WIRE_BYTES {
                wire.extend(output);
            }
            self.sides[at].session.handle_written();
        }
    }

    /// Tells a side the time; then no deadline of it may be due any more.
    fn judge(&mut self, at: usize) {
        let session = &mut self.sides[at].session;
        session.handle_timeout(self.now);
        let due = session.poll_timeout();
        assert!(due.is_none_or(|due| due > self.now), "{due:?} is over");
    }

    fn check(&mut self) {
        self.sides.iter_mut().for_each(Side::check);
    }

    /// Has both sides take 21 turns, ends their inputs, and lets time go by until both are over.
    fn end(&mut self) {
        for turn in 0..MAX_TURNS {
            for at in [0, 1] {
                // All is written: a write that never ends would only be ended by its timeout.
                self.sides[at].take_output();
                self.write(at);
                let side = &mut self.sides[at];
                side.read(usize::MAX);
                side.session.handle_begun();
                while side.work(true) {}
                for ticket in std::mem::take(&mut side.tickets) {
                    side.answer(ticket, 0);
                }
                side.check();
                if turn == 20 {
                    side.session.handle_eof();
                }
                if turn > 20 {
                    self.judge(at);
                }
            }
            self.check();
            if self.sides.iter().all(|side| side.phase.is_over()) {
                return;
            }
            if turn > 20 {
                self.now += Duration::from_secs(1);
            }
        }
        let [one, two] = &self.sides;
        panic!("no end: {:?} and {:?}", one.session, two.session);
    }
}
