//! Rows 12 and 13: our table of calls, through a connection, and a usual one, made of a hash map and a heap of deadlines.
//!
//! Rule: both settle open calls at random and make others, while time goes by and deadlines come due; and the
//! usual table does no more than a table must. Ids are numbers, the tag is a word, and the heap is lazy: a call that
//! settles leaves its deadline there until it comes due.

use std::array;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::mem;

use antiphon::{CallId, Config, Connection, Framing, Input, Instant};
use hashbrown::HashMap;

use crate::operations::Operation;

/// How many calls settle in a run. Expired deadlines are looked for after them, as a driver does once a turn.
pub const RUN: usize = 256;

/// How far ahead every deadline lies, in nanoseconds.
const SPAN: u64 = 30_000_000_000;

/// How much time goes by from call to call, in nanoseconds: a quarter of a million calls a second, however many are open. With
/// a million open a call lives 4 s on average, so nearly all have settled when their deadline comes.
const APART: u64 = 4_000;

/// The open calls, and which of them settle in the next run: any of them, each as likely as the others.
struct Open<T> {
    calls: Vec<T>,
    next: [usize; RUN],
    seed: u64,
    now: u64,
    is_warm: bool,
}

impl<T: Copy> Open<T> {
    fn new(open: usize) -> Self {
        Self {
            calls: Vec::with_capacity(open),
            next: [0; RUN],
            seed: 1,
            now: 0,
            is_warm: false,
        }
    }

    /// Moves time on to the next call, and gives its deadline.
    fn deadline(&mut self) -> u64 {
        self.now += APART;
        self.now + SPAN
    }

    /// Chooses, and loads the chosen part of the list into the cache: to wait for it is a cost of the harness only, for an
    /// answer brings its id along.
    fn choose(&mut self) {
        let (len, mut seed) = (self.calls.len() as u64, self.seed);
        self.next = array::from_fn(|_| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (((seed >> 32) * len) >> 32) as usize
        });
        self.seed = seed;
        for &at in &self.next {
            black_box(self.calls[at]);
        }
    }

    /// How many runs it takes until as many deadlines come due as are set; 0 from the second time on.
    fn runs_to_warm(&mut self) -> u64 {
        if mem::replace(&mut self.is_warm, true) {
            return 0;
        }
        SPAN.div_ceil(APART * RUN as u64)
    }
}

/// Runs it unmeasured, until what it holds grows no more.
fn warm(operation: &mut dyn Operation, runs: u64) {
    for _ in 0..runs {
        operation.run();
        operation.between();
    }
}

/// Calls of a connection with a deadline. What they cost more than a notification is the table: to put a call into it, to
/// find it again and take it out, and the deadline that is set and dropped.
pub struct CallAndGiveUp {
    conn: Connection<u64>,
    open: Open<CallId>,
}

impl CallAndGiveUp {
    pub fn new(open: usize) -> Self {
        let mut config = Config::new().framing(Framing::Messages);
        config.limits.max_open_calls = 1 << 21;
        let mut new = Self {
            conn: Connection::new(config),
            open: Open::new(open),
        };
        for _ in 0..open {
            let call = new.call();
            new.open.calls.push(call);
        }
        new.between();
        new
    }

    #[inline(always)]
    fn call(&mut self) -> CallId {
        let deadline = Some(Instant::from_nanos(self.open.deadline()));
        let call = self
            .conn
            .call(black_box("subtract"), (), deadline, self.open.now);
        self.conn.consume_transmit(usize::MAX);
        call.expect("there is room")
    }
}

impl Operation for CallAndGiveUp {
    fn run(&mut self) {
        for turn in 0..RUN {
            let at = self.open.next[turn];
            black_box(self.conn.cancel(black_box(self.open.calls[at])));
            self.open.calls[at] = self.call();
        }
        self.conn.handle_timeout(Instant::from_nanos(self.open.now));
        // Few calls expire: nearly all have settled when their deadline comes.
        let mut input = Input::none();
        while let Some(event) = self.conn.poll_event(&mut input) {
            black_box(event);
        }
    }

