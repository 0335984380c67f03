//! Plays one worst input once, so that a counter of instructions can watch.
//!
//!   antiphon-linear --names
//!   antiphon-linear NAME BYTES[,BYTES…] server|client whole|bytes
//!
//! Prints what it did and how much memory the connection held. Only what `measured` does is the
//! connection's; making the input is not, so there is a line before it and one behind it, for a counter
//! that knows no names. Exit code 1: memory above `max_memory_bytes`. 2: usage.

mod inputs;

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use antiphon::{
    Config, Connection, Event, Id, Input, Json, OwnedJson, ReadBuffer, ReplyToken, Role,
};

use inputs::{NAMES, Worst, worst};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// What is allocated now is the driver's input buffer, which the bound is not about.
static OF_DRIVER: AtomicBool = AtomicBool::new(false);

fn grow(bytes: usize) {
    if !OF_DRIVER.load(Ordering::Relaxed) {
        let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
}

fn shrink(bytes: usize) {
    if !OF_DRIVER.load(Ordering::Relaxed) {
        LIVE.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Does something to the driver's buffer: what that allocates and frees is not counted.
fn as_driver<R>(act: impl FnOnce() -> R) -> R {
    OF_DRIVER.store(true, Ordering::Relaxed);
    let done = act();
    OF_DRIVER.store(false, Ordering::Relaxed);
    done
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory
// that it hands out. A reallocation counts as both blocks at once, the worst it may come to.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        shrink(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a driver and its application keep while an input is played.
struct Play {
    conn: Connection,
    /// Requests to be answered once the input is drained, the last one first.
    held: Vec<ReplyToken>,
    result: Option<OwnedJson>,
    events: usize,
}

/// Shows the connection some input, and does what it asks for.
fn show(play: &mut Play, bytes: &[u8]) -> usize {
    let mut input = Input::stream(bytes);
    while let Some(event) = play.conn.poll_event(&mut input) {
        play.events += 1;
        if let Event::Request(request) = event {
            if play.result.is_some() {
                play.held.push(request.token);
            }
        }
        // A driver writes while it reads.
        let waiting = play.conn.poll_transmit().map_or(0, <[u8]>::len);
        if waiting > 64 << 10 {
            play.conn.consume_transmit(waiting);
        }
    }
    let consumed = input.consumed();
    while let (Some(result), Some(token)) = (&play.result, play.held.pop()) {
        let waiting = play.conn.poll_transmit().map_or(0, <[u8]>::len);
        if waiting > 64 << 10 {
            play.conn.consume_transmit(waiting);
        }
        if let Err(rejected) = play.conn.respond(token, result.as_json()) {
            // Closed for want of room: there is nobody left to answer.
            drop(rejected);
        }
    }
    let waiting = play.conn.poll_transmit().map_or(0, <[u8]>::len);
    play.conn.consume_transmit(waiting);
    consumed
}

/// All that counts. Its name is what the counter is switched on by.
#[inline(never)]
fn measured(play: &mut Play, bytes: &[u8], buffer: &mut ReadBuffer, by_bytes: bool) {
    if by_bytes {
        for byte in bytes {
            as_driver(|| buffer.spare()[0] = *byte);
            buffer.advance(1);
            let consumed = show(play, buffer.filled());
            as_driver(|| buffer.consume(consumed));
        }
        play.conn.handle_eof();
        show(play, buffer.filled());
    } else {
        let consumed = show(play, bytes);
        play.conn.handle_eof();
        show(play, &bytes[consumed..]);
    }
}

/// Opens the calls that the input answers.
fn open(conn: &mut Connection, name: &str, input: &Worst) {
    if input.in_batch {
        let mut batch = conn.batch(None);
        for _ in 0..input.calls {
            batch.call::<()>("m", (), ()).expect("the limits are large");
        }
        batch.send().expect("the limits are large");
        if name == "null_errors" {
            conn.call("m", (), None, ()).expect("the limits are large");
        }
    } else {
        for n in 1..=input.calls {
            let called = match name {
                "named_replies" => {
                    let id = format!("\"c{n}\"");
                    let id =
                        Id::new(Json::parse_str(&id).expect("it is JSON")).expect("it is an id");
                    conn.call_with_id(id, "m", (), None, ())
                }
                _ => conn.call("m", (), None, ()),
            };
            called.expect("the limits are large");
            let waiting = conn.poll_transmit().map_or(0, <[u8]>::len);
            conn.consume_transmit(waiting);
        }
    }
    let waiting = conn.poll_transmit().map_or(0, <[u8]>::len);
    conn.consume_transmit(waiting);
}

fn play(name: &str, bytes: usize, role: Role, by_bytes: bool) -> bool {
    let input = worst(name, bytes);
    let config: Config = input.config.role(role);
    let mut buffer = ReadBuffer::new(config.max_input_bytes());
    let result = input
        .answer
        .map(|bytes| OwnedJson::from_value(&"r".repeat(bytes)).expect("text has a JSON form"));
    let mut play = Play {
        held: Vec::with_capacity(if input.answer.is_some() {
            input.items + 1
        } else {
            0
        }),
        conn: Connection::new(config),
        result,
        events: 0,
    };
    println!("open");
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    open(&mut play.conn, name, &input);
    println!("playing");
    measured(
        black_box(&mut play),
        black_box(&input.bytes),
        &mut buffer,
        by_bytes,
    );
    println!("played");
    let held = PEAK.load(Ordering::Relaxed) - before;
    // An event may own an unescaped copy of its method, and the ids that callers chose are their own.
    let extra = input.bytes.len()
        + if name == "named_replies" {
            input.calls * 200
        } else {
            0
        };
    let bound = config.max_memory_bytes() + extra;
    println!(
        "bytes {} items {} events {} held {held} bound {bound}",
        input.bytes.len(),
        input.items,
        play.events
    );
    held <= bound
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, bytes, role, mode) = match words[..] {
        ["--names"] => {
            NAMES.iter().for_each(|name| println!("{name}"));
            return ExitCode::SUCCESS;
        }
        [name, bytes, role, mode] => (name, bytes, role, mode),
        _ => return usage(),
    };
    let role = match role {
        "server" => Role::Server,
        "client" => Role::Client,
        _ => return usage(),
    };
    let sizes: Result<Vec<usize>, _> = bytes.split(',').map(str::parse).collect();
    let (Ok(sizes), true, "whole" | "bytes") = (sizes, NAMES.contains(&name), mode) else {
        return usage();
    };
    let mut bounded = true;
    for size in sizes {
        bounded &= play(name, size, role, mode == "bytes");
    }
    match bounded {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: antiphon-linear --names | NAME BYTES[,BYTES…] server|client whole|bytes");
    ExitCode::from(2)
}
