//! Invariant: whatever answers come, each call settles exactly once, the end comes last and once, and input gives the same whole and in pieces.

use std::collections::BTreeMap;

use antiphon::{
    CallId, CancelStyle, Config, Connection, ErrorObject, Event, Id, Input, Instant, Json,
    UnmatchedKind, VersionPolicy,
};

use crate::bytes::Bytes;
use crate::config::config;
use crate::events::tell;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut config = config(&mut bytes);
    // Two connections that are compared have one number.
    config.connection = 1;
    let calls = [bytes.byte(), bytes.byte(), bytes.byte()];
    let steps = [bytes.byte(), bytes.byte()].map(|step| usize::from(step) + 1);
    let stream = bytes.rest();
    let whole = receive(config, calls, stream, [stream.len().max(1); 2]);
    for steps in [steps, [1, 1]] {
        let split = receive(config, calls, stream, steps);
        assert_eq!(whole, split, "in steps of {steps:?}");
    }
}

type Open = BTreeMap<CallId, u64>;

/// Makes three calls or batches, each in the way that its byte says. Gives the open calls.
fn ask(conn: &mut Connection<u64>, calls: [u8; 3]) -> Open {
    let mut open = Open::new();
    for (tag, how) in (0..).zip(calls) {
        let deadline = (how & 8 != 0).then(|| Instant::from_millis(50));
        match how % 4 {
            0 | 1 => open.extend(
                conn.call("m", (), deadline, tag)
                    .ok()
                    .map(|call| (call, tag)),
            ),
            2 => {
                let ids = [
                    "\"x\"",
                    "2",
                    "1.0",
                    "null",
                    "\"\\u0041\"",
                    "-7",
                    "true",
                    "18446744073709551616",
                ];
                let json = Json::parse_str(ids[usize::from(how >> 4) % 8]).expect("it is JSON");
                let id = Id::new(json).expect("it is a scalar");
                let made = conn.call_with_id(id, "m", &[tag], deadline, tag);
                open.extend(made.ok().map(|call| (call, tag)));
            }
            _ => {
                let mut batch = conn.batch(deadline);
                let mut made = Vec::new();
                for tag in [tag, 10 + tag] {
                    let one = batch.call::<u8>("b", &[tag], tag);
                    made.extend(one.ok().map(|handle| (handle.call(), tag)));
                }
                if batch.send().is_ok() {
                    open.extend(made);
                }
            }
        }
    }
    open
}

/// Asks the peer to cancel the first call, or cancels it, or both, or neither, as `how` says.
fn give_up(conn: &mut Connection<u64>, how: u8, open: &mut Open) {
    let Some((&call, _)) = open.first_key_value() else {
        return;
    };
    if how & 0x40 != 0 {
        match conn.ask_cancel_because(call, (how & 0x80 != 0).then_some("no \"time\"")) {
            Ok(()) => {}
            // The dialect may have no way to say it.
            Err(error) => assert_eq!(error, antiphon::SendError::NoPush, "{error}"),
        }
    }
    if how & 0x20 != 0 {
        let tag = conn.cancel(call);
        assert_eq!(tag, open.remove(&call));
    }
}

/// Whether [`give_up`] may send a cancel.
fn may_send_cancel(config: Config, how: u8) -> bool {
    how & 0x60 != 0 && config.dialect.cancel_send != CancelStyle::None && !config.exchange
}

/// Whether the planted fault drops this event: an answer that fits no call and came in pieces.
fn is_lost(event: &Event<'_, u64>, in_pieces: bool) -> bool {
    let Event::UnmatchedResponse(unmatched) = event else {
        return false;
    };
    crate::PLANTED && in_pieces && matches!(unmatched.kind, UnmatchedKind::Unknown(_))
}

/// A 1.0 peer may answer a notification with a null under a null id, which is no fault.
fn is_acknowledgement(config: Config, kind: &UnmatchedKind<'_>) -> bool {
    let is_null =
        matches!(kind, UnmatchedKind::NullId(antiphon::Outcome::Ok(result)) if result.is_null());
    is_null && config.dialect.version != VersionPolicy::V2Only
}

fn receive(
    config: Config,
    calls: [u8; 3],
    stream: &[u8],
    steps: [usize; 2],
) -> (Vec<String>, String) {
    let mut conn = Connection::new(config);
    let mut open = ask(&mut conn, calls);
    give_up(&mut conn, calls[0], &mut open);
    assert_eq!(conn.calls_open(), open.len());
    let (mut unmatched, mut malformed, mut ends) = (0, 0, 0);
    let mut cancels = u64::from(may_send_cancel(config, calls[0]));
    let mut said = Vec::new();
    let (mut from, mut to) = (0, 0);
    for turn in 0.. {
        let mut input = Input::stream(&stream[from..to]);
        while let Some(event) = conn.poll_event(&mut input) {
            assert_eq!(ends, 0, "the end is the last event");
            crate::corners::in_words(&event);
            if !is_lost(&event, to < stream.len()) {
                said.push(tell(&event));
            }
            match event {
                Event::Response(response) => {
                    let tag = open.remove(&response.call);
                    assert_eq!(tag, Some(response.tag), "a call settles once");
                }
                Event::Request(request) => answer(&mut conn, request),
                // What answers a cancel that was sent is expected, once for the one call.
                Event::UnmatchedResponse(unmatched)
                    if matches!(unmatched.kind, UnmatchedKind::Cancelled(_)) =>
                {
                    assert_eq!(cancels, 1, "no cancel was sent: {unmatched:?}");
                    cancels = 0;
                }
                // Neither a cancel nor the acknowledgement of a notification counts as unmatched.
                Event::UnmatchedResponse(unmatched)
                    if matches!(unmatched.kind, UnmatchedKind::Cancel) => {}
                Event::UnmatchedResponse(unmatched)
                    if is_acknowledgement(config, &unmatched.kind) => {}
                Event::UnmatchedResponse(_) => unmatched += 1,
                Event::Malformed(_) => malformed += 1,
                Event::Closed(_) => ends += 1,
                _ => {}
            }
        }
        from += input.consumed();
        let held = to - from;
        assert!(
            ends > 0 || held < config.max_input_bytes().max(1),
            "{held} bytes are left over"
        );
        assert_eq!(conn.calls_open(), open.len());
        let waiting = conn.transmit_queued() - conn.transmit_done();
        let holds = held + usize::try_from(waiting).expect("it is in memory");
        let bound = config.memory_bytes_max_for::<u64>();
        assert!(ends > 0 || holds <= bound.saturating_add(config.max_input_bytes()));
        if ends > 0 {
            break;
        }
        if to == stream.len() {
            conn.handle_eof();
        }
        to = (to + steps[turn % 2]).min(stream.len());
    }
    assert!(open.is_empty(), "every call has settled");
    assert_eq!(
        (conn.unmatched_responses(), conn.malformed()),
        (unmatched, malformed)
    );
    let mut output = Vec::new();
    while conn.take_transmit(&mut output) {}
    assert_eq!(conn.transmit_queued(), conn.transmit_done());
    (
        said,
        String::from_utf8(output).expect("what is written is text"),
    )
}

fn answer(conn: &mut Connection<u64>, request: antiphon::RequestRef<'_>) {
    let refused = match request.method.len() % 3 {
        0 => conn.respond_unknown_method(request.token, &request.method),
        1 => conn.respond(request.token, request.params),
        _ => conn.respond_cancelled(request.token),
    };
    // Too large a result is answered with an error; a connection that has failed takes neither.
    if let Err(refused) = refused {
        let _ = conn.respond_err(refused.value, &ErrorObject::internal_error());
    }
}
