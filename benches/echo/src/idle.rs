//! What an idle connection holds of the heap, after it has been used: the core alone, and each adapter
//! over TCP, as a server and as a client; tokio's over WebSocket, too.
//!
//! ```text
//!   idle        the table
//! ```
//!
//! Rule: the other side is a socket of the standard library, which holds nothing
//! of the heap, so that what is counted belongs to one side; and nothing is counted before the heap
//! has come to rest, for a server frees its connections on a thread of its own, later than the
//! measurement that used them ends. Stacks of threads and the kernel's buffers are not of the heap.

#[path = "../../counting/mod.rs"]
mod counting;
#[path = "runtime.rs"]
#[allow(dead_code, reason = "nothing is spawned here, and there is no worker")]
mod runtime;
mod service;

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, Connection, Event, Input};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use runtime::Runtime;
use service::Echo;

mod row {
    /// Any error ends the program.
    pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
}
use row::Outcome;

/// How many connections are opened; what they hold together is divided by their number.
const CONNECTIONS: usize = 200;

const REQUEST: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"hello\"],\"id\":1}\n";
const ANSWER: &[u8] = b"{\"jsonrpc\":\"2.0\",\"result\":\"hello\",\"id\":1}\n";

/// For how long the heap must not change to count as at rest, and how long that is awaited.
const REST_TIME: Duration = Duration::from_millis(50);
const REST_TIMEOUT: Duration = Duration::from_secs(20);

/// The bytes held once nothing is allocated or freed any more.
fn held_at_rest() -> Outcome<i64> {
    let deadline = Instant::now() + REST_TIMEOUT;
    let mut held = counting::held();
    while Instant::now() < deadline {
        thread::sleep(REST_TIME);
        let before = std::mem::replace(&mut held, counting::held());
        if held == before {
            return Ok(held);
        }
    }
    Err("the heap does not come to rest".into())
}

/// Opens and uses connections by `open`, and prints what each of them holds while they are open.
fn show<C>(name: &str, open: impl Fn() -> Outcome<C>) -> Outcome<()> {
    // The first makes what is made only once.
    let first = open()?;
    let before = held_at_rest()?;
    let mut all = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        all.push(open()?);
    }
    let list = (CONNECTIONS * size_of::<C>()) as i64;
    let held = (held_at_rest()? - before - list) / CONNECTIONS as i64;
    println!("| {name} | {held} |");
    drop((first, all));
    Ok(())
}

/// A socket of the standard library that has asked a server once.
fn ask(server: std::net::SocketAddr) -> Outcome<TcpStream> {
    let mut socket = TcpStream::connect(server)?;
    socket.write_all(REQUEST)?;
    let mut answer = vec![0; ANSWER.len()];
    socket.read_exact(&mut answer)?;
    if answer != ANSWER {
        return Err("the server did not echo".into());
    }
    Ok(socket)
}

/// The other side of a client that has called once: afterwards a socket of the standard library.
async fn serve(listener: &tokio::net::TcpListener) -> std::io::Result<TcpStream> {
    let (mut socket, _) = listener.accept().await?;
    let mut request = vec![0; REQUEST.len()];
    socket.read_exact(&mut request).await?;
    socket.write_all(ANSWER).await?;
    socket.into_std()
}

fn core() -> Outcome<()> {
    let config = Config::new();
    println!(
        "| `size_of::<Connection>()`, of it `Config` {} | {} |",
        size_of::<Config>(),
        size_of::<Connection>()
    );
    show("core, fresh", || {
        Ok(Box::new(Connection::<()>::new(config)))
    })?;
    show("core, has answered", || {
        let mut conn = Box::new(Connection::<()>::new(config));
        let mut input = Input::stream(REQUEST);
        while let Some(event) = conn.poll_event(&mut input) {
            let Event::Request(request) = event else {
                continue;
            };
            conn.respond(request.token, request.params)?;
        }
        conn.consume_transmit(usize::MAX);
        Ok(conn)
    })?;
    show("core, has called", || {
        let mut conn = Box::new(Connection::<()>::new(config));
        conn.call("echo", &("hello",), None, ())?;
        conn.consume_transmit(usize::MAX);
        while conn.poll_event(&mut Input::stream(ANSWER)).is_some() {
            if conn.calls_open() == 0 {
                break;
            }
        }
        Ok(conn)
    })
}

