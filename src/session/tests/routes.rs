//! Routes: progress of our calls, and streams that answers open, in virtual time.

use super::*;
use crate::{CallId, OwnedJson, Style};

/// The peer's notification of progress.
fn told(token: &str, value: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"$/progress","params":{{"token":{token},"value":{value}}}}}"#
    )
}

/// At most `max_events` events wait, of which the oldest is dropped.
fn newest(max_events: usize) -> Bound {
    let overflow = Overflow::DropOldest;
    Bound {
        max_events,
        overflow,
    }
}

/// Calls, and hears of the call's progress under the token `antiphon-0`, `antiphon-1`, and so on.
fn hear(
    session: &mut Session<u32>,
    deadline: Option<Instant>,
    waiter: u32,
    extend: Option<Extend>,
) -> (CallId, RouteId) {
    let route = session.open_route(Style::LSP_PROGRESS, newest(64)).unwrap();
    let call = session.call("c", (), deadline, waiter).unwrap();
    session.attach_route(route, call, extend);
    (call, route)
}

/// Takes all that waits for the reader of a route: events, and after a `-` how many were lost.
pub(super) fn events(session: &mut Session<u32>, route: RouteId) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(routed) = session.poll_route(route) {
        all.push(match routed {
            Routed::Event(event) => event.into_string(),
            Routed::Lost(lost) => format!("-{lost}"),
            Routed::GivenUp(why) => format!("given up: {}", why.as_str()),
        });
    }
    all
}

pub(super) fn ready(session: &mut Session<u32>) -> Vec<RouteId> {
    let mut all = Vec::new();
    while let Some(route) = session.poll_ready_route() {
        all.push(route);
    }
    all
}

// USE-21
#[test]
fn progress_comes_to_its_call_and_no_other() {
    let mut session = idle(Config::new());
    let (_, one) = hear(&mut session, None, 1, None);
    let (_, two) = hear(&mut session, None, 2, None);
    let told_to = [
        ("\"antiphon-1\"", "1.0"),
        ("\"\\u0061ntiphon-0\"", "[2]"),
        ("\"antiphon-1\"", "{}"),
    ];
    for (token, value) in told_to {
        line(&mut session, &told(token, value));
    }
    assert_eq!(work(&mut session), [""; 0]);
    assert_eq!(ready(&mut session), [one, two]);
    assert_eq!(ready(&mut session), []);
    assert_eq!(events(&mut session, two), ["1.0", "{}"]);
    assert_eq!(events(&mut session, one), ["[2]"]);
    // Progress under a token that no call has, or of another form, is passed to the service.
    let others = [
        told("\"c\"", "1"),
        told("7", "1"),
        told("[\"antiphon-0\"]", "1"),
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"antiphon-0"}}"#.into(),
        r#"{"jsonrpc":"2.0","method":"$/progress","params":["antiphon-0",1]}"#.into(),
        r#"{"jsonrpc":"2.0","method":"$/progress"}"#.into(),
    ];
    for other in &others {
        line(&mut session, other);
    }
    assert_eq!(work(&mut session), ["notification $/progress"; 6]);
    assert_eq!(ready(&mut session), []);
}

// USE-21
#[test]
fn progress_of_a_call_that_has_ended_is_a_notification_like_others() {
    let mut session = idle(Config::new());
    let (_, one) = hear(&mut session, None, 1, None);
    let (cancelled, two) = hear(&mut session, None, 2, None);
    let (_, three) = hear(&mut session, Some(at(1000)), 3, None);
    output(&mut session);
    line(&mut session, &told("\"antiphon-0\"", "1"));
    line(&mut session, r#"{"jsonrpc":"2.0","result":null,"id":1}"#);
    line(&mut session, &told("\"antiphon-0\"", "2"));
    assert_eq!(session.cancel(cancelled), Some(2));
    line(&mut session, &told("\"antiphon-1\"", "3"));
    session.handle_timeout(at(1000));
    line(&mut session, &told("\"antiphon-2\"", "4"));
    // Progress that came before the answer can still be taken.
    assert_eq!(events(&mut session, one), ["1"]);
    assert_eq!(work(&mut session), ["notification $/progress"; 3]);
    for route in [one, two, three] {
        assert!(!session.is_route_open(route));
        assert_eq!(events(&mut session, route), [""; 0]);
    }
}

// USE-21
#[test]
fn progress_moves_the_deadline_of_its_call_as_far_as_it_may() {
    let mut session = idle(Config::new());
    let (timeout, until) = (SECOND, at(2500));
    let extend = Some(Extend { timeout, until });
    hear(&mut session, Some(at(1000)), 1, extend);
    hear(&mut session, Some(at(2000)), 2, None);
    output(&mut session);
    for (now, number) in [(900, 0), (1100, 1), (1800, 0)] {
        session.handle_time(at(now));
        line(&mut session, &told(&format!("\"antiphon-{number}\""), "1"));
        session.handle_timeout(at(now));
        assert_eq!(outcomes(&mut session), []);
    }
    // Progress does not extend call 2, and extends call 1 only up to its latest deadline.
    session.handle_timeout(at(2000));
    assert_eq!(outcomes(&mut session), [(2, OwnedOutcome::TimedOut)]);
    assert_eq!(session.poll_timeout(), Some(at(2500)));
    session.handle_timeout(at(2500));
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::TimedOut)]);
}

