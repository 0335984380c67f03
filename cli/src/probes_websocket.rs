//! Checks of WebSocket itself.

use std::time::{Duration, Instant};

use crate::cases::call;
use crate::catalogue::Level::{self, Must, Should};
use crate::link::Step;
use crate::run::Run;
use crate::websocket::{BINARY, CLOSE, Frame, PING, PONG, TEXT, frame, open, read_frame};
use crate::wire::Got;

/// What came until the wanted frame, or the end.
struct Seen {
    is_found: bool,
    is_ended: bool,
    received: Vec<u8>,
}

pub(crate) fn run(run: &mut Run<'_>, wants: &dyn Fn(&str) -> bool) {
    if run.place.is_http() || run.place.is_stream() {
        return;
    }
    let text = |frame: &Frame| matches!(frame.opcode, TEXT | BINARY);
    let close = |frame: &Frame| frame.opcode == CLOSE;
    let message = call("1");
    let (head, tail) = message.as_bytes().split_at(20);
    let broken = [
        br#"{"jsonrpc":"2.0","method":""#,
        &b"\xff\xfe\",\"id\":1}"[..],
    ]
    .concat();
    let pong = |frame: &Frame| frame.opcode == PONG && frame.payload == b"antiphon";
    let fragments = [
        frame(false, TEXT, head),
        frame(false, 0, &tail[..10]),
        frame(true, 0, &tail[10..]),
    ]
    .concat();
    let mut check = |id: &'static str,
                     level,
                     bytes: Vec<u8>,
                     is_right: &dyn Fn(&Seen) -> bool,
                     found: &dyn Fn(&Frame) -> bool,
                     what: &str| {
        if wants(id) {
            probe(run, id, level, bytes, is_right, found, what);
        }
    };
    check(
        "ws.binary",
        Should,
        frame(true, BINARY, message.as_bytes()),
        &|seen| seen.is_found || seen.is_ended,
        &|frame| text(frame) || close(frame),
        "it is neither answered nor refused",
    );
    check(
        "ws.fragments",
        Must,
        fragments,
        &|seen| seen.is_found,
        &text,
        "it is not answered",
    );
    check(
        "ws.ping",
        Must,
        frame(true, PING, b"antiphon"),
        &|seen| seen.is_found,
        &pong,
        "there is no pong with its payload",
    );
    check(
        "ws.utf8",
        Must,
        frame(true, TEXT, &broken),
        &|seen| seen.is_found || seen.is_ended,
        &close,
        "the connection stays open",
    );
    check(
        "ws.close",
        Must,
        frame(true, CLOSE, &[3, 232]),
        &|seen| seen.is_found,
        &close,
        "there is no close frame in reply",
    );
}

fn probe(
    run: &mut Run<'_>,
    id: &'static str,
    level: Level,
    bytes: Vec<u8>,
    is_right: &dyn Fn(&Seen) -> bool,
    found: &dyn Fn(&Frame) -> bool,
    what: &str,
) {
    *run.ran.entry(id).or_default() += 1;
    let mut last = None;
    // What is wrong must be wrong twice.
    for _ in 0..2 {
        match see(run, &bytes, found) {
            Some(seen) if is_right(&seen) => return,
            seen => last = seen,
        }
    }
    let received = last.map_or(Vec::new(), |seen| seen.received);
    run.add(id, level, what, &[Step::Bytes(bytes)], &received);
}

fn see(run: &Run<'_>, bytes: &[u8], found: &dyn Fn(&Frame) -> bool) -> Option<Seen> {
    let web = run.place.web()?;
    let mut wire = run.place.dialler.dial().ok()?;
    let deadline = Instant::now() + run.pace.max(Duration::from_secs(2));
    open(&mut wire, web, &run.place.headers, deadline)?;
    let handshake = wire.received.len() - wire.buffer.len();
    let _ = wire.write(bytes);
    let mut seen = Seen {
        is_found: false,
        is_ended: false,
        received: Vec::new(),
    };
    loop {
        match read_frame(&mut wire, deadline) {
            Ok(frame) if found(&frame) => {
                seen.is_found = true;
                break;
            }
            Ok(_) => {}
            Err(got) => {
                seen.is_ended = got == Got::End;
                break;
            }
        }
    }
    seen.received = wire.received[handshake..].to_vec();
    Some(seen)
}
