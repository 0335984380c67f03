//! Fuzz targets, each a function from bytes to nothing that panics when its invariant is broken.
//!
//! `fuzz_targets/` hands them to the fuzzing engine; the test at the end replays every committed
//! input through the same functions, without the engine and on any toolchain.

use std::collections::BTreeMap;

use antiphon::{
    CallId, Config, Connection, Cut, ErrorObject, Event, Framer, Framing, Input, Instant, Json,
    McpRevision, ReplyToken,
};
use arbitrary::{Arbitrary, Unstructured};

/// Invariant: a text is valid exactly when it is UTF-8 and serde_json says so, and walking it gives valid parts.
pub fn json(data: &[u8]) {
    let ours = Json::parse(data);
    let text = data.strip_prefix("\u{feff}".as_bytes()).unwrap_or(data);
    // What serde_json ignores it does not check for UTF-8.
    let theirs = std::str::from_utf8(text).map(serde_json::from_str::<serde::de::IgnoredAny>);
    match (
        &ours,
        theirs
            .as_ref()
            .map_err(drop)
            .and_then(|read| read.as_ref().map_err(drop)),
    ) {
        (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
        // The one difference: serde_json does not count the depth of what it ignores.
        (Err(error), Ok(_)) if error.kind() == antiphon::SyntaxErrorKind::TooDeep => {}
        (ours, theirs) => panic!("ours {ours:?}, theirs {theirs:?}"),
    }
    let Ok(json) = ours else { return };
    let (mut members, mut elements) = (0, 0);
    for (_, value) in json.members() {
        assert_eq!(Json::parse(value.as_bytes()), Ok(value));
        members += 1;
    }
    for value in json.elements() {
        assert_eq!(Json::parse(value.as_bytes()), Ok(value));
        elements += 1;
    }
    assert!(members == 0 || elements == 0);
    let _ = json.decode::<BTreeMap<String, Option<f64>>>();
}

const FRAMINGS: [Framing; 5] = [
    Framing::Newline,
    Framing::ContentLength,
    Framing::Concatenated,
    Framing::Detect,
    Framing::Messages,
];

/// Invariant: frames are the same whole and split, and nothing beyond the input bound piles up.
pub fn frames(data: &[u8]) {
    let Some((&[choice, step], stream)) = data.split_first_chunk::<2>() else {
        return;
    };
    let framing = FRAMINGS[usize::from(choice) % 4];
    let frame_bytes_max = usize::from(choice >> 2) + 1;
    let whole = cut(framing, frame_bytes_max, stream, stream.len());
    let split = cut(framing, frame_bytes_max, stream, usize::from(step) + 1);
    assert_eq!(whole, split);
}

fn cut(framing: Framing, frame_bytes_max: usize, stream: &[u8], step: usize) -> Vec<String> {
    let mut framer = Framer::new(framing, frame_bytes_max, 64);
    let (mut from, mut to) = (0, 0);
    let mut seen = Vec::new();
    loop {
        let at_end = to == stream.len();
        match framer.cut(&stream[from..to], at_end) {
            Ok(Cut::Frame { body, taken, .. }) => {
                seen.push(format!("{:?}", &stream[from..][body]));
                from += taken;
            }
            Ok(Cut::Oversize { bytes, taken }) => {
                seen.push(format!("oversize {bytes:?}"));
                from += taken;
            }
            Ok(Cut::Incomplete { taken }) => {
                from += taken;
                assert!(to - from < framer.input_bytes_max() + step);
                if at_end {
                    seen.push("incomplete".into());
                    return seen;
                }
                to = (to + step).min(stream.len());
            }
            Ok(_) => return seen,
            Err(error) => {
                seen.push(format!("{error:?}"));
                return seen;
            }
        }
    }
}

fn config(choice: u8) -> Config {
    let mut config = match choice % 10 {
        0 => Config::strict(),
        1 => Config::v1(),
        2 => Config::mixed(),
        3 => Config::lsp(),
        4 => Config::mcp(McpRevision::V2025_03_26),
        5 => Config::acp(antiphon::AcpVersion::V2),
        6 => Config::ethereum(),
        7 => Config::bitcoin_legacy(),
        8 => Config::electrum(),
        _ => Config::kodi(),
    };
    config.framing = FRAMINGS[usize::from(choice / 10) % 4];
    // Small limits, so that short inputs reach them.
    config.message_bytes_max = 4096;
    config.batch_items_max = 5;
    config.requests_max = 4;
    config.calls_max = 4;
    config.batch_reply_bytes_max = 300;
    config.outbox_bytes_soft = 1000;
    config.outbox_bytes_max = 4000;
    config.id_bytes_max = 30;
    config.method_bytes_max = 30;
    config
}

/// Invariant: whatever answers come, every call settles exactly once, whole and split alike.
pub fn client(data: &[u8]) {
    let Some((&[choice, step], stream)) = data.split_first_chunk::<2>() else {
        return;
    };
    let config = config(choice);
    let whole = receive(config, stream, stream.len());
    let split = receive(config, stream, usize::from(step) + 1);
    assert_eq!(whole, split);
}

fn receive(config: Config, stream: &[u8], step: usize) -> (Vec<String>, Vec<u8>) {
    let mut conn: Connection<u32> = Connection::new(config);
    let mut open: BTreeMap<CallId, u32> = BTreeMap::new();
    for tag in 0..3 {
        let call = conn.call("m", (), None, tag).expect("three calls fit");
        open.insert(call, tag);
    }
    let mut sent = Vec::new();
    conn.take_transmit(&mut sent);
    let mut seen = Vec::new();
    let (mut from, mut to) = (0, 0);
    while !conn.is_closed() {
        let mut input = Input::stream(&stream[from..to]);
        while let Some(event) = conn.poll_event(&mut input) {
            seen.push(format!("{event:?}"));
            match event {
                Event::Response(response) => {
                    let tag = open.remove(&response.call).expect("a call settles once");
                    assert_eq!(tag, response.tag);
                }
                Event::Request(request) => conn
                    .respond(request.token, request.params)
                    .unwrap_or_else(|rejected| {
                        let _ = conn.respond_err(rejected.value, &ErrorObject::internal_error());
                    }),
                _ => {}
            }
        }
        from += input.consumed();
        if to == stream.len() {
            conn.handle_eof();
        }
        to = (to + step).min(stream.len());
        // Everything is taken only at the end, so that limits meet both ways of feeding alike.
        if conn.requests_open() == 0 && conn.calls_open() == 0 && to == stream.len() {
            conn.take_transmit(&mut sent);
        }
    }
    assert!(open.is_empty(), "every call has settled");
    (seen, sent)
}

/// Invariant: requests are answered exactly once and in full JSON, whatever comes.
pub fn server(data: &[u8]) {
    let Some((&choice, message)) = data.split_first() else {
        return;
    };
    let reply = antiphon::answer(config(choice), message, |call| {
        match call.method.len() % 3 {
            0 => Err(ErrorObject::method_not_found()),
            _ => Ok(call.params.map(Json::to_owned_json)),
        }
    });
    if let Some(reply) = reply {
        let json = Json::parse(&reply).expect("a reply is JSON");
        assert!(
            json.elements().count() > 0
                || json.get("jsonrpc").is_some()
                || json.get("result").is_some()
        );
    }
}

/// What a driver, its caller and its peer do, in any order.
#[derive(Arbitrary, Debug)]
enum Operation {
    Call { deadline: Option<u16> },
    Notify,
    Batch { calls: u8, send: bool, leak: bool },
    Cancel { which: u8 },
    AskCancel { which: u8 },
    SetDeadline { which: u8, deadline: Option<u16> },
    Answer { which: u8, twice: bool },
    AnswerAll { reverse: bool },
    Receive(Vec<u8>),
    Request { id: u8, cancel: bool },
    Respond { which: u8, error: bool },
    Write { bytes: u8 },
    Take,
    Fail,
    Clock { millis: u16, back: bool },
    Eof,
    Drain,
    Close,
}

/// Invariant: in any order of operations nothing panics, calls settle once, the next wake-up lies
/// ahead, and a connection that has ended closes.
pub fn operations(data: &[u8]) {
    let mut unstructured = Unstructured::new(data);
    let Ok(choice) = u8::arbitrary(&mut unstructured) else {
        return;
    };
    let mut config = config(choice);
    config.framing = Framing::Messages;
    let mut conn: Connection<u64> = Connection::new(config);
    let mut world = World::default();
    while let Ok(operation) = Operation::arbitrary(&mut unstructured) {
        world.apply(&mut conn, operation);
        if unstructured.is_empty() {
            break;
        }
    }
    conn.close(antiphon::CloseReason::Done);
    world.drain(&mut conn, &[]);
    let mut out = Vec::new();
    while conn.take_transmit(&mut out) {}
    world.drain(&mut conn, &[]);
    assert!(world.open.is_empty(), "every call has settled");
    assert!(conn.is_closed());
}

#[derive(Default)]
struct World {
    now: u64,
    open: Vec<CallId>,
    tokens: Vec<ReplyToken>,
    tag: u64,
    out: Vec<u8>,
}

impl World {
    fn apply(&mut self, conn: &mut Connection<u64>, operation: Operation) {
        let at = |now: u64, deadline: Option<u16>| {
            deadline.map(|millis| Instant::from_millis(now + u64::from(millis)))
        };
        match operation {
            Operation::Call { deadline } => {
                self.tag += 1;
                if let Ok(call) = conn.call("m", &[1], at(self.now, deadline), self.tag) {
                    self.open.push(call);
                }
            }
            Operation::Notify => {
                let _ = conn.notify("n", ());
            }
            Operation::Batch { calls, send, leak } => {
                let mut batch = conn.batch(None);
                let mut made = Vec::new();
                for _ in 0..calls % 8 {
                    made.extend(
                        batch
                            .call::<u8>("b", (), 0)
                            .ok()
                            .map(|handle| handle.call()),
                    );
                }
                if leak {
                    std::mem::forget(batch);
                } else if send && batch.send().is_ok() {
                    self.open.extend(made);
                }
            }
            Operation::Cancel { which } => {
                if let Some(call) = self.pick(which) {
                    assert!(conn.cancel(call).is_some(), "an open call can be given up");
                    self.open.retain(|open| *open != call);
                }
            }
            Operation::AskCancel { which } => {
                if let Some(call) = self.pick(which) {
                    let _ = conn.ask_cancel(call);
                }
            }
            Operation::SetDeadline { which, deadline } => {
                if let Some(call) = self.pick(which) {
                    assert_eq!(conn.set_deadline(call, at(self.now, deadline)), Ok(()));
                }
            }
            Operation::Answer { which, twice } => {
                if let Some(call) = self.pick(which) {
                    let answer = answer(call);
                    self.drain(conn, answer.as_bytes());
                    if twice {
                        self.drain(conn, answer.as_bytes());
                    }
                }
            }
            Operation::AnswerAll { reverse } => {
                let mut answers: Vec<String> = self.open.iter().map(|call| answer(*call)).collect();
                if reverse {
                    answers.reverse();
                }
                self.drain(conn, format!("[{}]", answers.join(",")).as_bytes());
            }
            Operation::Receive(bytes) => self.drain(conn, &bytes),
            Operation::Request { id, cancel } => {
                let id = id % 6;
                let text = match cancel {
                    false => format!(r#"{{"jsonrpc":"2.0","method":"m","id":{id}}}"#),
                    true => {
                        format!(
                            r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#
                        )
                    }
                };
                self.drain(conn, text.as_bytes());
            }
            Operation::Respond { which, error } => {
                if !self.tokens.is_empty() {
                    let token = self
                        .tokens
                        .swap_remove(usize::from(which) % self.tokens.len());
                    let _ = match error {
                        true => conn.respond_err(token, &ErrorObject::internal_error()),
                        false => conn.respond(token, &[1, 2, 3]),
                    };
                }
            }
            Operation::Write { bytes } => conn.consume_transmit(usize::from(bytes)),
            Operation::Take => {
                self.out.clear();
                conn.take_transmit(&mut self.out);
            }
            Operation::Fail => conn.fail_transmit(),
            Operation::Clock { millis, back } => {
                let now = if back {
                    self.now / 2
                } else {
                    self.now + u64::from(millis)
                };
                self.now = self.now.max(now);
                conn.handle_timeout(Instant::from_millis(now));
                self.drain(conn, &[]);
            }
            Operation::Eof => conn.handle_eof(),
            Operation::Drain => conn.drain(),
            Operation::Close => conn.close(antiphon::CloseReason::GoingAway),
        }
    }

    fn pick(&self, which: u8) -> Option<CallId> {
        self.open
            .get(usize::from(which) % self.open.len().max(1))
            .copied()
    }

    /// Shows one message, or none, and takes every event.
    fn drain(&mut self, conn: &mut Connection<u64>, message: &[u8]) {
        let mut input = if message.is_empty() {
            Input::none()
        } else {
            Input::message(message)
        };
        while let Some(event) = conn.poll_event(&mut input) {
            match event {
                Event::Response(response) => {
                    let before = self.open.len();
                    self.open.retain(|call| *call != response.call);
                    assert_eq!(self.open.len() + 1, before, "a call settles once");
                }
                Event::Request(request) => self.tokens.push(request.token),
                _ => {}
            }
        }
        if let Some(next) = conn.poll_timeout() {
            assert!(
                next > Instant::from_millis(self.now),
                "the next wake-up lies ahead"
            );
        }
        assert_eq!(conn.calls_open(), self.open.len());
    }
}

fn answer(call: CallId) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","result":true,"id":{}}}"#,
        call.number()
    )
}

