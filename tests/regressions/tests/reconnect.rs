//! A reconnecting client: when it gives up, and what it reports then. Some tests are named after the
//! fault, and assert that it is gone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon::{Config, ConnectionState, ReconnectStrategy};
use antiphon_net::{
    Connecting, ConnectionConfig, ReconnectConfig, ReconnectingClient, SharedRuntime,
};
use antiphon_regressions::{LONG, Rt, on_every_runtime};

/// How many attempts follow a failed connection, in every test here.
const ATTEMPTS: u32 = 4;

/// After so many open connections a test concludes that the client does not give up.
const MAX_CONNECTIONS: u32 = 50;

/// A TCP server that gives each connection, with its number from 0, to one function.
struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(mut meet: impl FnMut(usize, TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (count, is_over) = (Arc::clone(&accepted), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            loop {
                let (stream, _) = listener.accept().unwrap();
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                meet(count.fetch_add(1, Ordering::SeqCst), stream);
            }
        });
        Self {
            address,
            accepted,
            stop,
            thread: Some(thread),
        }
    }

    fn accepted(&self) -> u32 {
        self.accepted.load(Ordering::SeqCst) as u32
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        self.thread.take().unwrap().join().unwrap();
    }
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// Options with [`ATTEMPTS`] attempts and short delays.
fn keeping() -> ReconnectConfig {
    let mut options = ReconnectConfig::default();
    let (first, longest) = (Duration::from_millis(20), Duration::from_millis(40));
    options.reconnect = ReconnectStrategy::backoff(first, longest, ATTEMPTS);
    options
}

/// Starts a client that reconnects, on tasks.
fn keep(
    _: Rt,
    runtime: &SharedRuntime,
    address: SocketAddr,
    keeping: ReconnectConfig,
    options: impl Into<ConnectionConfig>,
) -> ReconnectingClient {
    let connect = move || -> Connecting { Box::pin(antiphon_net::Link::tcp(address)) };
    ReconnectingClient::start(connect, keeping, options.into(), (), runtime).unwrap()
}

fn keep_on_threads(
    address: SocketAddr,
    keeping: ReconnectConfig,
    options: impl Into<ConnectionConfig>,
) -> antiphon_blocking::ReconnectingClient {
    let connect = move || antiphon_blocking::Link::tcp(address);
    antiphon_blocking::reconnect(connect, keeping, options, || ()).unwrap()
}

/// Waits until the client has given up, and returns its error.
async fn given_up(client: &ReconnectingClient) -> String {
    for _ in 0..MAX_CONNECTIONS {
        match client.wait_open(LONG).await {
            Ok(peer) => drop(peer.wait_closed(LONG).await.expect("it ends")),
            Err(error) => return error.to_string(),
        }
    }
    panic!("it does not give up");
}

fn given_up_on_threads(client: &antiphon_blocking::ReconnectingClient) -> String {
    for _ in 0..MAX_CONNECTIONS {
        match client.wait_open(LONG).wait() {
            Ok(peer) => drop(peer.wait_closed(LONG).wait().expect("it ends")),
            Err(error) => return error.to_string(),
        }
    }
    panic!("it does not give up");
}

/// What `on_change` has seen of a client of one connection.
#[derive(Clone, Default)]
struct Changes(Arc<Mutex<Vec<Change>>>);

/// A state, and the error that led to it.
type Change = (ConnectionState, Option<String>);

impl Changes {
    fn watch(&self, options: &mut ReconnectConfig) {
        let seen = Arc::clone(&self.0);
        options.on_change = Some(Arc::new(move |change| {
            assert_eq!(change.connection, 0);
            let error = change.error.as_ref().map(ToString::to_string);
            seen.lock().unwrap().push((change.state, error));
        }));
    }

    /// Each connection that was lost has a cause with this word in it.
    fn assert_all_lost_with(&self, word: &str) {
        let seen = self.0.lock().unwrap();
        let lost = seen
            .iter()
            .filter(|(state, _)| *state == ConnectionState::Closed);
        // `wait_open` may fail a moment before the last change is reported, so that one may be missing.
        assert!(lost.count() >= ATTEMPTS as usize);
        for (state, error) in &*seen {
            let is_told = error.as_ref().is_some_and(|error| error.contains(word));
            assert_eq!(
                is_told,
                *state == ConnectionState::Closed,
                "{state} {error:?}"
            );
        }
    }
}

on_every_runtime! {
    accepting_and_dropping_uses_up_the_attempts;
    a_first_message_renews_the_attempts;
    a_long_open_connection_renews_the_attempts;
    waiting_for_a_server_that_is_down_ends_without_the_reason;
    waiting_for_a_server_that_says_401_ends_without_the_status;
}

// USE-24 CON-05
fn accepting_and_dropping_uses_up_the_attempts(rt: Rt) {
    let server = Server::start(|_, stream| drop(stream));
    rt.run(|runtime| async move {
        let client = keep(rt, &runtime, server.address, keeping(), Config::new());
        given_up(&client).await;
        assert_eq!(server.accepted(), 1 + ATTEMPTS);
    });
}

