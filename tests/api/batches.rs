//! Batches in both directions, as types: builders, handles, half-read input.

use antiphon::{
    CallId, Collector, Config, Connection, Event, FetchError, Framing, Handle, Input, Instant,
    NullIdError, Outcome, OwnedOutcome, SendError,
};

use crate::{BATCH, REQUEST, connection, written};

/// Leaks a builder with two calls in it.
fn leak(conn: &mut Connection<u32>) -> Handle<()> {
    let mut batch = conn.batch(Some(Instant::from_millis(5)));
    let handle = batch.call("leaked", (), 1).unwrap();
    batch.call::<()>("leaked", (), 2).unwrap();
    std::mem::forget(batch);
    handle
}

// CLI-16 ARC-07
#[test]
fn a_leaked_batch_builder_is_rolled_back_by_the_next_command() {
    type Command = fn(&mut Connection<u32>, CallId);
    let commands: [(&str, Command); 9] = [
        ("call", |conn, _| {
            conn.call("m", (), None, 9).unwrap();
        }),
        ("notify", |conn, _| conn.notify("m", ()).unwrap()),
        ("cancel", |conn, call| assert_eq!(conn.cancel(call), None)),
        ("ask_cancel", |conn, call| {
            assert_eq!(conn.ask_cancel(call), Err(SendError::NotOpen));
        }),
        ("set_deadline", |conn, call| {
            assert_eq!(conn.set_deadline(call, None), Err(SendError::NotOpen));
        }),
        ("poll_event", |conn, _| {
            conn.handle_timeout(Instant::from_millis(10));
            assert!(conn.poll_event(&mut Input::none()).is_none());
        }),
        ("take_transmit", |conn, _| {
            assert!(!conn.take_transmit(&mut Vec::new()));
        }),
        ("fail_transmit", |conn, _| conn.fail_transmit()),
        ("batch", |conn, _| {
            let mut batch = conn.batch(None);
            batch.call::<()>("m", (), 7).unwrap();
            batch.send().unwrap();
        }),
    ];
    for (name, command) in commands {
        let mut conn = connection(0);
        let leaked = leak(&mut conn).call();
        assert_eq!(conn.poll_transmit(), None, "{name}: nothing of it is shown");
        command(&mut conn, leaked);
        let text = written(&mut conn);
        assert!(!text.contains("leaked"), "{name}: {text}");
        assert!(conn.calls_open() <= 1, "{name}: the leaked calls are gone");
        if let "call" | "batch" = name {
            assert!(
                text.contains("\"id\":1}"),
                "{name}: ids are not lost: {text}"
            );
        }
    }
}

// CLI-16
#[test]
fn a_dropped_batch_builder_leaves_no_trace() {
    let mut conn = connection(0);
    conn.notify("kept", ()).unwrap();
    let mut batch = conn.batch(None);
    batch.call::<()>("dropped", (), 1).unwrap();
    drop(batch);
    // The notification has 34 bytes with its line feed.
    assert_eq!((conn.calls_open(), conn.transmit_queued()), (0, 34));
    assert_eq!(conn.call("m", (), None, 2).unwrap().number(), 1);
    assert!(!written(&mut conn).contains("dropped"));
}

// CLI-16 CLI-17 CLI-18 CLI-30
#[test]
fn outcomes_are_fetched_by_handle_each_as_its_type() {
    let mut conn = connection(0);
    let mut batch = conn.batch(None);
    let sum = batch.call::<i64>("sum", &[1, 2], 1).unwrap();
    let name = batch.call::<String>("name", (), 2).unwrap();
    let unit = batch.call::<()>("unit", (), 3).unwrap();
    let none = batch.call::<Option<i64>>("none", (), 4).unwrap();
    let error = batch.call::<i64>("error", (), 5).unwrap();
    let wrong = batch.call::<i64>("wrong", (), 6).unwrap();
    let list = batch
        .call_all::<i64, _>(["a", "b"].map(|method| (method, (), 7)))
        .unwrap();
    batch.send().unwrap();
    let mut collector = Collector::new();
    let reply = br#"[
        {"jsonrpc":"2.0","result":"text","id":6},
        {"jsonrpc":"2.0","error":{"code":7,"message":"seven"},"id":5},
        {"jsonrpc":"2.0","result":null,"id":4},
        {"jsonrpc":"2.0","result":null,"id":3},
        {"jsonrpc":"2.0","result":"Ada","id":2},
        {"jsonrpc":"2.0","result":3,"id":1},
        {"jsonrpc":"2.0","result":8,"id":8},
        {"jsonrpc":"2.0","result":9,"id":7}]"#;
    let mut input = Input::message(reply);
    while let Some(Event::Response(response)) = conn.poll_event(&mut input) {
        collector.insert(response);
    }
    assert_eq!(collector.len(), 8);
    assert_eq!(collector.fetch(sum).unwrap(), 3);
    assert_eq!(collector.fetch(name).unwrap(), "Ada");
    collector.fetch(unit).unwrap();
    assert_eq!(collector.fetch(none).unwrap(), None);
    assert!(matches!(
        collector.fetch(error),
        Err(FetchError::Outcome(OwnedOutcome::Err(error))) if error.code() == 7
    ));
    assert!(matches!(collector.fetch(wrong), Err(FetchError::Decode(_))));
    assert_eq!(collector.fetch(list[0]).unwrap(), 9);
    assert_eq!(collector.fetch(list[1]).unwrap(), 8);
    assert!(matches!(collector.fetch(sum), Err(FetchError::Unknown)));
    assert!(collector.is_empty());
}