// USE-21
#[test]
fn without_progress_in_the_dialect_all_notifications_are_for_the_service() {
    let mut session = idle(Config::new());
    session.call("c", (), None, 1).unwrap();
    line(&mut session, &told("\"antiphon-0\"", "1"));
    assert_eq!(work(&mut session), ["notification $/progress"]);
}

/// Sends progress that nobody takes to a route with this bound, and returns what is left of it.
fn left(bound: Bound, max_bytes: usize, values: &[&str]) -> Vec<String> {
    let mut config = SessionConfig::from(Config::new());
    config.max_queued_bytes = max_bytes;
    let mut session = idle(config);
    let route = session.open_route(Style::LSP_PROGRESS, bound).unwrap();
    for value in values {
        line(&mut session, &told("\"antiphon-0\"", value));
    }
    let left = events(&mut session, route);
    let lost = left.iter().filter_map(|text| text.strip_prefix('-'));
    let lost: u32 = lost.map(|lost| lost.parse::<u32>().unwrap()).sum();
    let reports = work(&mut session);
    let report = format!("report: {lost} events dropped, because their reader is slow: $/progress");
    match lost {
        0 => assert_eq!(reports, [""; 0]),
        _ => assert_eq!(reports, [report]),
    }
    left
}

// USE-21
#[test]
fn progress_that_nobody_takes_is_bounded_and_the_oldest_is_dropped() {
    let told_to =
        |max_events, max_bytes, values: &[&str]| left(newest(max_events), max_bytes, values);
    assert_eq!(told_to(3, 100, &["1", "2", "3"]), ["1", "2", "3"]);
    assert_eq!(told_to(2, 100, &["1", "2", "3"]), ["-1", "2", "3"]);
    assert_eq!(told_to(9, 6, &["11", "22", "33"]), ["11", "22", "33"]);
    assert_eq!(told_to(9, 5, &["11", "22", "33"]), ["-1", "22", "33"]);
    // The newest is always kept.
    assert_eq!(told_to(0, 0, &["11", "22"]), ["-1", "22"]);
    // What was taken does not count any more.
    let mut config = SessionConfig::from(Config::new());
    config.max_queued_bytes = 2;
    let mut session = idle(config);
    let route = session.open_route(Style::LSP_PROGRESS, newest(1)).unwrap();
    for value in ["11", "22", "33"] {
        line(&mut session, &told("\"antiphon-0\"", value));
        assert_eq!(events(&mut session, route), [value]);
    }
}

#[test]
fn a_route_that_keeps_the_oldest_loses_the_new_ones_at_their_place() {
    let overflow = Overflow::DropNewest;
    let bound = Bound {
        max_events: 2,
        overflow,
    };
    assert_eq!(left(bound, 100, &["1", "2", "3", "4"]), ["1", "2", "-2"]);
    assert_eq!(left(bound, 3, &["11", "22", "3"]), ["11", "-1", "3"]);
    let mut session = idle(Config::new());
    let route = session.open_route(Style::LSP_PROGRESS, bound).unwrap();
    for value in ["1", "2", "3"] {
        line(&mut session, &told("\"antiphon-0\"", value));
    }
    assert_eq!(
        session.poll_route(route),
        Some(Routed::Event(OwnedJson::parse("1".into()).unwrap()))
    );
    line(&mut session, &told("\"antiphon-0\"", "4"));
    assert_eq!(events(&mut session, route), ["2", "-1", "4"]);
}

#[test]
fn routes_share_the_bytes_that_may_wait() {
    let mut config = SessionConfig::from(Config::new());
    config.max_queued_bytes = 4;
    let mut session = idle(config);
    let one = session.open_route(Style::LSP_PROGRESS, newest(9)).unwrap();
    let two = session.open_route(Style::LSP_PROGRESS, newest(9)).unwrap();
    for (number, value) in [(0, "111"), (1, "22"), (1, "3")] {
        line(
            &mut session,
            &told(&format!("\"antiphon-{number}\""), value),
        );
    }
    assert_eq!(events(&mut session, one), ["111"]);
    assert_eq!(events(&mut session, two), ["-1", "3"]);
    // What waited in a closed route does not count any more.
    line(&mut session, &told("\"antiphon-0\"", "1111"));
    session.close_route(one);
    line(&mut session, &told("\"antiphon-1\"", "2222"));
    assert_eq!(events(&mut session, two), ["2222"]);
    // A closed route has no events, and its token is unknown.
    line(&mut session, &told("\"antiphon-0\"", "1"));
    assert_eq!(events(&mut session, one), [""; 0]);
    assert_eq!(
        work(&mut session).last().unwrap(),
        "notification $/progress"
    );
}

