//! An HTTP client and connections that the server is done with. Most tests are named after the fault,
//! and assert that it is gone.
//!
//! Each server here ends its connections in a way of its own. A call for which such a connection is
//! chosen must take another one, if the end was announced or could be seen. If the end comes at the same
//! moment as the call, the call is lost: nothing proves that the server has not read it. No call is read
//! twice: `nothing_twice.rs` has more about that.
//!
//! How many calls were answered and lost in each run is printed: `-- --nocapture after_each_reply` shows
//! it for servers that close after each reply, ten runs on every runtime.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use antiphon::Config;
use antiphon_net::http::HttpError;
use antiphon_net::tls::{
    self,
    rustls::{self, ServerConfig, ServerConnection, StreamOwned},
};
use antiphon_net::{CallError, Client, ClientConfig};
use antiphon_regressions::{LONG, Rt, choose_executor, on_every_runtime};
use antiphon_stress::certificates::{ANY, Authority, NAME, Validity};

/// How many calls are made one after another.
const CALLS: u64 = 200;

/// How a server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It says `Connection: close`, and closes after the reply.
    Said,
    /// It says `Connection: close`, and leaves it to the client to close.
    SaidOnly,
    /// It says `Connection: close`, and closes a while after the reply.
    SaidLate,
    /// It closes after the reply, and says nothing of it.
    Silent,
    /// It replies in HTTP/1.0, and closes after the reply.
    Version10,
    /// It replies in HTTP/1.0 without a length: the end of the connection is the end of the body.
    Version10NoLength,
    /// It closes when nothing has come for some microseconds, a different number each time.
    IdleAtRandom,
    /// It closes after every third reply.
    EveryThird,
    /// It says that it keeps a connection for 1 s, and keeps it much shorter.
    KeepAliveTimeout,
}

impl Ending {
    /// Whether the client cannot know of the end before it comes.
    fn is_silent(self) -> bool {
        matches!(self, Self::Silent | Self::IdleAtRandom | Self::EveryThird)
    }
}

/// The ids of the requests that a server has read.
type Served = Arc<Mutex<Vec<u64>>>;

/// Bytes both ways.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A server that ends its connections as `ending` says. Returns its port, and the ids of the requests
/// that it has read.
fn server(ending: Ending, tls: Option<Arc<ServerConfig>>) -> (u16, Served) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let served = Served::default();
    let seen = Arc::clone(&served);
    thread::spawn(move || {
        // Lehmer's generator: the numbers are the same in every run.
        let mut random = 1_u64;
        while let Ok((socket, _)) = listener.accept() {
            random = random * 48_271 % 0x7fff_ffff;
            let (seen, idle) = (Arc::clone(&seen), Duration::from_micros(random % 800 + 1));
            let tls = tls.clone();
            thread::spawn(move || {
                socket.set_nodelay(true).expect("a socket");
                let held = socket.try_clone().expect("a handle");
                let stream: Box<dyn Stream> = match tls {
                    None => Box::new(socket),
                    Some(config) => {
                        let session = ServerConnection::new(config).expect("a session");
                        Box::new(StreamOwned::new(session, socket))
                    }
                };
                serve(stream, &held, ending, idle, &seen);
            });
        }
    });
    (port, served)
}

