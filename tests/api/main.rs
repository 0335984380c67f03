//! Tests that cannot be written as scripts: types, tokens, leaks, borrows, buffers, and orders of
//! commands.
//!
//! Rule: the methods may be called in any order, no value that is passed in is lost, and a refused
//! command changes nothing.

mod batches;
mod boundaries;
mod bytes;
mod commands;
mod deviations;
mod edges;
mod end_of_input;
mod faults;
mod interceptors;
mod invariants;
mod limits;
mod links;
mod local_interceptors;
mod owned;
mod owned_events;
mod panicking_payloads;
mod reader;
mod regressions;
mod router;
mod server_only;
mod stubs;
mod texts;
mod time;
mod tokens;
mod values;
mod websockets;

use antiphon::{Config, Connection, Event, Id, Input, Json, ReplyToken};

pub(crate) const REQUEST: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[1],\"id\":1}\n";

pub(crate) fn connection(number: u32) -> Connection<u32> {
    let mut config = Config::new();
    config.connection = number;
    Connection::new(config)
}

pub(crate) fn written(conn: &mut Connection<u32>) -> String {
    let mut out = Vec::new();
    while conn.take_transmit(&mut out) {}
    String::from_utf8(out).unwrap()
}

/// Delivers `text` and gives the tokens of the requests in it.
pub(crate) fn requests(conn: &mut Connection<u32>, text: &[u8]) -> Vec<ReplyToken> {
    let mut input = Input::stream(text);
    let mut tokens = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Request(request) = event {
            tokens.push(request.token);
        }
    }
    tokens
}

pub(crate) fn request(conn: &mut Connection<u32>) -> ReplyToken {
    requests(conn, REQUEST).pop().unwrap()
}

pub(crate) fn json(text: &str) -> Json<'_> {
    Json::parse_str(text).unwrap()
}

pub(crate) fn id(text: &str) -> Id<'_> {
    Id::new(json(text)).unwrap()
}

/// Takes all events that need no input, as debug text.
pub(crate) fn drained(conn: &mut Connection<u32>) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(event) = conn.poll_event(&mut Input::none()) {
        events.push(format!("{event:?}"));
        assert!(events.len() < 1000, "poll_event never comes to an end");
    }
    events
}

pub(crate) const BATCH: &[u8] =
    br#"[{"jsonrpc":"2.0","method":"a","id":1},{"jsonrpc":"2.0","method":"b","id":2}]
"#;
