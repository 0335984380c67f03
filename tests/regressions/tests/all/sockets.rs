//! The options of the TCP sockets of every adapter, and the hooks that see the sockets. The tests are
//! named after the fault, and assert that it is gone.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, OwnedError};
use antiphon_async_std::websocket::WebSocketConfig;
use antiphon_net::{Answer, Peer, Request, Service, SharedRuntime};
use antiphon_regressions::{LONG, Rt, choose_executor, on_every_runtime};
use socket2::SockRef;

/// Answers everything with `true`.
struct Yes;

impl Service for Yes {
    async fn request(&self, _: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(true.into())
    }
}

impl antiphon_blocking::Service for Yes {
    fn request(&mut self, _: &antiphon_blocking::Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(true.into())
    }
}

/// Waits until the system runs a keep-alive timer on both sockets of the connection to `server`.
fn assert_both_ends_keep_alive(server: SocketAddr) {
    let port = format!(":{:04X}", server.port());
    let deadline = Instant::now() + LONG;
    loop {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let established = table.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_ours = fields[1].ends_with(&port) || fields[2].ends_with(&port);
            // The state, and which timer runs: `02` is that of keep-alive on a quiet connection.
            (is_ours && fields[3] == "01").then(|| fields[5].starts_with("02:"))
        });
        let ends: Vec<bool> = established.collect();
        if ends == [true, true] {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "both ends keep alive: {ends:?}\n{table}"
        );
        // A timer of another kind may run for a moment, and there is no event to wait for.
        thread::sleep(Duration::from_millis(10));
    }
}

on_every_runtime! {
    tcp_sockets_are_without_keep_alive;
    websocket_sockets_are_without_keep_alive;
    http_sockets_are_without_keep_alive;
    nobody_sees_accepted_sockets;
}

/// Runs the body with the adapter of a runtime, under the given name.
macro_rules! with_adapter {
    ($rt:ident, $adapter:ident, $body:block) => {
        match $rt {
            Rt::Tokio | Rt::TokioLocal => {
                use antiphon_tokio as $adapter;
                $body
            }
            Rt::Smol | Rt::AsyncStd => {
                use antiphon_async_std as $adapter;
                $body
            }
        }
    };
}

// USE-23
fn tcp_sockets_are_without_keep_alive(rt: Rt) {
    rt.run(|_: SharedRuntime| async move {
        with_adapter!(rt, adapter, {
            let server = adapter::TcpServer::bind("127.0.0.1:0").await.unwrap();
            let address = server.local_addr();
            let _running = server.start(Config::new(), |_| Yes);
            let url = format!("tcp://{address}");
            let client = adapter::connect(url, Config::new(), ()).await.unwrap();
            assert!(client.call::<bool>("m", ()).await.unwrap());
            assert_both_ends_keep_alive(address);
        });
    });
}

// USE-23
fn websocket_sockets_are_without_keep_alive(rt: Rt) {
    rt.run(|_: SharedRuntime| async move {
        with_adapter!(rt, adapter, {
            let server = adapter::TcpServer::bind("127.0.0.1:0").await.unwrap();
            let address = server.local_addr();
            let options = adapter::ConnectionConfig::from(Config::new());
            let route = WebSocketConfig::server();
            let _running = server.start(options.with_websocket(route), |_| Yes);
            let url = format!("ws://{address}/");
            let client = adapter::connect(url, Config::new(), ()).await.unwrap();
            assert!(client.call::<bool>("m", ()).await.unwrap());
            assert_both_ends_keep_alive(address);
        });
    });
}

// USE-23
fn http_sockets_are_without_keep_alive(rt: Rt) {
    rt.run(|_: SharedRuntime| async move {
        with_adapter!(rt, adapter, {
            let server = adapter::TcpServer::bind("127.0.0.1:0").await.unwrap();
            let address = server.local_addr();
            let _running = server.start_http(Config::new(), Yes);
            let url = format!("http://{address}/");
            let client = adapter::connect(url, Config::new(), ()).await.unwrap();
            assert!(client.call::<bool>("m", ()).await.unwrap());
            assert_both_ends_keep_alive(address);
        });
    });
}

// USE-23
#[test]
fn sockets_are_without_keep_alive_on_threads() {
    use antiphon_blocking::{ConnectionConfig, TcpServer, connect};
    let server = TcpServer::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let running = server.start(Config::new(), |_| Yes).unwrap();
    let client = connect(format!("tcp://{address}"), Config::new(), ()).unwrap();
    assert!(client.call::<bool>("m", ()).wait().unwrap());
    assert_both_ends_keep_alive(address);
    drop(running);

    let server = TcpServer::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let options = ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
    let running = server.start(options, |_| Yes).unwrap();
    let client = connect(format!("ws://{address}/"), Config::new(), ()).unwrap();
    assert!(client.call::<bool>("m", ()).wait().unwrap());
    assert_both_ends_keep_alive(address);
    drop(running);

    let server = TcpServer::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let running = server.start_http(Config::new(), |_| Yes).unwrap();
    choose_executor();
    let client = connect(format!("http://{address}/"), Config::new(), ()).unwrap();
    assert!(client.call::<bool>("m", ()).wait().unwrap());
    assert_both_ends_keep_alive(address);
    drop(running);
}

