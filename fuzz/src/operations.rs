//! Invariant: whatever a driver, its program and its peer do, in any order, a connection delivers the events and writes the bytes that the reference model does.

use antiphon::{ErrorProfile, Framing, MissingResponseId, NullIdError, Role};

use crate::bytes::Bytes;
use crate::reference::Rules;
use crate::run::{Hear, Op, Said, run as step};

/// No run has more operations.
const MAX_STEPS: usize = 200;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let rules = rules(&mut bytes);
    // Swarm testing: an operation that is off in this run is never done, so the others are done more often.
    let off = u32::from(bytes.word()) | u32::from(bytes.byte()) << 16;
    let hot = bytes.byte();
    let mut ops = Vec::new();
    while !bytes.is_empty() && ops.len() < MAX_STEPS {
        let which = bytes.byte() % 40;
        let op = op(which, &mut bytes, hot);
        if off & bit(&op) == 0 {
            ops.push(op);
        }
    }
    let hear: Hear = if crate::PLANTED { mishear } else { |line| line };
    if let Err(why) = step(rules, &ops, hear) {
        panic!("{why}\n{rules:?}\n{ops:?}");
    }
}

/// The planted fault reports a late error as an answer to an unknown call.
fn mishear(line: Option<String>) -> Option<String> {
    line.map(|line| line.replace("unmatched late error", "unmatched unknown error"))
}

fn rules(bytes: &mut Bytes<'_>) -> Rules {
    let framing = *bytes.one(&[
        Framing::Newline,
        Framing::Messages,
        Framing::ContentLength,
        Framing::Concatenated,
    ]);
    let role = *bytes.one(&[Role::Peer, Role::Peer, Role::Client, Role::Server]);
    let (cancel, cancel_code) = *bytes.one(&[
        (Some(("$/cancelRequest", "id")), Some(-32001)),
        (Some(("$/cancelRequest", "id")), Some(-32800)),
        (Some(("notifications/cancelled", "requestId")), None),
        (None, Some(-32001)),
    ]);
    let knobs = bytes.word();
    let knob = |n: u32| knobs >> n & 1 == 1;
    let span = |byte: u8| (byte > 0).then(|| u64::from(byte) * 12);
    Rules {
        framing,
        role,
        exchange: knob(0) && framing == Framing::Messages && role != Role::Peer,
        cancel,
        cancel_code,
        sends_cancels: knob(1),
        cancel_on_timeout: knob(2),
        repeated_ids: knob(3),
        null_ids: knob(4),
        echo_ids: knob(5),
        prefixed: knob(7),
        batches: !knob(6) || role == Role::Peer,
        null_id_error: *bytes.one(&[
            NullIdError::Report,
            NullIdError::FailSole,
            NullIdError::FailAll,
        ]),
        missing_response_id: match knob(8) {
            false => MissingResponseId::SoleExchange,
            true => MissingResponseId::Invalid,
        },
        error_profile: [
            ErrorProfile::Antiphon,
            ErrorProfile::WebSocketDraft,
            ErrorProfile::Lsp,
            ErrorProfile::Mcp,
        ][usize::from(knobs >> 9) % 4],
        max_open_calls: 1 + bytes.below(11),
        max_open_requests: 1 + bytes.below(5),
        max_batch_items: 1 + bytes.below(3),
        soft: 40 + usize::from(bytes.byte()) * 8,
        write_time: span(bytes.byte()),
        drain_time: span(bytes.byte()),
    }
}

fn deadline(bytes: &mut Bytes<'_>) -> Option<u16> {
    match bytes.byte() {
        byte @ 0x80.. => Some(u16::from(byte - 0x80) * 16),
        _ => None,
    }
}

fn op(which: u8, bytes: &mut Bytes<'_>, hot: u8) -> Op {
    match which {
        0..=4 => Op::Call {
            params: bytes.byte(),
            deadline: deadline(bytes),
        },
        5 => Op::CallWithId {
            id: bytes.place(hot),
            deadline: deadline(bytes),
        },
        6 | 7 => {
            let items = (0..bytes.below(5)).map(|_| bytes.byte()).collect();
            Op::Batch {
                items,
                deadline: deadline(bytes),
                end: bytes.byte() % 6,
            }
        }
        8 => Op::Notify {
            params: bytes.byte(),
        },
        9 => Op::Cancel(bytes.place(hot)),
        10 => Op::AskCancel(bytes.place(hot)),
        11 => Op::SetDeadline(bytes.place(hot), deadline(bytes)),
        12..=14 => Op::Respond(bytes.place(0), bytes.byte()),
        15 => Op::RespondElsewhere,
        16..=20 => {
            let n = 1 + bytes.below(3);
            let items = (0..n).map(|_| said(bytes, hot)).collect();
            Op::Peer {
                items,
                array: bytes.bit(),
            }
        }
        21 => Op::Peer {
            items: Vec::new(),
            array: true,
        },
        22 => Op::Garbage(bytes.byte()),
        23..=26 => Op::Feed(u16::from(bytes.byte()) * 3),
        27 => Op::PollOne,
        28..=31 => Op::Poll,
        32 | 33 => Op::Clock(i32::from(bytes.byte()) * 8 - 500),
        34 | 35 => Op::Write(u16::from(bytes.byte())),
        36 => Op::Take,
        37 => Op::FailTransmit,
        38 => Op::Poll,
        // Ends are rare, or every run would be short.
        _ => match bytes.byte() {
            0 => Op::Eof,
            1 => Op::Drain,
            2 => Op::Close,
            _ => Op::Feed(1),
        },
    }
}

fn said(bytes: &mut Bytes<'_>, hot: u8) -> Said {
    match bytes.byte() % 16 {
        0..=3 => Said::Answer {
            call: bytes.place(hot),
            body: bytes.byte(),
        },
        4 => match (bytes.place(hot), bytes.byte()) {
            (id, body @ 0x80..) => Said::AnswerUnnamed {
                is_null: id % 2 == 1,
                body,
            },
            (id, body) => Said::AnswerId { id, body },
        },
        5..=8 => Said::Request {
            id: bytes.place(hot),
            params: bytes.byte(),
        },
        9 => Said::Notification {
            params: bytes.byte(),
        },
        10 | 11 => {
            let target = bytes.place(hot);
            let id = (bytes.byte() >= 0xC0).then(|| bytes.place(hot));
            Said::Cancel { target, id }
        }
        12 => Said::Scalar,
        13 => Said::Bare {
            call: bytes.place(hot),
        },
        14 => Said::ScalarParams {
            id: bytes.place(hot),
        },
        _ => Said::ArrayId,
    }
}

/// Which bit of the mask switches it off.
fn bit(op: &Op) -> u32 {
    let at = match op {
        Op::Call { .. } => 0,
        Op::CallWithId { .. } => 1,
        Op::Batch { .. } => 2,
        Op::Notify { .. } => 3,
        Op::Cancel(_) => 4,
        Op::AskCancel(_) => 5,
        Op::SetDeadline(..) => 6,
        Op::Respond(..) => 7,
        Op::RespondElsewhere => 8,
        Op::Peer { array: false, .. } => 9,
        Op::Peer { array: true, .. } => 10,
        Op::Garbage(_) => 11,
        Op::Feed(_) => 12,
        Op::PollOne => 13,
        Op::Poll => 14,
        Op::Clock(_) => 15,
        Op::Write(_) => 16,
        Op::Take => 17,
        Op::FailTransmit => 18,
        Op::Eof => 19,
        Op::Drain => 20,
        Op::Close => 21,
    };
    1 << at
}