// CLI-18
#[test]
fn a_handle_of_another_batch_or_connection_is_an_error() {
    let (mut first, mut second) = (connection(1), connection(2));
    let mut batch = first.batch(None);
    let mine = batch.call::<i64>("m", (), 1).unwrap();
    batch.send().unwrap();
    let mut batch = second.batch(None);
    let foreign = batch.call::<i64>("m", (), 1).unwrap();
    batch.send().unwrap();
    let mut collector = Collector::new();
    let mut input = Input::message(br#"{"jsonrpc":"2.0","result":3,"id":1}"#);
    let Some(Event::Response(response)) = first.poll_event(&mut input) else {
        panic!("the answer is there");
    };
    assert_eq!(collector.insert(response), 1);
    assert!(matches!(collector.fetch(foreign), Err(FetchError::Unknown)));
    assert_eq!(collector.fetch(mine).unwrap(), 3);
}

// CLI-18 CLI-24
#[test]
fn an_entry_that_the_exchange_left_out_is_missing() {
    let mut conn: Connection<u32> = Connection::new(Config::new().for_client_exchange());
    let mut batch = conn.batch(None);
    let answered = batch.call::<i64>("a", (), 1).unwrap();
    let skipped = batch.call::<i64>("b", (), 2).unwrap();
    batch.send().unwrap();
    written(&mut conn);
    let mut collector = Collector::new();
    let mut input = Input::message(br#"[{"jsonrpc":"2.0","result":3,"id":1}]"#);
    conn.handle_eof();
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Response(response) = event {
            collector.insert(response);
        }
    }
    assert_eq!(collector.fetch(answered).unwrap(), 3);
    assert!(matches!(
        collector.fetch(skipped),
        Err(FetchError::Outcome(OwnedOutcome::Missing))
    ));
}

// SRV-26 SRV-20
#[test]
fn a_batch_that_its_driver_abandons_half_way_is_still_answered() {
    let other_stream = [REQUEST, REQUEST].concat();
    for mut other in [Input::message(REQUEST), Input::stream(&other_stream)] {
        let mut conn = connection(0);
        let mut input = Input::stream(BATCH);
        let Some(Event::Request(first)) = conn.poll_event(&mut input) else {
            panic!("the first item is there");
        };
        assert_eq!(input.consumed(), 0, "a message is taken whole");
        // The driver shows other bytes instead.
        let Some(Event::Request(single)) = conn.poll_event(&mut other) else {
            panic!("the other message is there");
        };
        conn.respond(single.token, &0).unwrap();
        conn.respond(first.token, &1).unwrap();
        assert_eq!(
            written(&mut conn).lines().collect::<Vec<_>>(),
            [
                r#"{"jsonrpc":"2.0","result":0,"id":1}"#,
                r#"[{"jsonrpc":"2.0","result":1,"id":1},{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":2}]"#,
            ]
        );
        assert_eq!(conn.requests_open(), 0);
    }
}

// SRV-20 ARC-07
#[test]
fn a_batch_shown_again_goes_on_where_it_stopped() {
    let mut conn = connection(0);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut input = Input::stream(BATCH);
        let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
            panic!("an item is there");
        };
        tokens.push(request.token);
    }
    assert!(conn.poll_event(&mut Input::none()).is_none());
    for token in tokens.into_iter().rev() {
        conn.respond(token, ()).unwrap();
    }
    assert_eq!(
        written(&mut conn),
        "[{\"jsonrpc\":\"2.0\",\"result\":null,\"id\":1},{\"jsonrpc\":\"2.0\",\"result\":null,\"id\":2}]\n"
    );
}

