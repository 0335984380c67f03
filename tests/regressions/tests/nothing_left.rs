//! What clients of a web endpoint that go away leave behind: no place, no descriptor, and no memory. It counts for the
//! whole process, so it is a program of its own, and its tests take turns.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon_net::http::Refusal;
use antiphon_net::{ConnectionConfig, Context, Dispatcher};
use antiphon_regressions::LONG;
use antiphon_regressions::frames::OPENING;
use antiphon_regressions::served::{EVERYWHERE, Listener, OnePort, Served, User};
use antiphon_test_support::heap::{Counting, held_by_process};

#[global_allocator]
static ALLOCATOR: Counting = Counting::of_process();

static TURN: Mutex<()> = Mutex::new(());

/// How many descriptors more may be open than before the first round, which opens what a runtime keeps.
const SPARE_DESCRIPTORS: usize = 8;

/// How many bytes more may be held than after the first round: buffers of threads, and tables that have grown.
const SPARE_BYTES: i64 = 32 * 1024;

/// How many descriptors this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc").count()
}

/// Runs rounds. After each of them no place is taken and no descriptor is open, and after all but the first no more
/// bytes are held than after that.
fn rounds(count: usize, server: &Served, dispatcher: &Dispatcher, mut round: impl FnMut()) {
    let (open, mut first) = (descriptors() + SPARE_DESCRIPTORS, i64::MAX - SPARE_BYTES);
    for n in 0..count {
        round();
        let due = Instant::now() + LONG;
        let mut now = (dispatcher.running(), descriptors(), held_by_process());
        // What a runtime drops a little later is awaited.
        while now.0 > 0 || now.1 > open || now.2 > first + SPARE_BYTES {
            let is_late = Instant::now() > due;
            assert!(
                !is_late,
                "{server:?}, round {n}: {now:?}, at most {open} and {first}"
            );
            thread::sleep(Duration::from_millis(5));
            // The test keeps what is reported.
            server.forget_reports();
            now = (dispatcher.running(), descriptors(), held_by_process());
        }
        if n == 0 {
            thread::sleep(Duration::from_millis(200));
            server.forget_reports();
            first = held_by_process();
        }
    }
}

fn connected(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("it reads");
    stream
}

/// Reads until this text has come.
fn until(stream: &mut TcpStream, text: &str) {
    let (mut come, mut byte) = (Vec::new(), [0]);
    while !come.ends_with(text.as_bytes()) {
        stream.read_exact(&mut byte).expect("it comes in time");
        come.push(byte[0]);
    }
}

// web.md §5
// USE-14 SEC-10
#[test]
fn clients_that_close_streams_in_the_middle_leave_nothing_behind() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let body = r#"{"jsonrpc":"2.0","method":"stream","params":[60000],"id":1}"#;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for on in EVERYWHERE {
        let mut options = ConnectionConfig::from(Config::new());
        options.dispatcher = Dispatcher::new(300, 0);
        let dispatcher = options.dispatcher.clone();
        let server = Served::start(on, Listener::Http(Box::new(options.into())));
        rounds(5, &server, &dispatcher, || {
            let ask = |_| {
                let mut client = connected(server.address(), &request);
                until(&mut client, "told");
                client
            };
            let clients: Vec<_> = (0..25).map(ask).collect();
            server.wait_running(25);
            drop(clients);
            server.wait_running(0);
        });
    }
}

fn check(context: &Context) -> Result<User, Refusal> {
    match context.header("authorization") {
        Some(_) => Ok(User("Ada".into())),
        None => Err(Refusal::unauthorized("Bearer")),
    }
}

// web.md §5
// USE-12 SEC-10
#[test]
fn a_thousand_upgrades_refused_and_accepted_at_once_leave_nothing_behind() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let refused = OPENING.to_owned();
    let accepted = OPENING.replace("\r\n\r\n", "\r\nAuthorization: x\r\n\r\n");
    for on in EVERYWHERE {
        let mut options = ConnectionConfig::from(Config::new());
        options.dispatcher = Dispatcher::new(300, 0);
        let dispatcher = options.dispatcher.clone();
        let web = OnePort::new(options).check(check);
        let server = Served::start(on, Listener::Web(Box::new(web)));
        rounds(3, &server, &dispatcher, || {
            let made = server.made();
            let ask = |n: usize| {
                let request = if n % 2 == 0 { &refused } else { &accepted };
                connected(server.address(), request)
            };
            let mut clients: Vec<_> = (0..1000).map(ask).collect();
            for (n, client) in clients.iter_mut().enumerate() {
                let status = if n % 2 == 0 { "401" } else { "101" };
                until(client, &format!("HTTP/1.1 {status} "));
            }
            // A service is made after its answer has been written.
            let due = Instant::now() + LONG;
            while server.made() - made != 500 {
                let made = server.made() - made;
                assert!(Instant::now() < due, "{on:?}: {made}");
                thread::sleep(Duration::from_millis(5));
            }
        });
    }
}
