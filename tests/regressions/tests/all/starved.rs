//! A request, a connection or a handler that nobody may hold up, forget or bring down. Most tests are named
//! after the fault, and assert that it is gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::service::{AnyRequest, Cx, Decision, Interceptor};
use antiphon::session::{Order, Report};
use antiphon::{Config, ErrorObject, Framing, McpRevision, OwnedError, ProgressStyle, SendError};
use antiphon_net::{Answer, Cancellation, ConnectionConfig, Dispatcher, Peer, Progress, Request};
use antiphon_regressions::LONG;
use antiphon_regressions::board::{Board, Server, request};
use antiphon_regressions::raw::Raw;
use antiphon_regressions::served::{EVERYWHERE, On};

/// What handlers have, kept by the test after they are gone.
#[derive(Default)]
struct Kept {
    stop: Option<Cancellation>,
    progress: Option<Progress<Step>>,
    request: Option<Request>,
}

/// A step of progress, which MCP tells as an object.
type Step = BTreeMap<&'static str, u32>;

type Shelf = Arc<Mutex<Kept>>;

/// Starts a server whose handlers put what they have on the shelf. `work` runs until it is cancelled,
/// `quick` answers, and `split` leaves the answer to a thread of its own.
fn server_with_shelf(on: On, config: Config, shelf: &Shelf) -> Server {
    let board = Board::default();
    let keep = |name: &'static str| {
        let (shelf, board) = (Arc::clone(shelf), board.clone());
        move |stop: Cancellation, progress: Progress<Step>| {
            let mut kept = shelf.lock().unwrap();
            (kept.stop, kept.progress) = (Some(stop), Some(progress));
            drop(kept);
            board.note(name);
        }
    };
    let (work, quick) = (keep("work"), keep("quick"));
    let split = {
        let (shelf, board) = (Arc::clone(shelf), board.clone());
        move |request: &Request| {
            let answering = request.defer();
            // This one has no right to answer.
            shelf.lock().unwrap().request = Some(request.clone());
            thread::spawn(move || {
                assert!(answering.cancellation().wait(LONG), "it is cancelled");
                // The peer may be gone.
                let _ = answering.err(&ErrorObject::new(-32800, "Request cancelled"));
            });
            board.note("split");
            Ok(Answer::deferred())
        }
    };
    let threads = antiphon_blocking::Router::new()
        .method("work", [], {
            let work = work.clone();
            move |stop: Cancellation, progress: Progress<Step>| {
                work(stop.clone(), progress);
                assert!(stop.wait(LONG), "it is cancelled");
                Err::<(), _>(OwnedError::new(-32800, "Request cancelled"))
            }
        })
        .method("quick", [], quick.clone())
        .raw("split", split.clone());
    let tasks = antiphon_net::Router::new()
        .method("work", [], {
            move |stop: Cancellation, progress: Progress<Step>| {
                work(stop, progress);
                std::future::pending::<()>()
            }
        })
        .method("quick", [], quick)
        .raw("split", split);
    Server::start_as(on, config.into(), false, &board, threads, tasks)
}

/// The dialects that have a cancel, with the cancel of request 1.
fn dialects() -> [(Config, &'static str); 3] {
    let lsp = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;
    let mcp = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    [
        (Config::new(), lsp),
        (Config::lsp().framing(Framing::Newline), lsp),
        (Config::mcp(McpRevision::V2025_11_25), mcp),
    ]
}

/// A request, and for progress where the dialect has it.
fn asking(config: &Config, method: &str, id: usize) -> String {
    let token = match config.dialect.progress {
        ProgressStyle::Lsp => r#"{"workDoneToken":7}"#,
        ProgressStyle::Mcp => r#"{"_meta":{"progressToken":7}}"#,
        _ => return request(method, id),
    };
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{token},"id":{id}}}"#)
}