#[cfg(test)]
mod tests {
    /// Replays what is committed under `corpus/NAME`, and many inputs made up on the spot.
    fn replay(name: &str, target: fn(&[u8])) {
        let mut played = 0;
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if let Ok(data) = std::fs::read(entry.path()) {
                target(&data);
                played += 1;
            }
        }
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            let mut next = || {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                seed
            };
            let words = [
                "{",
                "}",
                "[",
                "]",
                ",",
                ":",
                "\"id\"",
                "\"method\"",
                "\"jsonrpc\":\"2.0\"",
                "1",
                "2",
                "null",
                "\"result\"",
                "\"error\"",
                "\"params\"",
                "\n",
                "Content-Length: ",
                "\r\n\r\n",
                "\"m\"",
                "-32600",
                "\"code\"",
                "\"message\"",
                "$/cancelRequest",
                "\u{e9}",
                "\\ud800",
                "1.0",
                "true",
            ];
            let mut data = vec![next() as u8, next() as u8];
            for _ in 0..next() % 24 {
                match next() % 4 {
                    0 => data.push(next() as u8),
                    _ => data.extend_from_slice(words[next() as usize % words.len()].as_bytes()),
                }
            }
            target(&data);
        }
        println!("{name}: {played} committed inputs and 20000 made up");
    }

    #[test]
    fn json_corpus() {
        replay("json", super::json);
    }

    #[test]
    fn frames_corpus() {
        replay("frames", super::frames);
    }

    #[test]
    fn client_corpus() {
        replay("client", super::client);
    }

    #[test]
    fn server_corpus() {
        replay("server", super::server);
    }

    #[test]
    fn operations_corpus() {
        replay("operations", super::operations);
    }
}
