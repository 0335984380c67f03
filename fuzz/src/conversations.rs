//! Invariant: a conversation of the public generators comes to its end, gives the same whole and in pieces, and each request in it gets an answer.

use antiphon::generate::{Conversation, Splits};
use antiphon::{Config, Connection, Event, Framing, Input};
use arbitrary::{Arbitrary, Unstructured};

use crate::events::tell;
use crate::naive::{self, Kind};

const FRAMINGS: [Framing; 4] = [
    Framing::Newline,
    Framing::ContentLength,
    Framing::Concatenated,
    Framing::Messages,
];

pub fn run(data: &[u8]) {
    // A generator may run out of bytes; then there is no conversation.
    let Ok((framing, splits, conversation)) = read(data) else {
        return;
    };
    let mut config = Config::new().framing(framing);
    // Two connections that are compared have one number.
    config.connection = 1;
    let whole = play(config, &conversation);
    assert_eq!(conversation.arrivals().concat(), conversation.stream());
    if framing == Framing::Messages {
        return;
    }
    let stream = conversation.stream();
    assert_eq!(splits.pieces(&stream).concat(), stream);
    assert_eq!(whole, pieces(config, &splits.pieces(&stream)), "in pieces");
    let bytewise: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(whole, pieces(config, &bytewise), "byte by byte");
}

fn read(data: &[u8]) -> arbitrary::Result<(Framing, Splits, Conversation)> {
    let mut u = Unstructured::new(data);
    let framing = *u.choose(&FRAMINGS)?;
    let splits = Splits::arbitrary(&mut u)?;
    let methods = ["sum", "tell", "\"\u{e9}"];
    let conversation = Conversation::of(&mut u, framing, &methods)?;
    Ok((framing, splits, conversation))
}

type Told = (Vec<String>, Vec<u8>);

fn connection(config: Config) -> Connection<u64> {
    let mut conn = Connection::new(config);
    for tag in 0..3 {
        conn.call("ask", (), None, tag).expect("three calls fit");
    }
    conn
}

/// Notes an event, and answers a request with its params. The planted fault forgets a request of a
/// batch whose id is `1e0`.
fn hear(conn: &mut Connection<u64>, event: Event<'_, u64>, said: &mut Vec<String>) {
    said.push(tell(&event));
    if let Event::Request(request) = event {
        let is_lost = request.id.text() == "1e0" && request.origin.batch_index.is_some();
        if crate::PLANTED && is_lost {
            return;
        }
        let given = conn.respond(request.token, request.params);
        // A result that is too large for its batch is answered with an error.
        if let Err(refused) = given {
            assert!(conn.abandon(refused.value.key()));
        }
    }
}

fn play(config: Config, conversation: &Conversation) -> Told {
    let mut conn = connection(config);
    let (mut said, mut asked) = (Vec::new(), 0);
    let written = conversation.play(&mut conn, |conn, event| {
        asked += usize::from(matches!(event, Event::Request(_)));
        hear(conn, event, &mut said);
    });
    assert!(conn.is_closed(), "it comes to its end");
    assert!(said.last().is_some_and(|last| last.starts_with("Closed")));
    let answers = answers(config.framing, &written);
    assert!(
        answers.is_none_or(|answers| answers >= asked),
        "{asked} were asked"
    );
    (said, written)
}

/// How many answers were written; `None` under other framings than lines.
fn answers(framing: Framing, written: &[u8]) -> Option<usize> {
    if framing != Framing::Newline {
        return None;
    }
    let lines = written
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    Some(
        lines
            .map(|line| {
                let node = naive::parse(line, 200).expect("what is written is JSON");
                match &node.kind {
                    Kind::Array(all) => all
                        .iter()
                        .filter(|one| one.member("method").is_none())
                        .count(),
                    _ => usize::from(node.member("method").is_none()),
                }
            })
            .sum(),
    )
}

fn pieces(config: Config, pieces: &[&[u8]]) -> Told {
    let mut conn = connection(config);
    let (mut said, mut written, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    let last: &[&[u8]] = &[&[]];
    for (at, piece) in pieces.iter().chain(last).enumerate() {
        if at == pieces.len() {
            conn.handle_eof();
        }
        buffer.extend_from_slice(piece);
        let mut input = Input::stream(&buffer);
        while let Some(event) = conn.poll_event(&mut input) {
            crate::corners::in_words(&event);
            hear(&mut conn, event, &mut said);
        }
        let consumed = input.consumed();
        buffer.drain(..consumed);
        while conn.take_transmit(&mut written) {}
    }
    (said, written)
}