/// Waits until the answer of a request has been sent, if there is one: every message before `nobody` has
/// been handled when that is answered.
fn pass(peer: &mut Raw, id: usize) -> Vec<String> {
    peer.send_line(&request("nobody", id));
    let mut lines = Vec::new();
    loop {
        let line = peer.line();
        if line.ends_with(&format!(r#""id":{id}}}"#)) {
            return lines;
        }
        lines.push(line);
    }
}

// USE-27
#[test]
fn a_cancel_was_forgotten_by_work_that_went_on_after_the_answer() {
    for (config, cancel) in dialects() {
        for on in EVERYWHERE {
            let shelf = Shelf::default();
            let server = server_with_shelf(on, config, &shelf);
            let mut peer = server.connect();
            peer.send_line(&asking(&config, "work", 1));
            server.board.wait_note("work", 1);
            let kept = |shelf: &Shelf| shelf.lock().unwrap().stop.clone().unwrap();
            assert!(!kept(&shelf).is_cancelled(), "{on:?}");
            peer.send_line(cancel);
            let lines = pass(&mut peer, 2);
            let is_silent = matches!(config.dialect.cancel_answer, antiphon::CancelAnswer::Silent);
            assert_eq!(lines.len(), usize::from(!is_silent), "{on:?} {lines:?}");
            // The request has been answered, or needs no answer, and the work still knows.
            assert!(kept(&shelf).is_cancelled(), "{on:?} {config:?}");
            assert!(
                kept(&shelf).wait(Duration::from_secs(5)),
                "{on:?} {config:?}"
            );
            // The request's slot is used again, by a request that is not cancelled.
            peer.send_line(&asking(&config, "quick", 3));
            assert!(peer.line().contains("result"), "{on:?}");
            assert!(!kept(&shelf).is_cancelled(), "{on:?}");
        }
    }
}

// USE-27
#[test]
fn a_cancel_was_forgotten_by_a_request_that_somebody_else_answers() {
    for (config, cancel) in dialects() {
        for on in EVERYWHERE {
            let shelf = Shelf::default();
            let server = server_with_shelf(on, config, &shelf);
            let mut peer = server.connect();
            peer.send_line(&asking(&config, "split", 1));
            server.board.wait_note("split", 1);
            peer.send_line(cancel);
            pass(&mut peer, 2);
            let request = shelf.lock().unwrap().request.take().unwrap();
            let due = Instant::now() + LONG;
            while request.id().is_some() {
                assert!(Instant::now() < due, "{on:?}: it is answered");
                thread::yield_now();
            }
            assert!(request.is_cancelled(), "{on:?} {config:?}");
            assert!(request.cancellation().is_cancelled(), "{on:?} {config:?}");
        }
    }
}

// USE-27
#[test]
fn the_end_of_the_connection_is_a_cancel_for_work_that_went_on_after_the_answer() {
    for on in EVERYWHERE {
        let shelf = Shelf::default();
        let server = server_with_shelf(on, Config::new(), &shelf);
        let mut peer = server.connect();
        peer.send_line(&request("quick", 1));
        assert!(peer.line().contains("result"), "{on:?}");
        let stop = shelf.lock().unwrap().stop.take().unwrap();
        assert!(!stop.is_cancelled(), "{on:?}");
        drop(peer);
        assert!(stop.clone().wait(LONG), "{on:?}");
        assert!(stop.is_cancelled(), "{on:?}");
    }
}

// USE-27
#[test]
fn progress_was_sent_after_the_answer() {
    for (config, cancel) in dialects().into_iter().skip(1) {
        for on in EVERYWHERE {
            let shelf = Shelf::default();
            let server = server_with_shelf(on, config, &shelf);
            let mut peer = server.connect();
            for (id, method) in [(1, "work"), (3, "quick")] {
                peer.send_line(&asking(&config, method, id));
                server.board.wait_note(method, 1);
                let progress = shelf.lock().unwrap().progress.take().unwrap();
                if method == "work" {
                    progress.send(&Step::from([("progress", 1)])).unwrap();
                    let line = peer.line();
                    assert!(line.contains("rogress"), "{on:?} {line}");
                    peer.send_line(cancel);
                    pass(&mut peer, 2);
                } else {
                    assert!(peer.line().contains("result"), "{on:?}");
                }
                let sent = progress.send(&Step::from([("progress", 2)]));
                assert_eq!(sent, Err(SendError::NotOpen), "{on:?} {method}");
                assert_eq!(pass(&mut peer, 4), [""; 0], "{on:?} {method}");
            }
        }
    }
}

/// Soon enough for a call that nothing holds up, on a busy machine. What held it up lasted 30 s.
const SOON: Duration = Duration::from_secs(5);

/// Calls a method on a connection of its own, and returns how long that took.
fn time_of_call(server: &Server, method: &str) -> Duration {
    let mut peer = server.connect();
    let begun = Instant::now();
    peer.send_line(&request(method, 1));
    let line = peer.line();
    assert!(line.contains("result"), "{line}");
    begun.elapsed()
}

fn defaults() -> ConnectionConfig {
    Config::new().into()
}

// USE-28
#[test]
fn one_connection_whose_calls_it_never_answers_took_all_places() {
    for on in EVERYWHERE {
        for asks in [64, 300] {
            let server = Server::start(on, defaults());
            let mut peer = server.connect();
            for id in 0..asks {
                peer.send_line(&request("asks", id));
            }
            // On threads no connection has more than half of the pool's threads.
            for _ in 0..asks.min(128) {
                assert!(peer.line().contains("callback"), "{on:?}");
            }
            let took = time_of_call(&server, "version");
            assert!(took < SOON, "{on:?} {asks} {took:?}");
        }
    }
}

// USE-28
#[test]
fn many_clients_with_one_waiting_handler_each_took_all_places() {
    for on in EVERYWHERE {
        let server = Server::start(on, defaults());
        let mut peers: Vec<_> = (0..100).map(|_| server.connect()).collect();
        for peer in &mut peers {
            peer.send_line(&request("asks", 1));
            assert!(peer.line().contains("callback"), "{on:?}");
        }
        let took = time_of_call(&server, "version");
        assert!(took < SOON, "{on:?} {took:?}");
    }
}

// USE-28
#[test]
fn asks_that_wait_for_each_other_ran_out_of_places() {
    const NESTED: usize = 128;
    for on in EVERYWHERE {
        let server = Server::start(on, defaults());
        let mut peer = server.connect();
        let mut calls = Vec::new();
        // The peer asks something back before it answers, again and again.
        for id in 0..NESTED {
            peer.send_line(&request("asks", id));
            let call = peer.line();
            assert!(call.contains("callback"), "{on:?} {call}");
            let (_, number) = call.rsplit_once(r#""id":"#).unwrap();
            calls.push(number.trim_end_matches('}').to_owned());
        }
        for number in calls.iter().rev() {
            peer.send_line(&format!(r#"{{"jsonrpc":"2.0","result":7,"id":{number}}}"#));
            let line = peer.line();
            assert!(line.contains(r#""result":[7]"#), "{on:?} {line}");
        }
        server.wait_idle();
    }
}

// USE-28
#[test]
fn clients_that_ended_their_direction_kept_all_places() {
    for on in EVERYWHERE {
        let server = Server::start(on, defaults());
        let mut peers: Vec<_> = (0..5).map(|_| server.connect()).collect();
        for peer in &mut peers {
            for id in 0..256 {
                peer.send_line(&request("slow", id));
            }
            peer.end();
        }
        server
            .board
            .wait_note("slow", if on == On::Threads { 64 } else { 1024 });
        let took = time_of_call(&server, "version");
        assert!(took < SOON, "{on:?} {took:?}");
        // What was asked is answered nevertheless.
        server.board.open();
        let lines: Vec<_> = (0..64).map(|_| peers[0].line()).collect();
        let answered = lines.iter().filter(|line| line.contains("result")).count();
        assert!(answered > 0, "{on:?} {lines:?}");
    }
}

// USE-28 SRV-22
#[test]
fn clients_that_ended_their_direction_ran_as_many_handlers_as_they_liked() {
    let tasks = EVERYWHERE.into_iter().filter(|on| *on != On::Threads);
    for on in tasks {
        let small = || {
            let mut options = defaults();
            options.dispatcher = Dispatcher::new(4, 1024);
            options
        };
        for (options, max_running, clients, requests) in
            [(small(), 4, 6, 20), (defaults(), 1024, 10, 256)]
        {
            let server = Server::start(on, options);
            let mut peers = Vec::new();
            for _ in 0..clients {
                let mut peer = server.connect();
                for id in 0..requests {
                    peer.send_line(&request("counted", id));
                }
                peer.end();
                peers.push(peer);
            }
            server.board.wait_note("counted", max_running + 1);
            // Before the server has heard of all ends, it may be busy.
            let begun = Instant::now();
            loop {
                let mut peer = server.connect();
                peer.send_line(&request("version", 1));
                let line = peer.line();
                if line.contains("result") {
                    break;
                }
                assert!(begun.elapsed() < SOON, "{on:?} {line}");
            }
            for _ in 0..5 {
                let took = time_of_call(&server, "version");
                assert!(took < SOON, "{on:?} {took:?}");
            }
            // Everything is answered, although some handlers had no place when their clients ended.
            server.board.open();
            let mut busy = Vec::new();
            for mut peer in peers {
                let lines = String::from_utf8(peer.rest()).expect("text");
                assert_eq!(lines.lines().count(), requests, "{on:?} {lines}");
                let is_busy = |line: &&str| line.contains("Server busy");
                let answered = lines.lines().filter(|line| line.contains("result"));
                busy.push(lines.lines().filter(is_busy).count());
                assert_eq!(
                    answered.count() + busy[busy.len() - 1],
                    requests,
                    "{on:?} {lines}"
                );
            }
            assert!(busy.contains(&0), "{on:?} {busy:?}");
            server.wait_idle();
            assert!(server.board.most() <= 2 * max_running, "{on:?}");
        }
    }
}

// USE-28 SRV-22
#[test]
fn clients_that_were_gone_left_handlers_on_threads_that_counted_for_nobody() {
    let mut options = defaults();
    options.config.timeouts.drain_timeout = Some(Duration::from_millis(100));
    options.dispatcher = Dispatcher::new(2, 1024);
    let server = Server::start(On::Threads, options);
    for round in 0..4 {
        let peers = [(); 4].map(|()| {
            let mut peer = server.connect();
            peer.send_line(&request("counted", round));
            peer.end();
            peer
        });
        // A handler on a thread runs on when its connection is gone.
        for mut peer in peers {
            assert_eq!(peer.rest(), b"");
        }
        server.board.wait_note("counted", 2);
    }
    server.wait_waiting(0);
    server.board.open();
    server.wait_idle();
    assert!(server.board.most() <= 4, "{}", server.board.most());
}

// USE-28 SRV-22
#[test]
fn a_client_that_ends_its_direction_while_a_handler_on_threads_asks_it_took_a_place_for_ever() {
    let mut options = defaults();
    options.dispatcher = Dispatcher::new(1, 64);
    let dispatcher = options.dispatcher.clone();
    let ask = |peer: antiphon_blocking::Peer| {
        let asked = peer.call::<u32>("callback", ()).wait();
        Ok::<_, OwnedError>(asked.is_err())
    };
    let router = antiphon_blocking::Router::new().method("ask", [], ask);
    let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let running = server.start(options, router.into_make_service());
    let _running = running.expect("a thread");
    for round in 0..200 {
        let mut peer = Raw::connect(address);
        peer.send_line(&request("ask", 1));
        let call = peer.line();
        assert!(call.contains("callback"), "{call}");
        peer.end();
        peer.rest();
        let due = Instant::now() + LONG;
        while dispatcher.running() > 0 {
            assert!(Instant::now() < due, "round {round}: {dispatcher:?}");
            thread::yield_now();
        }
    }
}

// USE-28
#[test]
fn a_client_that_ends_its_direction_when_too_many_have_done_so_is_answered_busy() {
    let tasks = EVERYWHERE.into_iter().filter(|on| *on != On::Threads);
    for on in tasks {
        let mut options = defaults();
        options.dispatcher = Dispatcher::new(1, 1024);
        let server = Server::start(on, options);
        let mut peers = [server.connect(), server.connect(), server.connect()];
        for (id, peer) in peers.iter_mut().enumerate() {
            // The second request waits for the first.
            peer.send_line(&request("slow", id));
            peer.send_line(&request("version", 10 + id));
            // Each begins when the one before has ended its direction.
            server.board.wait_note("slow", id + 1);
            if id < 2 {
                peer.end();
            }
        }
        let [mut first, mut second, mut third] = peers;
        server.board.wait_note("slow dropped", 1);
        let line = second.line();
        assert!(
            line.contains("Server busy") && line.ends_with(r#""id":1}"#),
            "{on:?} {line}"
        );
        assert_eq!(server.dispatcher.running(), 2, "{on:?}");
        server.board.open();
        let line = second.line();
        assert!(line.contains("result"), "{on:?} {line}");
        for peer in [&mut first, &mut third] {
            for _ in 0..2 {
                let line = peer.line();
                assert!(line.contains("result"), "{on:?} {line}");
            }
        }
        server.wait_idle();
    }
}

// USE-28
#[test]
fn a_client_that_sends_much_and_ends_its_direction_is_answered_beside_others() {
    let tasks = EVERYWHERE.into_iter().filter(|on| *on != On::Threads);
    for on in tasks {
        let mut options = defaults();
        options.dispatcher = Dispatcher::new(2, 1024);
        let server = Server::start(on, options);
        let mut peer = server.connect();
        for id in 0..100 {
            peer.send_line(&request("counted", id));
        }
        peer.end();
        server.board.wait_note("counted", 2);
        for _ in 0..10 {
            let took = time_of_call(&server, "version");
            assert!(took < SOON, "{on:?} {took:?}");
        }
        server.board.open();
        for _ in 0..100 {
            let line = peer.line();
            assert!(line.contains("result"), "{on:?} {line}");
        }
        server.wait_idle();
        assert!(server.board.most() <= 2, "{on:?} {}", server.board.most());
    }
}

// USE-28
#[test]
fn one_connection_with_slow_handlers_took_all_places_and_all_room_to_wait() {
    for on in EVERYWHERE {
        let server = Server::start(on, defaults());
        let mut peer = server.connect();
        // On threads all wait behind the first.
        for id in 0..256 {
            peer.send_line(&request("counted", id));
        }
        for id in 256..1280 {
            peer.send_line(&request("slow", id));
        }
        // The core refuses this one by itself, so the others have come.
        peer.send_line(&request("nobody", 1280));
        let busy = peer.line();
        assert!(
            busy.contains("Server busy") && busy.contains("1280"),
            "{on:?} {busy}"
        );
        let took = time_of_call(&server, "version");
        assert!(took < SOON, "{on:?} {took:?}");
    }
    // On threads, work on the pool.
    let server = Server::start(On::Threads, defaults());
    let mut peer = server.connect();
    for id in 0..1000 {
        peer.send_line(&request("slow", id));
    }
    server.board.wait_note("slow", 64);
    let took = time_of_call(&server, "version");
    assert!(took < SOON, "{took:?}");
}

// SRV-24 SRV-22
#[test]
fn by_default_256_of_a_connection_and_1024_of_a_server_run_and_1024_wait() {
    let tasks = EVERYWHERE.into_iter().filter(|on| *on != On::Threads);
    for on in tasks {
        let server = Server::start(on, defaults());
        let mut peers: Vec<_> = (0..4).map(|_| server.connect()).collect();
        for peer in &mut peers {
            for id in 0..257 {
                peer.send_line(&request("slow", id));
            }
        }
        server.board.wait_note("slow", 1024);
        server.wait_waiting(4);
        assert_eq!(server.dispatcher.running(), 1024, "{on:?}");
        let mut last = server.connect();
        for id in 0..1021 {
            last.send_line(&request("version", id));
        }
        let busy = last.line();
        assert!(
            busy.contains("Server busy") && busy.ends_with(r#""id":1020}"#),
            "{on:?} {busy}"
        );
        assert_eq!(server.dispatcher.waiting(), 1024, "{on:?}");
        let notes = server.board.notes();
        assert_eq!(
            notes.iter().filter(|note| *note == "slow").count(),
            1024,
            "{on:?}"
        );
        assert!(!notes.iter().any(|note| note == "version"), "{on:?}");
    }
}

/// Panics when it is dropped after a panic elsewhere has poisoned its lock.
struct Bomb(Arc<Mutex<()>>);

impl Drop for Bomb {
    fn drop(&mut self) {
        drop(self.0.lock().unwrap());
    }
}

/// An interceptor that cannot bear a poisoned lock.
#[derive(Clone)]
struct Touchy {
    lock: Arc<Mutex<()>>,
    told: Board,
}

impl<R: AnyRequest + ?Sized> Interceptor<R> for Touchy {
    fn request(&self, cx: &mut Cx, _: &R) -> Decision {
        if cx.attributes().get::<Bomb>().is_none() {
            cx.attributes_mut().insert(Bomb(Arc::clone(&self.lock)));
        }
        Decision::Continue
    }

    fn given_up(&self, _: &Cx, request: &R) {
        self.told.note(format!("given up {}", request.method()));
        drop(self.lock.lock().unwrap());
    }
}

/// Starts a server whose methods panic in every way that reaches a destructor.
fn touchy(on: On) -> Server {
    let board = Board::default();
    let lock = Arc::<Mutex<()>>::default();
    let touchy = Touchy {
        lock: Arc::clone(&lock),
        told: board.clone(),
    };
    let mut options = defaults().intercept(touchy.clone());
    options.call_timeout = None;
    let note = {
        let board = board.clone();
        move |_: &Peer, report: Report| board.note(format!("report: {report}"))
    };
    let panics = {
        let lock = Arc::clone(&lock);
        move || -> Result<(), OwnedError> {
            let _held = lock.lock();
            panic!("as asked");
        }
    };
    let calls = {
        let lock = Arc::clone(&lock);
        move |peer: Peer| -> Result<(), OwnedError> {
            // The call is given up by the panic.
            let _call = peer.call("callback", ()).start().wait();
            let _held = lock.lock();
            panic!("as asked");
        }
    };
    let defers = {
        let lock = Arc::clone(&lock);
        move |request: &Request| {
            let responder = request.defer();
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let _responder = responder;
                let _held = lock.lock();
                panic!("as asked");
            });
            Ok(Answer::deferred())
        }
    };
    macro_rules! router {
        ($router:expr) => {
            $router
                .method("ping", [], || ())
                .method("panics", [], panics.clone())
                .method("calls", [], calls.clone())
                .raw("defers", defers.clone())
                .on_report(note.clone())
                .intercept(touchy.clone())
                .intercept(touchy.clone())
        };
    }
    let threads = router!(antiphon_blocking::Router::new());
    let waiting = board.clone();
    let tasks = router!(antiphon_net::Router::new()).method("waits", [], move || {
        let (bomb, board) = (Bomb(Arc::clone(&lock)), waiting.clone());
        async move {
            board.note("waits");
            std::future::pending::<()>().await;
            drop(bomb);
        }
    });
    Server::start_as(on, options, false, &board, threads, tasks)
}

// USE-30
#[test]
fn an_interceptor_that_panics_in_a_destructor_brought_the_process_down() {
    for on in EVERYWHERE {
        let server = touchy(on);
        let mut peer = server.connect();
        peer.send_line(&request("ping", 1));
        assert!(peer.line().contains("result"), "{on:?}");
        for (id, method) in [(2, "panics"), (3, "calls"), (4, "defers"), (5, "panics")] {
            peer.send_line(&request(method, id));
            if method == "calls" {
                assert!(peer.line().contains("callback"), "{on:?}");
            }
            let line = peer.line();
            assert!(
                line.contains("-32603") && line.contains(&format!(r#""id":{id}"#)),
                "{on:?} {line}"
            );
        }
        // Both interceptors have heard of it, although the first has panicked, and so has the service.
        server.board.wait_note("given up panics", 4);
        server.board.wait_note("given up callback", 1);
        server.board.wait_note("report: the service panicked", 2);
        peer.send_line(&request("ping", 6));
        assert!(peer.line().contains("result"), "{on:?}");
        let took = time_of_call(&server, "ping");
        assert!(took < SOON, "{on:?} {took:?}");
    }
}

// USE-30
#[test]
fn handlers_that_panic_when_they_are_dropped_with_their_connection_brought_the_process_down() {
    let tasks = EVERYWHERE.into_iter().filter(|on| *on != On::Threads);
    for on in tasks {
        let server = touchy(on);
        let mut peer = server.connect();
        for id in 0..4 {
            peer.send_line(&request("waits", id));
        }
        server.board.wait_note("waits", 4);
        peer.send_line(&request("panics", 4));
        peer.reset();
        server.board.wait_note("given up waits", 8);
        let took = time_of_call(&server, "ping");
        assert!(took < SOON, "{on:?} {took:?}");
    }
}

/// Notes that it is dropped, and panics.
struct Noisy(Board);

impl Drop for Noisy {
    fn drop(&mut self) {
        self.0.note("dropped");
        panic!("as asked");
    }
}

// USE-30
#[test]
fn a_notification_that_panics_when_it_is_dropped_kept_the_others_from_being_dropped() {
    let tasks = EVERYWHERE.into_iter().filter(|on| *on != On::Threads);
    for on in tasks {
        let board = Board::default();
        let waiting = board.clone();
        let router = antiphon_net::Router::new().notification("waits", [], move || {
            let (noisy, board) = (Noisy(waiting.clone()), waiting.clone());
            async move {
                board.note("waits");
                std::future::pending::<()>().await;
                drop(noisy);
            }
        });
        let mut options = ConnectionConfig::from(Config::lsp().framing(Framing::Newline));
        options.order = Order::Free;
        let server = Server::start_as(on, options, false, &board, board.clone(), router);
        let mut peer = server.connect();
        for _ in 0..4 {
            peer.send_line(r#"{"jsonrpc":"2.0","method":"waits"}"#);
        }
        board.wait_note("waits", 4);
        peer.send_line(r#"{"jsonrpc":"2.0","method":"exit"}"#);
        peer.end();
        board.wait_note("dropped", 4);
    }
}
