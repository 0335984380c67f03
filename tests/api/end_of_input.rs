//! Messages that a connection may still send after its input has ended.

use antiphon::{Closed, Config, Connection, Event, Input, SendError};

// STD-09
#[test]
fn a_handler_notifies_and_answers_after_the_input_has_ended_and_then_no_more() {
    let mut conn: Connection = Connection::new(Config::new());
    let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"method\":\"emit\",\"id\":1}\n");
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("no request");
    };
    conn.handle_eof();
    // A notification goes before and after the event that tells the end.
    conn.notify("tick", &[0]).unwrap();
    assert!(!conn.has_ended());
    let told = conn.poll_event(&mut input);
    assert!(matches!(told, Some(Event::Closed(Closed::EndOfInput))));
    assert!(conn.has_ended());
    conn.notify("tick", &[1]).unwrap();
    assert_eq!(conn.notify("", ()), Err(SendError::BlankMethod));
    // A call could never be answered.
    let called = conn.call("ask", (), None, ()).map_err(SendError::from);
    assert_eq!(called, Err(SendError::Closed));

    conn.respond(request.token, &2).unwrap();
    assert_eq!(conn.notify("tick", &[2]), Err(SendError::Closed));
    let mut written = Vec::new();
    conn.take_transmit(&mut written);
    let written = String::from_utf8(written).unwrap();
    let lines: Vec<_> = written.lines().collect();
    let ticks = |n: u32| format!(r#"{{"jsonrpc":"2.0","method":"tick","params":[{n}]}}"#);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[..2], [ticks(0), ticks(1)]);
    assert_eq!(
        lines.last(),
        Some(&r#"{"jsonrpc":"2.0","result":2,"id":1}"#)
    );
    assert!(conn.is_closed());
}

#[test]
fn closing_after_the_end_of_input_silences_handlers() {
    let mut conn: Connection = Connection::new(Config::new());
    let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"method\":\"emit\",\"id\":1}\n");
    let event = conn.poll_event(&mut input);
    assert!(matches!(event, Some(Event::Request(_))));
    conn.handle_eof();
    conn.close(antiphon::CloseReason::Done);
    assert_eq!(conn.notify("tick", ()), Err(SendError::Closed));
}
