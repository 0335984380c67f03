//! More messages arrive than the service can handle. Most tests are named after the fault, and assert
//! that it is gone.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon::{Config, Framing};
use antiphon_net::ConnectionConfig;
use antiphon_net::websocket::WebSocketConfig;
use antiphon_regressions::board::{Server, notification, request};
use antiphon_regressions::frames::{OPENING, PING, PONG, TEXT, masked, read, read_head};
use antiphon_regressions::raw::Raw;
use antiphon_regressions::served::{EVERYWHERE, Listener, On, Served};

const KIB: usize = 1024;

fn options(max_queued_bytes: usize) -> ConnectionConfig {
    let mut options = ConnectionConfig::from(Config::new());
    options.max_queued_bytes = max_queued_bytes;
    options
}

/// A notification with so many bytes of params.
fn change(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"change\",\"params\":[\"{text}\"]}}\n")
}

/// Sends messages, and counts them, until all are sent or the other side has gone.
fn flood(to: TcpStream, message: String, times: usize) -> (Arc<AtomicUsize>, JoinHandle<()>) {
    flood_with(to, std::iter::repeat_n(message.into_bytes(), times))
}

fn flood_with(
    mut to: TcpStream,
    pieces: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> (Arc<AtomicUsize>, JoinHandle<()>) {
    let sent = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&sent);
    let sending = thread::spawn(move || {
        for piece in pieces {
            if to.write_all(&piece).is_err() {
                return;
            }
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (sent, sending)
}

/// Waits until nothing is taken for 150 ms, or all is sent.
fn wait_stalled(sent: &AtomicUsize, sending: &JoinHandle<()>) {
    let mut before = usize::MAX;
    while !sending.is_finished() {
        let now = sent.load(Ordering::SeqCst);
        if now == before {
            return;
        }
        before = now;
        thread::sleep(Duration::from_millis(150));
    }
}

// USE-02 SRV-24
#[test]
fn notifications_behind_a_slow_one_were_dropped() {
    for on in EVERYWHERE {
        for max_messages in [16_384, 3] {
            let mut options = options(64 * KIB);
            options.max_queued_messages = max_messages;
            let server = Server::start(on, options);
            let mut peer = server.connect();
            peer.send_line(&notification("slowly"));
            server.board.wait_note("slowly begun", 1);
            let times = 100;
            let (sent, sending) = flood(peer.sender(), change(256 * KIB), times);
            wait_stalled(&sent, &sending);
            assert!(!sending.is_finished(), "{on:?}: reading pauses");
            server.board.open();
            server.board.wait_note("change", times);
            sending.join().expect("it does not panic");
            let notes = server.board.notes();
            assert!(!notes.iter().any(|note| note.contains("report")), "{on:?}");
            // The connection goes on.
            peer.send_line(&request("version", 1));
            assert!(peer.line().contains(r#""id":1"#), "{on:?}");
        }
    }
}

// USE-02
#[test]
fn a_request_that_found_no_room_was_answered_busy() {
    for on in EVERYWHERE {
        let server = Server::start(on, options(KIB));
        let mut peer = server.connect();
        peer.send_line(&notification("slowly"));
        server.board.wait_note("slowly begun", 1);
        let times = 100;
        let lines: String = (0..times).map(|id| request("version", id) + "\n").collect();
        peer.send(lines);
        server.board.open();
        for _ in 0..times {
            let line = peer.line();
            assert!(line.contains("result"), "{on:?} {line}");
        }
    }
}

// USE-02
#[test]
fn a_call_was_not_answered_while_reading_was_paused() {
    for on in EVERYWHERE {
        let server = Server::start(on, options(1024 * KIB));
        let mut peer = server.connect();
        peer.send_line(&notification("slowly asks"));
        server.board.wait_note("slowly begun", 1);
        // One and a half times what may wait: reading pauses, and once the call is open, goes on without
        // reaching twice the limit, at which the connection would end.
        let (sent, sending) = flood(peer.sender(), change(16 * KIB), 96);
        wait_stalled(&sent, &sending);
        server.board.open();
        let call = peer.line();
        assert!(call.contains("callback"), "{on:?} {call}");
        sending.join().expect("it does not panic");
        peer.send_line(r#"{"jsonrpc":"2.0","result":7,"id":1}"#);
        server.board.wait_note("asked: Ok(7)", 1);
        server.board.wait_note("change", 96);
    }
}

// USE-02 USE-17
#[test]
fn with_a_call_open_the_queue_ran_over_without_a_word() {
    for on in EVERYWHERE {
        let server = Server::start(on, options(64 * KIB));
        let mut peer = server.connect();
        peer.send_line(&request("asks", 1));
        assert!(peer.line().contains("callback"), "{on:?}");
        peer.send_line(&notification("slowly"));
        server.board.wait_note("slowly begun", 1);
        let (_, sending) = flood(peer.sender(), change(256 * KIB), 1000);
        // Ends when the server ends the connection.
        sending.join().expect("it does not panic");
        server.board.open();
        let report = "report: too much waits for the service while a call is open: \
                      the connection was ended";
        server.board.wait_note(report, 1);
        let closed = r#"closed: Local(Other("too much waits for the service"))"#;
        server.board.wait_note(closed, 1);
    }
}

// USE-02 WSK-03
#[test]
fn pings_that_came_while_reading_was_paused_are_answered_afterwards() {
    for on in EVERYWHERE {
        let options = options(64 * KIB).with_websocket(WebSocketConfig::server());
        let server = Server::start(on, options);
        let mut peer = Raw::connect(server.address());
        peer.send(OPENING);
        let mut stream = peer.sender();
        let head = read_head(&mut stream).expect("an answer");
        assert!(head.starts_with("HTTP/1.1 101"), "{on:?} {head}");
        peer.send(masked(TEXT, notification("slowly").as_bytes()));
        server.board.wait_note("slowly begun", 1);
        // Each message is followed by a ping, and far more comes than the socket holds.
        let times = 400;
        let text = masked(TEXT, change(60 * KIB).as_bytes());
        let pieces = (0..times).map(move |n| {
            let ping = masked(PING, n.to_string().as_bytes());
            [text.as_slice(), &ping].concat()
        });
        let (sent, sending) = flood_with(peer.sender(), pieces);
        wait_stalled(&sent, &sending);
        assert!(!sending.is_finished(), "{on:?}: reading pauses");
        server.board.open();
        // RFC 6455 clause 5.5.3: of several pings, only the last need be answered.
        let mut answered = None;
        while answered != Some(times - 1) {
            let (first, payload) = read(&mut stream).expect("the connection lives");
            assert_eq!(first, PONG, "{on:?} after {answered:?}");
            let text = String::from_utf8(payload).expect("digits");
            let ping = text.parse::<usize>().expect("digits");
            assert!(answered < Some(ping), "{on:?}: {ping} after {answered:?}");
            answered = Some(ping);
        }
        sending.join().expect("it does not panic");
        server.board.wait_note("change", times);
        // The connection goes on.
        peer.send(masked(TEXT, request("version", 1).as_bytes()));
        let (first, answer) = read(&mut stream).expect("an answer");
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            first == TEXT && answer.contains(r#""id":1"#),
            "{on:?} {answer}"
        );
        let notes = server.board.notes();
        assert!(!notes.iter().any(|note| note.contains("report")), "{on:?}");
    }
}

/// A server with nothing but defaults, but for the configuration of the protocol.
fn served(on: antiphon_regressions::served::On, config: Config) -> (Served, Raw) {
    let server = Served::start(on, Listener::Tcp(config.into()));
    let peer = Raw::connect(server.address());
    (server, peer)
}

// USE-45
#[test]
fn a_client_that_sent_many_requests_and_read_a_second_later_was_cut_off() {
    for on in EVERYWHERE {
        let (_server, mut peer) = served(on, Config::new());
        let (text, times) = ("x".repeat(KIB), 20_000);
        let lines = (0..times).map(move |id| {
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"{text}\"],\"id\":{id}}}\n"
            );
            line.into_bytes()
        });
        let (_, sending) = flood_with(peer.sender(), lines);
        thread::sleep(Duration::from_secs(1));
        for answered in 0..times {
            let line = peer.line();
            // On threads the reading thread may be 1280 requests ahead of the service: the limit.
            let is_busy = on == On::Threads && line.contains("-32002");
            assert!(
                is_busy || line.contains("result"),
                "{on:?} after {answered}: {line}"
            );
        }
        sending.join().expect("it does not panic");
    }
}

// USE-45
#[test]
fn long_answers_to_a_client_that_read_later_were_lost_with_their_connection() {
    for on in EVERYWHERE {
        let (_server, mut peer) = served(on, Config::new());
        // 50 answers of 900 KB: nearly three times the hard limit of the output.
        let (text, times) = ("x".repeat(900 * KIB), 50);
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"{text}\"],\"id\":1}}\n"
        );
        let (_, sending) = flood(peer.sender(), line, times);
        thread::sleep(Duration::from_millis(500));
        for answered in 0..times {
            let line = peer.line();
            assert!(line.contains("result"), "{on:?} after {answered}");
        }
        sending.join().expect("it does not panic");
    }
}

// USE-31
#[test]
fn a_batch_of_large_errors_passed_the_limit_of_its_answer_or_ended_the_connection() {
    for on in EVERYWHERE {
        for items in [100, 400] {
            let config = Config::new().max_batch_items(items);
            let (server, mut peer) = served(on, config);
            let requests: Vec<String> = (0..items)
                .map(|id| {
                    format!(r#"{{"jsonrpc":"2.0","method":"fail","params":[60000],"id":{id}}}"#)
                })
                .collect();
            peer.send_line(&format!("[{}]", requests.join(",")));
            let line = peer.line();
            let max_bytes = config.limits.max_batch_reply_bytes;
            assert!(line.len() <= max_bytes + 1, "{on:?}: {} bytes", line.len());
            let answers: Vec<serde_json::Value> = serde_json::from_str(&line).expect("a batch");
            assert_eq!(answers.len(), items);
            for answer in &answers {
                assert_eq!(answer["error"]["code"], 1, "{on:?} {answer}");
                assert_eq!(answer["error"]["message"], "failed", "{on:?}");
            }
            let whole = answers
                .iter()
                .filter(|answer| answer["error"]["data"].is_string());
            assert!((60..70).contains(&whole.count()), "{on:?}");
            server.report("an error was sent without its data");
            // The connection goes on.
            peer.send_line(&request("echo", 1));
            assert!(peer.line().contains("result"), "{on:?}");
        }
    }
}

// CON-09
#[test]
fn what_a_handler_said_of_its_progress_in_a_drain_was_dropped_although_its_answer_was_sent() {
    for on in EVERYWHERE {
        let server = Server::start(on, Config::new().into());
        let mut peer = server.connect();
        peer.send_line(&request("drains", 1));
        let lines = [peer.line(), peer.line()];
        assert!(lines[0].contains("progress"), "{on:?} {lines:?}");
        assert!(lines[1].contains("drained"), "{on:?} {lines:?}");
        server.board.wait_note("progress: Ok(())", 1);
    }
}

// USE-47
#[test]
fn a_server_for_whole_messages_wrote_them_into_a_stream_without_a_boundary() {
    for on in EVERYWHERE {
        let (server, peer) = served(on, Config::new().framing(Framing::Messages));
        // The server may have ended the connection already.
        let _ = peer.sender().write_all(request("echo", 1).as_bytes());
        server.report("Framing::Messages");
        assert_eq!(server.ran(), 0, "{on:?}");
        peer.end();
    }
}
