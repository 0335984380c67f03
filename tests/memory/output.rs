//! How much capacity the output reserves for a message, and how often; and how much an owned event
//! or id takes.
//!
//! For a message of a known size it is reserved before the message is written: in one allocation,
//! and not more than the message can need.

use antiphon::{
    CancelStyle, Config, Connection, ErrorObject, Event, Input, Json, OwnedId, ReplyToken,
};
use antiphon_test_support::heap::measured;

/// The allocations that `run` makes, and their bytes.
fn allocations(run: impl FnOnce()) -> (usize, usize) {
    let ((), used) = measured(run);
    (used.allocations as usize, used.bytes as usize)
}

/// A connection on which a request of each id is open, and their tokens. Its output has no capacity yet.
fn asked(ids: &[&str]) -> (Connection<u32>, Vec<ReplyToken>) {
    let mut conn = Connection::new(Config::new());
    let mut tokens = Vec::with_capacity(ids.len());
    for id in ids {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ask\",\"id\":{id}}}\n");
        let mut input = Input::stream(text.as_bytes());
        let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
            panic!("it is a request");
        };
        tokens.push(request.token);
    }
    (conn, tokens)
}

/// Runs `say` on a new connection, and wants one allocation, of at most `spare` bytes more than then
/// wait in the output.
fn one_allocation(spare: usize, what: &str, mut say: impl FnMut(&mut Connection<u32>)) {
    let mut counted = (0, 0, 0);
    // The first round also allocates what a program allocates once only, and is not counted.
    for _ in 0..2 {
        let mut conn = Connection::new(Config::new());
        let (count, bytes) = allocations(|| say(&mut conn));
        counted = (count, bytes, conn.poll_transmit().map_or(0, <[u8]>::len));
    }
    let (count, bytes, waiting) = counted;
    assert!(count == 1 && waiting > 0, "{what}: {counted:?}");
    assert!(bytes <= waiting + spare, "{what}: {counted:?}");
}

fn text(bytes: usize) -> String {
    format!("[\"{}\"]", "x".repeat(bytes))
}

#[test]
fn params_that_are_json_find_room_at_once_and_no_more_than_they_need() {
    for bytes in [0, 100, 10_000] {
        let text = text(bytes);
        let params = Json::parse_str(&text).unwrap();
        for method in ["m", "a/method/of/a/good/length/that/says/what/it/does"] {
            one_allocation(128, method, |conn| conn.notify(method, params).unwrap());
            one_allocation(128, method, |conn| {
                conn.notify(method, Some(params)).unwrap();
            });
        }
    }
}

#[test]
fn small_values_find_room_at_once() {
    let numbers = [1234567890u64; 6];
    one_allocation(128, "numbers", |conn| conn.notify("m", &numbers).unwrap());
    one_allocation(128, "some", |conn| {
        conn.notify("m", Some(&numbers)).unwrap();
    });
}