#[test]
fn a_route_that_is_closed_reports_what_its_reader_never_heard_of() {
    let mut session = idle(Config::new());
    let route = session.open_route(Style::LSP_PROGRESS, newest(1)).unwrap();
    for value in ["1", "2", "3"] {
        line(&mut session, &told("\"antiphon-0\"", value));
    }
    session.close_route(route);
    let report = "report: 2 events dropped, because their reader is slow: $/progress";
    assert_eq!(work(&mut session), [report]);
    assert_eq!(ready(&mut session), []);
}

#[test]
fn there_are_no_more_routes_than_calls_may_be_open() {
    let mut session = idle(Config::new().max_open_calls(2));
    let bound = newest(1);
    let first = session.open_route(Style::LSP_PROGRESS, bound).unwrap();
    session.open_route(Style::ETHEREUM, bound).unwrap();
    let refused = Err(SendError::TooManyCalls);
    assert_eq!(session.open_route(Style::LSP_PROGRESS, bound), refused);
    session.close_route(first);
    assert!(session.open_route(Style::LSP_PROGRESS, bound).is_ok());
}

/// Calls a method whose answer opens a route.
pub(super) fn subscribe(
    session: &mut Session<u32>,
    deadline: Option<Instant>,
) -> (CallId, RouteId) {
    let route = session.open_route(Style::ETHEREUM, newest(1024)).unwrap();
    let call = session.call("eth_subscribe", (), deadline, 1).unwrap();
    session.attach_route(route, call, None);
    output(session);
    (call, route)
}

/// The answer that brings the id of a stream.
pub(super) fn answer(call: CallId, id: &str) -> String {
    let number = call.number();
    format!("{{\"jsonrpc\":\"2.0\",\"result\":{id},\"id\":{number}}}\n")
}

/// An event of the stream with this id.
pub(super) fn event(id: &str, result: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":{{\"subscription\":{id},\"result\":{result}}}}}\n"
    )
}

pub(super) const EVENT: &str = "notification eth_subscription";

pub(super) fn unmatched(events: usize) -> String {
    format!("report: {events} events that belong to no stream: eth_subscription")
}

#[test]
fn an_answer_and_its_first_events_may_come_in_one_read() {
    // An id may be a string, spelt in any way, or a number, which is never read as one.
    for (id, spelt) in [
        ("\"0xa\"", "\"0x\\u0061\""),
        ("23784", "23784"),
        ("\"\\ud800\"", "\"\\ud800\""),
    ] {
        let mut session = idle(Config::ethereum());
        let (call, route) = subscribe(&mut session, None);
        let read = [
            answer(call, id),
            event(id, "1"),
            event(spelt, "2"),
            event(id, "3.0"),
        ];
        session.handle_input(read.concat().as_bytes());
        assert_eq!(outcomes(&mut session).len(), 1);
        assert_eq!(ready(&mut session), [route]);
        assert_eq!(events(&mut session, route), ["1", "2", "3.0"]);
        assert_eq!(work(&mut session), [""; 0]);
    }
    // A number and a string, or another spelling of a number, are other ids.
    let mut session = idle(Config::ethereum());
    let (call, route) = subscribe(&mut session, None);
    let read = [
        answer(call, "7"),
        event("\"7\"", "1"),
        event("7.0", "2"),
        event("7", "3"),
    ];
    session.handle_input(read.concat().as_bytes());
    assert_eq!(events(&mut session, route), ["3"]);
    assert_eq!(work(&mut session), [EVENT, EVENT]);
}

