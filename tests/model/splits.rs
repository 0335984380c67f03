//! However the bytes arrive (whole, byte by byte or in random pieces), the events and the output
//! are the same. And two peers at their limits, each waiting for the other, still come to an end.

use antiphon::{
    Config, Connection, ErrorObject, Event, Framing, Input, Json, Outcome, ReplyToken, Role,
};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::test_runner::FileFailurePersistence;

const STREAMS: [Framing; 4] = [
    Framing::Newline,
    Framing::ContentLength,
    Framing::Concatenated,
    Framing::Detect,
];
const ROLES: [Role; 3] = [Role::Peer, Role::Client, Role::Server];

/// Messages that make trouble when they are cut: escapes, characters of several bytes, brackets in
/// strings, batches, faults, answers to calls that are open and that are not.
const MESSAGES: [&str; 24] = [
    r#"{"jsonrpc":"2.0","method":"sum","params":[1,2.50,-0,1e2],"id":1}"#,
    r#"{"jsonrpc":"2.0","method":"sum","params":{"a":{"b":[]}},"id":"1"}"#,
    r#"{"jsonrpc":"2.0","method":"\u006det\uD83D\uDE00hod","id":18446744073709551616}"#,
    "{\"jsonrpc\":\"2.0\",\"method\":\"grüße 😀\",\"params\":[\"ä}\\\"]{\\\\\"],\"id\":null}",
    r#"{"jsonrpc":"2.0","method":"tell"}"#,
    r#"{"jsonrpc":"2.0","method":"tell","params":["\\","\"}","]["]}"#,
    r#"[{"jsonrpc":"2.0","method":"sum","id":7},{"jsonrpc":"2.0","method":"tell"},1,{"id":3}]"#,
    r#"[{"jsonrpc":"2.0","method":"tell"},{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":8}},{"jsonrpc":"2.0","method":"sum","id":8}]"#,
    r#"[{"jsonrpc":"2.0","method":"tell"},{"jsonrpc":"2.0","method":"tell"}]"#,
    "[]",
    "[1,[2],{}]",
    r#"{"jsonrpc":"2.0","result":{"x":"}"},"id":1}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"no","extra":1,"data":null},"id":2}"#,
    r#"[{"jsonrpc":"2.0","result":3,"id":3},{"jsonrpc":"2.0","result":4,"id":4},{"jsonrpc":"2.0","result":3,"id":3}]"#,
    r#"{"jsonrpc":"2.0","result":1,"error":{"code":1,"message":""},"id":5}"#,
    r#"{"jsonrpc":"2.0","result":1,"id":99}"#,
    r#"{"jsonrpc":"2.0","error":{"code":1,"message":"?"},"id":null}"#,
    r#"{"jsonrpc":"2.0","method":"hold","id":"held"}"#,
    r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"held"}}"#,
    r#"{"jsonrpc":"2.1","method":"sum","id":9}"#,
    r#"{"jsonrpc":"2.0","method":"sum","params":"x","id":9}"#,
    r#"{"jsonrpc":"2.0","method":"sum","method":"x","id":9}"#,
    r#"{"jsonrpc":"2.0","method":1}"#,
    r#"{"a":1}"#,
];

/// Text that is no JSON, but that every framing can step over.
const BROKEN: [&str; 4] = ["{nope}", "[1,]", "{\"a\" 1}", "[\"\\x\"]"];

/// Bytes that mean something to a framing.
const SCRAPS: [&[u8]; 9] = [
    b"\n",
    b"\r\n\r\n",
    b"Content-Length: 3\r\n\r\n",
    b"}",
    b"\"",
    b"\xEF\xBB\xBF",
    b" ",
    b"12 34",
    // A message of several lines, none of which is a value by itself.
    b"{\"jsonrpc\":\"2.0\",\"method\":\"tell\",\"params\":{\"a\":{}\n}\n}",
];

fn framed(framing: Framing, text: &str, out: &mut Vec<u8>) {
    match framing {
        Framing::ContentLength => {
            out.extend_from_slice(
                format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes(),
            );
        }
        Framing::Messages => out.extend_from_slice(text.as_bytes()),
        _ => out.extend_from_slice(format!("{text}\n").as_bytes()),
    }
}

fn connection(framing: Framing, role: Role) -> Connection<u64> {
    let mut config = Config::new().framing(framing).role(role);
    config.limits.max_message_bytes = 4096;
    config.limits.max_batch_items = 4;
    config.limits.max_open_requests = 3;
    config.connection = 1;
    let mut conn = Connection::new(config);
    for tag in 0..6 {
        conn.call("ask", (), None, tag)
            .expect("nothing is in its way");
    }
    conn
}

/// What a run gave: every event in full, and every byte.
#[derive(Debug, Default, PartialEq)]
struct Told {
    events: Vec<String>,
    output: String,
}

