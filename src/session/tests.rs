//! Sessions driven by hand, in virtual time.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use std::io;

use super::*;
use crate::{
    CancelStyle, CloseReason, Closed, Config, ConnectionError, ErrorObject, Framing, Instant,
    McpRevision, OwnedOutcome, RequestKey, SendError,
};

const SECOND: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn session(config: impl Into<SessionConfig>) -> Session<u32> {
    Session::new(config.into(), Wire::Stream, at(0))
}

/// A session that has been asked for work once and has none.
fn idle(config: impl Into<SessionConfig>) -> Session<u32> {
    let mut session = session(config);
    assert_eq!(work(&mut session), ["opened"]);
    session
}

fn lsp_cancels() -> Config {
    let mut config = Config::new();
    config.cancel_receive = CancelStyle::Lsp;
    config.cancel_send = CancelStyle::Lsp;
    config
}

/// What came in, one word or two for each.
fn describe(work: Work) -> (String, Option<Ticket>) {
    match work {
        Work::Opened(_) => ("opened".into(), None),
        Work::Request(message, ticket) => (format!("request {}", message.method()), Some(ticket)),
        Work::Notification(message) => (format!("notification {}", message.method()), None),
        Work::Cancelled(..) => ("cancelled".into(), None),
        Work::Report(report) => (format!("report: {report}"), None),
    }
}

/// All work there is, without an answer to anything; tickets are kept nowhere.
fn work(session: &mut Session<u32>) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(work) = session.poll_work(true) {
        seen.push(describe(work).0);
    }
    seen
}

/// The next work, which has to be a request.
fn request(session: &mut Session<u32>) -> Ticket {
    loop {
        match session.poll_work(true).map(describe) {
            Some((_, Some(ticket))) => return ticket,
            Some(_) => {}
            None => panic!("there is no request"),
        }
    }
}

/// All output, told to be written.
fn output(session: &mut Session<u32>) -> String {
    let mut written = Vec::new();
    while session.take_transmit(&mut written) {
        session.handle_written();
    }
    String::from_utf8(written).unwrap()
}

fn line(session: &mut Session<u32>, text: &str) {
    session.handle_input(text.as_bytes());
    session.handle_input(b"\n");
}

fn outcomes(session: &mut Session<u32>) -> Vec<(u32, OwnedOutcome)> {
    let mut settled = Vec::new();
    while let Some(one) = session.poll_settled() {
        settled.push((one.waiter, one.outcome));
    }
    settled
}

const M1: &str = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
const M2: &str = r#"{"jsonrpc":"2.0","method":"m","id":2}"#;
const N: &str = r#"{"jsonrpc":"2.0","method":"n"}"#;
const CANCEL_1: &str = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;

#[test]
fn however_the_input_is_split_work_and_output_are_the_same() {
    let input = format!("{M1}\n{N}\ngarbage\n[{M1},{N},{M2}]\n{CANCEL_1}\n{M2}\n");
    let play = |cuts: &[usize]| {
        let mut session = session(lsp_cancels());
        let (mut seen, mut start) = (Vec::new(), 0);
        for &cut in cuts {
            session.handle_input(&input.as_bytes()[start..cut]);
            start = cut;
        }
        session.handle_input(&input.as_bytes()[start..]);
        session.handle_eof();
        while let Some(work) = session.poll_work(true) {
            let (word, ticket) = describe(work);
            seen.push(word);
            if let Some(ticket) = ticket {
                session.respond(ticket, &7).unwrap();
            }
        }
        let written = output(&mut session);
        assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput), "{cuts:?}");
        (seen, written)
    };
    let whole = play(&[]);
    assert!(whole.0.len() > 5 && whole.1.len() > 100, "{whole:?}");
    let bytewise: Vec<_> = (1..input.len()).collect();
    assert_eq!(play(&bytewise), whole);
    for cut in 1..input.len() {
        assert_eq!(play(&[cut]), whole, "cut at {cut}");
    }
}