#[test]
fn nothing_takes_no_room() {
    // How many bytes are reserved.
    let room = |say: fn(&mut Connection<u32>)| {
        let mut conn = Connection::new(Config::new());
        allocations(|| say(&mut conn)).1
    };
    // The first one also allocates what a program allocates once only.
    room(|conn| conn.notify("m", ()).unwrap());
    let of_unit = room(|conn| conn.notify("m", ()).unwrap());
    let of_none = room(|conn| conn.notify("m", None::<&u32>).unwrap());
    let of_none_again = room(|conn| conn.notify("m", None::<Json<'_>>).unwrap());
    assert_eq!([of_unit, of_none], [of_none_again; 2]);
    assert_eq!(
        of_unit + 2,
        room(|conn| conn.notify("m", Json::parse_str("[]").unwrap()).unwrap())
    );
}

#[test]
fn an_answer_finds_room_at_once_and_no_more_than_it_needs() {
    let long_id = format!("\"{}\"", "i".repeat(1000));
    let error = ErrorObject::new(
        -32601,
        "There is no such method, and none with a name like it",
    );
    let large = text(10_000);
    let large = Json::parse_str(&large).unwrap();
    for id in ["1", &long_id] {
        let (mut counted, mut waiting) = ([(0, 0); 3], [0; 3]);
        for _ in 0..2 {
            for (at, (counted, waiting)) in counted.iter_mut().zip(&mut waiting).enumerate() {
                let (mut conn, mut tokens) = asked(&[id]);
                let token = tokens.pop().unwrap();
                *counted = allocations(|| match at {
                    0 => conn.respond(token, &true).unwrap(),
                    1 => conn.respond(token, large).unwrap(),
                    _ => conn.respond_err(token, &error).unwrap(),
                });
                *waiting = conn.poll_transmit().map_or(0, <[u8]>::len);
            }
        }
        for ((count, bytes), waiting) in counted.into_iter().zip(waiting) {
            assert_eq!(count, 1, "{id}: {bytes} bytes for {waiting}");
            assert!(bytes <= waiting + 160, "{id}: {bytes} bytes for {waiting}");
        }
    }
}

#[test]
fn giving_a_call_up_finds_room_at_once() {
    let mut counted = (0, 0);
    let mut waiting = 0;
    for _ in 0..2 {
        let mut config = Config::new();
        config.dialect.cancel_send = CancelStyle::Mcp;
        let mut conn: Connection<u32> = Connection::new(config);
        // The first one makes the list of the calls that were cancelled, which is used again.
        let first = conn.call("m", (), None, 6).unwrap();
        let call = conn.call("m", (), None, 7).unwrap();
        conn.ask_cancel(first).unwrap();
        while conn.take_transmit(&mut Vec::new()) {}
        counted = allocations(|| conn.ask_cancel_because(call, Some("nobody waits")).unwrap());
        waiting = conn.poll_transmit().map_or(0, <[u8]>::len);
    }
    assert_eq!(counted.0, 1, "{} bytes for {waiting}", counted.1);
}

// SRV-20
#[test]
fn answers_of_a_batch_that_came_in_order_are_not_put_in_order() {
    let batch: String = (0..50)
        .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ask\",\"id\":{id}}}"))
        .collect::<Vec<_>>()
        .join(",");
    let batch = format!("[{batch}]\n");
    let mut conn: Connection<u32> = Connection::new(Config::new());
    let mut tokens = Vec::with_capacity(50);
    let mut counted = (0, 0);
    for _ in 0..3 {
        let mut input = Input::stream(batch.as_bytes());
        while let Some(event) = conn.poll_event(&mut input) {
            if let Event::Request(request) = event {
                tokens.push(request.token);
            }
        }
        counted = allocations(|| {
            for token in tokens.drain(..) {
                conn.respond(token, &1).unwrap();
            }
        });
        let waiting = conn.poll_transmit().map_or(0, <[u8]>::len);
        conn.consume_transmit(waiting);
    }
    assert_eq!(counted, (0, 0));
}

#[test]
fn an_owned_event_is_one_allocation_of_what_it_has() {
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"a/long/method\",\"params\":{},\"id\":\"an id\"}}\n",
        text(5000)
    );
    let mut conn: Connection<u32> = Connection::new(Config::new());
    let mut counted = (0, 0);
    for _ in 0..2 {
        let mut input = Input::stream(text.as_bytes());
        let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
            panic!("it is a request");
        };
        let mut owned = None;
        counted = allocations(|| owned = Some(request.into_owned()));
        assert_eq!(owned.unwrap().method(), "a/long/method");
    }
    assert!(counted.0 == 1 && counted.1 <= text.len(), "{counted:?}");
}

#[test]
fn an_id_made_of_a_text_takes_the_room_of_the_text() {
    let text = "i".repeat(1000);
    let mut counted = (0, 0);
    for _ in 0..2 {
        counted =
            allocations(|| assert_eq!(OwnedId::from(text.as_str()).as_id().text().len(), 1002));
    }
    // It is written into one block, and kept in another: 1002 bytes with its quotes.
    assert!(counted.0 == 2 && counted.1 <= 2 * 1002 + 32, "{counted:?}");
    assert_eq!(OwnedId::from("").as_id().text(), "\"\"");
}

#[test]
fn the_answer_to_a_cancel_takes_no_more_room_than_it_needs() {
    let id = format!("\"{}\"", "i".repeat(1000));
    let cancel = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{{\"id\":1}},\"id\":{id}}}"
    );
    for message in [cancel.clone(), format!("[{cancel}]")] {
        let mut bytes = 0;
        for _ in 0..2 {
            let mut conn: Connection<u32> = Connection::new(Config::new());
            let mut input = Input::text(&message);
            bytes = allocations(|| while conn.poll_event(&mut input).is_some() {}).1;
            assert!(conn.poll_transmit().unwrap().len() > 1000);
        }
        assert!(bytes < 8000, "{bytes} bytes");
    }
}
