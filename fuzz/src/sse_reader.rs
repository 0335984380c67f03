//! Invariant: a stream of events reads the same whole and in pieces, as a simple reader of the whole stream reads it, and as the writer writes it; an event over the limit is refused, and none below it.

use antiphon::http::{OwnedSseEvent, SseEvent, SseReader, write_comment};

use crate::bytes::Bytes;

/// What only the names of fields may add to an event's size.
const SLACK: usize = 8;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let max_event_bytes = usize::from(bytes.byte());
    let steps = [bytes.byte(), bytes.byte()].map(|step| usize::from(step) % 32 + 1);
    let stream = bytes.rest();
    let whole = read(stream, [stream.len().max(1); 2], max_event_bytes);
    for steps in [steps, [1, 1]] {
        assert_eq!(
            whole,
            read(stream, steps, max_event_bytes),
            "in steps of {steps:?}"
        );
    }
    let simple = naive(stream);
    let (events, is_refused) = &whole;
    assert_eq!(events[..], simple[..events.len()]);
    for event in events {
        let held = event.data.len() + event.event.len();
        assert!(held <= max_event_bytes + SLACK, "{held} bytes");
    }
    // Without a limit all of it is read.
    let (all, is_over) = read(stream, steps, usize::MAX);
    assert!(all == simple && !is_over);
    rewritten(all.clone(), steps);
    assert!(*is_refused || all.len() == events.len());
    if stream.len() <= max_event_bytes {
        assert!(!is_refused, "nothing in it is too large");
    }
}

/// What the writer writes is read as it was.
fn rewritten(mut events: Vec<OwnedSseEvent>, steps: [usize; 2]) {
    let (mut stream, text) = (Vec::new(), std::str::from_utf8);
    events.retain(|one| {
        let (Ok(event), Ok(id)) = (text(&one.event), text(&one.id)) else {
            return false;
        };
        // A name with a NUL is read, and not written.
        let written = SseEvent::new(&one.data).event(event);
        let written = written.and_then(|written| written.id(id));
        written
            .inspect(|written| {
                write_comment(event, &mut stream);
                written.write(&mut stream);
            })
            .is_ok()
    });
    assert_eq!((events, false), read(&stream, steps, usize::MAX));
}

/// The events, and whether one was refused for its size.
fn read(stream: &[u8], steps: [usize; 2], max_event_bytes: usize) -> (Vec<OwnedSseEvent>, bool) {
    let mut reader = SseReader::new(max_event_bytes);
    let (mut events, mut left) = (Vec::new(), stream);
    for turn in 0.. {
        if left.is_empty() {
            break;
        }
        let (mut piece, rest) = left.split_at(steps[turn % 2].min(left.len()));
        // The planted fault takes the line feed of a CRLF that was split for a line of its own.
        if crate::PLANTED && piece == b"\n" && stream[..stream.len() - left.len()].ends_with(b"\r")
        {
            piece = b"\n\n";
        }
        while !piece.is_empty() {
            match reader.read(&mut piece) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => assert!(piece.is_empty()),
                Err(_) => return (events, true),
            }
        }
        left = rest;
    }
    (events, false)
}

/// Reads a whole stream as the standard describes it, line by line.
fn naive(stream: &[u8]) -> Vec<OwnedSseEvent> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let mut lines = vec![Vec::new()];
    for (at, byte) in stream.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && stream[at - 1] == b'\r' => {}
            b'\r' | b'\n' => lines.push(Vec::new()),
            byte => lines.last_mut().expect("there is one").push(*byte),
        }
    }
    // The last one has no end.
    lines.pop();
    let (mut events, mut event, mut has_data) = (Vec::new(), OwnedSseEvent::default(), false);
    for line in lines {
        if line.is_empty() {
            let done = std::mem::take(&mut event);
            event.id.clone_from(&done.id);
            if std::mem::take(&mut has_data) {
                events.push(done);
            }
            continue;
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if std::mem::replace(&mut has_data, true) {
                    event.data.push(b'\n');
                }
                event.data.extend_from_slice(value);
            }
            b"event" => event.event = value.to_vec(),
            b"id" if !value.contains(&0) => event.id = value.to_vec(),
            _ => {}
        }
    }
    events
}