// USE-01
#[test]
fn what_waits_behind_a_request_without_a_slot_keeps_its_order() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    line(&mut session, N);
    assert!(session.poll_work(false).is_none());
    let ticket = request(&mut session);
    // A request that waits for a thread keeps notifications back, and nothing else.
    session.postpone();
    line(&mut session, M2);
    assert!(session.poll_work(true).is_none());
    session.handle_begun();
    assert_eq!(work(&mut session), ["notification n", "request m"]);
    session.respond(ticket, &1).unwrap();
}

// USE-01
#[test]
fn a_cancel_goes_past_what_waits_and_a_request_that_waits_never_begins() {
    let mut session = idle(lsp_cancels());
    line(&mut session, M1);
    let ticket = request(&mut session);
    line(&mut session, M2);
    line(&mut session, CANCEL_1);
    assert!(!matches!(session.poll_work(false), Some(Work::Request(..))));
    assert!(session.is_cancelled(ticket.key()));
    session.respond_cancelled(ticket).unwrap();
    assert!(output(&mut session).contains("-32001"));
    line(
        &mut session,
        r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#,
    );
    assert_eq!(work(&mut session), [""; 0]);
    assert!(output(&mut session).contains(r#""id":2"#));
}

#[test]
fn a_silent_cancel_makes_an_answer_right_and_unsaid() {
    let mut session = idle(Config::mcp(McpRevision::V2025_06_18));
    line(&mut session, M1);
    let ticket = request(&mut session);
    line(
        &mut session,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    );
    assert_eq!(work(&mut session), ["cancelled"]);
    assert_eq!(session.respond(ticket, &1), Ok(()));
    assert_eq!(output(&mut session), "");
}

// CON-06
#[test]
fn what_came_before_the_end_of_input_is_served_before_the_end_is_told() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    line(&mut session, N);
    session.handle_eof();
    assert_eq!(session.phase(), Phase::InputEnded { since: at(0) });
    let ticket = request(&mut session);
    session.notify("still here", ()).unwrap();
    assert_eq!(work(&mut session), ["notification n"]);
    // The service had nothing more to do: the end is told, and the answer is still taken.
    assert!(matches!(session.phase(), Phase::Closing { .. }));
    assert!(!session.phase().is_over());
    session.respond(ticket, &1).unwrap();
    assert!(output(&mut session).contains("still here"));
    assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput));
}

#[test]
fn an_end_of_input_is_told_at_once_where_a_call_waits() {
    let mut session = idle(Config::new());
    session.call("c", (), None, 5).unwrap();
    output(&mut session);
    line(&mut session, M1);
    session.handle_eof();
    assert_eq!(outcomes(&mut session), [(5, OwnedOutcome::Aborted)]);
}

#[test]
fn an_end_inside_a_message_is_told_as_such() {
    let mut session = idle(Config::new());
    session.handle_input(br#"{"jsonrpc""#);
    session.handle_eof();
    assert_eq!(work(&mut session).len(), 0);
    let truncated = Closed::Failed(ConnectionError::Truncated);
    assert_eq!(session.phase().closed(), Some(truncated));
    // Without a line feed a last message still counts.
    let mut session = idle(Config::new());
    session.handle_input(M1.as_bytes());
    session.handle_eof();
    assert_eq!(work(&mut session), ["request m"]);
}

#[test]
fn a_request_that_runs_on_after_the_end_is_given_up_when_the_drain_is_over() {
    let mut config = Config::new();
    config.drain_time_max = Some(2 * SECOND);
    let mut session = idle(config);
    line(&mut session, M1);
    session.handle_eof();
    let ticket = request(&mut session);
    assert!(session.poll_work(true).is_none());
    assert_eq!(session.poll_timeout(), Some(at(2000)));
    session.handle_timeout(at(1999));
    assert!(!session.is_cancelled(ticket.key()));
    session.handle_timeout(at(2000));
    assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput));
    assert!(session.is_cancelled(ticket.key()));
    assert_eq!(session.respond(ticket, &1), Err(SendError::Closed));
    assert_eq!(output(&mut session), "");
    assert_eq!(work(&mut session), ["cancelled"]);
}

