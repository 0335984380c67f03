//! Invariant: a stream gives the same frames whole and in pieces, and less than `max_input_bytes` has to be kept between pieces.

use antiphon::{Cut, Framer, Framing};

use crate::bytes::Bytes;
use crate::config::STREAMS;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let framing = *bytes.one(&STREAMS);
    let max_frame_bytes = usize::from(bytes.byte());
    let max_header_bytes = usize::from(bytes.byte());
    let steps = [bytes.byte(), bytes.byte()].map(|step| usize::from(step) + 1);
    let stream = bytes.rest();
    let framer = || Framer::new(framing, max_frame_bytes, max_header_bytes);
    let whole = cut(framer(), stream, [stream.len().max(1); 2]);
    for steps in [steps, [1, 1]] {
        assert_eq!(whole, cut(framer(), stream, steps), "in steps of {steps:?}");
    }
    message(stream, max_frame_bytes);
    // A framer that starts again is as good as new.
    let mut used = framer();
    let _ = used.cut(stream, true); // Whatever it says, it is to be forgotten.
    used.reset();
    assert_eq!(whole, cut(used, stream, steps), "after a reset");
}

/// Where the transport keeps messages apart, what is shown is one, whole or too large.
fn message(shown: &[u8], max_frame_bytes: usize) {
    let mut framer = Framer::new(Framing::Messages, max_frame_bytes, 0);
    assert!(max_frame_bytes <= framer.max_input_bytes());
    let taken = shown.len();
    let wanted = match taken {
        0 => Cut::Incomplete { taken },
        _ if taken > max_frame_bytes => {
            let bytes = Some(taken as u64);
            Cut::Oversize { bytes, taken }
        }
        _ => {
            let body = 0..taken;
            let unterminated = false;
            Cut::Frame {
                body,
                taken,
                unterminated,
            }
        }
    };
    assert_eq!(framer.cut(shown, false), Ok(wanted));
}

/// The planted fault loses the first byte of a body whose header was cut between CR and LF.
fn seen(body: &[u8], split_at: &[usize], start: usize, stream: &[u8]) -> String {
    let after_cr =
        |at: &&usize| **at <= start && start - **at <= 3 && stream[..**at].ends_with(b"\r\n\r");
    let body = match crate::PLANTED && split_at.iter().any(|at| after_cr(&at)) {
        true => &body[body.len().min(1)..],
        false => body,
    };
    format!("{body:?}")
}

fn cut(mut framer: Framer, stream: &[u8], steps: [usize; 2]) -> Vec<String> {
    let (mut from, mut to) = (0, 0);
    let mut said = Vec::new();
    let mut splits = Vec::new();
    for turn in 0.. {
        let at_end = to == stream.len();
        match framer.cut(&stream[from..to], at_end) {
            Ok(Cut::Frame {
                body,
                taken,
                unterminated,
            }) => {
                assert!(body.end <= taken && taken <= to - from);
                let start = from + body.start;
                let shown = seen(&stream[from..][body], &splits, start, stream);
                said.push(format!("{shown} at {start} {unterminated}"));
                from += taken;
            }
            Ok(cut @ Cut::Oversize { bytes, taken }) => {
                assert_eq!(cut.consumed(), taken);
                said.push(format!("oversize {bytes:?}"));
                from += taken;
            }
            Ok(Cut::Incomplete { taken }) => {
                from += taken;
                assert!(from <= to && !at_end);
                assert!(
                    to - from < framer.max_input_bytes().max(1),
                    "too much is left"
                );
                // An input without bytes changes nothing.
                if turn % 3 == 0 {
                    assert_eq!(framer.cut(&[], false), Ok(Cut::Incomplete { taken: 0 }));
                }
                splits.push(to);
                to = (to + steps[turn % 2]).min(stream.len());
            }
            Ok(end) => {
                assert!(at_end && from + end.consumed() == to, "{end:?}");
                said.push(format!(
                    "end, {:?} {}",
                    framer.framing(),
                    framer.is_mid_frame()
                ));
                return said;
            }
            Err(error) => {
                said.push(format!("{error} {error:?} {}", error.offset()));
                assert_eq!(framer.cut(&[], at_end), Err(error), "an error is final");
                return said;
            }
        }
    }
    said
}