/// Serves one connection until it ends as `ending` says.
fn serve(
    mut stream: Box<dyn Stream>,
    socket: &TcpStream,
    ending: Ending,
    idle: Duration,
    served: &Served,
) {
    let mut replies = 0;
    loop {
        // Only later requests must come within `idle`.
        let patience = match ending {
            Ending::IdleAtRandom | Ending::KeepAliveTimeout if replies > 0 => idle,
            _ => LONG,
        };
        let Some(id) = request(&mut *stream, socket, patience) else {
            return;
        };
        served.lock().unwrap().push(id);
        let body = format!(r#"{{"jsonrpc":"2.0","result":{id},"id":{id}}}"#);
        let length = format!("content-length: {}\r\n", body.len());
        let head = match ending {
            Ending::Said | Ending::SaidOnly | Ending::SaidLate => {
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{length}")
            }
            Ending::KeepAliveTimeout => {
                format!("HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\n{length}")
            }
            Ending::Version10 => format!("HTTP/1.0 200 OK\r\n{length}"),
            Ending::Version10NoLength => "HTTP/1.0 200 OK\r\n".into(),
            Ending::Silent | Ending::IdleAtRandom | Ending::EveryThird => {
                format!("HTTP/1.1 200 OK\r\n{length}")
            }
        };
        let reply = format!("{head}content-type: application/json\r\n\r\n{body}");
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
        replies += 1;
        match ending {
            Ending::IdleAtRandom | Ending::KeepAliveTimeout => {}
            Ending::EveryThird if replies % 3 != 0 => {}
            Ending::SaidOnly => {
                // Whatever comes now is never answered.
                let _ = stream.read_to_end(&mut Vec::new());
                return;
            }
            Ending::SaidLate => {
                thread::sleep(Duration::from_millis(20));
                return;
            }
            _ => return,
        }
    }
}

/// The id in the next request; none if there is no next one.
fn request(stream: &mut dyn Stream, socket: &TcpStream, patience: Duration) -> Option<u64> {
    socket.set_read_timeout(Some(patience)).expect("a socket");
    let (mut read, mut byte) = (Vec::new(), [0; 1]);
    while !read.ends_with(b"}") {
        match stream.read(&mut byte) {
            Ok(1..) => read.extend_from_slice(&byte),
            _ => return None,
        }
        // A request that has begun may take longer.
        if read.len() == 1 {
            socket.set_read_timeout(Some(LONG)).expect("a socket");
        }
    }
    let text = String::from_utf8(read).expect("a request is text");
    let (_, id) = text.rsplit_once(r#""id":"#).expect("an id");
    id.trim_end_matches('}').parse().ok()
}

fn plain(port: u16) -> String {
    format!("http://127.0.0.1:{port}/")
}

fn secure(port: u16) -> String {
    format!("https://{NAME}:{port}/")
}

/// The options of a client; with a configuration, over TLS.
fn options(tls: Option<Arc<rustls::ClientConfig>>) -> ClientConfig {
    let mut options = ClientConfig::from(Config::new());
    options.tls = tls.map(|tls| Arc::new(tls::Connector::from(tls)) as _);
    options
}

/// A client on the runtime.
async fn client_of(rt: Rt, url: String, options: ClientConfig) -> Client {
    match rt {
        Rt::Tokio | Rt::TokioLocal => antiphon_tokio::connect(url, options, ()).await,
        Rt::Smol | Rt::AsyncStd => antiphon_async_std::connect(url, options, ()).await,
    }
    .expect("a client")
}

async fn client(rt: Rt, port: u16) -> Client {
    client_of(rt, plain(port), options(None)).await
}

fn client_on_threads(port: u16) -> Client {
    choose_executor();
    antiphon_blocking::connect(plain(port), options(None), ()).expect("a client")
}

/// The two configurations of a connection with TLS.
fn tls() -> (Arc<ServerConfig>, Arc<rustls::ClientConfig>) {
    let authority = Authority::new("a");
    let server = authority.strict_server(authority.sign(&[NAME], Validity::Now), ANY);
    let client = authority.client(Some(authority.sign(&["client"], Validity::Now)));
    (server, client)
}

/// How the calls of one run ended.
#[derive(Default)]
struct Run {
    answers: u64,
    lost: u64,
    failed: Option<CallError>,
}

impl Run {
    /// Takes the outcome of the next call. Returns whether to make another.
    fn take(&mut self, called: Result<u64, CallError>) -> bool {
        match called {
            Ok(result) => {
                self.answers += 1;
                assert_eq!(result, self.answers + self.lost);
            }
            Err(CallError::Http(HttpError::Lost(_))) => self.lost += 1,
            Err(error) => self.failed = Some(error),
        }
        self.failed.is_none() && self.answers + self.lost < CALLS
    }

    /// Prints how many calls were answered, and checks that all were, but for those that met an end that
    /// could not be seen, and that none was read twice.
    fn check(self, on: &str, ending: Ending, served: &Served) {
        let Self {
            answers,
            lost,
            failed,
        } = self;
        println!("{on}, {ending:?}: {answers} of {CALLS} calls answered, {lost} lost");
        if let Some(error) = failed {
            panic!(
                "{on} {ending:?}: call {} of {CALLS}: {error}",
                answers + lost + 1
            );
        }
        assert_eq!(answers + lost, CALLS);
        assert!(
            lost == 0 || ending.is_silent(),
            "{on} {ending:?}: {lost} lost"
        );
        let mut served = served.lock().unwrap().clone();
        served.sort_unstable();
        let read = served.len();
        served.dedup();
        assert_eq!(served.len(), read, "{on} {ending:?}: a call was read twice");
        assert!(
            (answers..=CALLS).contains(&(read as u64)),
            "{on} {ending:?}: {read} read"
        );
    }
}

fn every_call_is_answered_or_lost(rt: Rt, ending: Ending, is_secure: bool) {
    let (tls_server, tls_client) = tls();
    let (port, served) = server(ending, is_secure.then_some(tls_server));
    let run = rt.run(|_| async {
        let client = match is_secure {
            false => client(rt, port).await,
            true => client_of(rt, secure(port), options(Some(tls_client))).await,
        };
        let mut run = Run::default();
        while run.take(client.call("m", ()).timeout(LONG / 3).await) {}
        run
    });
    run.check(&format!("{rt:?}"), ending, &served);
}

fn every_call_is_answered_or_lost_on_threads(ending: Ending, is_secure: bool) {
    let (tls_server, tls_client) = tls();
    let (port, served) = server(ending, is_secure.then_some(tls_server));
    let client = match is_secure {
        false => client_on_threads(port),
        true => {
            choose_executor();
            let client = antiphon_blocking::connect(secure(port), options(Some(tls_client)), ());
            client.expect("a client")
        }
    };
    let mut run = Run::default();
    while run.take(client.call("m", ()).timeout(LONG / 3).wait()) {}
    run.check("threads", ending, &served);
}

/// How often 200 calls are made against a server that closes after each reply.
const RUNS: usize = 10;

/// Closing that the reply announces, and closing that it does not.
const CLOSING: [Ending; 2] = [Ending::Said, Ending::Silent];

fn calls_to_a_server_that_closes_after_each_reply_timed_out(rt: Rt) {
    for ending in CLOSING {
        (0..RUNS).for_each(|_| every_call_is_answered_or_lost(rt, ending, false));
    }
}

// USE-18 HTP-05
#[test]
fn calls_to_a_server_that_closes_after_each_reply_timed_out_on_threads() {
    for ending in CLOSING {
        (0..RUNS).for_each(|_| every_call_is_answered_or_lost_on_threads(ending, false));
    }
}

/// One test of each runtime and of threads for each ending.
macro_rules! endings {
    ($($case:ident: $ending:ident, $is_secure:literal;)*) => {
        $(fn $case(rt: Rt) { every_call_is_answered_or_lost(rt, Ending::$ending, $is_secure); })*
        on_every_runtime! { $($case;)* }
        mod threads { $(
            #[test]
            fn $case() { super::every_call_is_answered_or_lost_on_threads(super::Ending::$ending, $is_secure); }
        )* }
    };
}

endings! {
    // USE-18 HTP-05
    a_connection_that_is_said_to_close_was_given_the_next_call: Said, false;
    a_connection_that_the_client_is_to_close_was_given_the_next_call: SaidOnly, false;
    a_connection_that_closes_late_was_given_the_next_call: SaidLate, false;
    a_connection_closed_without_a_word_was_given_the_next_call: Silent, false;
    a_connection_of_http_1_0_was_given_the_next_call: Version10, false;
    a_connection_whose_end_ends_the_body_was_given_the_next_call: Version10NoLength, false;
    an_idle_connection_closed_at_any_moment_was_given_a_call: IdleAtRandom, false;
    a_connection_closed_after_some_replies_was_given_the_next_call: EveryThird, false;
    a_connection_kept_as_long_as_the_server_says_was_given_a_call: KeepAliveTimeout, false;
    a_tls_connection_that_is_said_to_close_was_given_the_next_call: Said, true;
    a_tls_connection_closed_without_a_word_was_given_the_next_call: Silent, true;
    a_tls_connection_closed_after_some_replies_was_given_the_next_call: EveryThird, true;
}

/// A server that sends the header line `says`, about how long it keeps a connection. Returns its port, and a
/// count of its connections.
fn keeping(says: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let connections = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&connections);
    thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            count.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || {
                let handle = socket.try_clone().expect("a handle");
                while let Some(id) = request(&mut socket, &handle, LONG) {
                    let body = format!(r#"{{"jsonrpc":"2.0","result":{id},"id":{id}}}"#);
                    let length = body.len();
                    let reply = format!(
                        "HTTP/1.1 200 OK\r\n{says}\r\ncontent-length: {length}\r\n\r\n{body}"
                    );
                    // The head may come in parts.
                    let (first, rest) = reply.split_at(20);
                    socket.write_all(first.as_bytes()).expect("a client");
                    socket.write_all(rest.as_bytes()).expect("a client");
                }
            });
        }
    });
    (port, connections)
}

