//! How streams that calls open end: unsubscribed when nobody reads them, also if their id comes late, and
//! with their connection.

use super::routes::{EVENT, answer, event, events, ready, subscribe, unmatched};
use super::*;
use crate::{OwnedJson, Style};

/// Unsubscribes what is to be unsubscribed, within a second, and returns the output.
fn unsubscribed(session: &mut Session<u32>) -> String {
    session.unsubscribe(Some(SECOND), || 9);
    output(session)
}

/// The call that unsubscribes the stream with this id.
fn unsubscribe(id: &str, number: u32) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"eth_unsubscribe\",\"params\":[{id}],\"id\":{number}}}\n"
    )
}

/// A session with a stream that has the id 7, and has had an event.
fn followed() -> (Session<u32>, RouteId) {
    let mut session = idle(Config::ethereum());
    let (call, route) = subscribe(&mut session, None);
    session.handle_input(answer(call, "7").as_bytes());
    session.handle_input(event("7", "1").as_bytes());
    outcomes(&mut session);
    (session, route)
}

// USE-15
#[test]
fn a_stream_that_nobody_reads_is_unsubscribed_and_its_events_are_ignored_until_then() {
    let (mut session, route) = followed();
    assert_eq!(unsubscribed(&mut session), "");
    session.close_route(route);
    assert!(!session.is_route_open(route));
    session.handle_input(event("7", "2").as_bytes());
    assert_eq!(unsubscribed(&mut session), unsubscribe("7", 2));
    assert_eq!(unsubscribed(&mut session), "", "once");
    session.handle_input(event("7", "3").as_bytes());
    assert_eq!(work(&mut session), [""; 0]);
    line(&mut session, r#"{"jsonrpc":"2.0","result":true,"id":2}"#);
    assert_eq!(outcomes(&mut session).len(), 1);
    assert_eq!(work(&mut session), [""; 0]);
    assert_eq!(ready(&mut session), []);
    // Later events belong to nobody.
    session.handle_input(event("7", "4").as_bytes());
    assert_eq!(work(&mut session), [EVENT]);
}

// USE-15
#[test]
fn a_server_that_forgets_to_answer_an_unsubscribe_is_reported() {
    let (mut session, route) = followed();
    session.close_route(route);
    unsubscribed(&mut session);
    for result in ["2", "3"] {
        session.handle_input(event("7", result).as_bytes());
    }
    session.handle_timeout(at(999));
    assert_eq!(work(&mut session), [""; 0]);
    session.handle_timeout(at(1000));
    let report = "report: eth_unsubscribe was not answered in time, and 2 events were ignored";
    assert_eq!(work(&mut session), [report]);
    session.handle_input(event("7", "4").as_bytes());
    assert_eq!(work(&mut session), [EVENT]);
}

// USE-15
#[test]
fn an_id_that_comes_after_its_stream_was_given_up_is_unsubscribed() {
    for end in [
        "timeout",
        "cancel",
        "close",
        "close and cancel",
        "cancel and close",
    ] {
        let mut session = idle(Config::ethereum());
        let (call, route) = subscribe(&mut session, Some(at(1000)));
        for end in end.split(" and ") {
            match end {
                "timeout" => session.handle_timeout(at(1000)),
                "cancel" => assert_eq!(session.cancel(call), Some(1)),
                _ => session.close_route(route),
            }
        }
        assert_eq!(unsubscribed(&mut session), "", "{end}");
        // The events of the same read are ignored, too.
        let read = [answer(call, "\"\\u0061\""), event("\"a\"", "1")];
        session.handle_input(read.concat().as_bytes());
        assert_eq!(unsubscribed(&mut session), unsubscribe("\"a\"", 2), "{end}");
        assert!(!session.is_route_open(route));
        session.handle_input(event("\"a\"", "2").as_bytes());
        assert_eq!(work(&mut session), [""; 0], "{end}");
        // A second answer is nobody's, and is reported.
        session.handle_input(answer(call, "\"a\"").as_bytes());
        assert_eq!(work(&mut session).len(), 1, "{end}");
        line(&mut session, r#"{"jsonrpc":"2.0","result":true,"id":2}"#);
        session.handle_input(event("\"a\"", "3").as_bytes());
        assert_eq!(work(&mut session), [EVENT], "{end}");
    }
}

// USE-15
#[test]
fn an_answer_that_comes_late_and_brings_no_id_unsubscribes_nothing() {
    let mut session = idle(Config::ethereum());
    let (refused, _) = subscribe(&mut session, Some(at(1000)));
    let (strange, _) = subscribe(&mut session, Some(at(1000)));
    session.handle_timeout(at(1000));
    let number = refused.number();
    line(
        &mut session,
        &format!(r#"{{"jsonrpc":"2.0","error":{{"code":1,"message":"no"}},"id":{number}}}"#),
    );
    session.handle_input(answer(strange, "{}").as_bytes());
    assert_eq!(unsubscribed(&mut session), "");
    // An answer that says so while the call is open is the end of it.
    let (call, route) = subscribe(&mut session, None);
    session.close_route(route);
    line(
        &mut session,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"},"id":3}"#,
    );
    session.handle_input(answer(call, "1").as_bytes());
    assert_eq!(unsubscribed(&mut session), "");
}

// USE-15
#[test]
fn calls_that_were_given_up_are_forgotten_after_a_thousand_more() {
    let mut session = idle(Config::ethereum());
    let first = subscribe(&mut session, Some(at(1000)));
    session.close_route(first.1);
    let second = subscribe(&mut session, Some(at(1000)));
    session.close_route(second.1);
    for _ in 0..1023 {
        let (_, route) = subscribe(&mut session, Some(at(1000)));
        session.close_route(route);
    }
    session.handle_timeout(at(1000));
    session.handle_input(answer(first.0, "1").as_bytes());
    assert_eq!(unsubscribed(&mut session), "");
    session.handle_input(answer(second.0, "2").as_bytes());
    assert_eq!(unsubscribed(&mut session), unsubscribe("2", 1026));
}

// USE-15
#[test]
fn an_unsubscribe_waits_for_space_in_the_output() {
    let mut config = Config::ethereum();
    config.limits.soft_max_outbox_bytes = 10;
    let mut session = idle(config);
    let (call, route) = subscribe(&mut session, None);
    session.handle_input(answer(call, "7").as_bytes());
    session
        .notify("a notification of more than ten bytes", ())
        .unwrap();
    session.close_route(route);
    session.unsubscribe(None, || 9);
    assert!(!output(&mut session).contains("eth_unsubscribe"));
    assert_eq!(unsubscribed(&mut session), unsubscribe("7", 2));
}

// USE-15
#[test]
fn an_id_that_is_used_again_is_not_unsubscribed() {
    for is_sent in [false, true] {
        let (mut session, route) = followed();
        session.close_route(route);
        if is_sent {
            unsubscribed(&mut session);
        }
        let (call, again) = subscribe(&mut session, None);
        session.handle_input(answer(call, "7").as_bytes());
        assert_eq!(unsubscribed(&mut session), "");
        if is_sent {
            // The answer to the unsubscribe of the first stream does not end the second.
            line(&mut session, r#"{"jsonrpc":"2.0","result":true,"id":2}"#);
        }
        session.handle_input(event("7", "2").as_bytes());
        assert_eq!(events(&mut session, again), ["2"], "{is_sent}");
        assert_eq!(work(&mut session), [""; 0]);
    }
}

// USE-15
#[test]
fn what_a_stream_has_brought_can_be_read_after_the_end_of_the_connection() {
    for end in ["eof", "close", "abort"] {
        let (mut session, route) = followed();
        let (_, opening) = subscribe(&mut session, None);
        let (call, closed) = subscribe(&mut session, None);
        session.handle_input(answer(call, "8").as_bytes());
        session.close_route(closed);
        ready(&mut session);
        match end {
            "eof" => session.handle_eof(),
            "close" => session.close(CloseReason::Done),
            _ => session.abort(None),
        }
        work(&mut session);
        assert_eq!(ready(&mut session), [route, opening], "{end}");
        for route in [route, opening] {
            assert!(!session.is_route_open(route), "{end}");
        }
        assert_eq!(events(&mut session, route), ["1"], "{end}");
        // There is nobody to unsubscribe at, nor anything to unsubscribe.
        session.close_route(route);
        assert_eq!(unsubscribed(&mut session), "");
    }
}

// PUB-08 USE-15
#[test]
fn before_a_clean_end_all_streams_are_unsubscribed_and_still_read() {
    let (mut session, route) = followed();
    let (opening, second) = subscribe(&mut session, None);
    let bound = Bound {
        max_events: 1,
        overflow: Overflow::DropOldest,
    };
    let token = session.open_route(Style::LSP_PROGRESS, bound).unwrap();
    let topics = Style::named("rpc.subscribe", "rpc.notification", "rpc.unsubscribe");
    let fed = session.open_fed_route(topics, bound).unwrap();
    output(&mut session);
    session.unsubscribe_all();
    assert_eq!(unsubscribed(&mut session), unsubscribe("7", 3));
    assert_eq!(unsubscribed(&mut session), "", "once");
    session.drain();
    session.handle_input(event("7", "2").as_bytes());
    session.handle_input(answer(opening, "8").as_bytes());
    // A reader that leaves now changes nothing: there are no new calls.
    session.close_route(second);
    assert_eq!(unsubscribed(&mut session), "");
    assert!(session.is_route_open(route) && session.is_route_open(token));
    line(&mut session, r#"{"jsonrpc":"2.0","result":true,"id":3}"#);
    session.feed_route(fed, OwnedJson::of_str("last"));
    for (route, expected) in [
        (route, &["1", "2"][..]),
        (token, &[]),
        (fed, &[r#""last""#]),
    ] {
        assert!(!session.is_route_open(route));
        assert_eq!(events(&mut session, route), expected);
    }
}

// PUB-08
#[test]
fn a_stream_that_cannot_be_unsubscribed_any_more_stays_readable() {
    let (mut session, route) = followed();
    session.drain();
    session.unsubscribe_all();
    assert_eq!(unsubscribed(&mut session), "");
    assert_eq!(events(&mut session, route), ["1"]);
}

// USE-15
#[test]
fn many_streams_of_one_style_are_told_apart() {
    let mut session = idle(Config::ethereum());
    let routes: Vec<_> = (0..200)
        .map(|id| {
            let (call, route) = subscribe(&mut session, None);
            session.handle_input(answer(call, &id.to_string()).as_bytes());
            route
        })
        .collect();
    for id in (0..200).rev() {
        session.handle_input(event(&id.to_string(), &(id * 3).to_string()).as_bytes());
    }
    for (id, route) in routes.into_iter().enumerate() {
        assert_eq!(events(&mut session, route), [(id * 3).to_string()]);
    }
    session.handle_input(event("200", "1").as_bytes());
    assert_eq!(work(&mut session), [EVENT]);
    assert_eq!(
        unmatched(1),
        "report: 1 events that belong to no stream: eth_subscription"
    );
}

/// The notification by which the peer gives a stream up.
fn given_up(id: &str, why: &str) -> String {
    event(id, why).replace("\"result\"", "\"error\"")
}

// USE-15
#[test]
fn a_server_that_gives_a_stream_up_ends_it_with_its_reason() {
    let (mut session, route) = followed();
    ready(&mut session);
    session.handle_input(given_up("7", "\"too slow\"").as_bytes());
    assert_eq!(ready(&mut session), [route]);
    assert!(!session.is_route_open(route));
    let expected = ["1", "given up: \"too slow\""];
    assert_eq!(events(&mut session, route), expected);
    assert_eq!(work(&mut session), [""; 0]);
    // It has ended at the peer, so there is nothing to unsubscribe.
    session.close_route(route);
    assert_eq!(unsubscribed(&mut session), "");
    // The end of an unknown stream, and one that has an event, too.
    session.handle_input(given_up("7", "1").as_bytes());
    assert_eq!(work(&mut session), [EVENT]);
    let (mut session, route) = followed();
    let both = event("7", "2").replace("\"result\"", "\"error\":1,\"result\"");
    session.handle_input(both.as_bytes());
    assert_eq!(events(&mut session, route), ["1", "2"]);
    // The reason counts as an event does, and the oldest makes space for it.
    let mut config = SessionConfig::from(Config::ethereum());
    config.max_queued_bytes = 4;
    let mut session = idle(config);
    let (call, route) = subscribe(&mut session, None);
    let read = [answer(call, "7"), event("7", "111"), given_up("7", "22")];
    session.handle_input(read.concat().as_bytes());
    assert_eq!(events(&mut session, route), ["-1", "given up: 22"]);
    // A stream that is being unsubscribed may be given up meanwhile.
    let (mut session, route) = followed();
    session.close_route(route);
    session.handle_input(given_up("7", "1").as_bytes());
    assert_eq!(unsubscribed(&mut session), unsubscribe("7", 2));
    assert_eq!(work(&mut session), [""; 0]);
}

// USE-15: the peer gives the id of a stream that is to be unsubscribed to another one.
#[test]
fn an_id_that_is_used_again_before_the_unsubscribe_is_not_unsubscribed() {
    let (mut session, route) = followed();
    let (call, other) = subscribe(&mut session, None);
    let (third, last) = subscribe(&mut session, None);
    session.close_route(route);
    session.handle_input([answer(call, "7"), answer(third, "8")].concat().as_bytes());
    outcomes(&mut session);
    ready(&mut session);
    assert!(session.is_route_open(other));
    output(&mut session);
    assert_eq!(
        unsubscribed(&mut session),
        "",
        "the id belongs to another stream"
    );
    assert_eq!(ready(&mut session), []);
    session.handle_input(event("7", "2").as_bytes());
    assert_eq!(events(&mut session, other), ["2"]);
    // What is closed later is unsubscribed all the same.
    session.close_route(last);
    assert_eq!(unsubscribed(&mut session), unsubscribe("8", 4));
}
