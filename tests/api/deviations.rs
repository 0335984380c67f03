//! Faults of older implementations that this one must not have, D-01 to D-41, each with a test of
//! that name.
//!
//! `tests/api/deviations.txt` lists the 41 ids with the right behaviour. A test is a case of
//! `tests/conformance` whose title begins with `D-nn: `, or a Rust test `d_nn_…`. The list is
//! complete, and each id has a test. The tests below are those that cannot be written as such a
//! case.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use antiphon::websocket::{Heartbeat, WebSocketRules};
use antiphon::{
    BinaryMessages, CloseReason, Closed, Config, Connection, ConnectionState, ErrorObject, Event,
    Input, Instant, Outcome, ReplyToken, UnmatchedKind, codes,
};

/// The events that this input causes, in short.
fn events(conn: &mut Connection<u64>, input: &str) -> Vec<String> {
    let mut input = Input::stream(input.as_bytes());
    let mut shown = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        shown.push(match event {
            Event::Request(request) => format!("request {}", request.method),
            Event::Notification(notification) => format!("notification {}", notification.method),
            Event::Response(response) => match response.outcome {
                Outcome::Ok(result) => format!("{} ok {result}", response.tag),
                Outcome::Err(error) => format!("{} error {}", response.tag, error.code()),
                outcome => format!("{} {outcome:?}", response.tag),
            },
            Event::UnmatchedResponse(unmatched) => match unmatched.kind {
                UnmatchedKind::Late(Outcome::Ok(result)) => format!("late {result}"),
                kind => format!("{kind:?}"),
            },
            Event::Closed(Closed::Local(reason)) => format!("closed {reason:?}"),
            other => format!("{other:?}"),
        });
    }
    shown
}

/// Delivers one request, and gives the right to answer it.
fn request(conn: &mut Connection<u64>, text: &str) -> ReplyToken {
    let line = format!("{text}\n");
    let mut input = Input::stream(line.as_bytes());
    match conn.poll_event(&mut input) {
        Some(Event::Request(request)) => request.token,
        other => panic!("a request is delivered, not {other:?}"),
    }
}

fn written(conn: &mut Connection<u64>) -> String {
    let mut out = Vec::new();
    conn.take_transmit(&mut out);
    String::from_utf8(out).expect("what is written is UTF-8")
}

// D-18 TRN-06 TST-19
#[test]
fn d_18_what_comes_before_anybody_listens_waits_and_is_not_lost() {
    let mut conn = Connection::new(Config::new());
    let early = "{\"jsonrpc\":\"2.0\",\"method\":\"early\"}\n";
    // Nobody polls: nothing is taken, so the reader still holds it and shows it again.
    let input = Input::stream(early.as_bytes());
    assert_eq!(input.consumed(), 0);
    assert_eq!(events(&mut conn, early), ["notification early"]);
}

// D-19 TST-19
#[test]
fn d_19_a_time_out_is_no_cancellation_on_either_side() {
    assert_ne!(codes::TIMEOUT, codes::REQUEST_CANCELLED);
    let names = [codes::TIMEOUT, codes::REQUEST_CANCELLED].map(codes::message);
    assert_ne!(names[0], names[1]);
    let mut conn = Connection::new(Config::new());
    let due = Some(Instant::from_millis(5));
    conn.call("slow", (), due, 1).expect("a call");
    let given_up = conn.call("other", (), None, 2).expect("a call");
    assert_eq!(
        conn.cancel(given_up),
        Some(2),
        "its tag comes back, no event"
    );
    conn.handle_timeout(Instant::from_millis(5));
    assert_eq!(events(&mut conn, ""), ["1 TimedOut"]);
}

// D-21 CLI-13 TST-19
#[test]
fn d_21_a_request_whose_handler_fails_is_answered_on_a_client_too() {
    let mut config = Config::new();
    config.role = antiphon::Role::Client;
    let mut conn = Connection::new(config);
    let token = request(&mut conn, r#"{"jsonrpc":"2.0","method":"ask","id":"a"}"#);
    assert!(conn.abandon(token.key()));
    assert_eq!(
        written(&mut conn),
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"Internal error\"},\"id\":\"a\"}\n"
    );
}

// D-22 TST-19
#[test]
fn d_22_params_by_name_or_too_few_are_an_error_of_decoding_never_a_panic() {
    let mut conn: Connection<u64> = Connection::new(Config::new());
    for (params, is_pair) in [
        ("[1,2]", true),
        ("[1]", false),
        ("[]", false),
        ("[1,2,3]", false),
        (r#"{"a":1,"b":2}"#, false),
    ] {
        let line =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{params},\"id\":1}}\n");
        let mut input = Input::stream(line.as_bytes());
        let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
            panic!("{params} is delivered");
        };
        let params = request.params.expect("it has params");
        assert_eq!(params.decode::<(f64, f64)>().is_ok(), is_pair, "{params}");
        assert!(params.elements().nth(7).is_none());
    }
}

// D-28 TST-19
#[test]
fn d_28_only_what_never_left_is_called_unsent_for_nothing_is_delivered_exactly_once() {
    let mut conn = Connection::new(Config::new());
    conn.call("left", (), None, 1).expect("a call");
    conn.consume_transmit(1);
    conn.call("waits", (), None, 2).expect("a call");
    conn.close(CloseReason::Done);
    let shown = events(&mut conn, "");
    assert_eq!(shown[..2], ["1 Aborted", "2 Unsent"]);
}