/// Defines the same functions for two crates. The server has a runtime of its own on a thread that ends with the measurement.
macro_rules! on {
    ($name:ident, $adapter:ident, $runtime:expr, $title:literal) => {
        fn $name() -> Outcome<()> {
            use $adapter::{Link, TcpServer, attach};
            let (tell, told) = std::sync::mpsc::channel();
            thread::spawn(move || {
                let runtime = $runtime.expect("a runtime can be made");
                runtime.block_on(async {
                    let server = TcpServer::bind("127.0.0.1:0").await;
                    let server = server.expect("a port is free");
                    tell.send(server.local_addr()).expect("it is awaited");
                    let _running = server.start(Config::new(), |_| Echo);
                    std::future::pending::<()>().await;
                });
            });
            let address = told.recv()?;
            show(concat!($title, " TCP, server"), || ask(address))?;
            let runtime = $runtime?;
            let listening = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let listener = listening.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
            let address = listener.local_addr()?;
            thread::scope(|scope| {
                let (done, sockets) = std::sync::mpsc::channel();
                scope.spawn(move || {
                    for _ in 0..=CONNECTIONS {
                        let socket = listening.block_on(serve(&listener));
                        if done.send(socket).is_err() {
                            return;
                        }
                    }
                });
                show(concat!($title, " TCP, client"), || {
                    let peer = runtime.block_on(async {
                        let peer = attach(Link::tcp(address).await?, Config::new(), ());
                        peer.call::<String>("echo", &("hello",)).await?;
                        Ok::<_, Box<dyn Error>>(peer)
                    })?;
                    Ok((peer, sockets.recv()??))
                })
            })
        }
    };
}

on!(on_tokio, antiphon_tokio, Runtime::tokio(), "tokio");
on!(
    on_smol,
    antiphon_smol,
    Ok::<_, Box<dyn Error>>(Runtime::smol()),
    "smol"
);

fn on_threads() -> Outcome<()> {
    use antiphon_blocking::{Link, TcpServer, attach};
    let server = TcpServer::bind("127.0.0.1:0")?;
    let address = server.local_addr()?;
    let running = server.start(Config::new(), |_| Echo)?;
    show("blocking TCP, server", || ask(address))?;
    drop(running);
    let listening = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = listening.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    show("blocking TCP, client", || {
        let peer = attach(Link::tcp(address)?, Config::new(), ())?;
        let call = peer.call("echo", &("hello",)).no_timeout().start().wait()?;
        let socket = listening.block_on(serve(&listener))?;
        call.wait::<String>()?;
        Ok((peer, socket))
    })
}

/// A frame of a WebSocket with a short text, masked with zeros where a client sends it.
fn frame(text: &[u8], is_masked: bool) -> Vec<u8> {
    let length = text.len() as u8;
    let mut frame = vec![0x81, if is_masked { length | 0x80 } else { length }];
    if is_masked {
        frame.extend([0; 4]);
    }
    frame.extend(text);
    frame
}

/// Reads to the end of the head of a request or a response.
fn read_head(socket: &mut TcpStream) -> Outcome<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head)?)
}

/// A socket of the standard library that has asked a server over WebSocket once.
fn ask_websocket(server: std::net::SocketAddr) -> Outcome<TcpStream> {
    let mut socket = TcpStream::connect(server)?;
    socket.write_all(
        b"GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )?;
    read_head(&mut socket)?;
    socket.write_all(&frame(REQUEST.trim_ascii_end(), true))?;
    let wanted = frame(ANSWER.trim_ascii_end(), false);
    let mut answer = vec![0; wanted.len()];
    socket.read_exact(&mut answer)?;
    if answer != wanted {
        return Err("the server did not echo".into());
    }
    Ok(socket)
}

/// The other side of a client over WebSocket that calls once.
fn serve_websocket(listener: &std::net::TcpListener) -> Outcome<TcpStream> {
    let (mut socket, _) = listener.accept()?;
    let head = read_head(&mut socket)?;
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let mut keys = headers.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    let (_, key) = keys.next().ok_or("there is no key")?;
    let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    socket.write_all(head.as_bytes())?;
    let mut request = vec![0; frame(REQUEST.trim_ascii_end(), true).len()];
    socket.read_exact(&mut request)?;
    socket.write_all(&frame(ANSWER.trim_ascii_end(), false))?;
    Ok(socket)
}

fn on_websocket() -> Outcome<()> {
    use antiphon_tokio::websocket::WebSocketConfig;
    use antiphon_tokio::{ConnectionConfig, Link, TcpServer, attach};
    let runtime = tokio::runtime::Runtime::new()?;
    let _entered = runtime.enter();
    let server = runtime.block_on(TcpServer::bind("127.0.0.1:0"))?;
    let address = server.local_addr();
    let options = ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
    let running = server.start(options, |_| Echo);
    show("tokio WebSocket, server", || ask_websocket(address))?;
    drop(running);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let url = format!("ws://{address}/");
    thread::scope(|scope| {
        let (done, sockets) = std::sync::mpsc::channel();
        scope.spawn(move || {
            for _ in 0..=CONNECTIONS {
                let socket = serve_websocket(&listener).map_err(|error| error.to_string());
                if done.send(socket).is_err() {
                    return;
                }
            }
        });
        show("tokio WebSocket, client", || {
            let options = ConnectionConfig::from(Config::new());
            let options = options.with_websocket(WebSocketConfig::client(&url)?);
            let peer = runtime.block_on(async {
                let peer = attach(Link::tcp(address).await?, options, ());
                peer.call::<String>("echo", &("hello",)).await?;
                Ok::<_, Box<dyn Error>>(peer)
            })?;
            Ok((peer, sockets.recv()??))
        })
    })
}

fn main() -> Outcome<()> {
    println!("| connection | bytes of heap |");
    println!("|---|--:|");
    core()?;
    on_tokio()?;
    on_websocket()?;
    on_smol()?;
    on_threads()
}
