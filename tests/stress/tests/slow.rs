//! A thousand clients that are slow on purpose, against servers over HTTP and WebSocket, with tasks
//! and with threads: silent ones, ones that drip a byte of a header now and then, ones that never finish a
//! body, ones that ask and do not read. All are dropped by their deadlines; a normal client hardly
//! notices. Prints how long the normal client's calls took before and meanwhile.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use antiphon::http::WebRules;
use antiphon::{Config, KeepAliveConfig, OwnedError};
use antiphon_net::{Answer, Request};
use antiphon_stress::{LONG, Rt};

/// Slow clients of each kind.
const EACH: usize = 250;

/// Every deadline of the servers, shorter than their defaults so that the test is short.
const DEADLINE: Duration = Duration::from_millis(1500);

/// How many calls the normal client makes in one measurement. On a WebSocket server it makes as many
/// handshakes instead. A hundred are too few: the slowest would count, the first of a measurement, which waits
/// behind a byte from each of the dripping clients.
const CALLS: usize = 400;

/// How many times as long 99 of 100 of the normal client's calls may take under attack.
const MAX_RATIO: f64 = 2.0;

/// How many attacks in a row must slow the normal client down for the test to fail.
const ATTEMPTS: usize = 3;

/// A call that takes no longer than this passes, whatever it took before the attack, because schedulers
/// promise no better.
const QUICK: Duration = Duration::from_millis(4);

const BODY: &str = r#"{"jsonrpc":"2.0","method":"echo","params":["hello"],"id":1}"#;

fn config() -> Config {
    let mut config = Config::new();
    config.timeouts.write_timeout = Some(DEADLINE);
    config.timeouts.message_timeout = Some(DEADLINE);
    config
}

fn rules() -> WebRules {
    let mut rules = WebRules::new();
    rules.first_byte_timeout = DEADLINE;
    rules.header_timeout = DEADLINE;
    rules.body_timeout = DEADLINE;
    rules.idle_timeout = DEADLINE;
    rules
}

fn websocket() -> antiphon_tokio::ConnectionConfig {
    let mut options = antiphon_tokio::websocket::WebSocketConfig::server();
    let mut keep_alive = KeepAliveConfig::new();
    keep_alive.connect_timeout = Some(DEADLINE);
    options.rules.keep_alive = keep_alive;
    antiphon_tokio::ConnectionConfig::from(config()).with_websocket(options)
}

fn answer(request: &Request) -> Answer {
    match request.method() {
        "large" => "x".repeat(900_000).into(),
        _ => Answer::new(request.raw_params()),
    }
}

struct Echo;

impl antiphon_net::Service for Echo {
    async fn request(
        &self,
        _: &antiphon_net::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        Ok(answer(request))
    }
}

/// A server that is running, by its address and its count of connections.
struct Target {
    name: String,
    address: SocketAddr,
    is_http: bool,
    connections: Box<dyn Fn() -> usize>,
}

/// One call over a connection that is kept.
fn call(stream: &mut TcpStream) -> Duration {
    let began = Instant::now();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    read_to(stream, b"\"id\":1}");
    began.elapsed()
}

/// Reads until what came ends with `end`.
fn read_to(stream: &mut TcpStream, end: &[u8]) {
    let mut answer = Vec::new();
    let mut buf = [0; 1024];
    while !answer.ends_with(end) {
        let n = stream.read(&mut buf).unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&buf[..n]);
    }
}