/// The handler: `hold` is not answered, everything else echoes its params.
fn handle(conn: &mut Connection<u64>, event: Event<'_, u64>, told: &mut Told) {
    told.events.push(format!("{event:?}"));
    if let Event::Request(request) = event {
        if request.method != "hold" {
            // A silent cancel may have come first; then there is nobody to answer.
            let _ = conn.respond(request.token, request.params);
        }
    }
}

fn drain(conn: &mut Connection<u64>, mut input: Input<'_>, told: &mut Told) -> usize {
    while let Some(event) = conn.poll_event(&mut input) {
        handle(conn, event, told);
    }
    input.consumed()
}

/// Shows `bytes` in pieces that end at `cuts`, with what is left over in front of each.
fn in_pieces(framing: Framing, role: Role, bytes: &[u8], cuts: &[usize]) -> Told {
    let mut conn = connection(framing, role);
    let mut told = Told::default();
    let mut buffer: Vec<u8> = Vec::new();
    let mut from = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        buffer.extend_from_slice(&bytes[from..cut]);
        from = cut;
        let consumed = drain(&mut conn, Input::stream(&buffer), &mut told);
        buffer.drain(..consumed);
        assert!(
            buffer.len() <= conn.config().max_input_bytes(),
            "more is left than was promised"
        );
    }
    conn.handle_eof();
    drain(&mut conn, Input::stream(&buffer), &mut told);
    let mut output = Vec::new();
    conn.take_transmit(&mut output);
    told.output = String::from_utf8(output).expect("output is text");
    told
}

/// As [`in_pieces`] without cuts, but the input has ended before its first byte is read.
fn at_once(framing: Framing, role: Role, bytes: &[u8]) -> Told {
    let mut conn = connection(framing, role);
    let mut told = Told::default();
    conn.handle_eof();
    let consumed = drain(&mut conn, Input::stream(bytes), &mut told);
    drain(&mut conn, Input::stream(&bytes[consumed..]), &mut told);
    let mut output = Vec::new();
    conn.take_transmit(&mut output);
    told.output = String::from_utf8(output).expect("output is text");
    told
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    let text = prop_oneof![
        20 => prop::sample::select(&MESSAGES[..]).prop_map(str::to_string),
        2 => prop::sample::select(&BROKEN[..]).prop_map(str::to_string),
        1 => Just(format!(r#"{{"jsonrpc":"2.0","method":"long","params":["{}"],"id":4}}"#, "é\\u00e9".repeat(200))),
        // Over the limit: skipped, and answered.
        1 => Just(format!(r#"{{"jsonrpc":"2.0","method":"over","params":["{}"],"id":4}}"#, "x".repeat(5000))),
    ];
    prop::collection::vec(text, 0..8)
}

fn cut_points(len: usize, cuts: &[usize]) -> Vec<usize> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (len + 1)).collect();
    cuts.sort_unstable();
    cuts
}

fn settings() -> ProptestConfig {
    ProptestConfig {
        cases: 192,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "proptest-regressions/splits.txt",
        ))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(settings())]

    // TRN-10 STD-01 STD-02 STD-08 SRV-15 TST-05
    #[test]
    fn whole_byte_by_byte_and_random_pieces_are_the_same_conversation(
        texts in texts(),
        tail in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        role in prop::sample::select(&ROLES[..]),
    ) {
        for framing in STREAMS {
            let mut bytes = Vec::new();
            texts.iter().for_each(|text| framed(framing, text, &mut bytes));
            // About one stream in three is cut off somewhere, mostly inside a message.
            let keep = tail.index(3 * (bytes.len() + 1));
            bytes.truncate(keep.max(1) - 1);
            let whole = in_pieces(framing, role, &bytes, &[]);
            let bytewise: Vec<usize> = (0..bytes.len()).collect();
            prop_assert_eq!(&whole, &in_pieces(framing, role, &bytes, &bytewise), "{:?} byte by byte", framing);
            let cuts = cut_points(bytes.len(), &cuts);
            prop_assert_eq!(&whole, &in_pieces(framing, role, &bytes, &cuts), "{:?} at {:?}", framing, cuts);
            prop_assert_eq!(&whole, &at_once(framing, role, &bytes), "{:?} with its end", framing);
            prop_assert!(whole.events.last().is_some_and(|last| last.starts_with("Closed")));
        }
    }

    // TRN-10 ARC-07 SEC-04
    #[test]
    fn any_bytes_at_all_are_the_same_however_they_come(
        pieces in prop::collection::vec(prop_oneof![
            3 => prop::sample::select(&MESSAGES[..]).prop_map(|text| text.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..20),
            2 => prop::sample::select(&SCRAPS[..]).prop_map(<[u8]>::to_vec),
        ], 0..10),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        role in prop::sample::select(&ROLES[..]),
    ) {
        let bytes = pieces.concat();
        for framing in STREAMS {
            let whole = in_pieces(framing, role, &bytes, &[]);
            let bytewise: Vec<usize> = (0..bytes.len()).collect();
            prop_assert_eq!(&whole, &in_pieces(framing, role, &bytes, &bytewise), "{:?} byte by byte", framing);
            let cuts = cut_points(bytes.len(), &cuts);
            prop_assert_eq!(&whole, &in_pieces(framing, role, &bytes, &cuts), "{:?} at {:?}", framing, cuts);
        }
    }

    // TRN-01 ARC-02
    #[test]
    fn separate_messages_say_what_lines_say(texts in texts(), role in prop::sample::select(&ROLES[..])) {
        let mut lines = Vec::new();
        texts.iter().for_each(|text| framed(Framing::Newline, text, &mut lines));
        let mut wanted = in_pieces(Framing::Newline, role, &lines, &[]);

        let mut conn = connection(Framing::Messages, role);
        let mut told = Told::default();
        for text in &texts {
            drain(&mut conn, Input::message(text.as_bytes()), &mut told);
        }
        conn.handle_eof();
        drain(&mut conn, Input::none(), &mut told);
        let mut frame = Vec::new();
        while conn.take_transmit(&mut frame) {
            told.output += std::str::from_utf8(&frame).expect("output is text");
            told.output.push('\n');
            frame.clear();
        }
        // An event about an oversized message tells its size; one about an oversized line does not.
        let measured = |event: &String| !event.contains("TooLarge");
        wanted.events.retain(measured);
        told.events.retain(measured);
        prop_assert_eq!(wanted, told);
    }
}

