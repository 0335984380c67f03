//! Internals of a connection that cannot be seen from outside: which messages take the fast path,
//! and which memory is kept.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::parts::{Fate, Parts, Ready};
use super::{Connection, kept_bytes};
use crate::batches::OurBatches;
use crate::config::{Config, DuplicateIds, FixedConfig, NullIdError, VersionPolicy};
use crate::event::Event;
use crate::frame::Framing;
use crate::input::Input;
use crate::json::Json;
use crate::message::Text;
use crate::target::SMALL;
use crate::time::Instant;

const REQUEST: &str = r#"{"jsonrpc":"2.0","method":"m","params":[1],"id":1}"#;
const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"m"}"#;

/// Returns the event that the fast path makes of one message, in words; `None` if it makes none.
fn fast_event(conn: &mut Connection<u32>, input: &mut Input<'_>) -> Option<String> {
    let text =
        |params: Option<Json<'_>>| params.map_or("-".into(), |json| String::from(json.as_str()));
    conn.poll_plain(input).ok().map(|event| match event {
        Event::Request(request) => {
            format!("{} {} {}", request.method, text(request.params), request.id)
        }
        Event::Notification(told) => format!("{} {}", told.method, text(told.params)),
        Event::Response(response) => format!("{} {}", response.tag, response.outcome.is_ok()),
        other => panic!("{other:?} is not plain"),
    })
}

/// Whether the fast path makes an event of a message, in a stream and alone.
fn is_fast(config: Config, line: &str) -> bool {
    let mut conn = Connection::new(config);
    let text = format!("{line}\n");
    let of_stream = fast_event(&mut conn, &mut Input::stream(text.as_bytes()));
    let mut conn = Connection::new(config);
    let of_message = fast_event(&mut conn, &mut Input::text(line));
    assert_eq!(of_stream, of_message, "{line}");
    of_stream.is_some()
}

// SRV-20
#[test]
fn an_answer_is_kept_only_while_its_batch_waits_for_another() {
    let mut conn: Connection = Connection::new(Config::new());
    let line = format!("[{REQUEST},{NOTIFICATION},{REQUEST}]\n{REQUEST}\n");
    let mut input = Input::stream(line.as_bytes());
    let mut tokens = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Request(request) = event {
            tokens.push(request.token);
        }
    }
    let other = Connection::<()>::new(Config {
        connection: 7,
        ..Config::new()
    });
    let kept = |conn: &Connection, key| (conn.is_answer_kept(key), conn.poll_transmit().is_some());
    let keys: Vec<_> = tokens.iter().map(|token| token.key()).collect();
    assert_eq!(kept(&conn, keys[0]), (true, false));
    assert_eq!(kept(&conn, keys[1]), (true, false));
    assert_eq!(kept(&conn, keys[2]), (false, false));
    assert!(!other.is_answer_kept(keys[0]));
    conn.respond(tokens.remove(1), ()).unwrap();
    // The answered request is not open any more, and the other is the last one of its batch.
    assert_eq!(kept(&conn, keys[1]), (false, false));
    assert_eq!(kept(&conn, keys[0]), (false, false));
    conn.respond(tokens.remove(0), ()).unwrap();
    assert_eq!(kept(&conn, keys[0]), (false, true));
}

#[test]
fn plain_calls_take_the_short_cut() {
    for (line, says) in [
        (REQUEST, "m [1] 1"),
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{}}"#,
            "m {} \"a\"",
        ),
        (r#"{"jsonrpc":"2.0","method":"m","id":-1.5}"#, "m - -1.5"),
        (NOTIFICATION, "m -"),
        (
            r#" { "jsonrpc" : "2.0" , "method" : "m" , "params" : [ ] } "#,
            "m [ ]",
        ),
    ] {
        let mut conn = Connection::new(Config::new());
        let text = format!("{line}\n");
        let mut input = Input::stream(text.as_bytes());
        assert_eq!(fast_event(&mut conn, &mut input).as_deref(), Some(says));
        assert_eq!(input.consumed(), text.len());
        let mut conn = Connection::new(Config::new());
        assert_eq!(
            fast_event(&mut conn, &mut Input::text(line)).as_deref(),
            Some(says)
        );
    }
}

