//! Faults seen in use, of connections and sessions without a transport. Most tests are named after the
//! fault, and assert that it is gone.

use std::time::Duration;

use antiphon::service::{Bucket, LocalRateLimit, LocalRouter};
use antiphon::session::{Report, Session, SessionConfig, Ticket, Wire, Work};
use antiphon::{
    Closed, Config, Connection, ConnectionError, ErrorObject, Event, Framing, Input, Instant, Json,
    OwnedError, OwnedOutcome, SendError, UnmatchedKind,
};

fn requests(ids: std::ops::Range<usize>) -> Vec<String> {
    ids.map(|id| format!(r#"{{"jsonrpc":"2.0","method":"m","id":{id}}}"#))
        .collect()
}

/// Answers a batch of so many requests by `answer`, and returns what is written, and how many errors
/// have lost their data.
fn answer_batch(
    config: Config,
    items: usize,
    mut answer: impl FnMut(&mut Connection, antiphon::ReplyToken, usize),
) -> (Vec<u8>, usize) {
    let mut conn: Connection = Connection::new(config);
    let line = format!("[{}]\n", requests(0..items).join(","));
    let mut input = Input::stream(line.as_bytes());
    let (mut at, mut dropped) = (0, 0);
    while let Some(event) = conn.poll_event(&mut input) {
        let Event::Request(request) = event else {
            panic!("{event:?}");
        };
        answer(&mut conn, request.token, at);
        dropped += usize::from(conn.poll_data_dropped());
        at += 1;
    }
    assert!(!conn.has_ended(), "nobody is cut off");
    let mut out = Vec::new();
    conn.take_transmit(&mut out);
    (out, dropped)
}

// USE-31
#[test]
fn errors_with_much_data_passed_the_limit_of_their_batch() {
    // In the last batch the errors that come after the data would not fit, if nothing were reserved for
    // them.
    for (items, bytes, max_bytes) in [
        (100, 60_000, 4 << 20),
        (400, 60_000, 4 << 20),
        (200, 1000, 100_000),
    ] {
        let data = format!("\"{}\"", "x".repeat(bytes));
        let data = Json::parse_str(&data).unwrap();
        let config = Config::new()
            .max_batch_items(items)
            .max_batch_reply_bytes(max_bytes);
        let (out, dropped) = answer_batch(config, items, |conn, token, _| {
            let error = ErrorObject::new(7, "no such file").with_data(data);
            conn.respond_err(token, &error).unwrap();
        });
        assert!(out.len() <= max_bytes + 1, "{} bytes", out.len());
        assert!(out.len() > max_bytes / 2, "the budget is used");
        let answers: Vec<serde_json::Value> = serde_json::from_slice(&out).unwrap();
        assert_eq!(answers.len(), items);
        let mut without = 0;
        for (id, answer) in answers.iter().enumerate() {
            assert_eq!(
                (&answer["id"], &answer["error"]["code"]),
                (&id.into(), &7.into())
            );
            assert_eq!(answer["error"]["message"], "no such file");
            without += usize::from(answer["error"].get("data").is_none());
        }
        assert_eq!(without, dropped);
        assert!(without < items);
    }
}

// USE-31
#[test]
fn requests_behind_results_that_filled_the_batch_are_answered() {
    let config = Config::new().max_batch_reply_bytes(100_000);
    let long = "x".repeat(9000);
    let (out, dropped) = answer_batch(config, 100, |conn, token, _| {
        if let Err(rejected) = conn.respond(token, &long) {
            assert_eq!(rejected.error, SendError::TooLarge);
            let error = ErrorObject::internal_error();
            conn.respond_err(rejected.value, &error).unwrap();
        }
    });
    // Results may fill the whole budget; an error without data is sent all the same.
    let most = 100_001 + 100 * 90;
    assert!(out.len() <= most, "{} bytes", out.len());
    let answers: Vec<serde_json::Value> = serde_json::from_slice(&out).unwrap();
    assert_eq!(answers.len(), 100);
    let results = answers
        .iter()
        .filter(|answer| answer.get("result").is_some());
    assert_eq!(results.count(), 11);
    assert_eq!(dropped, 0, "errors without data lose none");
}

// USE-31
#[test]
fn errors_with_long_messages_passed_the_limit_of_their_batch() {
    let message = "x".repeat(60_000);
    let (out, dropped) = answer_batch(Config::new(), 100, |conn, token, _| {
        let error = ErrorObject::new(7, message.as_str());
        conn.respond_err(token, &error).unwrap();
    });
    let max_bytes = Config::new().limits.max_batch_reply_bytes;
    assert!(out.len() <= max_bytes + 1, "{} bytes", out.len());
    let answers: Vec<serde_json::Value> = serde_json::from_slice(&out).unwrap();
    assert!(answers.iter().all(|answer| answer["error"]["code"] == 7));
    let shortened = answers
        .iter()
        .filter(|answer| answer["error"]["message"] != message);
    assert_eq!((answers.len(), shortened.count()), (100, dropped));
}

// USE-31
#[test]
fn an_error_whose_data_overfilled_the_output_ended_the_connection() {
    let mut conn: Connection = Connection::new(Config::new());
    let lines = requests(0..400).join("\n") + "\n";
    let data = format!("\"{}\"", "x".repeat(60_000));
    let error = ErrorObject::new(7, "no").with_data(Json::parse_str(&data).unwrap());
    let mut input = Input::stream(lines.as_bytes());
    while let Some(event) = conn.poll_event(&mut input) {
        let Event::Request(request) = event else {
            panic!("{event:?}");
        };
        conn.respond_err(request.token, &error).unwrap();
    }
    assert!(!conn.has_ended());
    let out = conn.poll_transmit().unwrap();
    assert!(out.len() <= conn.config().limits.max_outbox_bytes);
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 400);
}

// USE-31
#[test]
fn an_error_that_lost_its_data_is_reported_with_its_request() {
    let config = Config::new().max_batch_reply_bytes(1400);
    let mut session: Session<()> = Session::new(config.into(), Wire::Stream, Instant::ZERO);
    session.handle_input(format!("[{}]\n", requests(1..3).join(",")).as_bytes());
    let data = OwnedError::new(7, "no")
        .with_data(&"x".repeat(800))
        .unwrap();
    let mut reports = Vec::new();
    while let Some(work) = session.poll_work(true) {
        match work {
            Work::Request(_, ticket) => session.respond_err(ticket, &data.as_error()).unwrap(),
            Work::Report(report) => reports.push(report),
            _ => {}
        }
    }
    let [Report::DataDropped(about)] = &reports[..] else {
        panic!("{reports:?}");
    };
    assert_eq!(
        (&*about.method, about.id.as_ref().unwrap().to_string()),
        ("m", "2".into())
    );
}

// CON-09
#[test]
fn a_notification_of_an_open_request_was_refused_in_a_drain() {
    let mut conn: Connection = Connection::new(Config::lsp().framing(Framing::Newline));
    let line = requests(1..2).join("") + "\n";
    let Some(Event::Request(request)) = conn.poll_event(&mut Input::stream(line.as_bytes())) else {
        panic!("it is a request");
    };
    conn.drain();
    conn.notify("$/progress", &[("end", 1)])
        .expect("the request is open");
    conn.respond(request.token, ()).unwrap();
    assert_eq!(conn.notify("$/progress", ()), Err(SendError::Closed));
    let out = String::from_utf8(conn.poll_transmit().unwrap().to_vec()).unwrap();
    let (progress, answer) = (out.find("$/progress"), out.find("result"));
    assert!(progress.is_some() && progress < answer, "{out}");
}

/// How the answer that comes after `cancel` is told.
fn told_after_cancel(config: Config, answer: &str) -> (String, u64) {
    let mut conn: Connection<()> = Connection::new(config.framing(Framing::Newline));
    let call = conn.call("m", (), None, ()).unwrap();
    conn.consume_transmit(usize::MAX);
    conn.cancel(call).unwrap();
    let event = conn.poll_event(&mut Input::stream(answer.as_bytes()));
    let Some(Event::UnmatchedResponse(unmatched)) = event else {
        panic!("{event:?}");
    };
    let kind = match unmatched.kind {
        UnmatchedKind::Cancelled(_) => "cancelled",
        UnmatchedKind::Late(_) => "late",
        _ => "other",
    };
    (kind.into(), conn.unmatched_responses())
}

const CANCELLED: &str =
    "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32800,\"message\":\"\"},\"id\":1}\n";

// CAN-05
#[test]
fn the_answer_to_a_cancel_that_was_sent_was_told_as_unmatched() {
    let result = "{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1}\n";
    for answer in [CANCELLED, result] {
        let expected = ("cancelled".to_string(), 0);
        assert_eq!(told_after_cancel(Config::lsp(), answer), expected);
        // The default dialect sends no cancel.
        assert_eq!(told_after_cancel(Config::new(), answer), ("late".into(), 1));
    }
    // A session makes no report of it, but of the second answer to the same call.
    let config = Config::lsp().framing(Framing::Newline);
    let mut session: Session<()> = Session::new(config.into(), Wire::Stream, Instant::ZERO);
    let call = session.call("m", (), None, ()).unwrap();
    assert!(session.take_transmit(&mut Vec::new()));
    session.handle_written();
    session.cancel(call).unwrap();
    for expected in [0, 1] {
        session.handle_input(CANCELLED.as_bytes());
        let work = std::iter::from_fn(|| session.poll_work(true));
        let reports = work.filter(|work| matches!(work, Work::Report(_))).count();
        assert_eq!(reports, expected);
    }
}

// CAN-05
#[test]
fn the_answer_to_a_cancelled_call_with_an_id_of_its_own_is_expected() {
    let mut conn: Connection<()> = Connection::new(Config::lsp().framing(Framing::Newline));
    let id = antiphon::Id::new(Json::parse_str("\"mine\"").unwrap()).unwrap();
    let call = conn.call_with_id(id, "m", (), None, ()).unwrap();
    conn.cancel(call).unwrap();
    for is_expected in [true, false] {
        let answer = CANCELLED.replace(":1}", ":\"mine\"}");
        let event = conn.poll_event(&mut Input::stream(answer.as_bytes()));
        let Some(Event::UnmatchedResponse(unmatched)) = event else {
            panic!("{event:?}");
        };
        let is_cancelled = matches!(unmatched.kind, UnmatchedKind::Cancelled(_));
        assert_eq!(is_cancelled, is_expected);
    }
}

// CAN-05
#[test]
fn the_second_answer_to_a_call_that_was_answered_after_its_cancel_counted_as_expected() {
    for id in [None, Some("\"mine\"")] {
        let mut conn: Connection<()> = Connection::new(Config::lsp().framing(Framing::Newline));
        let call = match id {
            None => conn.call("m", (), None, ()).unwrap(),
            Some(text) => {
                let id = antiphon::Id::new(Json::parse_str(text).unwrap()).unwrap();
                conn.call_with_id(id, "m", (), None, ()).unwrap()
            }
        };
        // Asked more than once, it is cancelled once.
        conn.consume_transmit(usize::MAX);
        for _ in 0..3 {
            conn.ask_cancel(call).unwrap();
        }
        let out = String::from_utf8(conn.poll_transmit().unwrap().to_vec()).unwrap();
        assert_eq!(out.matches("$/cancelRequest").count(), 1, "{out}");
        let answer = CANCELLED.replace(":1}", &format!(":{}}}", id.unwrap_or("1")));
        let event = conn.poll_event(&mut Input::stream(answer.as_bytes()));
        assert!(matches!(event, Some(Event::Response(_))), "{event:?}");
        for unexpected in [1, 2] {
            let event = conn.poll_event(&mut Input::stream(answer.as_bytes()));
            let Some(Event::UnmatchedResponse(unmatched)) = event else {
                panic!("{event:?}");
            };
            assert!(!matches!(unmatched.kind, UnmatchedKind::Cancelled(_)));
            assert_eq!(conn.unmatched_responses(), unexpected);
        }
    }
}

/// Moves the bytes of a session whose peer has sent `input` and has read nothing before `read_at`.
/// Returns all that the peer has read, and the most bytes that waited.
fn pipelined(
    config: Config,
    input: &[u8],
    read_at: Option<Instant>,
) -> (Session<()>, Vec<u8>, usize) {
    let mut session: Session<()> = Session::new(config.into(), Wire::Stream, Instant::ZERO);
    let (mut now, mut read, mut at, mut most) = (Instant::ZERO, Vec::new(), 0, 0);
    let mut writing = Vec::new();
    while !session.phase().is_over() && now < Instant::from_millis(200_000) {
        if session.wants_input() && at < input.len() {
            // All of the input comes within the second, and is more than the output may hold.
            let end = input.len().min(at + 262_144);
            session.handle_input(&input[at..end]);
            at = end;
        }
        session.handle_timeout(now);
        while let Some(work) = session.poll_work(true) {
            if let Work::Request(request, ticket) = work {
                // It fails only after the end.
                let _ = session.respond(ticket, request.params());
            }
        }
        if writing.is_empty() {
            session.take_transmit(&mut writing);
        }
        let may_read = read_at.is_some_and(|time| now >= time);
        if may_read && !writing.is_empty() {
            read.append(&mut writing);
            session.handle_written();
        }
        most = most.max(writing.len() + session.requests_open());
        let is_done = at == input.len() && writing.is_empty() && !session.has_transmit();
        if is_done && session.requests_open() == 0 {
            break;
        }
        now += Duration::from_millis(10);
    }
    (session, read, most)
}

// USE-45
#[test]
fn a_session_whose_peer_read_a_second_later_ended_after_some_answers() {
    let text = "x".repeat(1000);
    let lines: Vec<String> = (0..20_000)
        .map(|id| {
            format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[\"{text}\"],\"id\":{id}}}\n"
            )
        })
        .collect();
    let input = lines.concat();
    let read_at = Some(Instant::from_millis(1000));
    let (session, read, most) = pipelined(Config::new(), input.as_bytes(), read_at);
    assert_eq!(session.phase().closed(), None);
    assert_eq!(read.iter().filter(|byte| **byte == b'\n').count(), 20_000);
    let errors = read.windows(7).filter(|window| window == b"\"error\"");
    assert_eq!(errors.count(), 0);
    assert!(most < 4 << 20, "{most} bytes");
}

// USE-45
#[test]
fn a_peer_that_never_reads_is_ended_by_the_write_timeout_within_bounded_memory() {
    let text = "x".repeat(1000);
    let line =
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[\"{text}\"],\"id\":1}}\n");
    let input = line.repeat(60_000);
    let (session, read, most) = pipelined(Config::new(), input.as_bytes(), None);
    assert_eq!((read.len(), session.phase().is_over()), (0, true));
    let fault = session
        .fault()
        .and_then(|fault| fault.as_error().downcast_ref());
    let why = Closed::Failed(ConnectionError::WriteTimedOut);
    let is_named = fault == Some(&ConnectionError::WriteTimedOut);
    assert!(
        is_named || session.phase().closed() == Some(why),
        "{session:?}"
    );
    assert!(most < 4 << 20, "{most} bytes");
}

// USE-45
#[test]
fn the_time_of_a_message_ran_while_its_peer_had_to_read_first() {
    let mut conn: Connection = Connection::new(Config::new());
    let line = requests(1..2).join("") + "\n{\"half";
    let mut input = Input::stream(line.as_bytes());
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("it is a request");
    };
    conn.respond(request.token, &"x".repeat(2 << 20)).unwrap();
    assert!(!conn.wants_input());
    assert!(conn.poll_event(&mut input).is_none());
    for seconds in [50, 100, 150] {
        conn.consume_transmit(1);
        conn.handle_timeout(Instant::from_millis(1000 * seconds));
        let ended = conn.poll_event(&mut Input::stream(b"{\"half"));
        assert!(ended.is_none() && !conn.has_ended(), "{ended:?}");
    }
    // From here on it runs.
    conn.consume_transmit(usize::MAX);
    assert!(conn.poll_event(&mut Input::stream(b"{\"half")).is_none());
    conn.handle_timeout(Instant::from_millis(211_000));
    assert!(conn.poll_event(&mut Input::stream(b"{\"half")).is_some());
    assert!(conn.has_ended());
}

