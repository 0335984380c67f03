//! The order in which messages are handled, whatever waits. Some tests are named after the fault, and
//! assert that it is gone.

use antiphon::Config;
use antiphon::session::Order;
use antiphon_net::{ConnectionConfig, Pool};
use antiphon_regressions::board::{Server, notification, request};
use antiphon_regressions::served::{EVERYWHERE, On};

/// Options under which so many requests may run at once, on tasks and on threads.
fn max_running(config: Config, max_running_requests: usize) -> ConnectionConfig {
    let mut options = ConnectionConfig::from(config);
    options.max_running_requests = max_running_requests;
    options.pool = Pool::new(max_running_requests, 1024);
    options
}

fn answer(id: usize, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#)
}

/// The core answers this line by itself: when its error comes back, all that was sent before it has
/// been read.
const GARBAGE: &str = "?";
const PARSE_ERROR: &str =
    r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;

// USE-01
#[test]
fn a_notification_overtook_a_request_that_waited_for_a_place() {
    for on in EVERYWHERE {
        for running in [1, 64] {
            let server = Server::start(on, max_running(Config::new(), running));
            let mut peer = server.connect();
            peer.send_line(&request("then", 1000));
            let mut lines = [peer.line(), peer.line()];
            lines.sort();
            assert!(lines[0].contains("callback"), "{on:?} {lines:?}");
            for id in 0..running {
                peer.send_line(&request("slow", id));
            }
            server.board.wait_note("slow", running);
            peer.send_line(&request("version", running));
            peer.send_line(&notification("change"));
            peer.send_line(&request("version", running + 1));
            // The answer to the server's call does not wait for these messages. Once it has settled the
            // call, the notes show which of them have been served.
            peer.send_line(r#"{"jsonrpc":"2.0","result":7,"id":1}"#);
            server.board.wait_note("settled", 1);
            let notes = server.board.notes();
            assert!(!notes.iter().any(|note| note == "change"), "{on:?}");
            server.board.open();
            let lines: Vec<_> = (0..running + 2).map(|_| peer.line()).collect();
            // On threads, `version` runs on a thread of the pool, and may count only after `change`.
            if on != On::Threads {
                assert!(lines.contains(&answer(running, "[0]")), "{on:?} {lines:?}");
            }
            assert!(
                lines.contains(&answer(running + 1, "[1]")),
                "{on:?} {lines:?}"
            );
        }
    }
}

// USE-01
#[test]
fn the_answer_that_a_handler_awaits_waited_behind_requests_without_a_place() {
    for on in EVERYWHERE {
        let server = Server::start(on, max_running(Config::new(), 1));
        let mut peer = server.connect();
        peer.send_line(&request("asks", 1));
        let call = peer.line();
        assert!(call.contains("callback"), "{on:?} {call}");
        peer.send_line(&request("version", 2));
        peer.send_line(&notification("change"));
        peer.send_line(r#"{"jsonrpc":"2.0","result":7,"id":1}"#);
        // The handler that waits has given its place back, so the next request may be answered first.
        let mut lines = [peer.line(), peer.line()];
        lines.sort_by_key(|line| line.ends_with(r#""id":2}"#));
        let [asked, version] = lines;
        assert_eq!(asked, answer(1, "[7]"), "{on:?}");
        let is_first = version == answer(2, "[0]");
        // On threads, `version` runs on a thread of the pool, and may count only after `change`.
        assert!(is_first || on == On::Threads, "{on:?} {version}");
        server.board.wait_note("change", 1);
    }
}

// USE-01 USE-03
#[test]
fn a_request_cancelled_while_it_waits_for_a_place_never_begins() {
    for on in EVERYWHERE {
        let server = Server::start(on, max_running(Config::acp(antiphon::AcpVersion::V1), 1));
        let mut peer = server.connect();
        peer.send_line(&request("slow", 1));
        server.board.wait_note("slow", 1);
        peer.send_line(&request("version", 2));
        peer.send_line(&notification("change"));
        peer.send_line(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#);
        peer.send_line(GARBAGE);
        let cancelled =
            r#"{"jsonrpc":"2.0","error":{"code":-32800,"message":"Request cancelled"},"id":2}"#;
        // The request is answered before or after the garbage, and if after, perhaps also after `slow`.
        let mut lines = vec![peer.line()];
        if lines[0] == PARSE_ERROR {
            server.board.open();
            lines.push(peer.line());
        }
        server.board.open();
        lines.push(peer.line());
        assert!(
            lines.iter().any(|line| line == cancelled),
            "{on:?} {lines:?}"
        );
        server.board.wait_note("change", 1);
        let notes = server.board.notes();
        assert!(!notes.iter().any(|note| note == "version"), "{on:?}");
    }
}

fn ordered(order: Order) -> ConnectionConfig {
    let mut options = ConnectionConfig::from(Config::new());
    options.order = order;
    options
}

// SRV-22
#[test]
fn in_serial_order_nothing_begins_before_what_came_before_it_is_answered() {
    for on in EVERYWHERE {
        let server = Server::start(on, ordered(Order::Serial));
        let mut peer = server.connect();
        peer.send_line(&request("slow", 0));
        server.board.wait_note("slow", 1);
        peer.send_line(&format!(
            "[{},{},{}]",
            request("version", 1),
            notification("change"),
            request("version", 2)
        ));
        peer.send_line(&notification("change"));
        peer.send_line(&request("version", 3));
        peer.send_line(GARBAGE);
        // All of it has come in, and nothing of it begins.
        assert_eq!(peer.line(), PARSE_ERROR, "{on:?}");
        let noted = || {
            let notes = server.board.notes().into_iter();
            notes
                .filter(|note| !note.starts_with("report"))
                .collect::<Vec<_>>()
        };
        assert_eq!(noted(), ["slow"], "{on:?}");
        server.board.open();
        assert_eq!(peer.line(), answer(0, r#"["slow"]"#), "{on:?}");
        let batch = format!("[{},{}]", answer(1, "[0]"), answer(2, "[1]"));
        assert_eq!(peer.line(), batch, "{on:?}");
        assert_eq!(peer.line(), answer(3, "[2]"), "{on:?}");
        let expected = ["slow", "version", "change", "version", "change", "version"];
        assert_eq!(noted(), expected, "{on:?}");
    }
}

// SRV-22
#[test]
fn in_free_order_nothing_waits_for_a_notification() {
    for on in EVERYWHERE {
        let server = Server::start(on, ordered(Order::Free));
        let mut peer = server.connect();
        peer.send_line(&notification("slowly"));
        peer.send_line(&request("version", 1));
        peer.send_line(&notification("change"));
        peer.send_line(&request("version", 2));
        if on == On::Threads {
            // The thread of the service runs one handler at a time.
            server.board.wait_note("slowly begun", 1);
            server.board.open();
            let lines = [peer.line(), peer.line()];
            assert!(
                lines.iter().all(|line| line.contains("result")),
                "{lines:?}"
            );
            continue;
        }
        assert_eq!(peer.line(), answer(1, "[0]"), "{on:?}");
        assert_eq!(peer.line(), answer(2, "[1]"), "{on:?}");
        server.board.open();
        server.board.wait_note("slowly", 1);
    }
}
