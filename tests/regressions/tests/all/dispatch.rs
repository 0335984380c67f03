//! How many requests of a server run and wait, on all of its connections together.

use antiphon::Config;
use antiphon_net::{ConnectionConfig, Dispatcher};
use antiphon_regressions::board::{Server, request};
use antiphon_regressions::raw::Raw;
use antiphon_regressions::served::EVERYWHERE;

fn limited(max_running: usize, max_waiting: usize) -> ConnectionConfig {
    let mut options = ConnectionConfig::from(Config::new());
    options.dispatcher = Dispatcher::new(max_running, max_waiting);
    options
}

fn answer(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":["counted"],"id":{id}}}"#)
}

// SRV-22 SRV-23 TST-11
#[test]
fn connections_together_never_run_more_than_the_server_may() {
    const CONNECTIONS: usize = 6;
    const REQUESTS: usize = 30;
    for on in EVERYWHERE {
        for limit in [1, 4] {
            let options = limited(limit, 1024);
            let server = Server::start(on, options);
            let mut peers: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
            for peer in &mut peers {
                for id in 0..REQUESTS / 2 {
                    peer.send_line(&request("counted", id));
                }
                let batch: Vec<_> = (REQUESTS / 2..REQUESTS)
                    .map(|id| request("counted", id))
                    .collect();
                peer.send_line(&format!("[{}]", batch.join(",")));
            }
            server.board.wait_note("counted", limit);
            server.board.open();
            for peer in &mut peers {
                let mut lines: Vec<_> = (0..=REQUESTS / 2).map(|_| peer.line()).collect();
                lines.sort();
                let mut expected: Vec<_> = (0..REQUESTS / 2).map(answer).collect();
                let batch: Vec<_> = (REQUESTS / 2..REQUESTS).map(answer).collect();
                expected.push(format!("[{}]", batch.join(",")));
                expected.sort();
                assert_eq!(lines, expected, "{on:?}");
            }
            assert_eq!(server.board.most(), limit, "{on:?}");
            // A handler on a thread is counted as running until a moment after its answer.
            server.wait_idle();
        }
    }
}

// SRV-24
#[test]
fn beyond_what_may_wait_at_a_server_requests_are_answered_busy() {
    for on in EVERYWHERE {
        let server = Server::start(on, limited(1, 2));
        let mut first = server.connect();
        first.send_line(&request("counted", 1));
        server.board.wait_note("counted", 1);
        let mut second = server.connect();
        second.send_line(&request("counted", 2));
        second.send_line(&request("counted", 3));
        second.send_line(&request("counted", 4));
        let busy = r#"{"jsonrpc":"2.0","error":{"code":-32002,"message":"Server busy"},"id":4}"#;
        assert_eq!(second.line(), busy, "{on:?}");
        let mut third = server.connect();
        third.send_line(&request("counted", 5));
        assert_eq!(third.line(), busy.replace("4}", "5}"), "{on:?}");
        server.board.open();
        assert_eq!(first.line(), answer(1), "{on:?}");
        assert_eq!(
            [second.line(), second.line()],
            [answer(2), answer(3)],
            "{on:?}"
        );
        third.send_line(&request("counted", 6));
        assert_eq!(third.line(), answer(6), "{on:?}");
        let refused =
            "report: a request was refused, because the service has no capacity: counted (id 5)";
        let notes = server.board.notes();
        assert!(
            notes.iter().any(|note| note.starts_with(refused)),
            "{on:?} {notes:?}"
        );
    }
}

// CAN-11 SRV-23
#[test]
fn a_request_cancelled_while_it_waits_for_a_place_of_the_server_never_begins() {
    for on in EVERYWHERE {
        let server = Server::start(on, limited(1, 10));
        let mut first = server.connect();
        first.send_line(&request("counted", 1));
        server.board.wait_note("counted", 1);
        let mut second = server.connect();
        second.send_line(&request("panics", 2));
        second.send_line(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#);
        let cancelled =
            r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Request cancelled"},"id":2}"#;
        assert_eq!(second.line(), cancelled, "{on:?}");
        // The cancelled request no longer waits; another one does.
        second.send_line(&request("counted", 3));
        server.board.open();
        assert_eq!(
            (first.line(), second.line()),
            (answer(1), answer(3)),
            "{on:?}"
        );
        let notes = server.board.notes();
        assert!(
            !notes.iter().any(|note| note.contains("panic")),
            "{on:?} {notes:?}"
        );
    }
}

// SEC-14 SRV-23
#[test]
fn a_connection_that_is_gone_keeps_no_place_and_nobody_waiting() {
    for on in EVERYWHERE {
        let server = Server::start(on, limited(1, 10));
        let mut first = server.connect();
        first.send_line(&request("counted", 1));
        server.board.wait_note("counted", 1);
        let mut gone = server.connect();
        gone.send_line(&request("counted", 2));
        let mut last = server.connect();
        last.send_line(&request("counted", 3));
        server.wait_waiting(2);
        // The error that answers this comes at once and is never read, so the end is a reset.
        gone.send_line("?");
        gone.reset();
        server.wait_waiting(1);
        server.board.open();
        assert_eq!(
            (first.line(), last.line()),
            (answer(1), answer(3)),
            "{on:?}"
        );
    }
}

// SRV-23 TST-11
#[test]
fn requests_over_http_together_never_run_more_than_the_server_may() {
    for on in EVERYWHERE {
        let server = Server::start_http(on, limited(2, 3));
        let mut peers: Vec<_> = (0..6).map(|_| server.connect()).collect();
        for (id, peer) in peers.iter_mut().enumerate() {
            let body = request("counted", id);
            let length = body.len();
            peer.send(format!(
                "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            ));
            // Each has begun or waits before the next is sent; the last is refused.
            match id {
                0 | 1 => server.board.wait_note("counted", id + 1),
                2..5 => server.wait_waiting(id - 1),
                _ => {}
            }
        }
        // Two run, three wait, and the last is refused.
        let reply = |peer: &mut Raw| String::from_utf8(peer.rest()).expect("text");
        let busy = reply(&mut peers[5]);
        assert!(
            busy.ends_with(r#""message":"Server busy"},"id":5}"#),
            "{on:?} {busy}"
        );
        server.board.open();
        for (id, peer) in peers.iter_mut().enumerate().take(5) {
            let text = reply(peer);
            assert!(text.ends_with(&answer(id)), "{on:?} {text}");
        }
        assert_eq!(server.board.most(), 2, "{on:?}");
    }
}