    fn between(&mut self) {
        self.open.choose();
    }

    fn turn(&mut self) {
        let runs = self.open.runs_to_warm();
        warm(self, runs);
    }

    fn count(&self) -> u64 {
        RUN as u64
    }
}

/// The list of calls of the operation above, in its order, without a connection: the harness's part of its cost.
pub struct Turns(CallAndGiveUp);

impl Turns {
    pub fn new(open: usize) -> Self {
        Self(CallAndGiveUp::new(open))
    }
}

impl Operation for Turns {
    fn run(&mut self) {
        let open = &mut self.0.open;
        for turn in 0..RUN {
            let at = open.next[turn];
            let call = black_box(open.calls[at]);
            black_box(Some(call.number()));
            black_box(Instant::from_nanos(open.deadline()));
            open.calls[at] = black_box(call);
        }
    }

    fn between(&mut self) {
        self.0.open.choose();
    }

    fn count(&self) -> u64 {
        RUN as u64
    }
}

/// What an open call with a deadline holds of the heap besides its tag, with `open` calls open. (The list of their ids is
/// the harness's own.)
pub fn held_by_a_call(open: usize, held: fn() -> i64) -> f64 {
    let before = held();
    let calls = CallAndGiveUp::new(open);
    let list = calls.open.calls.capacity() * size_of::<CallId>();
    let all = held() - before - list as i64;
    drop(calls);
    all as f64 / open as f64 - size_of::<u64>() as f64
}

/// A map and a heap, for calls that a connection sends without keeping them: as notifications. With sending in between, the
/// processor waits for the memory of each call alone, as in a peer, and cannot work on the next call meanwhile.
pub struct HashAndHeap {
    conn: Connection<()>,
    calls: HashMap<u64, (u64, u64), foldhash::fast::FixedState>,
    deadlines: BinaryHeap<Reverse<(u64, u64)>>,
    next: u64,
    open: Open<u64>,
}

impl HashAndHeap {
    pub fn new(open: usize) -> Self {
        let mut new = Self {
            conn: Connection::new(Config::new().framing(Framing::Messages)),
            calls: HashMap::default(),
            deadlines: BinaryHeap::new(),
            next: 1,
            open: Open::new(open),
        };
        for _ in 0..open {
            let id = new.call();
            new.open.calls.push(id);
        }
        new.between();
        new
    }

    #[inline(always)]
    fn call(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        let deadline = self.open.deadline();
        let sent = self.conn.notify(black_box("subtract"), ());
        self.conn.consume_transmit(usize::MAX);
        sent.expect("there is room");
        self.calls.insert(id, (self.open.now, deadline));
        self.deadlines.push(Reverse((deadline, id)));
        id
    }
}

impl Operation for HashAndHeap {
    fn run(&mut self) {
        for turn in 0..RUN {
            let at = self.open.next[turn];
            black_box(self.calls.remove(&black_box(self.open.calls[at])));
            self.open.calls[at] = self.call();
        }
        // Most deadlines that come due belong to calls that have settled.
        while let Some(Reverse((deadline, id))) = self.deadlines.peek().copied() {
            if deadline > self.open.now {
                break;
            }
            self.deadlines.pop();
            // The call may have got a later deadline, as one can give it with ours.
            let is_due = |&(_, due): &(u64, u64)| due <= self.open.now;
            if self.calls.get(&id).is_some_and(is_due) {
                black_box(self.calls.remove(&id));
            }
        }
    }

    fn between(&mut self) {
        self.open.choose();
    }

    fn turn(&mut self) {
        let runs = self.open.runs_to_warm();
        warm(self, runs);
    }

    fn count(&self) -> u64 {
        RUN as u64
    }
}
