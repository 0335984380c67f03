//! Calls that a client sent a second time, although the server had read them. Most tests are named after
//! the fault, and assert that it is gone.
//!
//! The servers are plain sockets. They count every call whose request they have read whole. A reset
//! proves nothing about what was read: load balancers, crashes and timeouts reset connections whose
//! requests have been read.
//!
//! `a_server_that_ends_connections_at_random_read_a_call_twice` prints its counts. On every runtime it
//! makes 600 calls over HTTP, and as many as `ANTIPHON_SOAK` says if that is set.
//! `no_call_of_a_reconnecting_client_is_read_twice` does the same over TCP.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use antiphon::{Config, ReconnectStrategy, Retry};
use antiphon_net::http::HttpError;
use antiphon_net::tls::Connector;
use antiphon_net::tls::rustls::{self, ServerConfig, ServerConnection, StreamOwned};
use antiphon_net::{CallError, Client, ClientConfig};
use antiphon_regressions::{LONG, Rt, choose_executor, on_every_runtime};
use antiphon_stress::certificates::{ANY, Authority, NAME, Validity};
use futures_util::future::join_all;
use socket2::SockRef;

/// Bytes both ways.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A request as the servers of these tests read it.
struct Asked {
    id: u64,
    /// The first of the params: the number of the call, which is the same however often it is sent.
    call: usize,
}

/// Reads a request whole; none if the connection ends first.
fn request(stream: &mut dyn Stream) -> Option<Asked> {
    let (mut read, mut byte) = (Vec::new(), [0; 1]);
    while !read.ends_with(b"}") {
        match stream.read(&mut byte) {
            Ok(1..) => read.extend_from_slice(&byte),
            _ => return None,
        }
    }
    let text = String::from_utf8(read).expect("a request is text");
    let number = |before: &str| {
        let (_, rest) = text.rsplit_once(before)?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    };
    let call = number(r#""params":["#).expect("a number") as usize;
    let id = number(r#""id":"#).expect("an id");
    Some(Asked { id, call })
}

fn reply(id: u64, head: &str) -> String {
    let body = format!(r#"{{"jsonrpc":"2.0","result":{id},"id":{id}}}"#);
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{head}content-length: {length}\r\n\r\n{body}")
}

/// Makes the system reset the connection when the socket is closed.
fn reset(socket: &TcpStream) {
    let socket = SockRef::from(socket);
    socket.set_linger(Some(Duration::ZERO)).expect("a socket");
}

/// How a server ends the connection over which it has read a call.
#[derive(Clone, Copy, Debug)]
enum End {
    Reset,
    Close,
    /// It ends its stream, and resets the connection a while later.
    CloseThenReset,
}

/// A server that answers the first call of each connection, reads the second and ends the connection.
/// Returns its port, and how often it has read each call.
fn reading(end: End, tls: Option<Arc<ServerConfig>>) -> (u16, Arc<Mutex<Vec<usize>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let read = Arc::<Mutex<Vec<usize>>>::default();
    let seen = Arc::clone(&read);
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let (seen, tls) = (Arc::clone(&seen), tls.clone());
            thread::spawn(move || {
                let handle = socket.try_clone().expect("a handle");
                let mut stream: Box<dyn Stream> = match tls {
                    None => Box::new(socket),
                    Some(config) => {
                        let session = ServerConnection::new(config).expect("a session");
                        Box::new(StreamOwned::new(session, socket))
                    }
                };
                for is_answered in [true, false] {
                    let Some(asked) = request(&mut *stream) else {
                        return;
                    };
                    seen.lock().unwrap().push(asked.call);
                    if is_answered {
                        let reply = reply(asked.id, "");
                        stream.write_all(reply.as_bytes()).expect("a client");
                    }
                }
                if matches!(end, End::CloseThenReset) {
                    handle.shutdown(Shutdown::Write).expect("a client");
                    thread::sleep(Duration::from_millis(20));
                }
                if !matches!(end, End::Close) {
                    reset(&handle);
                }
            });
        }
    });
    (port, read)
}

/// The two configurations of a connection with TLS.
fn tls() -> (Arc<ServerConfig>, Arc<rustls::ClientConfig>) {
    let authority = Authority::new("a");
    let server = authority.strict_server(authority.sign(&[NAME], Validity::Now), ANY);
    let client = authority.client(Some(authority.sign(&["client"], Validity::Now)));
    (server, client)
}

