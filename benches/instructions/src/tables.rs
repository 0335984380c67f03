//! Rows 12 and 13: our table of calls, through a connection, and one as it is usually made, of a hash map and a heap
//! of deadlines.
//!
//! The rule guarded: both settle one of the open calls and make another, in one order; and the usual table does no more
//! than a table must. Ids are numbers, the tag is a word, and the heap is lazy: a call that settles leaves its deadline
//! there until it comes due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use antiphon::{CallId, Config, Connection, Framing, Instant};
use hashbrown::HashMap;

use crate::operations::Operation;

/// Calls are settled in another order than they are made in.
const STEP: usize = 389;

/// As far as any deadline lies ahead, in nanoseconds: what the calls before have left behind comes due on the way.
const SPAN: u64 = 30_000_000_000;

/// The next of `len` calls to settle. Without a division, which would cost as much as what is measured.
fn next(at: usize, len: usize) -> usize {
    let at = at + if len > STEP { STEP } else { 1 };
    if at < len { at } else { at - len }
}

/// Calls of a connection with a deadline. What it costs beside a notification is the table: to put a call into it, to
/// find it again and take it out, and the deadline that is set and dropped.
pub struct CallAndGiveUp {
    conn: Connection<u64>,
    open: Vec<CallId>,
    at: usize,
    now: u64,
    /// How much time goes by from call to call, so that as many deadlines lie ahead as calls are open.
    apart: u64,
}

impl CallAndGiveUp {
    pub fn new(open: usize) -> Self {
        let mut config = Config::new().with_framing(Framing::Messages);
        config.calls_max = 1 << 21;
        let mut new = Self {
            conn: Connection::new(config),
            open: Vec::new(),
            at: 0,
            now: 0,
            apart: SPAN / open as u64,
        };
        for _ in 0..open {
            let call = new.call();
            new.open.push(call);
        }
        new
    }

    fn call(&mut self) -> CallId {
        self.now += self.apart;
        let deadline = Some(Instant::from_nanos(self.now + SPAN));
        let call = self
            .conn
            .call(black_box("subtract"), (), deadline, self.now);
        self.conn.consume_transmit(usize::MAX);
        call.expect("there is room")
    }
}

impl Operation for CallAndGiveUp {
    fn run(&mut self) {
        for _ in 0..32 {
            self.at = next(self.at, self.open.len());
            black_box(self.conn.cancel(black_box(self.open[self.at])));
            self.open[self.at] = self.call();
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// The same list of calls and the same order without a connection: what of the operation above is the harness.
pub struct Turns(CallAndGiveUp);

impl Turns {
    pub fn new(open: usize) -> Self {
        Self(CallAndGiveUp::new(open))
    }
}

impl Operation for Turns {
    fn run(&mut self) {
        let list = &mut self.0;
        for _ in 0..32 {
            list.at = next(list.at, list.open.len());
            let call = black_box(list.open[list.at]);
            black_box(Some(call.number()));
            list.now += list.apart;
            list.open[list.at] = black_box(call);
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// What an open call with a deadline holds of the heap besides its tag, at so many open. (The list of their ids is the
/// harness's own.)
pub fn held_by_a_call(open: usize, held: fn() -> i64) -> f64 {
    let before = held();
    let calls = CallAndGiveUp::new(open);
    let list = calls.open.capacity() * size_of::<CallId>();
    let all = held() - before - list as i64;
    drop(calls);
    all as f64 / open as f64 - size_of::<u64>() as f64
}

/// A map and a heap.
pub struct HashAndHeap {
    calls: HashMap<u64, (u64, u64), foldhash::fast::FixedState>,
    deadlines: BinaryHeap<Reverse<(u64, u64)>>,
    open: Vec<u64>,
    next: u64,
    at: usize,
    now: u64,
    /// How much time goes by from call to call, so that as many deadlines lie ahead as calls are open.
    apart: u64,
}

impl HashAndHeap {
    pub fn new(open: usize) -> Self {
        let mut new = Self {
            calls: HashMap::default(),
            deadlines: BinaryHeap::new(),
            open: Vec::new(),
            next: 1,
            at: 0,
            now: 0,
            apart: SPAN / open as u64,
        };
        for _ in 0..open {
            let id = new.call();
            new.open.push(id);
        }
        new
    }

    fn call(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        self.now += self.apart;
        let deadline = self.now + SPAN;
        self.calls.insert(id, (id, deadline));
        self.deadlines.push(Reverse((deadline, id)));
        id
    }
}

impl Operation for HashAndHeap {
    fn run(&mut self) {
        for _ in 0..32 {
            self.at = next(self.at, self.open.len());
            black_box(self.calls.remove(&black_box(self.open[self.at])));
            self.open[self.at] = self.call();
            // What has come due is of calls that have settled, or is put off with its call.
            while let Some(Reverse((deadline, id))) = self.deadlines.peek().copied() {
                if deadline > self.now {
                    break;
                }
                self.deadlines.pop();
                if let Some((_, deadline)) = self.calls.get_mut(&id) {
                    *deadline = self.now + SPAN;
                    self.deadlines.push(Reverse((*deadline, id)));
                }
            }
        }
    }

    fn count(&self) -> u64 {
        32
    }
}