// USE-45
#[test]
fn notifications_that_wait_do_not_stop_reading() {
    let mut session: Session<()> = Session::new(Config::new().into(), Wire::Stream, Instant::ZERO);
    let text = "x".repeat(1000);
    while session.notify("m", &[&text]).is_ok() {}
    // If the other side did the same and both stopped reading, neither would ever go on.
    assert!(session.is_full() && session.wants_input());
    let ticket = ticket_of(&mut session);
    session.respond(ticket, ()).unwrap();
    assert!(!session.wants_input());
}

fn ticket_of(session: &mut Session<()>) -> Ticket {
    session.handle_input((requests(1..2).join("") + "\n").as_bytes());
    let mut work = std::iter::from_fn(|| session.poll_work(true));
    work.find_map(|work| match work {
        Work::Request(_, ticket) => Some(ticket),
        _ => None,
    })
    .expect("it is a request")
}

// USE-46
#[test]
fn the_ticket_of_one_session_answered_the_request_of_another() {
    let new = || Session::<()>::new(Config::new().into(), Wire::Stream, Instant::ZERO);
    let (mut one, mut other) = (new(), new());
    let (ticket, _own) = (ticket_of(&mut one), ticket_of(&mut other));
    assert_eq!(other.respond(ticket, ()), Err(SendError::NotOpen));
    assert_eq!((one.requests_open(), other.requests_open()), (1, 1));
    // Neither a call of the other, nor a token of a connection that is gone.
    let call = one.call("m", (), None, ()).unwrap();
    other.call("m", (), None, ()).unwrap();
    assert_eq!(other.cancel(call), None);
    let old = ticket_of(&mut one);
    one = new();
    let _own = ticket_of(&mut one);
    assert_eq!(one.respond(old, ()), Err(SendError::NotOpen));
}