#[test]
fn after_a_failed_write_the_last_words_of_the_peer_are_heard() {
    let mut session = idle(Config::new());
    session.call("c", (), None, 1).unwrap();
    session.call("c", (), None, 2).unwrap();
    let mut taken = Vec::new();
    assert!(session.take_transmit(&mut taken));
    session.handle_write_failed(io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(session.phase(), Phase::LastWords { since: at(0) });
    line(&mut session, r#"{"jsonrpc":"2.0","result":9,"id":1}"#);
    let settled = outcomes(&mut session);
    assert!(
        matches!(&settled[..], [(1, OwnedOutcome::Ok(nine))] if nine.as_str() == "9"),
        "{settled:?}"
    );
    session.notify("nobody reads this", ()).unwrap();
    assert!(!session.take_transmit(&mut taken));
    session.handle_timeout(at(999));
    assert_eq!(outcomes(&mut session), []);
    session.handle_timeout(at(1000));
    assert_eq!(outcomes(&mut session), [(2, OwnedOutcome::Aborted)]);
    let why = Closed::Local(CloseReason::TransportFailed);
    assert_eq!(session.phase(), Phase::Over(why));
    assert_eq!(session.is_written(session.transmit_queued()), None);
    assert_eq!(work(&mut session).len(), 1, "the failure is reported");
}

#[test]
fn after_a_failed_write_the_end_of_input_ends_it() {
    let mut session = idle(Config::new());
    session.call("c", (), None, 1).unwrap();
    session.take_transmit(&mut Vec::new());
    session.handle_write_failed(io::Error::from(io::ErrorKind::BrokenPipe));
    session.handle_eof();
    assert!(session.phase().is_over());
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::Aborted)]);
}

#[test]
fn a_write_that_hangs_is_given_up_and_keeps_its_fault() {
    let mut config = Config::new();
    config.write_time_max = Some(SECOND);
    let mut session = idle(config);
    session.notify("n", ()).unwrap();
    session.take_transmit(&mut Vec::new());
    session.handle_write_progress(at(500));
    session.handle_timeout(at(1499));
    assert_eq!(session.phase(), Phase::Open);
    session.handle_timeout(at(1500));
    assert!(matches!(session.phase(), Phase::LastWords { .. }));
    let fault = session.fault().expect("a fault").as_error();
    assert_eq!(
        fault.downcast_ref::<ConnectionError>(),
        Some(&ConnectionError::WriteTimedOut)
    );
}

// USE-02
#[test]
fn reading_pauses_while_too_much_waits_and_nothing_is_lost() {
    let mut config = SessionConfig::from(Config::new());
    config.max_queued_messages = 2;
    let mut session = idle(config);
    for _ in 0..3 {
        line(&mut session, N);
    }
    assert!(!session.may_read());
    assert_eq!(work(&mut session), ["notification n"; 3]);
    assert!(session.may_read());
}

// USE-02
#[test]
fn with_a_call_open_reading_goes_on_until_far_too_much_waits() {
    let mut config = SessionConfig::from(Config::new());
    config.max_queued_messages = 2;
    let mut session = idle(config);
    session.call("c", (), None, 1).unwrap();
    for _ in 0..3 {
        line(&mut session, N);
    }
    assert!(session.may_read());
    line(&mut session, N);
    assert_eq!(outcomes(&mut session).len(), 1);
    let seen = work(&mut session);
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen[4].starts_with("report: too much waits"), "{seen:?}");
    assert!(session.phase().closed().is_some());
}

