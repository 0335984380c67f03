//! Params and results that panic while they are written: nothing of them is sent, and a request whose
//! token went with the panic can still be answered.

use antiphon::{Config, Connection, Event, Input};
use serde::{Serialize, Serializer};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A value that panics when it is written.
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

// SRV-26
#[test]
fn a_request_of_a_batch_whose_result_panicked_half_written_costs_the_others_nothing() {
    let mut conn: Connection = Connection::new(Config::new());
    let batch = br#"[{"jsonrpc":"2.0","method":"m","id":1},{"jsonrpc":"2.0","method":"m","id":2}]"#;
    let mut input = Input::message(batch);
    let mut tokens = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Request(request) = event {
            tokens.push(request.token);
        }
    }
    let (second, first) = (tokens.pop().unwrap(), tokens.pop().unwrap());
    let key = first.key();
    let result = vec![Ok("written before"), Err(Bomb)];
    let written = catch_unwind(AssertUnwindSafe(|| conn.respond(first, &result)));
    assert!(written.is_err());
    assert!(conn.abandon(key));
    conn.respond(second, &2).unwrap();
    let sent = conn
        .poll_transmit()
        .map(|sent| String::from_utf8(sent.to_vec()).unwrap());
    let error = r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":1}"#;
    let answers = format!(r#"[{error},{{"jsonrpc":"2.0","result":2,"id":2}}]"#) + "\n";
    assert_eq!(sent.as_deref(), Some(&*answers));
}

#[test]
fn a_call_of_a_batch_whose_params_panicked_half_written_leaves_nothing_in_it() {
    let mut conn: Connection = Connection::new(Config::new());
    let mut batch = conn.batch(None);
    let params = vec![Ok("written before"), Err(Bomb)];
    for _ in 0..2 {
        let written = catch_unwind(AssertUnwindSafe(|| batch.notify("broken", &params)));
        assert!(written.is_err());
        batch.notify("whole", &[1]).unwrap();
    }
    batch.send().unwrap();
    let sent = conn
        .poll_transmit()
        .map(|sent| String::from_utf8(sent.to_vec()).unwrap());
    let whole = r#"{"jsonrpc":"2.0","method":"whole","params":[1]}"#;
    assert_eq!(
        sent.as_deref(),
        Some(&*(format!("[{whole},{whole}]") + "\n"))
    );
}

// CLI-04
#[test]
fn calls_after_one_of_a_batch_whose_params_panicked_have_their_own_ids() {
    // After different numbers of earlier calls, the calls of the batch are kept in different slots.
    for made in [0, 3, 8] {
        let mut conn: Connection<u64> = Connection::new(Config::new());
        for tag in 0..made {
            let call = conn.call("before", (), None, tag).unwrap();
            conn.cancel(call);
        }
        conn.consume_transmit(usize::MAX);
        let mut batch = conn.batch(None);
        let params = vec![Ok("written before"), Err(Bomb)];
        let mut numbers = Vec::new();
        for tag in 0..3 {
            let written = catch_unwind(AssertUnwindSafe(|| {
                batch.call::<()>("broken", &params, tag).map(drop)
            }));
            assert!(written.is_err());
            let whole = batch.call::<()>("whole", &[1], tag).unwrap();
            numbers.push(whole.call().number());
        }
        batch.send().unwrap();
        numbers.push(conn.call("after", (), None, 9).unwrap().number());
        let mut sent = Vec::new();
        conn.take_transmit(&mut sent);
        let sent = String::from_utf8(sent).unwrap();
        let ids = sent.split("\"id\":").skip(1).map(|rest| {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
            digits.unwrap().parse::<u64>().unwrap()
        });
        assert_eq!(ids.collect::<Vec<_>>(), numbers, "{sent}");
    }
}