// CLI-28 CLI-21
#[test]
fn an_undelivered_message_settles_its_calls_with_their_own_tags() {
    let mut conn: Connection<u32> = Connection::new(Config::new().framing(Framing::Messages));
    conn.call("kept", (), None, 1).unwrap();
    let mut batch = conn.batch(None);
    batch.call::<()>("lost", (), 2).unwrap();
    batch.call::<()>("lost", (), 3).unwrap();
    batch.send().unwrap();
    let shown = conn.poll_transmit().unwrap().len();
    conn.consume_transmit(shown);
    conn.fail_transmit();
    conn.fail_transmit();
    let mut tags = Vec::new();
    while let Some(Event::Response(response)) = conn.poll_event(&mut Input::none()) {
        assert!(matches!(response.outcome, Outcome::Unsent));
        tags.push(response.tag);
    }
    assert_eq!((tags, conn.calls_open()), (vec![2, 3], 1));
}

// SRV-15
#[test]
fn an_event_knows_its_size_and_its_place() {
    let mut conn = connection(0);
    let mut input = Input::stream(BATCH);
    let mut places = Vec::new();
    while let Some(Event::Request(request)) = conn.poll_event(&mut input) {
        places.push((request.origin.bytes, request.origin.batch_index));
    }
    // Each item has 37 bytes.
    assert_eq!(places, [(37, Some(0)), (37, Some(1))]);
    assert_eq!(input.consumed(), BATCH.len());
}

// INT-05
#[test]
fn the_size_of_a_batch_is_told_once() {
    let mut conn = connection(0);
    assert_eq!(conn.poll_batch_items(), None);
    let mut input = Input::stream(BATCH);
    assert!(conn.poll_event(&mut input).is_some());
    assert_eq!(conn.poll_batch_items(), Some(2));
    assert!(conn.poll_event(&mut input).is_some());
    assert_eq!(conn.poll_batch_items(), None);
    // A message that is not in a batch has no such size, and neither has an empty batch.
    for text in ["{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n", "[]\n"] {
        assert!(
            conn.poll_event(&mut Input::stream(text.as_bytes()))
                .is_some()
        );
        assert_eq!(conn.poll_batch_items(), None, "{text}");
    }
}

// CLI-11
#[test]
fn a_batch_of_which_calls_are_over_counts_by_those_that_are_left() {
    let error = r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"},"id":null}"#;
    let answer = r#"{"jsonrpc":"2.0","result":7,"id":2}"#;
    // The second call of a batch of three ends, in each way that a call can end before the error.
    for how in ["answered", "out of time", "given up"] {
        for is_sole in [true, false] {
            let mut config = Config::new();
            (config.framing, config.dialect.null_id_error) =
                (Framing::Messages, NullIdError::FailSole);
            let mut conn: Connection<u32> = Connection::new(config);
            let mut batch = conn.batch(None);
            let calls = [1, 2, 3].map(|tag| batch.call::<()>("m", (), tag).unwrap().call());
            batch.send().unwrap();
            if !is_sole {
                // With it there are as many calls open as the batch had.
                conn.call("m", (), None, 4).unwrap();
            }
            while conn.take_transmit(&mut Vec::new()) {}
            let over = match how {
                "answered" => conn.poll_event(&mut Input::text(answer)),
                "out of time" => {
                    let due = Instant::from_millis(5);
                    conn.set_deadline(calls[1], Some(due)).unwrap();
                    conn.handle_timeout(due);
                    conn.poll_event(&mut Input::none())
                }
                _ => {
                    assert_eq!(conn.cancel(calls[1]), Some(2));
                    None
                }
            };
            match over {
                Some(Event::Response(response)) => assert_eq!(response.tag, 2),
                over => assert!(over.is_none() && how == "given up", "{over:?}"),
            }
            let mut input = Input::text(error);
            let mut tags = Vec::new();
            while let Some(event) = conn.poll_event(&mut input) {
                match event {
                    Event::Response(response) => tags.push(response.tag),
                    event => assert!(matches!(event, Event::UnmatchedResponse(_)), "{event:?}"),
                }
            }
            let (failed, open, unmatched) = match is_sole {
                true => (&[1, 3][..], 0, 0),
                false => (&[][..], 3, 1),
            };
            assert_eq!(tags, failed, "{how}");
            assert_eq!(
                (conn.calls_open(), conn.unmatched_responses()),
                (open, unmatched),
                "{how}"
            );
        }
    }
}