#[test]
fn a_frame_is_not_late_by_the_time_for_which_nothing_was_read() {
    let mut config = SessionConfig::from(Config::new());
    config.config.frame_time_max = Some(SECOND);
    config.max_queued_messages = 1;
    let mut session = idle(config);
    line(&mut session, N);
    session.handle_input(b"{");
    assert!(!session.may_read());
    for second in 1..10 {
        session.handle_timeout(at(1000 * second));
    }
    assert_eq!(session.phase(), Phase::Open);
    assert_eq!(work(&mut session).len(), 1);
    session.handle_timeout(at(9900));
    assert_eq!(session.phase(), Phase::Open);
    // The grace for a clock that has jumped over a deadline counts from when that is seen.
    session.handle_timeout(at(10_001));
    assert!(session.phase().closed().is_some());
}

#[test]
fn what_is_dropped_is_counted_and_a_request_is_answered_busy() {
    let mut config = SessionConfig::from(Config::new());
    config.when_full = WhenFull::Drop;
    config.max_queued_bytes = 70;
    let mut session = idle(config);
    for _ in 0..4 {
        line(&mut session, N);
    }
    line(&mut session, M1);
    assert!(session.may_read());
    assert!(output(&mut session).contains("-32002"));
    let seen = work(&mut session);
    assert_eq!(seen[..2], ["notification n"; 2]);
    assert_eq!(seen[2], "report: 2 messages dropped");
    assert!(seen[3].ends_with("too many bytes wait: m (id 1) after 0 ms"));
    assert_eq!(seen.len(), 4);
}

// USE-04
#[test]
fn what_has_arrived_wins_over_its_deadline() {
    let mut session = idle(Config::new());
    session.call("c", (), Some(at(1000)), 1).unwrap();
    output(&mut session);
    session.handle_time(at(5000));
    line(&mut session, r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    session.handle_timeout(at(5000));
    assert!(matches!(
        outcomes(&mut session)[..],
        [(1, OwnedOutcome::Ok(_))]
    ));
}

// USE-04
#[test]
fn a_clock_that_has_jumped_over_a_deadline_grants_as_much_again_once() {
    let mut session = idle(Config::new());
    session.call("c", (), Some(at(1000)), 1).unwrap();
    output(&mut session);
    session.handle_timeout(at(4000));
    assert_eq!(outcomes(&mut session), []);
    assert_eq!(session.poll_timeout(), Some(at(7000)));
    session.handle_timeout(at(6999));
    assert_eq!(outcomes(&mut session), []);
    session.handle_timeout(at(7000));
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::TimedOut)]);
    // A little late is no jump, and 10 s is the most.
    assert_eq!(grace(Duration::from_millis(99)), Duration::ZERO);
    assert_eq!(grace(100 * SECOND), 10 * SECOND);
}

// USE-17 SRV-26
#[test]
fn a_handler_that_gives_no_answer_is_answered_for_and_reported() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.handle_time(at(1500));
    session.abandon(ticket);
    assert!(output(&mut session).contains("-32603"));
    assert_eq!(
        work(&mut session),
        ["report: a handler gave no answer: m (id 1) after 1500 ms"]
    );
    line(&mut session, M2);
    let ticket = request(&mut session);
    session.handle_panic(Some(ticket));
    session.handle_panic(None);
    assert!(output(&mut session).contains("-32603"));
    assert_eq!(
        work(&mut session),
        [
            "report: the service panicked: m (id 2) after 0 ms",
            "report: the service panicked"
        ]
    );
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.refuse(ticket);
    assert!(output(&mut session).contains("-32002"));
    let seen = work(&mut session);
    assert!(
        seen[0].ends_with("no capacity: m (id 1) after 0 ms"),
        "{seen:?}"
    );
}

#[test]
fn a_result_that_is_refused_is_answered_internal_error() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    let keys = alloc::collections::BTreeMap::from([((1, 2), 3)]);
    let refused = session.respond(ticket, &keys);
    assert!(matches!(refused, Err(SendError::Encode(_))), "{refused:?}");
    assert!(output(&mut session).contains("-32603"));
    assert!(work(&mut session)[0].starts_with("report: a handler gave no answer"));
}

