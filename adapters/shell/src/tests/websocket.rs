//! A whole session over a WebSocket: its messages, and how it ends.

// Frames made by hand, of which not all are needed here.
#[path = "../../../websocket/tests/websocket/support.rs"]
#[allow(dead_code)]
mod support;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::session::Work;
use crate::session::{Carries, Session};
use crate::{
    ConnectionConfig, Context, Peer, PendingCall, Request, Responder, SharedRuntime, block_on,
};
use antiphon::session::Report;
use antiphon::websocket::CloseCode;
use antiphon::{CloseReason, Closed, Config, Instant, OwnedOutcome};
use antiphon_websocket::{WebSocketConfig, WebSocketEnd};

use super::hand::{ByHand, Hand, Turn, next_request, next_work, turn};
use support::{BINARY, FIN, PING, REQUEST, Sent, TEXT, answer, close, frame, header, sent, text};

/// A session, and what moves its bytes and serves it.
struct Side {
    session: Arc<Session>,
    clock: Arc<Hand>,
}

impl Side {
    fn new(config: Config, websocket: WebSocketConfig) -> Self {
        let clock = Arc::new(Hand::default());
        let options = ConnectionConfig::from(config).with_websocket(websocket);
        let mut context = Context::new();
        context.connection = 7;
        let shared: SharedRuntime = clock.clone();
        Self {
            session: Session::new(options, Carries::Bytes, context, shared),
            clock,
        }
    }

    /// A server after its handshake.
    fn server(config: Config) -> Self {
        let side = Self::new(config, WebSocketConfig::server());
        side.receive(REQUEST.as_bytes());
        assert!(side.written().starts_with(b"HTTP/1.1 101 "));
        side
    }

    /// A client after its handshake.
    fn client() -> Self {
        let side = Self::new(Config::new(), WebSocketConfig::client("ws://a/").unwrap());
        let request = String::from_utf8(side.written()).unwrap();
        side.receive(answer(&request, "").as_bytes());
        side
    }

    fn peer(&self) -> Peer {
        Peer::unowned(Arc::clone(&self.session))
    }

    fn call(&self, method: &str) -> PendingCall {
        block_on(self.peer().call(method, ()).no_timeout().start()).unwrap()
    }

    fn receive(&self, bytes: &[u8]) {
        self.session.receive(bytes);
    }

    fn wait(&self, millis: u64) -> Turn {
        self.clock.pass(millis);
        self.turn()
    }

    fn turn(&self) -> Turn {
        turn(&self.session)
    }

    /// Takes all output, and reports it as written.
    fn written(&self) -> Vec<u8> {
        let (mut all, mut some) = (Vec::new(), Vec::new());
        while self.session.take_output(&mut some) {
            all.append(&mut some);
            self.session.output_written();
        }
        all
    }

    fn sent(&self) -> Vec<Sent> {
        sent(&self.written())
    }

    fn work(&self) -> Option<Work> {
        next_work(&self.session)
    }

    fn request(&self) -> (Request, Responder) {
        next_request(&self.session)
    }

    fn report(&self) -> Report {
        match self.work() {
            Some(Work::Report(report)) => report,
            other => panic!("no report but {other:?}"),
        }
    }

    /// The end of the WebSocket that is reported next.
    fn reported_end(&self) -> WebSocketEnd {
        let Report::Layer(fault) = self.report() else {
            panic!("not reported");
        };
        let end: Option<&WebSocketEnd> = fault.as_error().downcast_ref();
        end.expect("the end of a WebSocket").clone()
    }

    fn closed(&self) -> Option<Closed> {
        self.session.lock().closed()
    }
}