/// What a hook has seen: whether keep-alive and `TCP_NODELAY` were on.
fn look(socket: &SockRef<'_>) -> (bool, bool) {
    (socket.keepalive().unwrap(), socket.tcp_nodelay().unwrap())
}

// USE-23
fn nobody_sees_accepted_sockets(rt: Rt) {
    rt.run(|_: SharedRuntime| async move {
        with_adapter!(rt, adapter, {
            let (seen, sockets) = mpsc::channel();
            let server = adapter::TcpServer::bind("127.0.0.1:0").await.unwrap();
            let address = server.local_addr();
            let seen = std::sync::Mutex::new(seen);
            let server = server.on_accept(move |socket| {
                let sent = seen.lock().unwrap().send(look(socket));
                sent.unwrap();
            });
            let _running = server.start(Config::new(), |_| Yes);
            let url = format!("tcp://{address}");
            let client = adapter::connect(url, Config::new(), ()).await.unwrap();
            assert!(client.call::<bool>("m", ()).await.unwrap());
            assert_eq!(sockets.try_recv().unwrap(), (true, true));
        });
    });
}

// USE-23
#[test]
fn nobody_sees_accepted_sockets_on_threads() {
    let (seen, sockets) = mpsc::channel();
    let hook = |seen: mpsc::Sender<_>| {
        let seen = std::sync::Mutex::new(seen);
        move |socket: &SockRef<'_>| seen.lock().unwrap().send(look(socket)).unwrap()
    };
    let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let server = server.on_accept(hook(seen.clone()));
    let _running = server.start(Config::new(), |_| Yes).unwrap();
    let link = antiphon_blocking::Link::tcp(address).unwrap();
    let peer = antiphon_blocking::attach(link, Config::new(), ()).unwrap();
    assert!(peer.call::<bool>("m", ()).wait().unwrap());
    assert_eq!(sockets.recv_timeout(LONG).unwrap(), (true, true));

    // The HTTP server has no thread for each connection, and calls its hook, too.
    let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let server = server.on_accept(hook(seen));
    let _running = server.start_http(Config::new(), |_| Yes).unwrap();
    choose_executor();
    let url = format!("http://{address}/");
    let client = antiphon_blocking::connect(url, Config::new(), ());
    assert!(client.unwrap().call::<bool>("m", ()).wait().unwrap());
    assert_eq!(sockets.recv_timeout(LONG).unwrap(), (true, true));
}

// USE-05
#[test]
fn a_socket_that_was_told_to_hurry_ends_the_connection() {
    for change in [
        (|stream| stream.set_nonblocking(true)) as fn(&TcpStream) -> std::io::Result<()>,
        |stream| stream.set_read_timeout(Some(Duration::from_millis(1))),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        change(&near).unwrap();
        // The socket is non-blocking, or has a short timeout. It is handed over once as a socket, and
        // once as a pair of streams.
        let (far, _) = listener.accept().unwrap();
        speak(near.into_link(), far);
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        change(&near).unwrap();
        let (far, _) = listener.accept().unwrap();
        speak((near.try_clone().unwrap(), near).into(), far);
    }
}

trait IntoLink {
    fn into_link(self) -> antiphon_blocking::Link;
}

impl IntoLink for TcpStream {
    fn into_link(self) -> antiphon_blocking::Link {
        antiphon_blocking::Link::from_tcp(self).unwrap()
    }
}

/// Calls over the link twice, with silence before each answer, and then sends 8 MiB.
fn speak(link: antiphon_blocking::Link, mut far: TcpStream) {
    let peer = antiphon_blocking::attach(link, Config::new(), ()).unwrap();
    far.set_read_timeout(Some(LONG)).unwrap();
    let answering = thread::spawn(move || {
        for id in 1..=2 {
            let mut asked = Vec::new();
            while !asked.ends_with(b"\n") {
                let mut byte = [0];
                far.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            // Long enough for a read to come back empty.
            thread::sleep(Duration::from_millis(30));
            let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{id}}}\n");
            far.write_all(answer.as_bytes()).unwrap();
        }
        far
    });
    for id in 1..=2 {
        assert_eq!(peer.call::<u32>("m", ()).wait().unwrap(), id);
    }
    let large = "x".repeat(8 << 20);
    peer.notify("large", &[&*large]).wait().unwrap();
    let mut far = answering.join().unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"\n") {
        let mut piece = [0; 1 << 16];
        let n = far.read(&mut piece).unwrap();
        assert!(n > 0, "it ends after {} bytes", heard.len());
        heard.extend_from_slice(&piece[..n]);
    }
    assert!(heard.len() > large.len());
}