#[test]
fn an_answer_of_an_error_and_one_of_no_such_method() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    line(&mut session, M2);
    let (one, two) = (request(&mut session), request(&mut session));
    let error = ErrorObject::invalid_params();
    session.respond_err(one, &error).unwrap();
    session.respond_unknown_method(two, "m").unwrap();
    let written = output(&mut session);
    assert!(written.contains("-32602") && written.contains("-32601"));
}

#[test]
fn a_drain_takes_nothing_new_and_ends_when_all_is_answered_and_written() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.drain();
    assert_eq!(session.phase(), Phase::Draining);
    line(&mut session, M2);
    assert!(output(&mut session).contains("-32002"));
    session.respond(ticket, &1).unwrap();
    assert!(!session.phase().is_over());
    output(&mut session);
    assert_eq!(work(&mut session).len(), 1, "the refused request is told");
    session.handle_timeout(at(0));
    assert_eq!(session.phase(), Phase::Over(Closed::Drained));
}

// CAN-12
#[test]
fn a_close_gives_open_requests_up_and_is_over_once_all_is_written() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.call("c", (), None, 1).unwrap();
    session.notify("n", ()).unwrap();
    let mark = session.transmit_queued();
    let mut taken = Vec::new();
    assert!(session.take_transmit(&mut taken));
    session.close(CloseReason::GoingAway);
    assert!(session.is_cancelled(ticket.key()));
    assert_eq!(work(&mut session), ["cancelled"]);
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::Aborted)]);
    assert_eq!(session.respond(ticket, &1), Err(SendError::Closed));
    assert_eq!(session.is_written(mark), Some(false));
    assert!(!session.phase().is_over());
    session.handle_written();
    let why = Closed::Local(CloseReason::GoingAway);
    assert_eq!(session.phase(), Phase::Over(why));
    assert_eq!(session.is_written(mark), Some(true));
    assert_eq!(session.poll_timeout(), None);
}

#[test]
fn nothing_new_is_taken_before_the_last_is_written() {
    let mut session = idle(Config::new());
    session.notify("a", ()).unwrap();
    let mut taken = Vec::new();
    assert!(session.take_transmit(&mut taken));
    session.notify("b", ()).unwrap();
    assert!(!session.has_transmit() && !session.take_transmit(&mut taken));
    session.handle_written();
    assert!(session.has_transmit() && session.take_transmit(&mut taken));
    assert_eq!(taken.iter().filter(|byte| **byte == b'\n').count(), 2);
}

// USE-06
#[test]
fn a_stream_that_begins_like_http_is_closed_before_anything_runs() {
    let post = format!("POST / HTTP/1.1\r\nHost: a\r\n\r\n{M1}\n");
    for size in [1, 3, post.len()] {
        let mut config = SessionConfig::from(Config::new());
        config.refuse_http = true;
        let mut session = idle(config);
        for piece in post.as_bytes().chunks(size) {
            session.handle_input(piece);
        }
        let seen = work(&mut session);
        assert!(
            matches!(&seen[..], [one] if one.starts_with("report: an HTTP request")),
            "{seen:?}"
        );
        let why = Closed::Local(CloseReason::PeerMisbehaved);
        assert_eq!(session.phase(), Phase::Over(why));
    }
    let mut config = SessionConfig::from(Config::new());
    config.refuse_http = true;
    let mut session = idle(config);
    line(&mut session, M1);
    assert_eq!(work(&mut session), ["request m"]);
}

#[test]
fn a_failed_read_and_a_peer_that_is_gone_end_it_at_once() {
    let mut session = idle(Config::new());
    session.call("c", (), None, 1).unwrap();
    output(&mut session);
    session.handle_read_failed(io::Error::from(io::ErrorKind::ConnectionReset));
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::Aborted)]);
    assert!(session.phase().is_over() && session.fault().is_some());

    let mut session = idle(Config::new());
    line(&mut session, M1);
    session.handle_input(N.as_bytes());
    session.handle_peer_gone(None);
    assert!(session.phase().is_over() && session.fault().is_none());
    // The request had not begun, and nobody awaits its answer.
    assert_eq!(work(&mut session), ["notification n"]);
}