fn request(id: u32) -> Vec<u8> {
    text(&format!(r#"{{"jsonrpc":"2.0","method":"m","id":{id}}}"#))
}

// SRV-33 WSK-07 CON-02
#[test]
fn a_session_opens_with_the_handshake_and_knows_what_was_asked() {
    let side = Side::new(Config::new(), WebSocketConfig::server());
    assert!(!side.session.lock().is_open());
    side.peer().try_notify("early", ()).unwrap();
    assert!(
        side.written().is_empty(),
        "nothing goes out before the handshake"
    );
    side.receive(&REQUEST.as_bytes()[..50]);
    assert!(!side.session.lock().is_open());
    side.receive(&REQUEST.as_bytes()[50..]);
    assert!(side.session.lock().is_open());
    block_on(side.peer().opened()).unwrap();
    let context = Arc::clone(side.session.context());
    assert_eq!(context.connection, 7);
    assert_eq!(context.target.as_deref(), Some("/chat?x=1"));
    assert_eq!(context.header("Origin"), Some("http://localhost"));
    assert_eq!(context.cookie("session"), Some("s3cret"));
    let out = side.written();
    let at = out.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let early = r#"{"jsonrpc":"2.0","method":"early"}"#;
    assert_eq!(sent(&out[at..])[0].text(), early);
}

// CON-03 WSK-07
#[test]
fn calls_made_before_the_handshake_wait_for_it() {
    let side = Side::new(Config::new(), WebSocketConfig::client("ws://a/").unwrap());
    let pending = side.call("early");
    let request = String::from_utf8(side.written()).unwrap();
    assert!(request.ends_with("\r\n\r\n"), "only the handshake");
    side.receive(answer(&request, "").as_bytes());
    let sent = side.sent();
    assert_eq!(
        sent[0].text(),
        r#"{"jsonrpc":"2.0","method":"early","id":1}"#
    );
    assert!(sent[0].is_masked);
    let answered = r#"{"jsonrpc":"2.0","result":5,"id":1}"#;
    side.receive(&frame(FIN | TEXT, answered.as_bytes(), false));
    assert!(matches!(block_on(pending), OwnedOutcome::Ok(five) if five.as_str() == "5"));
}

// WSK-02 TRN-07
#[test]
fn each_answer_is_a_frame_of_its_own() {
    let side = Side::server(Config::new());
    side.receive(&[request(1), request(2)].concat());
    let ((_, first), (_, second)) = (side.request(), side.request());
    second.ok("two").unwrap();
    first.ok("one").unwrap();
    let sent = side.sent();
    let texts: Vec<&str> = sent.iter().map(Sent::text).collect();
    assert_eq!(
        texts,
        [
            r#"{"jsonrpc":"2.0","result":"two","id":2}"#,
            r#"{"jsonrpc":"2.0","result":"one","id":1}"#
        ]
    );
}

// WSK-04 WSK-12
#[test]
fn text_that_is_not_json_is_answered_and_the_connection_stays() {
    let side = Side::server(Config::new());
    side.receive(&[text("{"), text(""), request(1)].concat());
    let sent = side.sent();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|sent| sent.text().contains("-32700")));
    assert!(matches!(side.report(), Report::Malformed { .. }));
    assert!(matches!(side.report(), Report::Malformed { .. }));
    side.request().1.ok(&1).unwrap();
    assert!(side.closed().is_none());
}

// WSK-13
#[test]
fn several_messages_in_a_frame_need_an_array() {
    let side = Side::server(Config::new());
    let one = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
    side.receive(&text(&format!("{one}\n{one}")));
    let sent = side.sent();
    assert!(
        sent.len() == 1 && sent[0].text().contains("-32700"),
        "{sent:?}"
    );
    assert!(matches!(side.report(), Report::Malformed { .. }));
    side.receive(&text(&format!("[{one},{one}]")));
    side.request().1.ok(&1).unwrap();
    assert!(side.sent().is_empty());
    side.request().1.ok(&2).unwrap();
    let answer = r#"[{"jsonrpc":"2.0","result":1,"id":1},{"jsonrpc":"2.0","result":2,"id":1}]"#;
    assert_eq!(side.sent()[0].text(), answer);
}

