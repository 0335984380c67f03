//! Requests whose token is gone.

use antiphon::{Config, Connection, Event, Input};
use serde::{Serialize, Serializer};
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Bomb;

impl Serialize for Bomb {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("on purpose")
    }
}

// SRV-26
#[test]
fn a_request_whose_result_panicked_half_written_can_still_be_answered_once() {
    let mut conn: Connection = Connection::new(Config::new());
    let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1}\n");
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("no request");
    };
    let key = request.token.key();
    let result = vec![Ok("written before"), Err(Bomb)];
    let written = catch_unwind(AssertUnwindSafe(|| conn.respond(request.token, &result)));
    assert!(written.is_err());
    assert_eq!(conn.poll_transmit(), None);
    assert_eq!(conn.requests_open(), 1);
    assert!(conn.abandon(key));
    assert!(!conn.abandon(key));
    let answer = b"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"Internal error\"},\"id\":1}\n";
    assert_eq!(conn.poll_transmit(), Some(&answer[..]));
}