#[test]
fn an_abort_is_over_whatever_waits() {
    let mut session = idle(Config::new());
    session.notify("n", ()).unwrap();
    session.take_transmit(&mut Vec::new());
    session.notify("n", ()).unwrap();
    session.abort(Some(io::Error::from(io::ErrorKind::Other).into()));
    assert!(session.phase().is_over() && !session.has_transmit());
    // A fault after the end is no fault.
    session.abort(None);
    session.handle_read_failed(io::Error::from(io::ErrorKind::Other));
    assert_eq!(work(&mut session).len(), 1);
}

#[test]
fn one_message_at_a_time_where_the_transport_has_messages() {
    let mut config = Config::new();
    config.framing = Framing::Messages;
    let mut session: Session<u32> = Session::new(config.into(), Wire::Messages, at(0));
    session.handle_input(M1.as_bytes());
    session.handle_input(M2.as_bytes());
    let (one, two) = (request(&mut session), request(&mut session));
    session.respond(one, &1).unwrap();
    session.respond(two, &2).unwrap();
    let mut taken = Vec::new();
    assert!(session.take_transmit(&mut taken));
    assert_eq!(taken, br#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    session.handle_written();
    taken.clear();
    assert!(session.take_transmit(&mut taken));
    assert_eq!(taken, br#"{"jsonrpc":"2.0","result":2,"id":2}"#);
    session.handle_eof();
    session.handle_written();
    assert_eq!(work(&mut session).len(), 0);
    assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput));
}

#[test]
fn large_input_leaves_no_large_buffer_behind() {
    let mut session = idle(Config::new());
    let large = format!(
        r#"{{"jsonrpc":"2.0","method":"n","params":["{}"]}}"#,
        "x".repeat(200_000)
    );
    for piece in large.as_bytes().chunks(1000) {
        session.handle_input(piece);
    }
    assert!(session.rest.capacity() >= large.len());
    session.handle_input(b"\n");
    assert_eq!(work(&mut session), ["notification n"]);
    assert_eq!(session.rest.capacity(), 0);
}

/// `O` opens, `C` closes, and a message is its length in one byte before it.
#[derive(Debug, Default)]
struct Bytes {
    is_open: bool,
    is_closing: bool,
    has_closed: bool,
    begun: VecDeque<u8>,
    out: Vec<u8>,
    due: Option<Instant>,
    has_ended: bool,
    is_late: bool,
    is_eof: bool,
    restarts: usize,
}

const SIZE_MAX: usize = 120;

impl Layer for Bytes {
    fn handle_time(&mut self, _: Instant) {}

    fn handle_timeout(&mut self, now: Instant) {
        self.is_late |= self.due.is_some_and(|due| due <= now);
    }

    fn restart_times(&mut self, _: Instant) {
        self.restarts += 1;
    }

    fn poll_event(&mut self, input: &mut &[u8]) -> Option<LayerEvent> {
        self.begun.extend(core::mem::take(input));
        if core::mem::take(&mut self.is_late) {
            self.due = None;
            return Some(LayerEvent::Notify("beat"));
        }
        let first = match self.begun.front() {
            _ if self.has_ended => return None,
            Some(first) => *first,
            None if self.is_eof => {
                self.has_ended = true;
                let lost = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Some(LayerEvent::Ended(LayerEnd::Lost(lost.into())));
            }
            None => return None,
        };
        match first {
            b'O' if !self.is_open => {
                self.begun.pop_front();
                self.is_open = true;
                let mut handshake = Handshake::new();
                handshake.target = Some("/there".into());
                Some(LayerEvent::Opened(handshake))
            }
            0xff => {
                self.has_ended = true;
                if !self.is_closing {
                    self.out.push(0xff);
                }
                self.has_closed = true;
                Some(LayerEvent::Ended(if self.is_closing {
                    LayerEnd::Local
                } else {
                    LayerEnd::Peer(None)
                }))
            }
            0xfe => {
                self.has_ended = true;
                let fault = io::Error::other("a byte of another kind");
                Some(LayerEvent::Ended(LayerEnd::Misbehaved(fault.into())))
            }
            len if usize::from(len) > SIZE_MAX => {
                self.begun.clear();
                Some(LayerEvent::Oversize(u64::from(len)))
            }
            len if self.begun.len() > usize::from(len) => {
                let message = self.begun.drain(..=usize::from(len)).skip(1).collect();
                Some(LayerEvent::Message(String::from_utf8(message).unwrap()))
            }
            _ => None,
        }
    }

