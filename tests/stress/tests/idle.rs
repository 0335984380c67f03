//! What an idle connection costs: a server in a process of its own, up to 10,000 silent connections
//! (fewer if the machine allows no more), and the resident memory that the system reports before
//! and after.
//!
//! `ANTIPHON_IDLE=1000` opens fewer, for a quick look.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon_net::ConnectionConfig;
use antiphon_stress::{LONG, Rt};

/// How many connections are wanted on tasks.
const WANTED: usize = 10_000;

/// How many bytes of resident memory each may cost over TCP on tokio. The other figures are only printed.
const MAX_BYTES: usize = 6 * 1024;

/// How many are wanted of the blocking adapter.
const WANTED_BLOCKING: usize = 2_000;

fn options() -> ConnectionConfig {
    ConnectionConfig::new(Config::new())
}

/// The server: prints its address, and then the number of its connections for every line it reads.
fn serve(kind: &str) {
    let print = |address: SocketAddr| println!("{address}");
    let tell = |connections: &dyn Fn() -> usize| {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() {
                break;
            }
            println!("{}", connections());
        }
    };
    match kind {
        "blocking" => {
            let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").unwrap();
            print(server.local_addr().unwrap());
            let server = server.max_connections(usize::MAX);
            let running = server.start(options(), |_| ()).unwrap();
            tell(&|| running.connections());
        }
        "tokio" | "tokio-ws" => {
            let tokio = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            let running = tokio.block_on(async {
                let server = antiphon_tokio::TcpServer::bind("127.0.0.1:0")
                    .await
                    .unwrap();
                print(server.local_addr());
                let server = server.max_connections(usize::MAX);
                server.start(options_of(kind), |_| ())
            });
            tell(&|| running.connections());
        }
        "smol" | "smol-ws" => {
            let running = Rt::Smol.run(|_| async {
                let server = antiphon_async_std::TcpServer::bind("127.0.0.1:0")
                    .await
                    .unwrap();
                print(server.local_addr());
                let server = server.max_connections(usize::MAX);
                server.start(options_of(kind), |_| ())
            });
            tell(&|| running.connections());
        }
        other => panic!("no server is called {other}"),
    }
}

fn options_of(kind: &str) -> ConnectionConfig {
    let mut options = options();
    if kind.ends_with("-ws") {
        options = options.with_websocket(antiphon_tokio::websocket::WebSocketConfig::server());
    }
    options
}

/// A server in a process of its own.
struct Server {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    address: SocketAddr,
}

impl Server {
    fn start(kind: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env("ANTIPHON_IDLE_SERVE", kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.next().unwrap().unwrap().parse().unwrap();
        Self {
            child,
            lines,
            address,
        }
    }

    fn connections(&mut self) -> usize {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        self.lines.next().unwrap().unwrap().parse().unwrap()
    }

    /// The resident memory of the process in bytes, as the system reports it.
    fn resident(&self) -> usize {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a WebSocket handshake by hand, and reads the answer to its end.
fn upgrade(stream: &mut TcpStream) {
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    assert!(
        answer.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

fn open(server: &Server, is_websocket: bool) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server.address)?;
    stream.set_read_timeout(Some(LONG))?;
    if is_websocket {
        upgrade(&mut stream);
    }
    Ok(stream)
}

/// Waits until the server has so many connections.
fn settle(server: &mut Server, connections: usize) {
    let deadline = Instant::now() + LONG;
    while server.connections() != connections {
        assert!(
            Instant::now() < deadline,
            "{} of {connections}",
            server.connections()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many connections could be opened, and how many bytes each costs the server while idle.
fn measure(kind: &str, wanted: usize) -> (usize, usize) {
    let mut server = Server::start(kind);
    let is_websocket = kind.ends_with("-ws");
    // The first connection allocates what all share.
    drop(open(&server, is_websocket).unwrap());
    settle(&mut server, 0);
    let before = server.resident();
    let mut open_ones = Vec::new();
    while open_ones.len() < wanted {
        match open(&server, is_websocket) {
            Ok(stream) => {
                open_ones.push(stream);
                // A full backlog would cost a second for each that does not fit.
                if open_ones.len() % 64 == 0 {
                    settle(&mut server, open_ones.len());
                }
            }
            Err(error) => {
                println!("SKIPPED beyond {} connections: {error}", open_ones.len());
                break;
            }
        }
    }
    settle(&mut server, open_ones.len());
    let each = server.resident().saturating_sub(before) / open_ones.len();
    (open_ones.len(), each)
}

// CON-12 SEC-10
fn idle_connections_cost_little() {
    let wanted = std::env::var("ANTIPHON_IDLE")
        .ok()
        .and_then(|n| n.parse().ok());
    for (kind, most) in [
        ("tokio", WANTED),
        ("smol", WANTED),
        ("tokio-ws", WANTED),
        ("smol-ws", WANTED),
        ("blocking", WANTED_BLOCKING),
    ] {
        let (open, each) = measure(kind, wanted.unwrap_or(most).min(most));
        println!("{kind}: {open} idle connections, {each} bytes resident each");
        assert!(open >= 500, "too few to say anything");
        assert!(
            kind != "tokio" || each <= MAX_BYTES,
            "{each} bytes are more than {MAX_BYTES}"
        );
    }
}

fn main() {
    if let Ok(kind) = std::env::var("ANTIPHON_IDLE_SERVE") {
        return serve(&kind);
    }
    idle_connections_cost_little();
    println!("test idle_connections_cost_little ... ok");
}
