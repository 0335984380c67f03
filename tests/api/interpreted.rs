//! A short test of everything for Miri, which finds undefined behaviour but runs a program a thousand
//! times slower. It also runs as an ordinary test.
//!
//! It has strings of every length around the size of a block, at every position in a block (under Miri
//! only at the first three), so that no load reads beyond a text; and a conversation in every framing of
//! a stream, whole and in pieces of one byte and of seven.

use antiphon::{Config, Connection, Event, Framing, Input, Json, Outcome};

/// No byte and one; and the sizes that a block may have, one byte less and one byte more.
const LENGTHS: [usize; 14] = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65];

// SEC-04
#[test]
fn strings_of_every_length_and_place_are_read_as_they_stand() {
    let places = if cfg!(miri) { 3 } else { 70 };
    for place in 0..places {
        for length in LENGTHS {
            for end in ["", "ä", "\\n", "\\u00e4", "\u{10348}"] {
                let body = format!("{}{end}", "x".repeat(length));
                // The text ends where its allocation does.
                let text = format!("{}\"{body}\"", " ".repeat(place)).into_boxed_str();
                let json = Json::parse_str(&text).expect("it is JSON");
                let read: String = json.decode().expect("it is a string");
                let wanted: String = serde_json::from_str(&text).expect("it is JSON");
                assert_eq!(read, wanted);
                let cut = text[..text.len() - 1].to_owned().into_boxed_str();
                assert!(Json::parse_str(&cut).is_err(), "{cut}");
                // A control character in a string is refused. If the body is empty, the line feed comes
                // before the string.
                let broken = text.replacen(&body, &format!("{body}\n"), 1);
                assert!(length == 0 || Json::parse_str(&broken).is_err(), "{broken}");
            }
        }
    }
}

#[test]
fn a_conversation_in_every_framing_whole_and_byte_by_byte() {
    for framing in [
        Framing::Newline,
        Framing::ContentLength,
        Framing::Concatenated,
    ] {
        for step in [1, 7, usize::MAX] {
            let config = Config::new().framing(framing);
            let mut client = Connection::new(config);
            let mut server = Connection::<()>::new(config);
            client
                .call("greet", &("wörld", 1.5, [true, false]), None, "first")
                .unwrap();
            client.notify("note", &[u64::MAX]).unwrap();
            client.call("fail", (), None, "second").unwrap();
            let mut asked = Vec::new();
            client.take_transmit(&mut asked);
            feed(&mut server, &asked, step, |server, event| match event {
                Event::Request(request) if request.method == "greet" => {
                    server.respond(request.token, request.params).unwrap();
                }
                Event::Request(request) => {
                    server
                        .respond_unknown_method(request.token, "fail")
                        .unwrap();
                }
                Event::Notification(notification) => assert_eq!(notification.method, "note"),
                other => panic!("{other:?}"),
            });
            let mut answered = Vec::new();
            server.take_transmit(&mut answered);
            let mut tags = Vec::new();
            feed(&mut client, &answered, step, |_, event| match event {
                Event::Response(response) => {
                    assert_eq!(
                        matches!(response.outcome, Outcome::Ok(_)),
                        response.tag == "first"
                    );
                    tags.push(response.tag);
                }
                other => panic!("{other:?}"),
            });
            assert_eq!(tags, ["first", "second"], "{framing:?} by {step}");
        }
    }
}

/// Shows `bytes` in pieces, each after what was not consumed of those before.
fn feed<T>(
    conn: &mut Connection<T>,
    bytes: &[u8],
    step: usize,
    mut take: impl FnMut(&mut Connection<T>, Event<'_, T>),
) {
    let mut shown: Vec<u8> = Vec::new();
    for piece in bytes.chunks(step.min(bytes.len())) {
        shown.extend_from_slice(piece);
        let mut input = Input::stream(&shown);
        while let Some(event) = conn.poll_event(&mut input) {
            take(conn, event);
        }
        let consumed = input.consumed();
        shown.drain(..consumed);
    }
    // White space after the last value may stay until more comes.
    assert!(shown.iter().all(u8::is_ascii_whitespace), "{shown:?}");
}