#[test]
fn plain_answers_to_open_calls_take_the_short_cut() {
    let mut conn = Connection::new(Config::new());
    for tag in 1..=3 {
        conn.call("m", (), None, tag).unwrap();
    }
    for (line, says) in [
        (r#"{"jsonrpc":"2.0","result":null,"id":2}"#, Some("2 true")),
        (
            r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"},"id":1}"#,
            // A small program has no fast path for errors.
            (!SMALL).then_some("1 false"),
        ),
        // Call 2 has ended, and there never was a call 4.
        (r#"{"jsonrpc":"2.0","result":null,"id":2}"#, None),
        (r#"{"jsonrpc":"2.0","result":null,"id":4}"#, None),
        (r#"{"jsonrpc":"2.0","result":1,"error":null,"id":3}"#, None),
        (r#"{"jsonrpc":"2.0","error":{"code":1},"id":3}"#, None),
        (r#"{"jsonrpc":"2.0","result":1,"id":3}"#, Some("3 true")),
    ] {
        let mut input = Input::text(line);
        assert_eq!(fast_event(&mut conn, &mut input).as_deref(), says, "{line}");
    }
}

#[test]
fn what_is_not_plain_is_left_to_the_long_way() {
    for line in [
        r#"{"jsonrpc":"2.0","method":"m","id":null}"#,
        r#"{"jsonrpc":"2.0","method":"m","id":true}"#,
        r#"{"jsonrpc":"2.0","method":"m","params":null}"#,
        r#"{"jsonrpc":"2.0","method":"m","params":1,"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"\u006d","id":1}"#,
        r#"{"jsonrpc":"2.0","method":1,"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"m","method":"m","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"method":"m","params":[],"id":1}"#,
        r#"[{"jsonrpc":"2.0","method":"m"}]"#,
        "7",
        "{",
    ] {
        assert!(!is_fast(Config::new(), line), "{line}");
    }
}

#[test]
fn a_plain_call_takes_the_short_cut_up_to_every_limit() {
    // 45 bytes, with a method of 4 and an id of 6, quotes included.
    let line = r#"{"jsonrpc":"2.0","method":"four","id":"four"}"#;
    let with = |change: fn(&mut Config)| {
        let mut config = Config::new();
        change(&mut config);
        is_fast(config, line)
    };
    assert!(with(|config| config.limits.max_message_bytes = 45));
    assert!(with(|config| config.limits.max_method_bytes = 4));
    assert!(!with(|config| config.limits.max_method_bytes = 3));
    assert!(with(|config| config.limits.max_id_bytes = 6));
    assert!(!with(|config| config.limits.max_id_bytes = 5));
    assert!(with(|config| config.limits.max_open_requests = 1));
    assert!(!with(|config| config.limits.max_open_requests = 0));
    assert!(!with(
        |config| config.dialect.duplicate_ids = DuplicateIds::Reject
    ));
    assert!(with(
        |config| config.dialect.version = VersionPolicy::V1AndV2
    ));
    assert!(!with(
        |config| config.dialect.version = VersionPolicy::V1Only
    ));
    let mut config = Config::new();
    config.limits.max_message_bytes = 44;
    let mut conn: Connection<u32> = Connection::new(config);
    assert_eq!(fast_event(&mut conn, &mut Input::text(line)), None);
}

#[test]
fn nothing_is_cut_short_of_what_has_ended_or_is_read_in_parts() {
    let mut conn: Connection<u32> = Connection::new(Config::new());
    conn.drain();
    assert_eq!(fast_event(&mut conn, &mut Input::text(REQUEST)), None);
    assert_eq!(fast_event(&mut conn, &mut Input::text(NOTIFICATION)), None);
    conn.close(crate::CloseReason::Done);
    assert_eq!(fast_event(&mut conn, &mut Input::text(NOTIFICATION)), None);

    // A batch is delivered in part, and another message is passed instead of the rest.
    let mut conn: Connection<u32> = Connection::new(Config::new());
    let batch = format!("[{REQUEST},{NOTIFICATION}]");
    let mut input = Input::text(&batch);
    assert!(matches!(
        conn.poll_event(&mut input),
        Some(Event::Request(_))
    ));
    let ready = conn.poll_plain(&mut Input::text(NOTIFICATION)).map(|_| ());
    assert!(matches!(ready, Err(Ready::Nothing)));

    // The bytes of a leaked batch builder have to be removed first.
    let mut conn: Connection<u32> = Connection::new(Config::new());
    core::mem::forget(conn.batch(None));
    assert_eq!(fast_event(&mut conn, &mut Input::text(NOTIFICATION)), None);
}

#[test]
fn the_fate_of_a_plain_item_is_decided_by_the_short_cut() {
    let fate = |config: Config, item: &str| {
        let mut conn: Connection<u32> = Connection::new(config);
        let scanned = conn.scan(item.as_bytes()).unwrap();
        let whole = Text::whole(scanned.text, scanned.flags);
        let (envelope, batch) = (
            conn.envelopes[0],
            Parts::of(&mut conn.parts).batches.begin(0),
        );
        conn.plain_fate(whole, &envelope, batch, 0)
    };
    assert_eq!(fate(Config::new(), NOTIFICATION), Some(Fate::Notification));
    assert_eq!(
        fate(Config::new(), REQUEST),
        Some(Fate::Request { slot: 0 })
    );
    let mut config = Config::new();
    config.limits.max_method_bytes = 0;
    assert_eq!(fate(config, NOTIFICATION), None);
    config = Config::new();
    config.limits.max_open_requests = 0;
    assert_eq!(fate(config, REQUEST), None);
    assert_eq!(fate(config, NOTIFICATION), Some(Fate::Notification));
}

#[test]
fn an_empty_output_keeps_the_smaller_of_its_limits() {
    for (soft, hard, kept) in [(1, 2, 1), (2, 1, 1), (0, 9, 0), (9, 0, 0), (5, 5, 5)] {
        let mut config = Config::new();
        (
            config.limits.soft_max_outbox_bytes,
            config.limits.max_outbox_bytes,
        ) = (soft, hard);
        assert_eq!(kept_bytes(&config), kept);
    }
}

#[test]
fn a_connection_shows_how_much_is_open_and_waits() {
    let mut conn: Connection<u32> = Connection::new(Config::new());
    conn.call("m", (), None, 1).unwrap();
    let mut events = Vec::new();
    let mut input = Input::text(REQUEST);
    while let Some(event) = conn.poll_event(&mut input) {
        events.push(format!("{event:?}"));
    }
    let waiting = conn.poll_transmit().map_or(0, <[u8]>::len);
    assert_eq!(
        format!("{conn:?}"),
        format!(
            "Connection {{ calls_open: 1, requests_open: 1, transmit_waiting: {waiting}, phase: Open, .. }}"
        )
    );
}

#[test]
fn half_a_message_drains_the_input_and_is_the_long_way_s_at_the_end() {
    for (framing, half) in [
        (Framing::Newline, "{\"jsonrpc\""),
        (Framing::Concatenated, "{\"jsonrpc\""),
        (Framing::Detect, "{\"jsonrpc\""),
        (Framing::ContentLength, "Content-Length: 9\r\n\r\n{"),
    ] {
        let mut conn: Connection<u32> = Connection::new(Config::new().framing(framing));
        // Half a message waits for the rest, without the general code.
        for text in ["", half] {
            let ready = conn
                .poll_plain(&mut Input::stream(text.as_bytes()))
                .map(|_| ());
            assert!(matches!(ready, Err(Ready::Drained)), "{framing:?} {text:?}");
        }
        // After the end of the input the general code decides what half a message means.
        conn.handle_eof();
        for text in ["", half] {
            let ready = conn
                .poll_plain(&mut Input::stream(text.as_bytes()))
                .map(|_| ());
            assert!(matches!(ready, Err(Ready::Cut(_))), "{framing:?} {text:?}");
        }
    }
}

#[test]
fn a_connection_is_quiet_until_something_is_due() {
    let quiet_at = |set: fn(&mut Connection<u32>), now: u64| {
        let mut conn: Connection<u32> = Connection::new(Config::new());
        set(&mut conn);
        conn.handle_timeout(Instant::from_nanos(now));
        conn.is_quiet()
    };
    assert!(quiet_at(|_| {}, 0) && quiet_at(|_| {}, u64::MAX));
    let call = |conn: &mut Connection<u32>| {
        let deadline = Some(Instant::from_nanos(5));
        conn.call("m", (), deadline, 1).unwrap();
    };
    assert!(quiet_at(call, 4) && !quiet_at(call, 5) && !quiet_at(call, 6));
    let write: fn(&mut Connection<u32>) = |conn| {
        conn.notify("m", ()).unwrap();
        conn.deadlines.write = 5;
    };
    assert!(quiet_at(write, 4) && !quiet_at(write, 5) && !quiet_at(write, 6));
    let drain: fn(&mut Connection<u32>) = |conn| conn.deadlines.drain = 5;
    assert!(quiet_at(drain, 4) && !quiet_at(drain, 5) && !quiet_at(drain, 6));
    // A deadline for a frame must be removed if no frame has begun, even before it passes.
    assert!(!quiet_at(|conn| conn.deadlines.frame = 5, 0));
    assert!(!quiet_at(Connection::drain, 0));
    assert!(!quiet_at(|conn| conn.close(crate::CloseReason::Done), 0));
}

#[test]
fn draining_again_does_not_begin_its_time_anew() {
    let mut conn: Connection<u32> = Connection::new(Config::new());
    conn.call("m", (), None, 1).unwrap();
    conn.handle_timeout(Instant::from_millis(1000));
    conn.drain();
    let due = conn.deadlines.drain;
    conn.handle_timeout(Instant::from_millis(2000));
    conn.drain();
    assert_eq!(conn.deadlines.drain, due);
    let mut conn: Connection<u32> = Connection::new(Config::new());
    conn.close(crate::CloseReason::Done);
    conn.drain();
    assert!(!conn.phase.is_draining());
}

#[test]
fn input_is_wanted_until_more_than_the_soft_limit_waits() {
    let mut conn: Connection<u32> = Connection::new(Config::new());
    conn.notify("m", ()).unwrap();
    let waiting = conn.poll_transmit().unwrap().len();
    for (soft, wants) in [(waiting + 1, true), (waiting, true), (waiting - 1, false)] {
        let mut config = Config::new();
        config.limits.soft_max_outbox_bytes = soft;
        let mut conn: Connection<u32> = Connection::new(config);
        conn.notify("m", ()).unwrap();
        assert_eq!(conn.wants_input(), wants, "{soft} of {waiting}");
    }
}

#[test]
fn a_message_at_its_limit_is_read_in_place_of_one_that_was_half_read() {
    let notification = format!("{NOTIFICATION:<80}");
    let mut config = Config::new();
    let batch = format!("[{NOTIFICATION},{NOTIFICATION}]");
    config.limits.max_message_bytes = notification.len();
    assert!(batch.len() < notification.len());
    let mut conn: Connection<u32> = Connection::new(config);
    let told = conn.poll_event(&mut Input::text(&batch));
    assert!(matches!(told, Some(Event::Notification(_))));
    // Another message is passed, of the largest size, instead of the rest of the batch.
    let told = conn.poll_event(&mut Input::text(&notification));
    assert!(matches!(told, Some(Event::Notification(_))), "{told:?}");
}

// ARC-11
#[test]
fn what_is_kept_for_sole_batches_and_for_a_message_alone_is_in_the_bound() {
    let mut config = Config::new();
    let bound = config.max_memory_bytes();
    config.dialect.null_id_error = NullIdError::FailSole;
    let ours = OurBatches::max_heap_bytes(config.limits.max_open_calls);
    assert_eq!(config.max_memory_bytes(), bound + ours);
    // Room for one envelope is needed even if no batch item is allowed.
    config.limits.max_batch_items = 1;
    let alone = config.max_memory_bytes();
    config.limits.max_batch_items = 0;
    assert_eq!(config.max_memory_bytes(), alone);
}

struct Small;

impl FixedConfig for Small {
    const CONFIG: Config = {
        let mut config = Config::new();
        config.limits.max_message_bytes = 70;
        config.limits.max_method_bytes = 3;
        config
    };
}

#[test]
fn a_fixed_configuration_is_obeyed() {
    let mut conn: Connection<u32, Small> = Connection::fixed(Small);
    assert_eq!(conn.config(), &Small::CONFIG);
    let told = conn.poll_event(&mut Input::text(NOTIFICATION));
    assert!(matches!(told, Some(Event::Notification(_))));
    let told = conn.poll_event(&mut Input::text(r#"{"jsonrpc":"2.0","method":"long"}"#));
    assert!(matches!(told, Some(Event::Refused(_))));
}

#[test]
fn batches_of_ours_are_remembered_only_where_somebody_asks() {
    for (null_id_error, joined, calls, kept) in [
        (NullIdError::Report, 1, 2, false),
        (NullIdError::FailAll, 1, 2, false),
        (NullIdError::FailSole, 1, 0, false),
        (NullIdError::FailSole, 1, 2, true),
        // With joined calls on, an error without an id may end all calls of one message, so the
        // calls of batches are remembered too.
        (NullIdError::Report, 2, 2, true),
    ] {
        let mut config = Config::new();
        config.dialect.null_id_error = null_id_error;
        config.limits.max_joined_calls = joined;
        let mut conn: Connection<u32> = Connection::new(config);
        let mut batch = conn.batch(None);
        batch.notify("m", ()).unwrap();
        for tag in 0..calls {
            batch.call::<()>("m", (), tag).unwrap();
        }
        batch.send().unwrap();
        let is_empty = conn.parts.is_none();
        assert_eq!(is_empty, !kept, "{null_id_error:?}");
    }
}

#[test]
fn items_of_a_batch_are_the_same_by_the_short_cut_as_without_it() {
    let odd = [
        r#"{"jsonrpc":"2.0","method":"\u006d","id":2}"#,
        r#"{"jsonrpc":"2.0","method":"m","params":null,"id":3}"#,
        r#"{"jsonrpc":"2.0","method":"m","id":null}"#,
        r#"{"jsonrpc":"2.0","method":"m","id":4,"id":5}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"one"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"},"id":2}"#,
        r#"{"jsonrpc":"2.0","result":9,"id":77}"#,
        r#"{"method":"m","params":[],"id":6}"#,
        "1",
    ];
    let plain = [
        REQUEST,
        r#"{"jsonrpc":"2.0","method":"é","params":{"a":[1]},"id":"one"}"#,
        NOTIFICATION,
        r#"{"jsonrpc":"2.0","result":{"a":7},"id":1}"#,
    ];
    let mut short = 0;
    for odd in odd {
        for at in 0..=plain.len() {
            let mut items = Vec::from(plain);
            items.insert(at, odd);
            let line = format!("[{}]", items.join(",\r\n"));
            let told = |is_short: bool| {
                let mut config = Config::new();
                (config.framing, config.dialect.version) =
                    (Framing::Messages, VersionPolicy::V1AndV2);
                config.dialect.null_params = crate::config::NullParams::TreatAsAbsent;
                config.connection = 1;
                let mut conn: Connection<u32> = Connection::new(config);
                conn.call("first", (), None, 10).unwrap();
                conn.call("second", (), None, 20).unwrap();
                let mut input = Input::text(&line);
                let (mut told, mut cut) = (Vec::new(), 0);
                loop {
                    let event = if is_short {
                        match conn.poll_plain(&mut input) {
                            Ok(event) => {
                                cut += 1;
                                Some(event)
                            }
                            Err(ready) => conn.poll_any(&mut input, ready),
                        }
                    } else {
                        conn.poll_any(&mut input, Ready::Nothing)
                    };
                    match event {
                        Some(event) => told.push(format!("{event:?}")),
                        None => break,
                    }
                }
                let mut out = Vec::new();
                while conn.take_transmit(&mut out) {}
                ((told, out, conn.requests_open(), conn.calls_open()), cut)
            };
            let ((with, cut), (without, _)) = (told(true), told(false));
            assert_eq!(with, without);
            short += cut;
        }
    }
    // The fast path takes neither the first item, with which the batch is read, nor the last. In
    // the middle of the 45 batches are 108 plain items, and 3 times the odd error, for which a
    // small program has no fast path. The cancel takes 11 away: the general code passes over it and
    // over the request "one", which it cancels, and then delivers the next item too.
    assert_eq!(short, if SMALL { 97 } else { 100 });
}

// CLI-04
#[test]
fn every_call_is_spelled_by_its_number_whatever_came_between() {
    // From these numbers on the calls soon have one digit more, or more than 32 bits.
    for first_call in [1, 8, 98, 996, 9_999_990, 99_999_990, 4_294_967_290] {
        let mut config = Config::new();
        config.first_call = first_call;
        let mut conn: Connection<u64> = Connection::new(config);
        let mut numbers = Vec::new();
        for step in 0..300u64 {
            match step % 13 {
                // The call is refused, so its number is not used.
                3 => assert!(conn.call("m", &1, None, 0).is_err()),
                // The batch is dropped without being sent, so the number is not used.
                5 => drop(conn.batch(None).call::<()>("m", (), 0)),
                7 => {
                    let own = format!("\"own {step}\"");
                    let id = crate::id::Id::new(Json::parse_str(&own).unwrap()).unwrap();
                    let call = conn.call_with_id(id, "m", (), None, 0).unwrap();
                    conn.cancel(call);
                    conn.consume_transmit(usize::MAX);
                    continue;
                }
                9 => {
                    let mut batch = conn.batch(None);
                    for _ in 0..3 {
                        numbers.push(batch.call::<()>("m", (), 0).unwrap().call().number());
                    }
                    batch.send().unwrap();
                }
                // A caller chooses the id that the next call would get.
                11 => {
                    let taken = conn.calls.next() + 1;
                    let own = format!("{taken}");
                    let id = crate::id::Id::new(Json::parse_str(&own).unwrap()).unwrap();
                    let named = conn.call_with_id(id, "m", (), None, 0).unwrap();
                    conn.consume_transmit(usize::MAX);
                    let call = conn.call("m", (), None, 0).unwrap();
                    assert_ne!(call.number(), taken);
                    conn.cancel(named);
                    numbers.push(call.number());
                }
                _ => numbers.push(conn.call("m", (), None, 0).unwrap().number()),
            }
            // Most steps end a call of the middle, so free and open numbers are mixed.
            if step % 4 > 0 {
                let open = numbers[numbers.len() / 2];
                let connection = conn.number();
                conn.cancel(crate::id::CallId {
                    connection,
                    number: open,
                });
            }
            let mut out = Vec::new();
            conn.take_transmit(&mut out);
            let text = String::from_utf8(out).unwrap();
            let spelled = text.split("\"id\":").skip(1).map(|rest| {
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
                digits.parse::<u64>().unwrap()
            });
            let spelled: Vec<u64> = spelled.collect();
            assert!(numbers.ends_with(&spelled), "{spelled:?}");
        }
        assert!(numbers.len() > 200);
    }
}

#[test]
fn output_waits_from_when_it_was_queued_or_some_of_it_was_taken_or_all_before_it_was_dropped() {
    let second = |n: u64| Instant::from_millis(1000 * n);
    let mut conn: Connection<u32> = Connection::new(Config::new());
    let line = format!("{REQUEST}\n");
    let Some(Event::Request(request)) = conn.poll_event(&mut Input::stream(line.as_bytes())) else {
        panic!("a request is there");
    };
    let token = request.token;
    conn.handle_timeout(second(1));
    assert_eq!(conn.poll_timeout(), None);
    conn.call("m", (), None, 1).unwrap();
    // The write timeout is 60 s.
    assert_eq!(conn.poll_timeout(), Some(second(61)));
    conn.handle_timeout(second(2));
    conn.handle_timeout(second(3));
    assert_eq!(conn.poll_timeout(), Some(second(61)));
    conn.consume_transmit(1);
    assert_eq!(conn.poll_timeout(), Some(second(63)));
    conn.call("m", (), None, 2).unwrap();
    conn.handle_timeout(second(4));
    conn.consume_transmit(usize::MAX);
    assert_eq!(conn.poll_timeout(), None);

    conn.call("m", (), None, 3).unwrap();
    conn.handle_timeout(second(5));
    assert_eq!(conn.poll_timeout(), Some(second(64)));
    conn.handle_eof();
    while conn.poll_event(&mut Input::stream(b"")).is_some() {}
    assert_eq!(conn.poll_transmit(), None);
    conn.respond(token, &1).unwrap();
    assert_eq!(conn.poll_timeout(), Some(second(65)));
    conn.handle_timeout(second(65));
    let ended = conn.poll_event(&mut Input::stream(b""));
    assert!(conn.is_closed() && ended.is_none(), "{ended:?}");
}

#[test]
fn a_large_text_is_written_in_place_as_it_is_taken() {
    let framings = [
        Framing::Newline,
        Framing::ContentLength,
        Framing::Concatenated,
        Framing::Messages,
    ];
    let request_v1 = r#"{"method":"m","params":[1],"id":1}"#;
    let versions = [(Config::new(), REQUEST), (Config::v1(), request_v1)];
    let cases = framings.map(|framing| versions.map(|version| (framing, version)));
    for (framing, (preset, request)) in cases.into_iter().flatten() {
        for offset in [0, 1, 7, 31, 63] {
            // Blanks before the value move it to other addresses.
            let spaced = format!("{}[\"{}\"]", " ".repeat(offset), "x".repeat(9000));
            let text = Json::parse_str(&spaced).unwrap();
            let mut written = [Vec::new(), Vec::new()];
            for (is_taken, written) in [false, true].into_iter().zip(&mut written) {
                let mut conn: Connection<u32> = Connection::new(preset.framing(framing));
                let mut drain = |conn: &mut Connection<u32>| {
                    if is_taken {
                        assert!(conn.take_transmit(written));
                        return;
                    }
                    let shown = conn.poll_transmit().unwrap();
                    written.extend_from_slice(shown);
                    conn.consume_transmit(usize::MAX);
                };
                conn.notify("small", &[1]).unwrap();
                drain(&mut conn);
                conn.notify("m", text).unwrap();
                drain(&mut conn);
                conn.call("a method", Some(text), None, 1).unwrap();
                drain(&mut conn);
                let Some(Event::Request(request)) = conn.poll_event(&mut Input::text(request))
                else {
                    panic!("a request is there");
                };
                conn.respond(request.token, text).unwrap();
                drain(&mut conn);
            }
            assert_eq!(written[0], written[1], "{framing:?}");
        }
    }
}

// CLI-04
#[test]
fn calls_that_end_in_any_order_have_ids_in_a_row_that_pass_over_those_still_open() {
    // The number of the first call, and how many calls stay open. In each case later numbers have
    // more digits.
    for (first, open) in [(1, 6), (95, 40), (9_999_900, 700), (99_999_000, 5000)] {
        let mut config = Config::new().framing(Framing::Newline);
        config.first_call = first;
        config.limits.max_open_calls = 8192;
        let mut conn: Connection<u64> = Connection::new(config);
        let mut random = antiphon_test_support::random::Random::new(7);
        let (mut calls, mut last) = (Vec::new(), first - 1);
        for _ in 0..20_000 {
            let seed = random.next();
            if calls.len() == open {
                let (call, tag) = calls.swap_remove((seed >> 33) as usize % open);
                assert_eq!(conn.cancel(call), Some(tag));
            }
            let call = conn.call("m", (), None, seed).unwrap();
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":{}}}\n",
                call.number()
            );
            let sent = conn.poll_transmit().map(|sent| sent.to_vec());
            assert_eq!(sent.as_deref(), Some(line.as_bytes()));
            conn.consume_transmit(usize::MAX);
            assert!(call.number() > last && call.number() <= last + 1 + open as u64);
            calls.push((call, seed));
            last = call.number();
        }
    }
}