#[test]
fn events_before_the_answer_wait_for_it() {
    let mut session = idle(Config::ethereum());
    let (one, first) = subscribe(&mut session, None);
    let (two, second) = subscribe(&mut session, None);
    // Of another style, and before the calls nobody awaits anything.
    line(&mut session, &told("\"b\"", "1"));
    for (id, result) in [
        ("\"b\"", "1"),
        ("\"a\"", "2"),
        ("\"c\"", "3"),
        ("\"b\"", "4"),
    ] {
        session.handle_input(event(id, result).as_bytes());
    }
    assert_eq!(work(&mut session), ["notification $/progress"]);
    session.handle_input(answer(one, "\"a\"").as_bytes());
    session.handle_input(event("\"b\"", "5").as_bytes());
    assert_eq!(work(&mut session), [""; 0]);
    session.handle_input(answer(two, "\"b\"").as_bytes());
    session.handle_input(event("\"b\"", "6").as_bytes());
    assert_eq!(ready(&mut session), [first, second]);
    assert_eq!(events(&mut session, first), ["2"]);
    assert_eq!(events(&mut session, second), ["1", "4", "5", "6"]);
    // No answer is awaited any more that could bring the id `c`.
    assert_eq!(work(&mut session), [unmatched(1)]);
    session.handle_input(event("\"c\"", "7").as_bytes());
    assert_eq!(work(&mut session), [EVENT]);
}

#[test]
fn events_before_the_answer_are_bounded_and_those_beyond_are_counted() {
    let mut session = idle(Config::ethereum());
    let (call, route) = subscribe(&mut session, None);
    for result in 0..70 {
        session.handle_input(event("\"a\"", &result.to_string()).as_bytes());
    }
    session.handle_input(answer(call, "\"a\"").as_bytes());
    let kept: Vec<_> = (0..64).map(|result| result.to_string()).collect();
    assert_eq!(events(&mut session, route), kept);
    assert_eq!(work(&mut session), [unmatched(6)]);
    // With their ids, they may have 64 KiB.
    let (call, route) = subscribe(&mut session, None);
    let large = "1".repeat((64 << 10) - 6);
    for result in [&*large, "2", "33", "4"] {
        session.handle_input(event("\"b\"", result).as_bytes());
    }
    session.handle_input(answer(call, "\"b\"").as_bytes());
    assert_eq!(events(&mut session, route), [&*large]);
    assert_eq!(work(&mut session), [unmatched(3)]);
    let (call, route) = subscribe(&mut session, None);
    for result in ["1", &*large, "3"] {
        session.handle_input(event("\"c\"", result).as_bytes());
    }
    session.handle_input(answer(call, "\"c\"").as_bytes());
    assert_eq!(events(&mut session, route), ["1", "3"]);
    assert_eq!(work(&mut session), [unmatched(1)]);
}

#[test]
fn a_call_that_brings_no_id_opens_no_route_and_what_was_kept_is_reported() {
    for end in [
        "timeout", "cancel", "error", "no id", "close", "eof", "session",
    ] {
        let mut session = idle(Config::ethereum());
        let (call, route) = subscribe(&mut session, Some(at(1000)));
        session.handle_input(event("\"a\"", "1").as_bytes());
        session.handle_input(event("\"b\"", "2").as_bytes());
        assert!(session.is_route_open(route));
        match end {
            "timeout" => session.handle_timeout(at(1000)),
            "cancel" => assert_eq!(session.cancel(call), Some(1)),
            "error" => session
                .handle_input(br#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"},"id":1}"#),
            "no id" => session.handle_input(answer(call, "{}").as_bytes()),
            "close" => session.close_route(route),
            "eof" => session.handle_eof(),
            _ => session.close(CloseReason::Done),
        }
        assert_eq!(work(&mut session), [unmatched(2)], "{end}");
        assert!(!session.is_route_open(route), "{end}");
        assert_eq!(events(&mut session, route), [""; 0]);
    }
}

#[test]
fn events_wait_for_their_answer_also_if_another_call_brings_no_id() {
    let mut session = idle(Config::ethereum());
    let (first, _) = subscribe(&mut session, None);
    let (second, route) = subscribe(&mut session, None);
    session.handle_input(event("8", "1").as_bytes());
    session.handle_input(answer(first, "null").as_bytes());
    session.handle_input(event("8", "2").as_bytes());
    session.handle_input(answer(second, "8").as_bytes());
    assert_eq!(events(&mut session, route), ["1", "2"]);
    assert_eq!(work(&mut session), [""; 0]);
}

#[test]
fn an_id_that_is_used_again_belongs_to_the_newer_route() {
    let mut session = idle(Config::ethereum());
    let (one, first) = subscribe(&mut session, None);
    session.handle_input(answer(one, "1").as_bytes());
    session.handle_input(event("1", "1").as_bytes());
    let (two, second) = subscribe(&mut session, None);
    session.handle_input(answer(two, "1").as_bytes());
    assert!(!session.is_route_open(first));
    // The reader of the first one is woken, and finds its end.
    assert_eq!(ready(&mut session), [first]);
    assert_eq!(events(&mut session, first), ["1"]);
    session.handle_input(event("1", "2").as_bytes());
    session.close_route(first);
    session.handle_input(event("1", "3").as_bytes());
    assert_eq!(events(&mut session, first), [""; 0]);
    assert_eq!(events(&mut session, second), ["2", "3"]);
}
