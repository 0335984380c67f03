//! Notifications that the driver takes, and the routes that it feeds.

use alloc::vec;

use super::*;
use crate::{CancelAnswer, CancelStyle, Style};

const TOPICS: Style = Style::named("rpc.subscribe", "rpc.notification", "rpc.unsubscribe");
const BOUND: Bound = Bound {
    max_events: 2,
    overflow: Overflow::DropOldest,
};

fn publish(data: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"rpc.notification","params":{{"topic":"t","data":{data}}}}}"#
    )
}

fn json(text: &str) -> crate::OwnedJson {
    crate::Json::parse_str(text).unwrap().to_owned_json()
}

// PUB-13
#[test]
fn the_driver_feeds_the_routes_of_notifications_that_it_takes() {
    let mut session = idle(Config::new());
    line(&mut session, &publish(1));
    assert_eq!(
        work(&mut session),
        ["notification rpc.notification"],
        "nobody takes it yet"
    );
    assert_eq!(session.poll_diverted(), None);
    let route = session.open_fed_route(TOPICS, BOUND).unwrap();
    let other = session.open_fed_route(TOPICS, BOUND).unwrap();
    assert_ne!(route.number(), other.number());
    assert_eq!(RouteId::of(route.number()), route);
    line(&mut session, &publish(2));
    line(&mut session, N);
    line(
        &mut session,
        r#"{"jsonrpc":"2.0","method":"rpc.notification"}"#,
    );
    assert_eq!(work(&mut session), ["notification n"]);
    let Some(Diverted::Event(method, params)) = session.poll_diverted() else {
        panic!();
    };
    assert_eq!(method, TOPICS.method());
    assert_eq!(params.as_str(), r#"{"topic":"t","data":2}"#);
    assert_eq!(session.poll_diverted(), None);
    for number in 1..=3 {
        session.feed_route(route, json(&number.to_string()));
    }
    assert_eq!(session.poll_ready_route(), Some(route));
    assert_eq!(session.poll_ready_route(), None);
    let mut seen = vec![];
    while let Some(routed) = session.poll_route(route) {
        seen.push(routed);
    }
    let expected = [
        Routed::Lost(1),
        Routed::Event(json("2")),
        Routed::Event(json("3")),
    ];
    assert_eq!(seen, expected);
    assert!(session.is_route_open(route));
    session.close_route(route);
    assert!(!session.is_route_open(route) && session.is_route_open(other));
    // Nothing is unsubscribed by itself, and a closed route takes nothing.
    session.unsubscribe(None, || 9);
    session.feed_route(route, json("4"));
    assert_eq!(
        (session.poll_route(route), output(&mut session)),
        (None, String::new())
    );
    session.close(CloseReason::Done);
    assert!(!session.is_route_open(other));
    // It may have come in the read that has ended the session.
    session.feed_route(other, json("5"));
    assert_eq!(session.poll_route(other), Some(Routed::Event(json("5"))));
    assert_eq!(session.poll_route(other), None);
}

// PUB-13: a route of another kind is not fed.
#[test]
fn only_a_route_that_was_opened_so_is_fed() {
    let mut session = idle(Config::lsp());
    let route = session.open_route(Style::LSP_PROGRESS, BOUND).unwrap();
    session.feed_route(route, json("1"));
    assert_eq!(session.poll_route(route), None);
    let mut config = Config::new();
    config.limits.max_open_calls = 1;
    let mut session = idle(config);
    assert!(session.open_fed_route(TOPICS, BOUND).is_ok());
    let refused = session.open_fed_route(TOPICS, BOUND);
    assert_eq!(refused, Err(SendError::TooManyCalls));
}

// USE-15: what follows an answer waits for the answer of the whole batch.
#[test]
fn an_answer_is_marked_until_it_is_in_the_output() {
    let mut session = idle(Config::new());
    line(&mut session, &format!("[{M1},{M2}]"));
    let first = request(&mut session);
    let second = request(&mut session);
    let marks = [&first, &second].map(|ticket| session.answer_mark(ticket.key()).unwrap());
    let key = first.key();
    session.respond(first, &1).unwrap();
    assert_eq!(session.answer_mark(key), None, "it is not open any more");
    assert_eq!(marks.map(|mark| session.is_answered(mark)), [false, false]);
    session.respond(second, &2).unwrap();
    assert_eq!(marks.map(|mark| session.is_answered(mark)), [true, true]);
    // The next batch has the place of this one.
    line(&mut session, &format!("[{M1},{M2}]"));
    let next = request(&mut session);
    let mark = session.answer_mark(next.key()).unwrap();
    assert!(!session.is_answered(mark));
    assert_eq!(marks.map(|mark| session.is_answered(mark)), [true, true]);
    // Alone, and on another connection.
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let alone = request(&mut session);
    let mark = session.answer_mark(alone.key()).unwrap();
    assert!(!session.is_answered(mark));
    session.respond(alone, &1).unwrap();
    assert!(session.is_answered(mark));
    let mut config = Config::new();
    config.connection = 77;
    let mut other = idle(config);
    line(&mut other, M1);
    assert_eq!(session.answer_mark(request(&mut other).key()), None);
}

// PUB-13
#[test]
fn what_came_before_the_end_reaches_a_fed_route_after_it() {
    let mut session = idle(Config::new());
    let route = session.open_fed_route(TOPICS, BOUND).unwrap();
    line(&mut session, &publish(1));
    // The same input may end the connection, before the driver takes what it has brought.
    session.close(CloseReason::Done);
    let Some(Diverted::Event(method, params)) = session.poll_diverted() else {
        panic!();
    };
    assert_eq!(method, TOPICS.method());
    session.feed_route(route, params.clone());
    assert_eq!(session.poll_ready_route(), Some(route));
    assert_eq!(session.poll_route(route), Some(Routed::Event(params)));
    assert_eq!(session.poll_route(route), None);
    assert!(!session.is_route_open(route));
}

// PER-03
#[test]
fn the_answer_to_the_call_of_a_fed_route_stands_among_its_notifications() {
    let mut session = idle(Config::new());
    let route = session.open_fed_route(TOPICS, BOUND).unwrap();
    let call = session.call("rpc.subscribe", json("[1]").as_json(), None, 0);
    session.attach_route(route, call.unwrap(), None);
    let answer = r#"{"jsonrpc":"2.0","result":7,"id":1}"#;
    for message in [&publish(1), answer, &publish(2)] {
        line(&mut session, message);
    }
    let event = |text: &str| Diverted::Event(TOPICS.method(), json(text));
    let diverted: Vec<_> = std::iter::from_fn(|| session.poll_diverted()).collect();
    let answer = Diverted::Answer(route, Some(json("7")));
    let events = [1, 2].map(|data| event(&format!(r#"{{"topic":"t","data":{data}}}"#)));
    assert_eq!(diverted, [events[0].clone(), answer, events[1].clone()]);
}

// PUB-08
#[test]
fn the_end_of_the_call_of_a_fed_route_is_told_once() {
    let refused = r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"},"id":1}"#;
    let answer = r#"{"jsonrpc":"2.0","result":7,"id":1}"#;
    // What comes for the call, whether it was given up before, whether cancels are answered, and what is told.
    for (comes, is_given_up, told) in [
        (refused, false, None),
        (answer, true, Some(json("7"))),
        (refused, true, None),
    ] {
        for cancel in [CancelStyle::None, CancelStyle::Lsp] {
            let mut config = Config::new();
            config.dialect.cancel_send = cancel;
            let mut session = idle(config);
            let route = session.open_fed_route(TOPICS, BOUND).unwrap();
            let call = session.call("rpc.subscribe", json("[1]").as_json(), None, 0);
            let call = call.unwrap();
            session.attach_route(route, call, None);
            if is_given_up {
                assert_eq!(session.cancel(call), Some(0));
            }
            assert_eq!(session.poll_diverted(), None);
            line(&mut session, comes);
            line(&mut session, comes);
            assert_eq!(
                session.poll_diverted(),
                Some(Diverted::Answer(route, told.clone()))
            );
            assert_eq!(session.poll_diverted(), None);
        }
    }
}

// PUB-08: a cancel that was sent is the end if it is not answered; and so many late answers are awaited.
#[test]
fn the_end_of_a_call_whose_answer_never_comes_is_told() {
    let mut config = Config::new();
    config.dialect.cancel_send = CancelStyle::Lsp;
    config.dialect.cancel_answer = CancelAnswer::Silent;
    let mut session = idle(config);
    let give_up = |session: &mut Session<u32>| {
        let route = session.open_fed_route(TOPICS, BOUND).unwrap();
        let call = session.call("rpc.subscribe", (), None, 0).unwrap();
        session.attach_route(route, call, None);
        session.close_route(route);
        session.cancel(call);
        route
    };
    let route = give_up(&mut session);
    assert_eq!(session.poll_diverted(), Some(Diverted::Answer(route, None)));
    let mut session = idle(Config::new());
    let first = give_up(&mut session);
    for _ in 0..1023 {
        give_up(&mut session);
        session.take_transmit(&mut vec![]);
    }
    assert_eq!(session.poll_diverted(), None);
    give_up(&mut session);
    assert_eq!(session.poll_diverted(), Some(Diverted::Answer(first, None)));
}
