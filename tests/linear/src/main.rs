//! Plays one worst input, once for each size, under a program that counts instructions.
//!
//!   antiphon-linear --names
//!   antiphon-linear NAME BYTES[,BYTES…] server|client whole|bytes
//!
//! Prints what it did and how much memory the connection held. Only what `measured` does is to be
//! counted, and not the making of the input. For a counter that does not know function names, a line is
//! printed right before and right after it. Exit code 1: memory above `max_memory_bytes`. 2: usage.

mod inputs;

use std::hint::black_box;
use std::process::ExitCode;

use antiphon::{
    Config, Connection, Event, Id, Input, Json, OwnedJson, ReadBuffer, ReplyToken, Role,
};
use antiphon_test_support::heap::{self, Counting, uncounted};

use inputs::{NAMES, Worst, worst};

#[global_allocator]
static ALLOCATOR: Counting = Counting::of_thread();

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
            // The connection has closed because its output was full.
            drop(rejected);
        }
    }
    let waiting = play.conn.poll_transmit().map_or(0, <[u8]>::len);
    play.conn.consume_transmit(waiting);
    consumed
}

/// All that is counted: callgrind counts while a function of this name runs.
#[inline(never)]
fn measured(play: &mut Play, bytes: &[u8], buffer: &mut ReadBuffer, by_bytes: bool) {
    if by_bytes {
        for byte in bytes {
            uncounted(|| buffer.spare()[0] = *byte);
            buffer.advance(1);
            let consumed = show(play, buffer.filled());
            uncounted(|| buffer.consume(consumed));
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

/// Plays one input, prints the outcome, and returns whether the memory stayed within its bound.
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
    let ((), used) = heap::measured(|| {
        open(&mut play.conn, name, &input);
        println!("playing");
        measured(
            black_box(&mut play),
            black_box(&input.bytes),
            &mut buffer,
            by_bytes,
        );
        println!("played");
    });
    let held = used.most as usize;
    // Not in the bound of the connection: an event may own an unescaped copy of its method, and callers own the ids
    // that they chose, for each of which 200 bytes are allowed.
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