// USE-24 CON-05
#[test]
fn accepting_and_dropping_uses_up_the_attempts_on_threads() {
    let server = Server::start(|_, stream| drop(stream));
    let client = keep_on_threads(server.address, keeping(), Config::new());
    given_up_on_threads(&client);
    assert_eq!(server.accepted(), 1 + ATTEMPTS);
}

/// Sends a message on the connections 1, 3, 5 and 7, and on no other; closes each.
fn greet(number: usize, mut stream: TcpStream) {
    if number % 2 == 1 && number < 2 * ATTEMPTS as usize {
        stream
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}\n")
            .unwrap();
    }
}

/// The number, from 0, of the last connection with a message; after it the attempts are used up.
const GREETED: u32 = 2 * ATTEMPTS - 1;

// USE-24 CON-05
fn a_first_message_renews_the_attempts(rt: Rt) {
    let server = Server::start(greet);
    rt.run(|runtime| async move {
        let client = keep(rt, &runtime, server.address, keeping(), Config::new());
        given_up(&client).await;
        assert_eq!(server.accepted(), 1 + GREETED + ATTEMPTS);
    });
}

// USE-24 CON-05
#[test]
fn a_first_message_renews_the_attempts_on_threads() {
    let server = Server::start(greet);
    let client = keep_on_threads(server.address, keeping(), Config::new());
    given_up_on_threads(&client);
    assert_eq!(server.accepted(), 1 + GREETED + ATTEMPTS);
}

/// Keeps the third connection open for longer than any delay, without a word.
fn linger_once(number: usize, mut stream: TcpStream) {
    if number == 2 {
        stream
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        // Nothing is ever sent to it.
        assert!(stream.read(&mut [0]).is_err());
    }
}

// USE-24 CON-05
fn a_long_open_connection_renews_the_attempts(rt: Rt) {
    let server = Server::start(linger_once);
    rt.run(|runtime| async move {
        let client = keep(rt, &runtime, server.address, keeping(), Config::new());
        given_up(&client).await;
        assert_eq!(server.accepted(), 1 + 2 + ATTEMPTS);
    });
}

// USE-24 CON-05
#[test]
fn a_long_open_connection_renews_the_attempts_on_threads() {
    let server = Server::start(linger_once);
    let client = keep_on_threads(server.address, keeping(), Config::new());
    given_up_on_threads(&client);
    assert_eq!(server.accepted(), 1 + 2 + ATTEMPTS);
}

// USE-24 USE-18
fn waiting_for_a_server_that_is_down_ends_without_the_reason(rt: Rt) {
    rt.run(|runtime| async move {
        let (mut keeping, changes) = (keeping(), Changes::default());
        changes.watch(&mut keeping);
        let client = keep(rt, &runtime, nobody(), keeping, Config::new());
        let said = given_up(&client).await;
        assert!(said.contains("refused"), "{said}");
        changes.assert_all_lost_with("refused");
    });
}

// USE-24 USE-18
#[test]
fn waiting_for_a_server_that_is_down_ends_without_the_reason_on_threads() {
    let (mut keeping, changes) = (keeping(), Changes::default());
    changes.watch(&mut keeping);
    let client = keep_on_threads(nobody(), keeping, Config::new());
    let said = given_up_on_threads(&client);
    assert!(said.contains("refused"), "{said}");
    changes.assert_all_lost_with("refused");
}

/// Answers a handshake with 401.
fn refuse(_: usize, mut stream: TcpStream) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let refusal = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(refusal).unwrap();
}

fn over_websocket(address: SocketAddr) -> ConnectionConfig {
    let there = antiphon_net::websocket::WebSocketConfig::client(&format!("ws://{address}/"));
    ConnectionConfig::from(Config::new()).with_websocket(there.unwrap())
}

// USE-24 USE-18
fn waiting_for_a_server_that_says_401_ends_without_the_status(rt: Rt) {
    let server = Server::start(refuse);
    rt.run(|runtime| async move {
        let options = over_websocket(server.address);
        let (mut keeping, changes) = (keeping(), Changes::default());
        changes.watch(&mut keeping);
        let client = keep(rt, &runtime, server.address, keeping, options);
        let said = given_up(&client).await;
        assert!(said.contains("401"), "{said}");
        changes.assert_all_lost_with("401");
    });
}

// USE-24 USE-18
#[test]
fn waiting_for_a_server_that_says_401_ends_without_the_status_on_threads() {
    let server = Server::start(refuse);
    let options = over_websocket(server.address);
    let (mut keeping, changes) = (keeping(), Changes::default());
    changes.watch(&mut keeping);
    let client = keep_on_threads(server.address, keeping, options);
    let said = given_up_on_threads(&client);
    assert!(said.contains("401"), "{said}");
    changes.assert_all_lost_with("401");
}