// WSK-12
#[test]
fn repeated_malformed_messages_close_where_that_is_wanted() {
    let mut config = Config::new();
    config.limits.max_malformed_messages = 2;
    let side = Side::server(config);
    for _ in 0..3 {
        side.receive(&text("{"));
    }
    let sent = side.sent();
    assert_eq!(sent.len(), 4, "each is answered");
    assert_eq!(sent[3].code(), 1008);
}

// WSK-08
#[test]
fn an_oversized_message_is_answered_and_then_closed_with_1009() {
    let side = Side::server(Config::new());
    // One byte more than the default limit.
    side.receive(&[request(1), header(FIN | TEXT, 1_048_577, true)].concat());
    assert!(
        matches!(side.turn(), Turn::Open { .. }),
        "the close has not been written"
    );
    let sent = side.sent();
    let answer = sent[0].text();
    assert!(
        answer.contains("-32600") && answer.contains("\"id\":null"),
        "{answer}"
    );
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].code(), 1009);
    assert_eq!(side.turn(), Turn::Over);
    assert_eq!(
        side.closed(),
        Some(Closed::Local(CloseReason::PeerMisbehaved))
    );
}

// WSK-03 WSK-04 WSK-09 WSK-15
#[test]
fn a_broken_rule_closes_with_its_code_and_is_reported() {
    for (bytes, wanted) in [
        (frame(FIN | BINARY, b"[]", true), 1003),
        (frame(FIN | TEXT, b"\xff", true), 1007),
        // A client's frame that is not masked, and a ping of more than 125 bytes.
        (frame(FIN | TEXT, b"[]", false), 1002),
        (frame(FIN | PING, &[0; 126], true), 1002),
    ] {
        let side = Side::server(Config::new());
        side.receive(&request(1));
        let (_, reply) = side.request();
        let waiting = side.call("back");
        side.receive(&bytes);
        assert!(reply.is_cancelled());
        assert!(reply.ok(&1).is_err(), "nobody waits for it");
        assert!(matches!(block_on(waiting), OwnedOutcome::Unsent));
        let WebSocketEnd::Broken { code, .. } = side.reported_end() else {
            panic!("not reported");
        };
        assert_eq!(code, CloseCode(wanted));
        side.turn();
        let sent = side.sent();
        assert_eq!((sent.len(), sent[0].code()), (1, wanted));
        assert_eq!(side.turn(), Turn::Over);
    }
}