/// What a server says, how many milliseconds pass before the second call, and how many connections the
/// two calls take. A client stops using a connection a second earlier than the server says.
const KEPT: [(&str, u64, usize); 6] = [
    ("Keep-Alive: timeout=1", 0, 2),
    ("keep-alive: max=100, Timeout = 0", 0, 2),
    ("keep-alive: timeout=2", 1100, 2),
    ("keep-alive: timeout=100", 0, 1),
    ("keep-alive: max=1", 0, 1),
    ("x-keep-alive: timeout=1", 0, 1),
];

fn a_connection_was_used_for_longer_than_its_server_keeps_it(rt: Rt) {
    for (says, millis, wanted) in KEPT {
        let (port, connections) = keeping(says);
        rt.run(|runtime| async move {
            let client = client(rt, port).await;
            assert_eq!(client.call::<u64>("m", ()).await.expect("an answer"), 1);
            let later = runtime.now() + Duration::from_millis(millis);
            runtime.sleep_until(later).await;
            assert_eq!(client.call::<u64>("m", ()).await.expect("an answer"), 2);
        });
        let taken = connections.load(Ordering::SeqCst);
        assert_eq!(taken, wanted, "{rt:?} {says}");
    }
}

// USE-18 HTP-05
#[test]
fn a_connection_was_used_for_longer_than_its_server_keeps_it_on_threads() {
    for (says, millis, wanted) in KEPT {
        let (port, connections) = keeping(says);
        let client = client_on_threads(port);
        assert_eq!(client.call::<u64>("m", ()).wait().expect("an answer"), 1);
        thread::sleep(Duration::from_millis(millis));
        assert_eq!(client.call::<u64>("m", ()).wait().expect("an answer"), 2);
        let taken = connections.load(Ordering::SeqCst);
        assert_eq!(taken, wanted, "{says}");
    }
}

