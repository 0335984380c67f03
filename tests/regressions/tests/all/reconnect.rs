//! A reconnecting client: when it gives up, and what it reports then. Some tests are named after the
//! fault, and assert that it is gone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antiphon::{Config, ConnectionState, ReconnectStrategy};
use antiphon_blocking::RpcError;
use antiphon_net::{CallError, Client, ClientConfig, ConnectError, block_on};
use antiphon_regressions::{LONG, Rt, choose_executor, on_every_runtime};
use socket2::{Domain, Socket, Type};

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

/// An address where nobody listens. As long as the socket lives, no other test gets its port, to
/// which the client here would connect.
fn nobody() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any_port: SocketAddr = ([127, 0, 0, 1], 0).into();
    socket.bind(&any_port.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// Options with [`ATTEMPTS`] attempts and short delays.
fn keeping() -> ClientConfig {
    let mut options = ClientConfig::from(Config::new());
    let (first, longest) = (Duration::from_millis(20), Duration::from_millis(40));
    options.reconnect = ReconnectStrategy::backoff(first, longest, ATTEMPTS);
    options
}

fn tcp(address: SocketAddr) -> String {
    format!("tcp://{address}")
}

fn websocket(address: SocketAddr) -> String {
    format!("ws://{address}/")
}

/// Starts a client that reconnects, on tasks.
async fn keep(url: String, options: ClientConfig) -> Result<Client, ConnectError> {
    antiphon_net::reconnect(url, options, ()).await
}

fn keep_on_threads(url: String, options: ClientConfig) -> Result<Client, ConnectError> {
    antiphon_blocking::reconnect(url, options, || ())
}

/// Waits until the client has given up, and returns its error.
async fn given_up(made: Result<Client, ConnectError>) -> String {
    let client = match made {
        Ok(client) => client,
        Err(error) => return error.to_string(),
    };
    for _ in 0..MAX_CONNECTIONS {
        if let Err(error) = client.wait_open(LONG).await {
            return error.to_string();
        }
        // There is none if it has ended already.
        if let Some(peer) = client.peer() {
            peer.wait_closed(LONG).await.expect("it ends");
        }
    }
    panic!("it does not give up");
}

fn given_up_on_threads(made: Result<Client, ConnectError>) -> String {
    block_on(given_up(made))
}

/// What `on_change` has seen of a client of one connection.
#[derive(Clone, Default)]
struct Changes(Arc<Mutex<Vec<Change>>>);

/// A state, and the error that led to it.
type Change = (ConnectionState, Option<String>);

impl Changes {
    fn watch(&self, options: &mut ClientConfig) {
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

/// How long a connection must be open to count as a success: longer than this, which is more than any
/// delay here.
const OPEN_TIME_MIN: Duration = Duration::from_millis(50);

/// Counts the connections that may have been open for longer than [`OPEN_TIME_MIN`], because the
/// machine was busy and the client saw their end late: each may renew the attempts.
#[derive(Clone, Default)]
struct Late(Arc<AtomicU32>);

impl Late {
    /// Watches a client of one connection, and returns its states, as they are reported.
    fn watch(&self, options: &mut ClientConfig) -> Receiver<ConnectionState> {
        let (late, (tell, told)) = (Arc::clone(&self.0), channel());
        let began = Mutex::new(Instant::now());
        options.on_change = Some(Arc::new(move |change| {
            let now = Instant::now();
            match change.state {
                // It is not open before this, and its end is not seen after it is reported.
                ConnectionState::Connecting => *began.lock().unwrap() = now,
                ConnectionState::Closed => {
                    let is_late = now - *began.lock().unwrap() >= OPEN_TIME_MIN;
                    late.fetch_add(u32::from(is_late), Ordering::SeqCst);
                }
                _ => {}
            }
            // A test may not look at them.
            let _ = tell.send(change.state);
        }));
        told
    }

    /// Checks that the server accepted `connections`, and further ones only because some were late.
    fn assert_accepted(&self, server: &Server, connections: u32) {
        let late = self.0.load(Ordering::SeqCst);
        let possible = connections..=connections + late * ATTEMPTS;
        let accepted = server.accepted();
        assert!(possible.contains(&accepted), "{accepted} of {possible:?}");
    }

    /// Checks that the third connection was late, on purpose, and renewed the attempts.
    fn assert_long_one_renewed(&self, server: &Server) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        self.assert_accepted(server, 3 + ATTEMPTS);
    }
}

on_every_runtime! {
    accepting_and_dropping_uses_up_the_attempts;
    a_first_message_renews_the_attempts;
    a_long_open_connection_renews_the_attempts;
    waiting_for_a_server_that_is_down_ends_without_the_reason;
    waiting_for_a_server_that_says_401_ends_without_the_status;
    a_refused_connection_did_not_name_its_address;
}

// USE-24 CON-05
fn accepting_and_dropping_uses_up_the_attempts(rt: Rt) {
    let server = Server::start(|_, stream| drop(stream));
    rt.run(|_| async move {
        let (mut keeping, late) = (keeping(), Late::default());
        late.watch(&mut keeping);
        given_up(keep(tcp(server.address), keeping).await).await;
        late.assert_accepted(&server, 1 + ATTEMPTS);
    });
}

// USE-24 CON-05
#[test]
fn accepting_and_dropping_uses_up_the_attempts_on_threads() {
    let server = Server::start(|_, stream| drop(stream));
    let (mut keeping, late) = (keeping(), Late::default());
    late.watch(&mut keeping);
    given_up_on_threads(keep_on_threads(tcp(server.address), keeping));
    late.assert_accepted(&server, 1 + ATTEMPTS);
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
    rt.run(|_| async move {
        let (mut keeping, late) = (keeping(), Late::default());
        late.watch(&mut keeping);
        given_up(keep(tcp(server.address), keeping).await).await;
        late.assert_accepted(&server, 1 + GREETED + ATTEMPTS);
    });
}

// USE-24 CON-05
#[test]
fn a_first_message_renews_the_attempts_on_threads() {
    let server = Server::start(greet);
    let (mut keeping, late) = (keeping(), Late::default());
    late.watch(&mut keeping);
    given_up_on_threads(keep_on_threads(tcp(server.address), keeping));
    late.assert_accepted(&server, 1 + GREETED + ATTEMPTS);
}

/// Makes a server that keeps the third connection open for a while after the client has reported it
/// open, without a word. Only that connection has to count as a success.
fn lingering(states: Receiver<ConnectionState>) -> Server {
    Server::start(move |number, mut stream| {
        if number == 2 {
            // The client has reported the ends of the first two by then.
            let mut closed = 0;
            loop {
                match states.recv_timeout(LONG).unwrap() {
                    ConnectionState::Closed => closed += 1,
                    ConnectionState::Open if closed == 2 => break,
                    _ => {}
                }
            }
            let long = 2 * OPEN_TIME_MIN;
            stream.set_read_timeout(Some(long)).unwrap();
            // Nothing is ever sent to it.
            assert!(stream.read(&mut [0]).is_err());
        }
    })
}

// USE-24 CON-05
fn a_long_open_connection_renews_the_attempts(rt: Rt) {
    let (mut keeping, late) = (keeping(), Late::default());
    let server = lingering(late.watch(&mut keeping));
    rt.run(|_| async move {
        given_up(keep(tcp(server.address), keeping).await).await;
        late.assert_long_one_renewed(&server);
    });
}

// USE-24 CON-05
#[test]
fn a_long_open_connection_renews_the_attempts_on_threads() {
    let (mut keeping, late) = (keeping(), Late::default());
    let server = lingering(late.watch(&mut keeping));
    given_up_on_threads(keep_on_threads(tcp(server.address), keeping));
    late.assert_long_one_renewed(&server);
}

// USE-24 USE-18
fn waiting_for_a_server_that_is_down_ends_without_the_reason(rt: Rt) {
    rt.run(|_| async move {
        let (mut keeping, changes) = (keeping(), Changes::default());
        changes.watch(&mut keeping);
        let (_socket, address) = nobody();
        let said = given_up(keep(tcp(address), keeping).await).await;
        assert!(said.contains("refused"), "{said}");
        changes.assert_all_lost_with("refused");
    });
}

// USE-24 USE-18
#[test]
fn waiting_for_a_server_that_is_down_ends_without_the_reason_on_threads() {
    let (mut keeping, changes) = (keeping(), Changes::default());
    changes.watch(&mut keeping);
    let (_socket, address) = nobody();
    let said = given_up_on_threads(keep_on_threads(tcp(address), keeping));
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

// USE-24 USE-18
fn waiting_for_a_server_that_says_401_ends_without_the_status(rt: Rt) {
    let server = Server::start(refuse);
    rt.run(|_| async move {
        let (mut keeping, changes) = (keeping(), Changes::default());
        changes.watch(&mut keeping);
        let said = given_up(keep(websocket(server.address), keeping).await).await;
        assert!(said.contains("401"), "{said}");
        changes.assert_all_lost_with("401");
    });
}

// USE-24 USE-18
#[test]
fn waiting_for_a_server_that_says_401_ends_without_the_status_on_threads() {
    let server = Server::start(refuse);
    let (mut keeping, changes) = (keeping(), Changes::default());
    changes.watch(&mut keeping);
    let said = given_up_on_threads(keep_on_threads(websocket(server.address), keeping));
    assert!(said.contains("401"), "{said}");
    changes.assert_all_lost_with("401");
}

/// Checks that a connection that was refused names its address, and says only once that it was refused.
fn assert_names(error: &(dyn std::error::Error + 'static), address: SocketAddr) {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let chain: Vec<_> = chain.map(ToString::to_string).collect();
    let named = format!("cannot connect to {address}: ");
    assert!(chain[0].contains(&named), "{chain:?}");
    let says_why = chain.iter().filter(|text| text.contains("refused"));
    assert_eq!(says_why.count(), 1, "{chain:?}");
}

// USE-18
fn a_refused_connection_did_not_name_its_address(rt: Rt) {
    let (_socket, address) = nobody();
    rt.run(|_| async move {
        let error = antiphon_net::Link::tcp(address).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        assert_names(&error, address);
        let url = format!("http://{address}/");
        let client = antiphon_net::connect(&url, Config::new(), ());
        let client = client.await.unwrap();
        let error = client.call::<()>("m", ()).await.unwrap_err();
        assert_names(&error, address);
        let CallError::Http(error) = error else {
            panic!("{error:?}");
        };
        assert_names(&error, address);
        let opened = antiphon_net::connect(websocket(address), Config::new(), ()).await;
        assert_names(&opened.unwrap_err(), address);
        let missing = antiphon_net::Link::tcp("localhost:x").await.unwrap_err();
        let missing = missing.to_string();
        assert!(
            missing.starts_with("cannot connect to localhost:x: "),
            "{missing}"
        );
    });
}

// USE-18
#[test]
fn a_refused_connection_did_not_name_its_address_on_threads() {
    choose_executor();
    let (_socket, address) = nobody();
    let error = antiphon_blocking::Link::tcp(address).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_names(&error, address);
    let url = format!("http://{address}/");
    let client = antiphon_blocking::connect(&url, Config::new(), ()).unwrap();
    assert_names(&client.call::<()>("m", ()).wait().unwrap_err(), address);
    let opened = antiphon_blocking::connect(websocket(address), Config::new(), ());
    assert_names(&opened.unwrap_err(), address);
}

/// The error of a typed client.
#[derive(Debug, RpcError)]
enum LoginError {
    #[rpc(code = 7, message = "the badge has expired")]
    Expired,
}

/// A typed client's errors are of a type of their own.
async fn log_in(peer: antiphon_net::Peer) -> Result<(), CallError<LoginError>> {
    match peer.call::<()>("login", ()).await {
        Err(error) if error.remote().is_some() => Err(CallError::Remote(LoginError::Expired)),
        _ => Ok(()),
    }
}

fn refusing() -> Server {
    Server::start(|_, mut stream| {
        let _ = stream.read(&mut [0; 1000]);
        let error =
            r#"{"jsonrpc":"2.0","error":{"code":7,"message":"the badge has expired"},"id":1}"#;
        let _ = stream.write_all(format!("{error}\n").as_bytes());
        let _ = stream.read(&mut [0]);
    })
}

fn the_first_calls_could_not_fail_as_a_typed_client_does(rt: Rt) {
    rt.run(|_| async move {
        let server = refusing();
        let options = keeping().with_on_open(log_in);
        let error = given_up(keep(tcp(server.address), options).await).await;
        assert!(
            error.ends_with("the first call failed: the badge has expired"),
            "{error}"
        );
    });
}

// SEC-02
#[test]
fn the_first_calls_could_not_fail_as_a_typed_client_does_on_threads() {
    let server = refusing();
    let options = keeping().with_on_open(log_in);
    let error = given_up_on_threads(keep_on_threads(tcp(server.address), options));
    assert!(
        error.ends_with("the first call failed: the badge has expired"),
        "{error}"
    );
}

/// Every adapter has the type of the headers that interceptors add.
#[test]
fn headers_could_not_be_named() {
    fn is_headers(_: &antiphon_net::Headers) {}
    is_headers(&antiphon_tokio::Headers::new());
    is_headers(&antiphon_async_std::Headers::new());
    is_headers(&antiphon_blocking::Headers::new());
}

mod typed {
    use super::*;

    on_every_runtime! {
        // SEC-02
        the_first_calls_could_not_fail_as_a_typed_client_does;
    }
}