// CON-09 WSK-09
#[test]
fn a_drain_answers_flushes_and_closes_with_1001() {
    let side = Side::server(Config::new());
    side.receive(&request(1));
    let (_, reply) = side.request();
    side.session.drain();
    side.turn();
    assert!(side.sent().is_empty(), "a request is open");
    reply.ok(&1).unwrap();
    side.turn();
    let mut sent = side.sent();
    side.turn();
    sent.extend(side.sent());
    assert_eq!(sent[0].text(), r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    assert_eq!(sent[1].code(), 1001);
    assert!(
        matches!(side.wait(4999), Turn::Open { .. }),
        "their close is awaited"
    );
    side.receive(&close(1001, ""));
    assert_eq!(side.turn(), Turn::Over);
    assert_eq!(side.closed(), Some(Closed::Drained));
}

// CON-02 CON-09 WSK-09
#[test]
fn a_client_closes_with_1000_and_waits_so_long_and_no_longer() {
    let side = Side::client();
    let waiting = side.call("slow");
    assert_eq!(side.sent().len(), 1);
    side.peer().close(CloseReason::Done);
    assert!(matches!(block_on(waiting), OwnedOutcome::Aborted));
    side.turn();
    assert_eq!(side.sent()[0].code(), 1000);
    assert!(matches!(side.wait(4999), Turn::Open { .. }));
    assert_eq!(side.wait(1), Turn::Over);
}

// CON-06 WSK-03
#[test]
fn a_close_of_the_peer_settles_and_cancels_everything() {
    let side = Side::server(Config::new());
    side.receive(&request(1));
    let (_, reply) = side.request();
    let waiting = side.call("back");
    side.written();
    side.receive(&close(1000, "bye"));
    assert!(matches!(block_on(waiting), OwnedOutcome::Aborted));
    assert!(reply.is_cancelled() && reply.ok(&1).is_err());
    side.turn();
    let sent = side.sent();
    assert_eq!((sent.len(), sent[0].code()), (1, 1000));
    assert_eq!(side.turn(), Turn::Over);
    assert_eq!(side.closed(), Some(Closed::EndOfInput));
    // After that, an error of the stream is no fault.
    side.session
        .input_ended(Some(io::ErrorKind::ConnectionReset.into()));
    side.session.finished();
    assert!(side.session.lock().fault().is_none());
    while let Some(work) = side.work() {
        assert!(!matches!(work, Work::Report(_)), "{work:?}");
    }
}

// WSK-12
#[test]
fn a_close_that_tells_of_a_failure_is_reported() {
    let side = Side::server(Config::new());
    side.receive(&close(1011, "disk full"));
    let end = side.reported_end();
    assert!(end.to_string().contains("1011") && end.to_string().contains("disk full"));
}

// CON-06 ERR-13
#[test]
fn a_stream_that_ends_without_a_close_is_a_fault() {
    let side = Side::client();
    let waiting = side.call("m");
    side.written();
    side.session.input_ended(None);
    assert!(matches!(block_on(waiting), OwnedOutcome::Aborted));
    let fault = side.session.lock().fault().unwrap();
    assert_eq!(fault.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(side.turn(), Turn::Over);
    assert!(matches!(side.report(), Report::Transport(_)));
}

// CON-07
#[test]
fn a_missing_pong_ends_the_session() {
    let side = Side::client();
    let waiting = side.call("m");
    side.written();
    // A ping after 30 s of silence, and 10 s for its pong.
    side.wait(30_000);
    assert_eq!(side.sent()[0].first, FIN | PING);
    assert!(matches!(side.wait(9_999), Turn::Open { .. }));
    side.wait(1);
    assert!(matches!(block_on(waiting), OwnedOutcome::Aborted));
    let fault = side.session.lock().fault().unwrap();
    assert_eq!(fault.kind(), io::ErrorKind::TimedOut);
    assert_eq!(side.sent()[0].code(), 1011);
    assert_eq!(side.turn(), Turn::Over);
}

// ERR-13 CON-06
#[test]
fn a_refused_handshake_is_a_transport_error_that_names_the_status() {
    let side = Side::new(Config::new(), WebSocketConfig::client("ws://a/").unwrap());
    let waiting = side.call("m");
    side.peer().try_notify("n", ()).unwrap();
    side.written();
    side.receive(b"HTTP/1.1 403 Forbidden\r\n\r\n");
    assert!(
        matches!(block_on(waiting), OwnedOutcome::Unsent),
        "it may be repeated safely"
    );
    assert_eq!(side.turn(), Turn::Over);
    let error = block_on(side.peer().opened()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert!(error.to_string().contains("403 Forbidden"), "{error}");
    assert!(side.written().is_empty());
    assert!(!side.session.lock().is_open());
    let flushed = block_on(side.peer().flush(Duration::ZERO));
    assert!(
        flushed.is_err(),
        "what was not sent does not count as written"
    );
}

// SEC-08
#[test]
fn a_refused_client_never_reaches_the_service() {
    let mut options = WebSocketConfig::server();
    options.web.origins.push("https://app.example".into());
    let side = Side::new(Config::new(), options);
    let foreign = REQUEST.replace("http://localhost", "http://evil.example");
    side.receive(&[foreign.as_bytes(), &request(1)].concat());
    assert!(side.written().starts_with(b"HTTP/1.1 403 "));
    assert!(matches!(
        side.reported_end(),
        WebSocketEnd::Refused {
            status: Some(403),
            ..
        }
    ));
    assert!(side.work().is_none());
    assert_eq!(side.turn(), Turn::Over);
    assert!(!side.session.lock().is_open());
}

// CON-07
#[test]
fn a_handshake_that_never_comes_ends_the_session() {
    let side = Side::new(Config::new(), WebSocketConfig::server());
    let Turn::Open { wake_at } = side.turn() else {
        panic!("over");
    };
    assert_eq!(wake_at, Instant::from_millis(10_000));
    side.wait(10_000);
    assert!(side.written().starts_with(b"HTTP/1.1 408 "));
    assert_eq!(side.turn(), Turn::Over);
}

// CON-01
#[test]
fn a_session_closed_during_its_handshake_says_nothing_more() {
    let side = Side::new(Config::new(), WebSocketConfig::server());
    side.receive(&REQUEST.as_bytes()[..50]);
    side.peer().close(CloseReason::GoingAway);
    assert_eq!(side.turn(), Turn::Over);
    assert!(side.written().is_empty());
}

// WSK-11
#[test]
fn heartbeats_go_to_and_fro_and_not_to_the_service() {
    let every = Some(Duration::from_secs(20));
    let mut options = WebSocketConfig::server();
    options.rules.heartbeat = every;
    let server = Side::new(Config::new(), options);
    server.receive(REQUEST.as_bytes());
    server.written();
    server.receive(&text(r#"{"jsonrpc":"2.0","method":"ping"}"#));
    assert_eq!(
        server.sent()[0].text(),
        r#"{"jsonrpc":"2.0","method":"pong"}"#
    );
    assert!(server.work().is_none());
    server.receive(&text(r#"{"jsonrpc":"2.0","method":"ping","id":1}"#));
    assert_eq!(server.request().0.method(), "ping");

    let mut options = WebSocketConfig::client("ws://a/").unwrap();
    options.rules.heartbeat = every;
    let client = Side::new(Config::new(), options);
    let request = String::from_utf8(client.written()).unwrap();
    client.receive(answer(&request, "").as_bytes());
    for _ in 0..3 {
        client.wait(19_999);
        assert!(client.sent().is_empty());
        client.wait(1);
        assert_eq!(
            client.sent()[0].text(),
            r#"{"jsonrpc":"2.0","method":"ping"}"#
        );
        let pong = br#"{"jsonrpc":"2.0","method":"pong"}"#;
        client.receive(&frame(FIN | TEXT, pong, false));
    }
    assert!(client.work().is_none());
}

// WSK-11
#[test]
fn a_ping_is_an_ordinary_notification_where_heartbeats_are_off() {
    let side = Side::server(Config::new());
    side.receive(&text(r#"{"jsonrpc":"2.0","method":"ping"}"#));
    assert!(matches!(side.work(), Some(Work::Notification(ping)) if ping.method() == "ping"));
    assert!(side.sent().is_empty());
}

// WSK-03
#[test]
fn control_frames_are_not_waited_with_for_messages_that_fill_the_output() {
    let side = Side::server(Config::new());
    for n in 0..3 {
        let big = "x".repeat(100_000);
        side.peer().try_notify("n", &(n, big)).unwrap();
    }
    let mut first = Vec::new();
    assert!(side.session.take_output(&mut first));
    side.receive(&frame(FIN | PING, b"p", true));
    let mut second = Vec::new();
    assert!(!side.session.take_output(&mut second));
    side.session.output_written();
    assert!(side.session.take_output(&mut second));
    let (first, second) = (sent(&first), sent(&second));
    assert_eq!(first.len(), 1, "a piece at a time");
    assert_eq!((second[0].first, second[1].first), (0x8a, FIN | TEXT));
}

// TRN-07
#[test]
fn a_flush_waits_for_the_frames() {
    let side = Side::server(Config::new());
    side.peer().try_notify("n", ()).unwrap();
    let flush = || block_on(side.peer().flush(Duration::ZERO)).map_err(|error| error.kind());
    assert_eq!(flush(), Err(io::ErrorKind::TimedOut));
    let mut out = Vec::new();
    assert!(side.session.take_output(&mut out));
    assert_eq!(
        flush(),
        Err(io::ErrorKind::TimedOut),
        "taken is not written"
    );
    side.session.output_written();
    assert_eq!(flush(), Ok(()));
}