/// An HTTP client on the runtime, over TLS if there is a configuration for it; on threads if there is no
/// runtime.
async fn client(rt: Option<Rt>, port: u16, options: ClientConfig) -> Client {
    let url = match options.tls {
        None => format!("http://127.0.0.1:{port}/"),
        Some(_) => format!("https://{NAME}:{port}/"),
    };
    choose_executor();
    match rt {
        None => antiphon_blocking::connect(url, options, ()),
        Some(Rt::Tokio | Rt::TokioLocal) => antiphon_tokio::connect(url, options, ()).await,
        Some(_) => antiphon_async_std::connect(url, options, ()).await,
    }
    .expect("a client")
}

/// Runs `test` on the runtime, or on this thread if there is none.
fn run<F: Future>(rt: Option<Rt>, test: impl FnOnce() -> F) -> F::Output {
    match rt {
        Some(rt) => rt.run(|_| test()),
        None => antiphon_net::block_on(test()),
    }
}

fn read_and_ended(rt: Option<Rt>) {
    for end in [End::Reset, End::Close, End::CloseThenReset] {
        for is_secure in [false, true] {
            let on = format!("{rt:?} {end:?} secure={is_secure}");
            let (server, config) = tls();
            let (port, read) = reading(end, is_secure.then_some(server));
            run(rt, || async {
                let mut options = ClientConfig::from(Config::new());
                if is_secure {
                    options = options.with_tls(Connector::from(config));
                }
                let client = client(rt, port, options).await;
                let called = client.call::<u64>("look", &[1]).await;
                assert!(called.is_ok(), "{on} {called:?}");
                let lost = client.call::<u64>("pay", &[2]).timeout(LONG / 3).await;
                let lost = lost.expect_err("it was read, and not answered");
                let CallError::Http(lost) = lost else {
                    panic!("{on} {lost:?}")
                };
                assert!(matches!(lost, HttpError::Lost(_)), "{on} {lost:?}");
                assert!(!lost.is_unsent(), "{on}");
            });
            assert_eq!(*read.lock().unwrap(), [1, 2], "{on}");
        }
    }
}

fn a_call_that_was_read_before_a_reset_was_sent_again(rt: Rt) {
    read_and_ended(Some(rt));
}

// USE-26
#[test]
fn a_call_that_was_read_before_a_reset_was_sent_again_on_threads() {
    read_and_ended(None);
}

fn idempotent(rt: Option<Rt>) {
    let (port, read) = reading(End::Reset, None);
    run(rt, || async {
        let options = ClientConfig::from(Config::new()).with_retry(Retry::new());
        let client = client(rt, port, options).await;
        client.call::<u64>("look", &[1]).await.expect("an answer");
        let called = client.call::<u64>("look", &[2]).idempotent().await;
        called.expect("the second attempt is answered");
        let lost = client.call::<u64>("pay", &[3]).await;
        lost.expect_err("a payment is not repeated");
    });
    assert_eq!(*read.lock().unwrap(), [1, 2, 2, 3], "{rt:?}");
}

fn only_the_callers_word_repeats_a_lost_call(rt: Rt) {
    idempotent(Some(rt));
}

// USE-26
#[test]
fn only_the_callers_word_repeats_a_lost_call_on_threads() {
    idempotent(None);
}

/// Lehmer's generator: the numbers are the same in every run.
struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0 * 48_271 % 0x7fff_ffff;
        self.0 % end
    }

    fn pause(&mut self) {
        let micros = self.below(800);
        thread::sleep(Duration::from_micros(micros));
    }
}

/// How many calls the test with random ends makes on each runtime.
fn calls() -> usize {
    let set = std::env::var("ANTIPHON_SOAK").ok();
    set.map_or(600, |set| set.parse().expect("a number of calls"))
}

/// How long a call waits for its answer. A stalled one costs so much.
const PATIENCE: Duration = Duration::from_millis(250);

/// What carries the calls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Over {
    Http,
    Tcp,
}

/// How often the server that ends connections at random has read each call.
type Counts = Arc<Vec<AtomicU32>>;