/// One of two peers: every request that it gets makes it ask back before it answers.
struct Peer {
    conn: Connection<Option<ReplyToken>>,
    inbox: Vec<u8>,
    /// Requests for which nothing could be asked yet.
    waiting: Vec<ReplyToken>,
    /// How many calls of its own, made for no request, have settled.
    settled: usize,
    /// The most requests that were open at once.
    deepest: usize,
}

impl Peer {
    fn new() -> Self {
        let mut config = Config::new();
        config.limits.max_open_requests = 2;
        config.limits.max_open_calls = 4;
        config.limits.soft_max_outbox_bytes = 64;
        Self {
            conn: Connection::new(config),
            inbox: Vec::new(),
            waiting: Vec::new(),
            settled: 0,
            deepest: 0,
        }
    }

    fn turn(&mut self) {
        let mut input = Input::stream(&self.inbox);
        while let Some(event) = self.conn.poll_event(&mut input) {
            match event {
                Event::Request(request) => self.waiting.push(request.token),
                Event::Response(response) => match response.tag {
                    // The answer to what was asked for a request answers that request, error or not.
                    Some(token) => match response.outcome {
                        Outcome::Ok(result) => {
                            self.conn.respond(token, result).expect("it is open")
                        }
                        _ => self
                            .conn
                            .respond_err(token, &ErrorObject::new(1, "busy"))
                            .expect("it is open"),
                    },
                    None => self.settled += 1,
                },
                Event::Refused(_) => {}
                event => panic!("{event:?}"),
            }
            self.deepest = self.deepest.max(self.conn.requests_open());
        }
        let consumed = input.consumed();
        self.inbox.drain(..consumed);
        for token in std::mem::take(&mut self.waiting) {
            // A refused call gives the token back; it waits outside the connection.
            if let Err(refused) = self.conn.call(
                "back",
                Json::parse(b"[1]").expect("JSON"),
                None,
                Some(token),
            ) {
                self.waiting.extend(refused.value);
            }
        }
    }
}

// SRV-23 SRV-32 CLI-15 TRN-07
#[test]
fn two_peers_at_their_limits_that_wait_for_each_other_come_to_an_end() {
    let (mut left, mut right) = (Peer::new(), Peer::new());
    let (mut asked, mut turns) = ([0, 0], 0);
    while left.settled < 50 || right.settled < 50 {
        turns += 1;
        assert!(turns < 100_000, "stuck: {:?} {:?}", left.conn, right.conn);
        for (peer, asked) in [&mut left, &mut right].into_iter().zip(&mut asked) {
            if *asked < 50 && peer.conn.call("start", (), None, None).is_ok() {
                *asked += 1;
            }
        }
        left.turn();
        right.turn();
        // Few bytes at a time go over, so that both outputs are full most of the time.
        for (from, to) in [(0, 1), (1, 0)] {
            let [from, to] = match (from, to) {
                (0, _) => [&mut left, &mut right],
                _ => [&mut right, &mut left],
            };
            let shown = from.conn.poll_transmit().unwrap_or_default();
            let n = shown.len().min(37);
            to.inbox.extend_from_slice(&shown[..n]);
            from.conn.consume_transmit(n);
        }
    }
    assert!(
        left.deepest == 2 && right.deepest == 2,
        "both were at their limit"
    );
}
