//! The order in which messages are begun, whatever waits.

use antiphon::Config;
use antiphon_regressions::board::{Server, notification, request};
use antiphon_regressions::served::{EVERYWHERE, On};
use antiphon_session::{Options, Pool};

/// Options under which as many requests run at once, as tasks and as threads.
fn running_max(config: Config, handlers_max: usize) -> Options {
    let mut options = Options::from(config);
    options.handlers_max = handlers_max;
    options.pool = Pool::new(handlers_max, 1024);
    options
}

fn answer(id: usize, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#)
}

/// What the core answers by itself to what is no message: everything before it has come in.
const GARBAGE: &str = "?";
const PARSE_ERROR: &str =
    r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;

// USE-01
#[test]
fn a_notification_overtook_a_request_that_waited_for_a_place() {
    for on in EVERYWHERE {
        for running in [1, 64] {
            let server = Server::start(on, running_max(Config::new(), running));
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
            // The end of a call of ours goes past them, and shows what has been served by then.
            peer.send_line(r#"{"jsonrpc":"2.0","result":7,"id":1}"#);
            server.board.wait_note("settled", 1);
            let notes = server.board.notes();
            assert!(!notes.iter().any(|note| note == "change"), "{on:?}");
            server.board.open();
            let lines: Vec<_> = (0..running + 2).map(|_| peer.line()).collect();
            // A thread has begun before it looks.
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
        let server = Server::start(on, running_max(Config::new(), 1));
        let mut peer = server.connect();
        peer.send_line(&request("asks", 1));
        let call = peer.line();
        assert!(call.contains("callback"), "{on:?} {call}");
        peer.send_line(&request("version", 2));
        peer.send_line(&notification("change"));
        peer.send_line(r#"{"jsonrpc":"2.0","result":7,"id":1}"#);
        assert_eq!(peer.line(), answer(1, "[7]"), "{on:?}");
        let version = peer.line();
        let is_first = version == answer(2, "[0]");
        // A thread has begun before it looks.
        assert!(is_first || on == On::Threads, "{on:?} {version}");
        server.board.wait_note("change", 1);
    }
}

// USE-01 USE-03
#[test]
fn a_request_cancelled_while_it_waits_for_a_place_never_begins() {
    for on in EVERYWHERE {
        let server = Server::start(on, running_max(Config::acp(antiphon::AcpVersion::V1), 1));
        let mut peer = server.connect();
        peer.send_line(&request("slow", 1));
        server.board.wait_note("slow", 1);
        peer.send_line(&request("version", 2));
        peer.send_line(&notification("change"));
        peer.send_line(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#);
        peer.send_line(GARBAGE);
        let cancelled =
            r#"{"jsonrpc":"2.0","error":{"code":-32800,"message":"Request cancelled"},"id":2}"#;
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

// USE-17
#[test]
fn the_connections_of_one_client_had_no_numbers() {
    use antiphon_regressions::LONG;
    use antiphon_session::ClientOptions;
    let server = Server::start(EVERYWHERE[0], Options::from(Config::new()));
    let address = server.address();
    let mut many = ClientOptions::default();
    many.connections = 2;
    let wait_both = |numbers: &dyn Fn() -> Option<u32>| {
        let due = std::time::Instant::now() + LONG;
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < 2 {
            assert!(std::time::Instant::now() < due, "{seen:?}");
            seen.extend(numbers());
            std::thread::yield_now();
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2]);
    };
    let connect = move || antiphon_blocking::Link::tcp(address);
    let client = antiphon_blocking::Client::start(connect, many.clone(), Config::new(), || ());
    let client = client.expect("threads");
    wait_both(&|| client.peer().map(|peer| peer.context().connection));
    for rt in [
        antiphon_regressions::Rt::Tokio,
        antiphon_regressions::Rt::Smol,
    ] {
        let many = many.clone();
        rt.run(|runtime| async move {
            let others = std::sync::Arc::<std::sync::Mutex<Vec<_>>>::default();
            let connect = move || -> antiphon_async::Connecting {
                let (ours, theirs) = antiphon_async::duplex(1024);
                others.lock().expect("nobody panics").push(theirs);
                Box::pin(std::future::ready(Ok(antiphon_async::Link::new(ours))))
            };
            let options = Options::from(Config::new());
            let client = antiphon_async::Client::start(connect, many, options, (), &runtime);
            let client = client.expect("a strategy");
            let due = std::time::Instant::now() + LONG;
            let mut seen = std::collections::BTreeSet::new();
            while seen.len() < 2 {
                assert!(std::time::Instant::now() < due, "{seen:?}");
                seen.extend(client.peer().map(|peer| peer.context().connection));
                antiphon_async::sleep_until(
                    &*runtime,
                    runtime.now() + std::time::Duration::from_millis(1),
                )
                .await;
            }
            assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2]);
        });
    }
}

// USE-01
#[test]
fn a_peer_used_while_its_batch_was_built_hung() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let server = Server::start(EVERYWHERE[0], Options::from(Config::new()));
    let link = antiphon_blocking::Link::tcp(server.address()).expect("it listens");
    let peer = antiphon_blocking::connect(link, Config::new(), ()).expect("threads");
    let built = catch_unwind(AssertUnwindSafe(|| {
        peer.batch(|batch| {
            peer.notify("change", ())?;
            batch.call::<u32>("version", ())
        })
    }));
    let said = built.expect_err("it panics");
    let said = said.downcast_ref::<&str>().copied().unwrap_or_default();
    assert!(said.contains("must not use the peer"), "{said}");
    // The connection is as it was.
    let version: [u32; 1] = peer.call("version", ()).expect("it goes on");
    assert_eq!(version, [0]);
}