    fn handle_half_close(&mut self) -> Option<Fault> {
        self.is_open
            .then(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
    }

    fn handle_eof(&mut self) {
        self.is_eof = true;
    }

    fn is_closed(&self) -> bool {
        self.is_closing || self.has_closed
    }

    fn hear(&mut self, method: &str) -> crate::websocket::Heartbeat {
        match method {
            "ping" => crate::websocket::Heartbeat::Answer("pong"),
            "pong" => crate::websocket::Heartbeat::Heard,
            _ => crate::websocket::Heartbeat::Deliver,
        }
    }

    fn may_send(&self) -> bool {
        self.is_open && !self.is_closing
    }

    fn send(&mut self, message: &[u8], into: &mut Vec<u8>) -> bool {
        into.push(u8::try_from(message.len()).unwrap());
        into.extend_from_slice(message);
        true
    }

    fn close(&mut self, _: Closed) {
        if !self.is_closing {
            self.is_closing = true;
            if !self.has_closed {
                self.out.push(0xff);
            }
        }
    }

    fn take_transmit(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.out);
    }

    fn has_transmit(&self) -> bool {
        !self.out.is_empty()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn is_over(&self) -> bool {
        self.has_ended && self.out.is_empty()
    }
}

fn layered(layer: Bytes) -> Session<u32> {
    let mut config = Config::new();
    config.framing = Framing::Messages;
    Session::new(config.into(), Wire::Layered(Box::new(layer)), at(0))
}

fn framed(message: &str) -> Vec<u8> {
    let len = u8::try_from(message.len()).unwrap();
    [&[len], message.as_bytes()].concat()
}

fn raw_output(session: &mut Session<u32>) -> Vec<u8> {
    let mut written = Vec::new();
    while session.take_transmit(&mut written) {
        session.handle_written();
    }
    written
}

#[test]
fn through_a_layer_messages_go_both_ways_once_it_is_open() {
    let input = [&b"O"[..], &framed(M1), &framed(N), &[0xff]].concat();
    for size in [1, 2, input.len()] {
        let mut session = layered(Bytes::default());
        session.notify("early", ()).unwrap();
        assert_eq!(session.phase(), Phase::Opening);
        assert!(raw_output(&mut session).is_empty());
        let mut seen = Vec::new();
        let mut answer = None;
        for piece in input.chunks(size) {
            session.handle_input(piece);
            while let Some(work) = session.poll_work(true) {
                if let Work::Opened(handshake) = &work {
                    assert_eq!(handshake.target.as_deref(), Some("/there"));
                }
                let (word, ticket) = describe(work);
                seen.push(word);
                answer = answer.or(ticket);
            }
        }
        let wanted: &[_] = if size == input.len() {
            // The close came with the request, before it had begun.
            &["opened", "notification n"]
        } else {
            &["opened", "request m", "notification n", "cancelled"]
        };
        assert_eq!(seen, wanted);
        assert!(session.phase().closed().is_some());
        drop(answer);
        let written = raw_output(&mut session);
        assert_eq!(written.last(), Some(&0xff));
        assert!(session.phase().is_over(), "{:?}", session.phase());
    }
}

#[test]
fn a_layer_closes_when_all_is_written_and_waits_for_the_peers_close() {
    let mut session = layered(Bytes::default());
    session.handle_input(b"O");
    session.notify("last", ()).unwrap();
    session.close(CloseReason::Done);
    let written = raw_output(&mut session);
    assert!(written.len() > 10 && written.last() == Some(&0xff));
    assert!(!session.phase().is_over() && session.wants_input());
    session.handle_input(&[0xff]);
    assert_eq!(
        session.phase(),
        Phase::Over(Closed::Local(CloseReason::Done))
    );
}

#[test]
fn a_peer_that_never_closes_its_layer_is_let_go_of() {
    let mut session = layered(Bytes::default());
    session.handle_input(b"O");
    session.close(CloseReason::Done);
    raw_output(&mut session);
    let due = session.poll_timeout().expect("a deadline");
    session.handle_timeout(due);
    assert!(session.phase().is_over());
}

// USE-11
#[test]
fn a_peer_that_ends_its_direction_below_a_layer_gets_its_answer() {
    let mut session = layered(Bytes::default());
    session.handle_input(&[&b"O"[..], &framed(M1)].concat());
    session.handle_eof();
    let ticket = request(&mut session);
    assert!(session.poll_work(true).is_some(), "the end is reported");
    assert!(session.poll_work(true).is_none());
    session.respond(ticket, &1).unwrap();
    let written = raw_output(&mut session);
    assert!(written.windows(10).any(|bytes| bytes == br#""result":1"#));
}

#[test]
fn a_stream_that_ends_without_a_close_is_a_fault_of_the_transport() {
    let mut session = layered(Bytes::default());
    session.handle_input(b"O");
    session.call("c", (), None, 1).unwrap();
    raw_output(&mut session);
    session.handle_eof();
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::Aborted)]);
    assert!(session.fault().is_some());
    // What fails to be read after that is none.
    let mut session = layered(Bytes::default());
    session.handle_input(b"O");
    session.close(CloseReason::Done);
    session.handle_read_failed(io::Error::from(io::ErrorKind::ConnectionReset));
    assert!(session.fault().is_none());
}