/// Serves one connection at random until it ends.
fn serve_at_random(mut socket: TcpStream, over: Over, mut random: Random, counts: &Counts) {
    socket.set_nodelay(true).expect("a socket");
    // The client leaves a connection that is stalled, so nothing here waits for ever.
    socket.set_read_timeout(Some(LONG)).expect("a socket");
    let take = |socket: &mut TcpStream| {
        let asked = request(socket)?;
        counts[asked.call].fetch_add(1, Ordering::SeqCst);
        Some(asked.id)
    };
    // Before anything was read, one connection in 50 is closed or reset.
    match random.below(100) {
        0 => return,
        1 => return reset(&socket),
        _ => {}
    }
    loop {
        // A reset before the request has been read whole; sometimes none of it, sometimes a part.
        if random.below(60) == 0 {
            let mut part = vec![0; random.below(40) as usize + 1];
            let _ = socket.peek(&mut [0]);
            if random.below(2) == 0 {
                let _ = socket.read(&mut part);
            }
            return reset(&socket);
        }
        let Some(id) = take(&mut socket) else { return };
        let (whole, closing) = match over {
            Over::Http => (reply(id, ""), reply(id, "connection: close\r\n")),
            Over::Tcp => {
                let line = format!("{{\"jsonrpc\":\"2.0\",\"result\":{id},\"id\":{id}}}\n");
                (line.clone(), line)
            }
        };
        let answer = |socket: &mut TcpStream, text: &str| socket.write_all(text.as_bytes()).is_ok();
        match random.below(40) {
            // Read, and not answered.
            0 => return reset(&socket),
            1 => return,
            2 => {
                // Its stream ends, and it reads on.
                let _ = socket.shutdown(Shutdown::Write);
                while take(&mut socket).is_some() {}
                return;
            }
            3 => {
                let _ = socket.shutdown(Shutdown::Write);
                random.pause();
                return reset(&socket);
            }
            4 => {
                let half = random.below(whole.len() as u64) as usize;
                answer(&mut socket, &whole[..half]);
                match random.below(2) {
                    0 => return,
                    _ => return reset(&socket),
                }
            }
            // It stalls; one in 400, because each costs the client its patience.
            5 if random.below(10) == 0 => {
                (0..16).find(|_| take(&mut socket).is_none());
                return;
            }
            // Answered, and ended in one way or another, at once or while the connection is idle.
            6 => {
                answer(&mut socket, &closing);
                return;
            }
            7 => {
                answer(&mut socket, &whole);
                return;
            }
            8 => {
                answer(&mut socket, &whole);
                random.pause();
                return;
            }
            9 => {
                answer(&mut socket, &whole);
                random.pause();
                return reset(&socket);
            }
            10 => {
                answer(&mut socket, &whole);
                let _ = socket.shutdown(Shutdown::Write);
                while take(&mut socket).is_some() {}
                return;
            }
            11 => {
                // It reads the next call, and resets the connection then.
                answer(&mut socket, &whole);
                take(&mut socket);
                return reset(&socket);
            }
            _ if answer(&mut socket, &whole) => {}
            _ => return,
        }
    }
}

/// Starts a server that ends its connections at random, and counts how often it reads each call.
fn at_random(over: Over, calls: usize) -> (u16, Counts) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let counts: Counts = Arc::new((0..calls).map(|_| AtomicU32::new(0)).collect());
    let seen = Arc::clone(&counts);
    thread::spawn(move || {
        let mut random = Random(1);
        while let Ok((socket, _)) = listener.accept() {
            let (seen, random) = (Arc::clone(&seen), Random(random.below(0x7fff_fffe) + 1));
            thread::spawn(move || serve_at_random(socket, over, random, &seen));
        }
    });
    (port, counts)
}

/// How many calls ended in each way.
#[derive(Debug, Default)]
struct Ends {
    answered: usize,
    lost: usize,
    unsent: usize,
    timed_out: usize,
}

/// A client that is told to send calls again, so only the rule about calls that may have been read keeps
/// it from that.
async fn repeating(rt: Option<Rt>, over: Over, port: u16) -> Client {
    let mut retry = Retry::new();
    retry.initial_delay = Duration::from_micros(100);
    let mut options = ClientConfig::from(Config::new()).with_retry(retry);
    if over == Over::Http {
        return client(rt, port, options).await;
    }
    choose_executor();
    options.reconnect = ReconnectStrategy::Fixed {
        delay: Duration::from_millis(1),
        max_attempts: u32::MAX,
    };
    options.max_waiting_calls = CALLERS;
    let url = format!("tcp://127.0.0.1:{port}");
    match rt {
        None => antiphon_blocking::reconnect(url, options, || ()),
        Some(_) => antiphon_net::reconnect(url, options, ()).await,
    }
    .expect("a client")
}

