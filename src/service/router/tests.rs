use alloc::string::String;

use super::LocalRouter;
use crate::service::Failure;
use crate::{Config, Connection, Event, Input, OwnedError};

// SRV-26 SRV-34
#[test]
fn an_answer_that_cannot_be_sent_is_an_internal_error() {
    let mut router =
        LocalRouter::new().method("long", [], || Ok::<_, OwnedError>("x".repeat(5000)));
    let mut conn: Connection = Connection::new(Config::new().max_outbox_bytes(4096));
    let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"method\":\"long\",\"id\":1}\n");
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("it is a request");
    };
    assert!(matches!(
        router.respond(&mut conn, request),
        Err(Failure::Send(_))
    ));
    let sent = String::from_utf8(conn.poll_transmit().unwrap().to_vec()).unwrap();
    assert!(
        sent.contains("-32603") && sent.ends_with("\"id\":1}\n"),
        "{sent}"
    );
    assert_eq!(conn.requests_open(), 0);
}
