//! Invariant: two peers that keep to the rules never misunderstand each other, whatever the wire does to their timing: every call settles exactly once and with its own answer, and all of them settle once the wire loses nothing any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use antiphon::{
    CallId, CancelAnswer, CancelStyle, CloseReason, Closed, Config, Connection, ErrorObject, Event,
    Framing, Input, Instant, Outcome, ReplyToken, RequestRef, ResponseRef, UnmatchedKind,
};

use crate::bytes::Bytes;
use crate::config::STREAMS;

const MAX_STEPS: usize = 300;

/// How often both sides take a turn until all is settled, once the wire is whole again.
const MAX_TURNS: usize = 2000;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let config = config(&mut bytes);
    let off = bytes.word();
    let hot = bytes.byte();
    let mut world = World::new(config);
    for _ in 0..MAX_STEPS {
        let Some(which) = bytes.some() else { break };
        let (op, side) = (which % 16, usize::from(which >> 4 & 1));
        // Swarm testing: an operation that is off in this run is never done.
        if off >> op & 1 == 0 {
            world.step(op, side, hot, &mut bytes);
            world.check();
        }
    }
    world.heal();
}

fn config(bytes: &mut Bytes<'_>) -> Config {
    let mut config = Config::new().framing(*bytes.one(&STREAMS));
    // A side that has not written a byte yet cannot know what the other will speak.
    if config.framing == Framing::Detect {
        config.framing = Framing::Newline;
    }
    let knobs = bytes.byte();
    (config.dialect.cancel_send, config.dialect.cancel_receive) = match knobs & 3 {
        0 => (CancelStyle::None, CancelStyle::None),
        1 => (CancelStyle::Mcp, CancelStyle::Mcp),
        _ => (CancelStyle::Lsp, CancelStyle::Lsp),
    };
    config.dialect.cancel_answer = match knobs >> 2 & 3 {
        0 => CancelAnswer::Silent,
        1 => CancelAnswer::Lsp,
        _ => CancelAnswer::RequestCancelled,
    };
    config.dialect.cancel_on_timeout = knobs & 16 != 0;
    config.limits.max_open_calls = 1 + bytes.below(12);
    config.limits.max_open_requests = 1 + bytes.below(12);
    config.limits.max_batch_items = 4;
    config.limits.max_batch_calls = 4;
    config.limits.soft_max_outbox_bytes = 64 + usize::from(bytes.byte()) * 8;
    // The wire is slow here, so these timeouts would end a connection to a peer that keeps to the
    // rules. Other targets have them.
    (
        config.timeouts.message_timeout,
        config.timeouts.write_timeout,
    ) = (None, None);
    config.timeouts.drain_timeout = (knobs & 32 != 0).then(|| Duration::from_millis(200));
    config
}

/// A request that waits for its answer.
struct Held {
    token: ReplyToken,
    result: String,
}

/// A call that waits for its answer.
struct Open {
    tag: u64,
    deadline: Option<Instant>,
}

struct Side {
    conn: Connection<u64>,
    /// What is on its way here, and what has arrived and was not yet taken.
    wire: VecDeque<u8>,
    inbox: Vec<u8>,
    open: BTreeMap<CallId, Open>,
    /// Ids of calls that were given up: only they may be answered late.
    given_up: BTreeSet<String>,
    held: Vec<Held>,
    /// Calls whose cancel was asked for and may never be answered.
    asked: Vec<CallId>,
    eof_comes: bool,
    eof_told: bool,
    ended: bool,
}

impl Side {
    fn new(mut config: Config, connection: u32) -> Self {
        config.connection = connection;
        Self {
            conn: Connection::new(config),
            wire: VecDeque::new(),
            inbox: Vec::new(),
            open: BTreeMap::new(),
            given_up: BTreeSet::new(),
            held: Vec::new(),
            asked: Vec::new(),
            eof_comes: false,
            eof_told: false,
            ended: false,
        }
    }
}

struct World {
    config: Config,
    sides: [Side; 2],
    now: Instant,
    tag: u64,
    connections: u32,
    /// The wire was cut in this conversation, so bytes may be missing.
    is_cut: bool,
}

impl World {
    fn new(config: Config) -> Self {
        Self {
            config,
            sides: [Side::new(config, 1), Side::new(config, 2)],
            now: Instant::ZERO,
            tag: 0,
            connections: 2,
            is_cut: false,
        }
    }