/// What the scripted server below does once it has answered the first request.
#[derive(Clone, Copy, Debug)]
enum Then {
    Close,
    EndWriting,
    /// It ends its direction when another request has come, and closes a while later without having
    /// read it: the end of the stream comes first, and the reset after it.
    EndThenReset,
    /// It reads another request, and closes without an answer.
    ReadAndClose,
}

/// A server that does so on its first connection, and answers everything on all others. It sends a
/// message when a connection has ended, and counts the requests that it has read.
fn scripted(then: Then) -> (u16, Receiver<()>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let requests = Arc::new(AtomicUsize::new(0));
    let (count, (done, is_done)) = (Arc::clone(&requests), channel());
    thread::spawn(move || {
        let mut first = Some(then);
        let mut held = Vec::new();
        while let Ok((mut socket, _)) = listener.accept() {
            let handle = socket.try_clone().expect("a handle");
            while let Some(id) = request(&mut socket, &handle, LONG) {
                count.fetch_add(1, Ordering::SeqCst);
                let body = format!(r#"{{"jsonrpc":"2.0","result":{id},"id":{id}}}"#);
                let reply = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                socket.write_all(reply.as_bytes()).expect("a client");
                match first.take() {
                    None => continue,
                    Some(Then::Close) => socket.shutdown(Shutdown::Both).expect("a client"),
                    Some(Then::EndWriting) => {
                        socket.shutdown(Shutdown::Write).expect("a client");
                    }
                    Some(Then::EndThenReset) => {
                        let peeked = socket.peek(&mut [0]);
                        assert_eq!(peeked.expect("another request"), 1);
                        socket.shutdown(Shutdown::Write).expect("a client");
                        // Longer than a round trip.
                        thread::sleep(Duration::from_millis(20));
                    }
                    Some(Then::ReadAndClose) => {
                        request(&mut socket, &handle, LONG).expect("another request");
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                }
                held.push(handle);
                break;
            }
            drop(socket);
            if matches!(then, Then::ReadAndClose | Then::EndThenReset) {
                held.clear();
            }
            let _ = done.send(());
        }
    });
    (port, is_done, requests)
}

fn an_end_that_the_runtime_had_not_looked_at_cost_a_call(rt: Rt) {
    for then in [Then::Close, Then::EndWriting] {
        let (port, is_done, _) = scripted(then);
        rt.run(|_| async {
            let client = client(rt, port).await;
            assert_eq!(client.call::<u64>("m", ()).await.expect("an answer"), 1);
            // This blocks the thread, so a runtime with only one thread has not seen the end.
            is_done.recv_timeout(LONG).expect("it has ended");
            let called = client.call::<u64>("m", ()).timeout(LONG / 3).await;
            assert_eq!(called.expect("an answer"), 2, "{rt:?} {then:?}");
        });
    }
}

// USE-18 HTP-05
#[test]
fn an_end_that_the_runtime_had_not_looked_at_cost_a_call_on_threads() {
    for then in [Then::Close, Then::EndWriting] {
        let (port, is_done, _) = scripted(then);
        let client = client_on_threads(port);
        assert_eq!(client.call::<u64>("m", ()).wait().expect("an answer"), 1);
        is_done.recv_timeout(LONG).expect("it has ended");
        let called = client.call::<u64>("m", ()).timeout(LONG / 3).wait();
        assert_eq!(called.expect("an answer"), 2, "{then:?}");
    }
}

/// Such an end does not show that the call was not read: a server that has read it may end in the same
/// way.
fn a_call_that_meets_an_end_and_its_reset_is_lost_and_not_sent_again(rt: Rt) {
    let (port, _done, requests) = scripted(Then::EndThenReset);
    rt.run(|_| async {
        let client = client(rt, port).await;
        assert_eq!(client.call::<u64>("m", ()).await.expect("an answer"), 1);
        let called = client.call::<u64>("m", ()).timeout(LONG / 3).await;
        let lost = called.expect_err("nothing proves that it was not read");
        assert!(
            matches!(lost, CallError::Http(HttpError::Lost(_))),
            "{rt:?} {lost:?}"
        );
        assert_eq!(client.call::<u64>("m", ()).await.expect("an answer"), 3);
    });
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

// USE-26
#[test]
fn a_call_that_meets_an_end_and_its_reset_is_lost_and_not_sent_again_on_threads() {
    let (port, _done, requests) = scripted(Then::EndThenReset);
    let client = client_on_threads(port);
    assert_eq!(client.call::<u64>("m", ()).wait().expect("an answer"), 1);
    let called = client.call::<u64>("m", ()).timeout(LONG / 3).wait();
    let lost = called.expect_err("nothing proves that it was not read");
    assert!(
        matches!(lost, CallError::Http(HttpError::Lost(_))),
        "{lost:?}"
    );
    assert_eq!(client.call::<u64>("m", ()).wait().expect("an answer"), 3);
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

/// A call that the server has read is never made again by itself: it may be a payment.
fn a_call_that_was_read_is_lost_with_its_connection(rt: Rt) {
    let (port, _done, requests) = scripted(Then::ReadAndClose);
    rt.run(|_| async {
        let client = client(rt, port).await;
        assert_eq!(client.call::<u64>("m", ()).await.expect("an answer"), 1);
        let lost = client.call::<u64>("m", ()).await.expect_err("no answer");
        assert!(
            matches!(lost, CallError::Http(HttpError::Lost(_))),
            "{rt:?} {lost:?}"
        );
        assert_eq!(client.call::<u64>("m", ()).await.expect("an answer"), 3);
    });
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

// USE-18 CON-06
#[test]
fn a_call_that_was_read_is_lost_with_its_connection_on_threads() {
    let (port, _done, requests) = scripted(Then::ReadAndClose);
    let client = client_on_threads(port);
    assert_eq!(client.call::<u64>("m", ()).wait().expect("an answer"), 1);
    let lost = client.call::<u64>("m", ()).wait().expect_err("no answer");
    assert!(
        matches!(lost, CallError::Http(HttpError::Lost(_))),
        "{lost:?}"
    );
    assert_eq!(client.call::<u64>("m", ()).wait().expect("an answer"), 3);
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

// In a module, because `on_every_runtime` makes the same modules each time.
mod without_a_race {
    use super::*;

    on_every_runtime! {
        // USE-18 HTP-05
        a_connection_was_used_for_longer_than_its_server_keeps_it;
        // USE-18 HTP-05
        an_end_that_the_runtime_had_not_looked_at_cost_a_call;
        // USE-18 HTP-05
        calls_to_a_server_that_closes_after_each_reply_timed_out;
        // USE-26
        a_call_that_meets_an_end_and_its_reset_is_lost_and_not_sent_again;
        // USE-18 CON-06
        a_call_that_was_read_is_lost_with_its_connection;
    }
}