/// How many callers make calls at the same time.
const CALLERS: usize = 4;

fn is_idempotent(number: usize) -> bool {
    number % 5 == 0
}

/// Makes every fifth call as one that may be repeated, and the others as ones that must not.
fn at_random_on(rt: Option<Rt>, over: Over) {
    let calls = calls();
    let (port, counts) = at_random(over, calls);
    let on = rt.map_or("threads".into(), |rt| format!("{rt:?}"));
    let on = format!("{on}, {over:?}");
    let ends = Mutex::new(Ends::default());
    let caller = async |client: &Client, first: usize| {
        for number in (first..calls).step_by(CALLERS) {
            let call = client.call::<u64>("m", &[number]).timeout(PATIENCE);
            let called = match is_idempotent(number) {
                true => call.idempotent().await,
                false => call.await,
            };
            let times = counts[number].load(Ordering::SeqCst);
            let mut ends = ends.lock().unwrap();
            match called {
                Ok(_) => {
                    ends.answered += 1;
                    assert!(times >= 1, "{on}: {number} was answered and not read");
                }
                Err(CallError::TimedOut) => ends.timed_out += 1,
                Err(CallError::Unsent | CallError::NoConnection(_)) => {
                    ends.unsent += 1;
                    assert_eq!(times, 0, "{on}: {number} was read");
                }
                Err(CallError::Http(error)) if error.is_unsent() => {
                    ends.unsent += 1;
                    assert_eq!(times, 0, "{on}: {number} was read: {error:?}");
                }
                Err(CallError::Closed | CallError::Http(HttpError::Lost(_))) => ends.lost += 1,
                Err(error) => panic!("{on}: {number}: {error:?}"),
            }
        }
    };
    let make = async || {
        let client = repeating(rt, over, port).await;
        join_all((0..CALLERS).map(|first| caller(&client, first))).await;
    };
    match rt {
        Some(rt) => rt.run_for(LONG + PATIENCE * calls as u32 / 10, |_| make()),
        None => antiphon_net::block_on(make()),
    }
    let ends = ends.into_inner().unwrap();
    // What the server has not read yet of a call that was given up it may read now.
    thread::sleep(PATIENCE);
    let times = |number: usize| counts[number].load(Ordering::SeqCst);
    let (repeatable, others): (Vec<_>, Vec<_>) = (0..calls).partition(|n| is_idempotent(*n));
    let repeated = repeatable.iter().filter(|n| times(**n) > 1).count();
    let twice: Vec<_> = others.into_iter().filter(|n| times(*n) > 1).collect();
    println!(
        "{on}: {calls} calls: {ends:?}; idempotent ones read again: {repeated}; others: {}",
        twice.len()
    );
    assert!(
        twice.is_empty(),
        "{on}: not idempotent, and read twice: {twice:?}"
    );
    // The server has ended enough connections to show something, and not so many that nothing works.
    assert!(ends.answered > calls / 4, "{on}: {ends:?}");
    assert!(ends.lost > calls / 100 && repeated > 0, "{on}: {ends:?}");
}

fn a_server_that_ends_connections_at_random_read_a_call_twice(rt: Rt) {
    at_random_on(Some(rt), Over::Http);
}

// USE-26
#[test]
fn a_server_that_ends_connections_at_random_read_a_call_twice_on_threads() {
    at_random_on(None, Over::Http);
}

fn no_call_of_a_reconnecting_client_is_read_twice(rt: Rt) {
    at_random_on(Some(rt), Over::Tcp);
}

// USE-26
#[test]
fn no_call_of_a_reconnecting_client_is_read_twice_on_threads() {
    at_random_on(None, Over::Tcp);
}

on_every_runtime! {
    // USE-26
    a_call_that_was_read_before_a_reset_was_sent_again;
    // USE-26
    only_the_callers_word_repeats_a_lost_call;
    // USE-26
    a_server_that_ends_connections_at_random_read_a_call_twice;    // USE-26
    no_call_of_a_reconnecting_client_is_read_twice;
}