    fn step(&mut self, op: u8, side: usize, hot: u8, bytes: &mut Bytes<'_>) {
        match op {
            0 | 1 => self.call(side, bytes),
            2 => self.batch(side, bytes),
            3 => {
                let params = self.params(bytes.byte());
                // Refused when the output is full or the end has come.
                let _ = self.sides[side].conn.notify("tell", &params);
            }
            4 => self.cancel(side, bytes.place(hot), bytes.bit()),
            5 => self.extend(side, bytes.place(hot), bytes.byte()),
            6 | 7 => self.transmit(side, 1 + usize::from(bytes.byte())),
            8..=10 => self.deliver(side, 1 + usize::from(bytes.byte())),
            11 | 12 => self.answer(side, bytes.place(hot), bytes.byte()),
            13 => {
                self.now += Duration::from_millis(u64::from(bytes.byte()));
                let at = self.now;
                self.sides
                    .iter_mut()
                    .for_each(|side| side.conn.handle_timeout(at));
                self.deliver(0, 0);
                self.deliver(1, 0);
            }
            14 => {
                let n = 1 + usize::from(bytes.byte() % 8);
                self.transmit(side, n);
                self.deliver(1 - side, n);
            }
            _ => self.end(side, bytes.byte()),
        }
    }

    /// Ends are rare, or every run would be short.
    fn end(&mut self, side: usize, how: u8) {
        match how {
            0 => self.sides[side].conn.drain(),
            1 => {
                self.sides[side].conn.close(CloseReason::Done);
                self.deliver(side, 0);
            }
            2 => self.sides[side].eof_comes = true,
            3 | 4 => self.cut(),
            _ => {}
        }
    }

    fn params(&mut self, how: u8) -> (u64, &'static str) {
        self.tag += 1;
        (
            self.tag,
            ["", "\u{e9}", "\\\"", "}\n{", "\u{1F600}]"][usize::from(how) % 5],
        )
    }

    fn deadline(&self, bytes: &mut Bytes<'_>) -> Option<Instant> {
        let span = bytes.byte();
        (span >= 0x80).then(|| self.now + Duration::from_millis(u64::from(span - 0x80)))
    }

    fn call(&mut self, side: usize, bytes: &mut Bytes<'_>) {
        let params = self.params(bytes.byte());
        let deadline = self.deadline(bytes);
        let side = &mut self.sides[side];
        match side.conn.call("echo", &params, deadline, params.0) {
            Ok(call) => drop(side.open.insert(
                call,
                Open {
                    tag: params.0,
                    deadline,
                },
            )),
            Err(refused) => assert_eq!(refused.value, params.0, "a tag comes back"),
        }
    }

    fn batch(&mut self, side: usize, bytes: &mut Bytes<'_>) {
        let deadline = self.deadline(bytes);
        let n = bytes.byte() % 5;
        let all: Vec<_> = (0..n).map(|how| self.params(how)).collect();
        let side = &mut self.sides[side];
        let mut batch = side.conn.batch(deadline);
        let mut made = Vec::new();
        for params in &all {
            let call = batch.call::<u8>("echo", params, params.0);
            made.extend(call.ok().map(|call| (call.call(), params.0)));
        }
        if batch.send().is_ok() {
            side.open.extend(
                made.into_iter()
                    .map(|(call, tag)| (call, Open { tag, deadline })),
            );
        }
    }

    fn cancel(&mut self, side: usize, which: u8, ask_only: bool) {
        let side = &mut self.sides[side];
        let Some((&call, open)) = side
            .open
            .iter()
            .nth(usize::from(which) % side.open.len().max(1))
        else {
            return;
        };
        if ask_only {
            // The dialect, or the end, may leave no way to say it. Where the answer is silence the
            // call waits for its deadline, or is given up when the wire heals.
            let asked = side.conn.ask_cancel(call).is_ok();
            if asked && self.config.dialect.cancel_answer == CancelAnswer::Silent {
                side.asked.push(call);
            }
            return;
        }
        assert_eq!(side.conn.cancel(call), Some(open.tag));
        assert_eq!(side.conn.cancel(call), None);
        side.given_up.insert(call.number().to_string());
        side.open.remove(&call);
    }

    fn extend(&mut self, side: usize, which: u8, span: u8) {
        let deadline = (span >= 0x40).then(|| self.now + Duration::from_millis(u64::from(span)));
        let side = &mut self.sides[side];
        let n = side.open.len().max(1);
        if let Some((&call, open)) = side.open.iter_mut().nth(usize::from(which) % n) {
            assert_eq!(side.conn.set_deadline(call, deadline), Ok(()));
            open.deadline = deadline;
        }
    }

