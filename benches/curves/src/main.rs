//! Measures the cost of one thing at one size; `run.py` makes curves of many of these.
//!
//!   antiphon-curves calls OPEN in-order|any-order     a call and its answer while others are open
//!   antiphon-curves frames BYTES                       a message of BYTES bytes, fed byte by byte
//!   antiphon-curves connections COUNT core|tokio       the memory of COUNT connections
//!
//! `calls` and `frames` print how often they did it and the nanoseconds of the quickest round or slice; a counter of
//! instructions watches the function `measured`, which runs it once. `connections` prints bytes. Rule: preparation is
//! not measured.

mod heap;
mod idle;

use std::collections::VecDeque;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant as Clock;

use antiphon::{Config, Connection, Event, Input, Instant, ReadBuffer};

/// How many calls are measured at once: enough that the cost of the loop around them does not show.
const CALLS: usize = 1024;
const ROUNDS: usize = 11;
/// How many bytes, fed one by one, are timed at once.
const SLICE: usize = 4096;

/// A connection on which a fixed number of calls is open all the time, and the answers that settle some of them.
struct Calls {
    conn: Connection<u64>,
    /// One after the other, each a line.
    answers: Vec<u8>,
    made: u64,
}

impl Calls {
    fn open(open: usize, in_order: bool) -> Self {
        let mut calls = Self::without_answers(open);
        // Another connection that does the same tells which numbers the calls will have.
        let mut other = Self::without_answers(open);
        let mut waiting: VecDeque<u64> = (1..open as u64).collect();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..(ROUNDS + 1) * CALLS {
            waiting.push_back(other.call());
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let id = match in_order {
                true => waiting.pop_front(),
                false => waiting.swap_remove_back((random % waiting.len() as u64) as usize),
            };
            let id = id.expect("one was just made");
            let answer = format!("{{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":{id}}}\n");
            other.settle(answer.as_bytes());
            calls.answers.extend_from_slice(answer.as_bytes());
        }
        calls
    }

    fn without_answers(open: usize) -> Self {
        let mut config = Config::new();
        config.limits.max_open_calls = open + 1;
        let mut calls = Self {
            conn: Connection::new(config),
            answers: Vec::new(),
            made: 0,
        };
        for _ in 1..open {
            calls.call();
        }
        calls
    }

    fn call(&mut self) -> u64 {
        self.made += 1;
        // Deadlines are in the order of the calls, as when every call has the same timeout.
        let deadline = Instant::from_millis(30_000 + self.made);
        let called = self.conn.call("m", &[1u32], Some(deadline), self.made);
        let waiting = self.conn.poll_transmit().map_or(0, <[u8]>::len);
        self.conn.consume_transmit(waiting);
        called.expect("there is room").number()
    }

    fn settle(&mut self, answer: &[u8]) {
        let mut input = Input::stream(answer);
        let event = self.conn.poll_event(&mut input);
        assert!(matches!(event, Some(Event::Response(_))), "it settles");
    }

    /// A call, the answer to one, and what a driver asks besides; where the next answer is.
    fn turn(&mut self, from: usize) -> usize {
        self.call();
        self.conn.handle_timeout(Instant::from_millis(1));
        let rest = &self.answers[from..];
        let end = from + rest.iter().position(|&byte| byte == b'\n').unwrap_or(0) + 1;
        let mut input = Input::stream(&self.answers[from..end]);
        let event = self.conn.poll_event(&mut input);
        assert!(matches!(event, Some(Event::Response(_))), "it settles");
        black_box(self.conn.poll_timeout());
        end
    }
}

/// All that counts. Its name is what the counter is switched on by.
#[inline(never)]
fn measured<R>(act: impl FnOnce() -> R) -> R {
    act()
}

fn calls(open: usize, in_order: bool) {
    let mut calls = Calls::open(open, in_order);
    let mut from = 0;
    let mut batch = |calls: &mut Calls| {
        for _ in 0..CALLS {
            from = calls.turn(from);
        }
    };
    // Once unmeasured, so that tables have their size and code is in the caches.
    batch(&mut calls);
    measured(|| batch(&mut calls));
    let mut quickest = u128::MAX;
    for _ in 2..ROUNDS {
        let began = Clock::now();
        batch(&mut calls);
        quickest = quickest.min(began.elapsed().as_nanos());
    }
    println!("times {CALLS} nanoseconds {quickest}");
}

/// A notification of about `bytes` bytes, as a line.
fn line(bytes: usize) -> Vec<u8> {
    let head = "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[\"";
    let tail = "\"]}\n";
    let room = bytes.saturating_sub(head.len() + tail.len());
    [head.as_bytes(), &vec![b'a'; room], tail.as_bytes()].concat()
}

fn feed(conn: &mut Connection<u64>, buffer: &mut ReadBuffer, bytes: &[u8]) -> usize {
    let mut told = 0;
    for &byte in bytes {
        buffer.spare()[0] = byte;
        buffer.advance(1);
        let mut input = Input::stream(buffer.filled());
        while conn.poll_event(&mut input).is_some() {
            told += 1;
        }
        let consumed = input.consumed();
        buffer.consume(consumed);
    }
    told
}

fn frames(bytes: usize) {
    let mut config = Config::new();
    config.limits.max_message_bytes = 2 * bytes + 1024;
    let mut conn: Connection<u64> = Connection::new(config);
    let mut buffer = ReadBuffer::new(config.max_input_bytes());
    let message = line(bytes);
    assert_eq!(feed(&mut conn, &mut buffer, &message), 1, "one message");
    let told = measured(|| feed(&mut conn, &mut buffer, &message));
    assert_eq!(told, 1, "one message");
    // In slices, so that some of them are free of what else the machine does.
    let mut quickest = f64::INFINITY;
    for _ in 0..ROUNDS {
        for slice in message.chunks(SLICE) {
            let began = Clock::now();
            black_box(feed(&mut conn, &mut buffer, slice));
            let each = began.elapsed().as_nanos() as f64 / slice.len() as f64;
            if slice.len() == SLICE.min(message.len()) {
                quickest = quickest.min(each);
            }
        }
    }
    println!(
        "times 1000 nanoseconds {:.0} bytes {}",
        quickest * 1000.0,
        message.len()
    );
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let size = words
        .get(1)
        .and_then(|word| word.parse::<usize>().ok())
        .filter(|&size| size > 0);
    let Some(size) = size else { return usage() };
    match words[..] {
        ["calls", _, order @ ("in-order" | "any-order")] => calls(size, order == "in-order"),
        ["frames", _] => frames(size),
        ["connections", _, "core"] => idle::core(size),
        ["connections", _, "tokio"] => idle::tokio(size),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: antiphon-curves calls OPEN in-order|any-order | frames BYTES | connections COUNT core|tokio"
    );
    ExitCode::from(2)
}