// USE-46
#[test]
fn two_connections_shared_the_bucket_of_a_rate_per_connection() {
    let mut router = LocalRouter::new()
        .method("m", [], || Ok::<_, OwnedError>(1))
        .intercept(LocalRateLimit::per_connection(Bucket::per_second(1, 1)));
    for _ in 0..2 {
        let mut conn: Connection = Connection::new(Config::new());
        router.opened(&conn);
        conn.handle_timeout(Instant::from_millis(1000));
        let line = requests(1..2).join("") + "\n";
        for is_served in [true, false] {
            let Some(Event::Request(request)) =
                conn.poll_event(&mut Input::stream(line.as_bytes()))
            else {
                panic!("it is a request");
            };
            let served = router.respond(&mut conn, request);
            assert_eq!(served.is_ok(), is_served, "{served:?}");
        }
    }
}

// USE-47
#[test]
fn messages_over_a_wire_of_messages_had_the_framing_of_a_stream() {
    for framing in [Framing::Newline, Framing::ContentLength] {
        let config = Config::new().framing(framing);
        let mut session: Session<()> = Session::new(config.into(), Wire::Messages, Instant::ZERO);
        assert_eq!(session.config().framing, Framing::Messages);
        session.notify("one", ()).unwrap();
        session.notify("two", ()).unwrap();
        for method in ["one", "two"] {
            let mut message = Vec::new();
            assert!(session.take_transmit(&mut message));
            session.handle_written();
            let expected = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            assert_eq!(String::from_utf8(message).unwrap(), expected);
        }
    }
}