    /// Puts up to `n` bytes of one side's output on the wire.
    fn transmit(&mut self, side: usize, n: usize) {
        let shown = self.sides[side].conn.poll_transmit().unwrap_or_default();
        let n = n.min(shown.len());
        let taken = shown[..n].to_vec();
        self.sides[side].conn.consume_transmit(n);
        if !self.is_cut {
            self.sides[1 - side].wire.extend(taken);
        }
    }

    /// Lets up to `n` bytes arrive at one side, and everything that comes of it be told. The
    /// planted fault loses what follows when a delivery ends inside a character.
    fn deliver(&mut self, side: usize, n: usize) {
        let here = &mut self.sides[side];
        let n = n.min(here.wire.len());
        here.inbox.extend(here.wire.drain(..n));
        let is_half = here.inbox.last() == Some(&0xC3) && here.held.len() > 1;
        if crate::PLANTED && is_half {
            here.wire.pop_front();
        }
        if here.eof_comes && here.wire.is_empty() && !here.eof_told {
            here.eof_told = true;
            here.conn.handle_eof();
        }
        let inbox = std::mem::take(&mut self.sides[side].inbox);
        let mut input = Input::stream(&inbox);
        while let Some(event) = self.sides[side].conn.poll_event(&mut input) {
            self.hear(side, event);
        }
        let rest = &inbox[input.consumed()..];
        let here = &mut self.sides[side];
        here.inbox = rest.to_vec();
        assert!(here.inbox.len() <= here.conn.config().max_input_bytes());
        let next = here.conn.poll_timeout();
        assert!(
            next.is_none_or(|next| next > self.now),
            "the next wake-up lies ahead"
        );
        let due = |open: &Open| open.deadline.is_some_and(|deadline| deadline <= self.now);
        assert!(!here.open.values().any(due), "what is due has been told");
    }

    fn hear(&mut self, side: usize, event: Event<'_, u64>) {
        let (now, is_cut) = (self.now, self.is_cut);
        let here = &mut self.sides[side];
        // After an orderly end, a close still cancels the requests that are being answered.
        let is_last_word = matches!(event, Event::Cancelled(_));
        assert!(!here.ended || is_last_word, "after the end: {event:?}");
        match event {
            Event::Request(request) => here.request(request),
            Event::Notification(told) => assert_eq!(told.method, "tell"),
            Event::Response(response) => here.response(response, now),
            Event::Cancelled(cancelled) => {
                let at = here
                    .held
                    .iter()
                    .position(|held| held.token.key() == cancelled.key);
                assert!(at.is_some(), "only what is held is cancelled");
                if !cancelled.answer_owed {
                    at.map(|at| here.held.swap_remove(at));
                }
            }
            Event::Refused(refused) => assert!(refused.answered.is_some()),
            Event::UnmatchedResponse(unmatched) => match unmatched.kind {
                UnmatchedKind::Late(_) | UnmatchedKind::Cancelled(_) => {
                    let is_expected = matches!(unmatched.kind, UnmatchedKind::Cancelled(_));
                    let may_cancel = self.config.dialect.cancel_send != CancelStyle::None;
                    assert!(!is_expected || may_cancel, "no cancel was sent");
                    let id = unmatched
                        .id
                        .expect("what comes late has an id")
                        .text()
                        .to_string();
                    assert!(here.given_up.remove(&id), "{id} is answered twice");
                }
                UnmatchedKind::Cancel => {}
                kind => panic!("an answer to nothing: {kind:?}"),
            },
            Event::Malformed(malformed) => panic!("misunderstood: {malformed:?}"),
            Event::Closed(why) => {
                let failed = matches!(why, Closed::Failed(_));
                let timed_out = why == Closed::Failed(antiphon::ConnectionError::DrainTimedOut);
                assert!(!failed || is_cut || here.eof_told || timed_out, "{why:?}");
                here.ended = true;
            }
            _ => {}
        }
    }