/// How long a handshake takes: slow clients of a WebSocket server get no further than that.
fn shake(address: SocketAddr) -> Duration {
    let began = Instant::now();
    let mut stream = connect(address);
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    read_to(&mut stream, b"\r\n\r\n");
    began.elapsed()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// The time within which 99 of 100 calls, or handshakes, of a normal client are done.
fn p99(target: &Target) -> Duration {
    let mut times: Vec<_> = if target.is_http {
        let mut stream = connect(target.address);
        (0..CALLS).map(|_| call(&mut stream)).collect()
    } else {
        (0..CALLS).map(|_| shake(target.address)).collect()
    };
    times.sort();
    times[times.len() * 99 / 100]
}

/// Connects the slow clients, and sends what each sends at once. Returns those that send no more,
/// and those that drip.
fn attack(target: &Target) -> (Vec<TcpStream>, Vec<TcpStream>) {
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let large = r#"{"jsonrpc":"2.0","method":"large","id":1}"#;
    let asking = format!("{head}Content-Length: {}\r\n\r\n{large}", large.len());
    let (mut silent, mut dripping) = (Vec::new(), Vec::new());
    for number in 0..4 * EACH {
        let mut stream = connect(target.address);
        match number % 4 {
            0 => {}
            1 => {
                stream.write_all(b"P").unwrap();
                dripping.push(stream);
                continue;
            }
            2 => stream
                .write_all(format!("{head}Content-Length: 1000\r\n\r\n{{").as_bytes())
                .unwrap(),
            // More answers than any buffer holds, and nobody who reads them.
            _ => (0..8).for_each(|_| drop(stream.write_all(asking.as_bytes()))),
        }
        silent.push(stream);
        // A full backlog would cost a second for each that does not fit.
        if number % 64 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    (silent, dripping)
}

/// The median of several measurements, because the machine does other things too.
fn middle(mut measured: Vec<Duration>) -> Duration {
    measured.sort();
    measured[measured.len() / 2]
}

/// Attacks a server. All slow clients must be dropped every time. If a normal client seems to notice
/// the attack, it is repeated, because something else may have slowed that client.
fn withstand(target: &Target) {
    let mut times = 0.0;
    for _ in 0..ATTEMPTS {
        match attack_once(target) {
            Ok(()) => return,
            Err(ratio) => times = ratio,
        }
    }
    panic!(
        "{}: noticed every time, at last {times:.1} times",
        target.name
    );
}

/// The error is how many times as long the normal client's calls took.
fn attack_once(target: &Target) -> Result<(), f64> {
    let quiet = middle((0..5).map(|_| p99(target)).collect());
    let (silent, mut dripping) = attack(target);
    let began = Instant::now();
    let mut windows = Vec::new();
    for byte in b"OST / HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaa"
        .iter()
        .cycle()
    {
        // One more byte from each dripping client that is still connected.
        dripping.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
        windows.push(p99(target));
        // One may be the normal client's last, whose close the server sees a little later.
        if began.elapsed() > DEADLINE / 2 && (target.connections)() <= 1 {
            break;
        }
        assert!(
            began.elapsed() < LONG,
            "{}: {} are still there",
            target.name,
            (target.connections)()
        );
    }
    let busy = middle(windows);
    println!(
        "{}: {} slow clients dropped within {:?} at deadlines of {DEADLINE:?}; p99 {quiet:?} in quiet, {busy:?} meanwhile",
        target.name,
        silent.len() + EACH,
        began.elapsed(),
    );
    let ratio = busy.as_secs_f64() / quiet.as_secs_f64();
    match ratio <= MAX_RATIO || busy <= QUICK {
        true => Ok(()),
        false => Err(ratio),
    }
}

/// [`Echo`] on threads.
struct ThreadEcho;

impl antiphon_blocking::Service for ThreadEcho {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        Ok(answer(request))
    }
}

fn threads_withstand_them() {
    let server = || {
        let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").unwrap();
        let server = server.max_connections(4 * EACH + 8);
        let address = server.local_addr().unwrap();
        (server, address)
    };
    let (http, address) = server();
    let options = antiphon_blocking::http::HttpConfig::new(config()).with_rules(rules());
    let running = http.start_http(options, |_| ThreadEcho).unwrap();
    withstand(&Target {
        name: "blocking HTTP".into(),
        address,
        is_http: true,
        connections: Box::new(move || running.connections()),
    });
    let (plain, address) = server();
    let running = plain.start(websocket(), |_| ThreadEcho).unwrap();
    withstand(&Target {
        name: "blocking WebSocket".into(),
        address,
        is_http: false,
        connections: Box::new(move || running.connections()),
    });
}

// SEC-10 HTP-04 WSK-15 CON-12
fn slow_clients_are_dropped_and_others_hardly_notice() {
    for rt in [Rt::Tokio, Rt::Smol] {
        for is_http in [true, false] {
            let (http_options, ws_options) = (
                antiphon_net::http::HttpConfig::new(config()).with_rules(rules()),
                websocket(),
            );
            let tokio = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            let (address, running) = match rt {
                Rt::Tokio => tokio.block_on(async {
                    let server = antiphon_tokio::TcpServer::bind("127.0.0.1:0")
                        .await
                        .unwrap();
                    let address = server.local_addr();
                    let running = if is_http {
                        server.start_http(http_options, Echo)
                    } else {
                        server.start(ws_options, |_| Echo)
                    };
                    (address, running)
                }),
                _ => Rt::Smol.run(|_| async {
                    let server = antiphon_async_std::TcpServer::bind("127.0.0.1:0")
                        .await
                        .unwrap();
                    let address = server.local_addr();
                    let running = if is_http {
                        server.start_http(http_options, Echo)
                    } else {
                        server.start(ws_options, |_| Echo)
                    };
                    (address, running)
                }),
            };
            let kind = if is_http { "HTTP" } else { "WebSocket" };
            withstand(&Target {
                name: format!("{rt:?} {kind}"),
                address,
                is_http,
                connections: Box::new(move || running.connections()),
            });
        }
    }
}

fn main() {
    threads_withstand_them();
    slow_clients_are_dropped_and_others_hardly_notice();
    println!("test slow_clients_are_dropped_and_others_hardly_notice ... ok");
}