#[test]
fn heartbeats_of_a_layer_are_answered_and_sent_unseen() {
    let due = Some(at(50));
    let mut session = layered(Bytes {
        due,
        ..Bytes::default()
    });
    session.handle_input(b"O");
    let ping = framed(r#"{"jsonrpc":"2.0","method":"ping"}"#);
    let pong = framed(r#"{"jsonrpc":"2.0","method":"pong"}"#);
    session.handle_input(&[ping, pong].concat());
    assert_eq!(work(&mut session), ["opened"]);
    assert!(session.has_heard());
    let written = String::from_utf8_lossy(&raw_output(&mut session)).into_owned();
    assert!(written.contains("pong"), "{written}");
    assert_eq!(session.poll_timeout(), Some(at(50)));
    session.handle_timeout(at(50));
    let written = String::from_utf8_lossy(&raw_output(&mut session)).into_owned();
    assert!(written.contains("beat"), "{written}");
}

#[test]
fn what_a_layer_may_not_take_closes_it_with_a_report() {
    let mut session = layered(Bytes::default());
    session.handle_input(b"O\xc8");
    assert!(session.phase().closed().is_some());
    assert!(work(&mut session)[1].starts_with("report: a refused message"));
    let mut session = layered(Bytes::default());
    session.handle_input(b"O\xfe");
    assert_eq!(work(&mut session)[1], "report: a byte of another kind",);
    let why = Closed::Local(CloseReason::PeerMisbehaved);
    assert_eq!(session.phase().closed(), Some(why));
}

#[test]
fn a_key_is_forgotten_once_its_request_is_answered() {
    let mut session = idle(lsp_cancels());
    for _ in 0..3 {
        line(&mut session, M1);
        let ticket = request(&mut session);
        let key: RequestKey = ticket.key();
        line(&mut session, CANCEL_1);
        assert!(session.is_cancelled(key));
        session.respond(ticket, &1).unwrap();
        assert!(!session.is_cancelled(key));
        assert!(session.cancelled.is_empty());
    }
    assert_eq!(work(&mut session), ["cancelled"]);
}