    fn answer(&mut self, side: usize, which: u8, how: u8) {
        let side = &mut self.sides[side];
        if side.held.is_empty() {
            return;
        }
        let held = side.held.swap_remove(usize::from(which) % side.held.len());
        let result = antiphon::Json::parse_str(&held.result).expect("it came as JSON");
        let is_kept = side.conn.is_answer_kept(held.token.key());
        let queued = side.conn.transmit_queued();
        let given = match how % 4 {
            0 => side
                .conn
                .respond_err(held.token, &ErrorObject::new(7, "no")),
            1 => side.conn.respond_cancelled(held.token),
            _ => side.conn.respond(held.token, result),
        };
        // A closed connection answers nobody.
        assert!(
            given.is_ok() || side.conn.is_closed() || side.ended,
            "{given:?}"
        );
        // It waits for the other answers of its batch.
        assert!(!is_kept || side.conn.transmit_queued() == queued);
    }

    /// What must hold after any step.
    fn check(&self) {
        for side in &self.sides {
            assert_eq!(side.conn.calls_open(), side.open.len());
            assert!(side.conn.requests_open() >= side.held.len() || side.ended);
            assert!(side.conn.requests_open() <= self.config.limits.max_open_requests.max(4) + 4);
        }
    }

    /// The wire breaks: what is on it is lost. Both sides come to their ends, and begin anew.
    fn cut(&mut self) {
        self.is_cut = true;
        for side in 0..2 {
            self.sides[side].wire.clear();
            self.sides[side].eof_comes = true;
        }
        self.settle();
        self.connections += 2;
        let number = self.connections;
        self.sides = [number - 1, number].map(|number| Side::new(self.config, number));
        let now = self.now;
        self.sides
            .iter_mut()
            .for_each(|side| side.conn.handle_timeout(now));
        self.is_cut = false;
    }

    fn heal(&mut self) {
        self.settle();
        for side in &mut self.sides {
            side.eof_comes = true;
        }
        self.settle();
        assert!(
            self.sides
                .iter()
                .all(|side| side.ended && side.conn.is_closed())
        );
    }

    /// Everything that can be moved is, and everything that waits is answered, until all is still.
    fn settle(&mut self) {
        for _ in 0..MAX_TURNS {
            for side in 0..2 {
                self.transmit(side, usize::MAX);
            }
            for side in 0..2 {
                self.deliver(side, usize::MAX);
                while !self.sides[side].held.is_empty() {
                    self.answer(side, 0, 3);
                }
            }
            let is_still =
                |side: &Side| side.wire.is_empty() && side.conn.poll_transmit().is_none();
            if self.sides.iter().all(is_still) {
                for side in &mut self.sides {
                    side.give_up_asked();
                }
                // A call that is open now waits for its deadline, or the other side has ended.
                let left = |side: &Side| side.ended || side.eof_told || side.open.is_empty();
                let is_left = self.sides.iter().any(|side| side.ended || side.eof_told);
                assert!(
                    is_left || self.sides.iter().all(left),
                    "a call never settles"
                );
                for side in 0..2 {
                    self.sides[side].eof_comes |= self.sides[1 - side].ended;
                    self.deliver(side, 0);
                }
                if self.sides.iter().all(|side| side.open.is_empty()) {
                    return;
                }
            }
        }
        panic!("it never comes to rest");
    }
}

impl Side {
    fn give_up_asked(&mut self) {
        for call in std::mem::take(&mut self.asked) {
            if self.open.remove(&call).is_some() {
                self.conn.cancel(call);
                self.given_up.insert(call.number().to_string());
            }
        }
    }

    fn request(&mut self, request: RequestRef<'_>) {
        assert_eq!(request.method, "echo");
        let result = request.params.expect("it has params").as_str().to_string();
        self.held.push(Held {
            token: request.token,
            result,
        });
    }

    fn response(&mut self, response: ResponseRef<'_, u64>, now: Instant) {
        let open = self
            .open
            .remove(&response.call)
            .expect("a call settles once");
        assert_eq!(open.tag, response.tag);
        match response.outcome {
            Outcome::Ok(result) => {
                let (tag, _): (u64, String) = result.decode().expect("it is an echo");
                assert_eq!(tag, open.tag, "the answer of another call");
            }
            Outcome::Err(error) => {
                // The error of `answer`, two kinds of cancelled (-32001, -32800), busy, and internal.
                let known = [7, -32001, -32002, -32603, -32800];
                assert!(known.contains(&error.code()), "{error:?}");
            }
            Outcome::TimedOut => {
                assert!(
                    open.deadline.is_some_and(|deadline| deadline <= now),
                    "too early"
                );
                self.given_up.insert(response.call.number().to_string());
            }
            Outcome::Unsent | Outcome::Aborted => {}
            outcome => panic!("{outcome:?}"),
        }
    }
}
