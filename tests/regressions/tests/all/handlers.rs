//! What happens to handlers when their answer is not awaited any more.
//!
//! Most tests are named after the fault, and assert that it is gone.

use std::time::{Duration, Instant};

use antiphon::{AcpVersion, Config, McpRevision};
use antiphon_net::ConnectionConfig;
use antiphon_regressions::LONG;
use antiphon_regressions::board::{Server, request};
use antiphon_regressions::served::{EVERYWHERE, On};

/// The note that a handler of `slow` leaves when it ends early.
fn ended(on: On) -> &'static str {
    match on {
        On::Threads => "slow cancelled",
        On::Tasks(_) => "slow dropped",
    }
}

/// Well below the 30 s for which a handler was kept.
const SOON: Duration = Duration::from_secs(15);

// USE-22
#[test]
fn a_handler_learnt_nothing_for_thirty_seconds_after_its_peer_had_gone() {
    for config in [Config::lsp(), Config::mcp(McpRevision::V2025_11_25)] {
        let config = config.framing(antiphon::Framing::Newline);
        for on in EVERYWHERE {
            assert!(SOON < LONG);
            let server = Server::start(on, ConnectionConfig::from(config));
            let mut peer = server.connect();
            peer.send_line(&request("slow", 1));
            server.board.wait_note("slow", 1);
            let begun = Instant::now();
            drop(peer);
            server.board.wait_note(ended(on), 1);
            assert!(begun.elapsed() < SOON, "{on:?}");
        }
    }
}

// USE-22
#[test]
fn a_handler_that_is_done_within_the_drain_is_answered_after_the_end_of_input() {
    for on in EVERYWHERE {
        let config = Config::mcp(McpRevision::V2025_11_25);
        let server = Server::start(on, ConnectionConfig::from(config));
        let mut peer = server.connect();
        peer.send_line(&request("slow", 1));
        server.board.wait_note("slow", 1);
        peer.end();
        server.board.open();
        let answer = r#"{"jsonrpc":"2.0","result":["slow"],"id":1}"#;
        assert_eq!(peer.line(), answer, "{on:?}");
    }
}

// USE-22 USE-03
#[test]
fn a_cancelled_handler_was_left_running_and_its_request_unanswered() {
    for on in EVERYWHERE {
        let config = Config::acp(AcpVersion::V1);
        let server = Server::start(on, ConnectionConfig::from(config));
        let mut peer = server.connect();
        peer.send_line(&request("slow", 1));
        server.board.wait_note("slow", 1);
        peer.send_line(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
        let line = peer.line();
        assert!(
            line.contains("-32800") && line.contains(r#""id":1"#),
            "{on:?} {line}"
        );
        server.board.wait_note(ended(on), 1);
    }
}

// USE-22
#[test]
fn a_reset_was_no_news_to_a_handler() {
    for on in EVERYWHERE {
        // By default a drain takes 30 s.
        let server = Server::start(on, ConnectionConfig::from(Config::new()));
        let mut peer = server.connect();
        peer.send_line(&request("slow", 1));
        server.board.wait_note("slow", 1);
        // The error that answers this is never read, so the end is a reset.
        peer.send_line(&request("nobody", 2));
        let begun = Instant::now();
        peer.reset();
        server.board.wait_note(ended(on), 1);
        assert!(begun.elapsed() < SOON, "{on:?}");
    }
}

// USE-03 USE-17
#[test]
fn under_mcp_a_cancelled_request_was_answered_with_an_error_for_the_handler() {
    for on in EVERYWHERE {
        let config = Config::mcp(McpRevision::V2025_11_25);
        let server = Server::start(on, ConnectionConfig::from(config));
        let mut peer = server.connect();
        peer.send_line(&request("answers when cancelled", 1));
        server.board.wait_note("begun", 1);
        peer.send_line(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        );
        server.board.wait_note("answered: Ok(())", 1);
        peer.send_line(&request("version", 2));
        assert_eq!(
            peer.line(),
            r#"{"jsonrpc":"2.0","result":[0],"id":2}"#,
            "{on:?}"
        );
    }
}