// D-30 CON-01 TST-19
#[test]
fn d_30_an_open_link_may_close_at_once() {
    assert!(ConnectionState::Open.may_become(ConnectionState::Closed));
    let mut conn = Connection::new(Config::new());
    conn.call("open", (), None, 1).expect("a call");
    conn.close(CloseReason::TransportFailed);
    let shown = events(&mut conn, "");
    assert_eq!(shown, ["1 Unsent", "closed TransportFailed"]);
}

// D-31 TST-19
#[test]
fn d_31_no_two_codes_of_one_profile_are_the_same() {
    let own = [
        codes::PARSE_ERROR,
        codes::INVALID_REQUEST,
        codes::METHOD_NOT_FOUND,
        codes::INVALID_PARAMS,
        codes::INTERNAL_ERROR,
        codes::REQUEST_CANCELLED,
        codes::SERVER_BUSY,
        codes::BATCH_TOO_LARGE,
        codes::REQUEST_TOO_LARGE,
        codes::TIMEOUT,
        codes::LSP_REQUEST_CANCELLED,
    ];
    assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), own.len());
    assert!(
        own.into_iter()
            .all(|code| ErrorObject::of(code).code() == code)
    );
}

// D-32 TST-19
#[test]
fn d_32_an_item_that_comes_after_its_time_is_told_with_what_it_holds() {
    let mut conn = Connection::new(Config::new());
    let due = Some(Instant::from_millis(1));
    conn.call("pull", (), due, 1).expect("a call");
    conn.handle_timeout(Instant::from_millis(2));
    assert_eq!(events(&mut conn, ""), ["1 TimedOut"]);
    let late = "{\"jsonrpc\":\"2.0\",\"result\":{\"item\":7},\"id\":1}\n";
    assert_eq!(events(&mut conn, late), ["late {\"item\":7}"]);
}

// D-33 WSK-03 TST-19
#[test]
fn d_33_a_binary_message_is_refused_unless_it_was_asked_to_be_taken_or_ignored() {
    assert_eq!(Config::new().dialect.binary, BinaryMessages::Close);
    assert_eq!(Config::lsp().dialect.binary, BinaryMessages::AsText);
    assert_eq!(Config::ethereum().dialect.binary, BinaryMessages::AsText);
}

// D-38 WSK-11 TST-19
#[test]
fn d_38_a_request_called_ping_is_the_applications() {
    assert_eq!(WebSocketRules::new().hear(true, "ping"), Heartbeat::Deliver);
    let mut conn = Connection::new(Config::new());
    let ping = "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":1}\n";
    assert_eq!(events(&mut conn, ping), ["request ping"]);
}

// D-39 TST-19
#[test]
fn d_39_calls_that_wait_take_no_place_of_a_request() {
    let mut config = Config::new();
    config.limits.max_open_requests = 1;
    let mut conn = Connection::new(config);
    for tag in 0..100 {
        conn.call("pull", (), None, tag).expect("a call");
    }
    let token = request(&mut conn, r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    assert!(conn.respond(token, ()).is_ok());
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Finds every file below a folder whose name ends in `suffix`, except build output.
fn files(folder: &Path, suffix: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files(&path, suffix, found);
        } else if name.ends_with(suffix) {
            found.push(path);
        }
    }
}

/// The ids for which there is a test: a Rust test or the title of a case that begins with the id.
fn tested() -> BTreeSet<String> {
    let mut found = Vec::new();
    for (folder, suffix) in [
        ("tests", ".rs"),
        ("adapters", ".rs"),
        ("tests/conformance", ".txt"),
    ] {
        files(&root().join(folder), suffix, &mut found);
    }
    let mut ids = BTreeSet::new();
    for path in found {
        let text = fs::read_to_string(&path).expect("a file of this repository");
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let title = line.strip_prefix("== ");
            if let Some((id, _)) = title.and_then(|title| title.split_once(": ")) {
                ids.insert(id.to_owned());
            }
            let name = line.trim_start_matches("async ").strip_prefix("fn d_");
            if let Some(number) = name.and_then(|name| name.get(..2)).filter(|_| is_test) {
                ids.insert(format!("D-{number}"));
            }
            is_test = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        }
    }
    ids
}

// TST-19
#[test]
fn every_deviation_of_the_catalogue_has_a_test_of_its_name() {
    let list = fs::read_to_string(root().join("tests/api/deviations.txt")).expect("the list");
    let listed: Vec<&str> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once("  ").expect("an id and what holds").0)
        .collect();
    let wanted: Vec<String> = (1..=41).map(|number| format!("D-{number:02}")).collect();
    assert_eq!(listed, wanted);
    let tested = tested();
    let without: Vec<&&str> = listed.iter().filter(|id| !tested.contains(**id)).collect();
    assert!(without.is_empty(), "no test is named after {without:?}");
    let design = fs::read_to_string(root().join("docs/design.md")).expect("the design notes");
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let row = format!("| {} |", line.replace("  ", " | "));
        assert!(design.contains(&row), "docs/design.md has no row {row}");
    }
    println!("{} deviations, each with a test of its name", listed.len());
}