// USE-47
#[test]
fn whole_messages_over_a_stream_were_written_without_a_word() {
    let config = SessionConfig::from(Config::new().framing(Framing::Messages));
    let mut session: Session<()> = Session::new(config, Wire::Stream, Instant::ZERO);
    assert!(session.phase().is_over());
    let fault = session.fault().expect("a reason").to_string();
    assert!(fault.contains("Framing::Messages"), "{fault}");
    assert_eq!(session.notify("m", ()), Err(SendError::Closed));
    let work = std::iter::from_fn(|| session.poll_work(true));
    let mut reports = work.filter_map(|work| match work {
        Work::Report(report) => Some(report.to_string()),
        _ => None,
    });
    assert!(reports.any(|report| report.contains("Framing::Messages")));
}

#[test]
fn the_debug_text_of_an_outcome_was_that_of_its_storage() {
    for outcome in [
        OwnedOutcome::Err(OwnedError::new(7, "no")),
        OwnedOutcome::TimedOut,
    ] {
        let said = format!("{outcome:?}");
        assert_eq!(said, format!("OwnedOutcome({outcome})"));
        assert!(!said.contains("Parts"), "{said}");
    }
}

// USE-02 SEC-09
#[test]
fn the_report_of_a_malformed_message_counts_with_at_most_2048_bytes() {
    let wants_more = |max_queued_bytes| {
        let mut config = SessionConfig::from(Config::new());
        config.max_queued_bytes = max_queued_bytes;
        let mut session: Session<()> = Session::new(config, Wire::Stream, Instant::ZERO);
        while session.poll_work(true).is_some() {}
        session.handle_input(format!("{}\n", "x".repeat(5000)).as_bytes());
        session.wants_input()
    };
    assert_eq!((wants_more(2048), wants_more(2049)), (false, true));
}
