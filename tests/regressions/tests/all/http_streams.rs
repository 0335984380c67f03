//! Replies over HTTP that are streams of events, over real sockets: what ends when a client has gone, and what a
//! proxy makes of them.

use std::future::pending;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, OwnedError};
use antiphon_net::{ConnectionConfig, Dispatcher, Peer, Router};
use antiphon_regressions::LONG;
use antiphon_regressions::routed::Routed;
use antiphon_regressions::served::{EVERYWHERE, Listener, On, Served};

/// A POST of a client that accepts a stream of events.
fn post(method: &str, params: &str) -> String {
    let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":1}}"#);
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn ask(address: SocketAddr, request: &str) -> Self {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a timeout");
        stream.write_all(request.as_bytes()).expect("it reads");
        Self(BufReader::new(stream))
    }

    /// Reads until this text has come, and returns what came.
    fn until(&mut self, text: &str) -> String {
        let mut come = String::new();
        let mut byte = [0];
        while !come.ends_with(text) {
            let read = self.0.read(&mut byte).expect("it comes in time");
            assert!(read > 0, "it ended before {text}: {come}");
            come.push(char::from(byte[0]));
        }
        come
    }
}

fn served(on: On) -> Served {
    Served::start(on, Listener::Http(Box::new(Config::new().into())))
}

// web.md §5
// USE-14 CAN-13
#[test]
fn a_client_that_closes_ends_its_handlers_within_the_stated_time() {
    for on in EVERYWHERE {
        let server = served(on);
        // On a stream whose head has been sent, and which is silent.
        let mut client = Client::ask(server.address(), &post("stream", "[60000]"));
        client.until("told");
        server.wait_running(1);
        drop(client);
        let after = server.wait_running(0);
        assert!(after < Duration::from_secs(1), "{on:?}: {after:?}");
        // Before any head.
        let client = Client::ask(server.address(), &post("slow", "[60000]"));
        server.wait_running(1);
        drop(client);
        let after = server.wait_running(0);
        assert!(after < Duration::from_millis(1500), "{on:?}: {after:?}");
    }
}

// web.md §5
// USE-14 CAN-13
#[test]
fn a_client_that_is_killed_ends_its_handlers_within_the_stated_time() {
    for on in EVERYWHERE {
        let server = served(on);
        for (method, most) in [("stream", 1000), ("slow", 1500)] {
            let script = "exec 3<>/dev/tcp/127.0.0.1/$0; printf '%s' \"$1\" >&3; exec sleep 600";
            let port = server.address().port().to_string();
            let request = post(method, "[60000]");
            let mut client = Command::new("bash")
                .args(["-c", script, &port, &request])
                .stdin(Stdio::null())
                .spawn()
                .expect("bash");
            server.wait_running(1);
            // The head of the stream is on its way.
            thread::sleep(Duration::from_millis(100));
            client.kill().expect("SIGKILL");
            let after = server.wait_running(0);
            client.wait().expect("it has ended");
            assert!(after.as_millis() < most, "{on:?} {method}: {after:?}");
        }
    }
}

/// Methods that listen until the server drains, and one that answers at once.
fn routers() -> (Router, antiphon_blocking::Router) {
    let tasks = Router::new()
        .method("listen", [], async |peer: Peer| {
            peer.notify("listening", ()).await?;
            peer.park(pending::<()>()).await;
            Ok::<_, OwnedError>("over")
        })
        .method("ping", [], || Ok::<_, OwnedError>("pong"));
    let threads = antiphon_blocking::Router::new()
        .method("listen", [], |peer: Peer| {
            peer.notify("listening", ()).wait()?;
            peer.park(pending::<()>()).wait();
            Ok::<_, OwnedError>("over")
        })
        .method("ping", [], || Ok::<_, OwnedError>("pong"));
    (tasks, threads)
}

// web.md §5
// USE-14
#[test]
fn a_call_is_answered_soon_while_two_hundred_listen() {
    for on in EVERYWHERE {
        let mut options = ConnectionConfig::from(Config::new());
        options.dispatcher = Dispatcher::new(64, 64);
        let server = Routed::start_http(on, options, routers());
        let listens: Vec<_> = (0..200)
            .map(|_| {
                let mut client = Client::ask(server.address(), &post("listen", "[]"));
                client.until("listening");
                client
            })
            .collect();
        // The machine may be busy with something else for a moment.
        let quickest = (0..10).map(|_| {
            let begun = Instant::now();
            Client::ask(server.address(), &post("ping", "[]")).until("pong");
            begun.elapsed()
        });
        let quickest = quickest.min().expect("ten calls");
        assert!(quickest < Duration::from_millis(50), "{on:?}: {quickest:?}");
        drop(listens);
    }
}

// USE-14 CON-09
#[test]
fn a_drain_on_threads_answers_listens() {
    let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let (_, router) = routers();
    let made = move |_: &antiphon_blocking::Context| router.clone();
    let running = server.start_http(Config::new(), made).expect("a thread");
    let mut client = Client::ask(address, &post("listen", "[]"));
    client.until("listening");
    let reading = thread::spawn(move || client.until("over"));
    let begun = Instant::now();
    assert!(running.shutdown(LONG), "it ends in time");
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
    reading.join().expect("it was answered");
}

/// Debian's nginx, as the system has it or `.ci/peers` has unpacked it.
#[cfg(target_os = "linux")]
fn nginx() -> Option<std::path::PathBuf> {
    let ours = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../.ci/cache/peers/nginx/root/usr/sbin/nginx"
    );
    let mut known = ["nginx", "/usr/sbin/nginx", ours].into_iter();
    let runs = |path: &&str| Command::new(path).arg("-v").stderr(Stdio::null()).status();
    known.find(|path| runs(path).is_ok()).map(Into::into)
}

/// A proxy in front of a server, with nginx's defaults, until it is dropped.
#[cfg(target_os = "linux")]
struct Proxy(std::process::Child, SocketAddr, std::path::PathBuf);

#[cfg(target_os = "linux")]
impl Proxy {
    fn start(nginx: &std::path::Path, server: SocketAddr) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = free.local_addr().expect("an address");
        drop(free);
        let name = format!("antiphon-nginx-{}-{}", std::process::id(), own.port());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let at = folder.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|kind| format!("{kind}_temp_path {at}/{kind};"));
        let temporary = temporary.concat();
        let config = format!(
            "daemon off; pid {at}/pid; error_log {at}/error.log; events {{}}\n\
             http {{ access_log off; {temporary}\n\
             server {{ listen {own}; location / {{ proxy_pass http://{server}; }} }} }}\n"
        );
        std::fs::write(folder.join("conf"), config).expect("a file");
        let child = Command::new(nginx)
            .args(["-p", &at.to_string(), "-c", &format!("{at}/conf")])
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        let due = Instant::now() + LONG;
        while TcpStream::connect(own).is_err() {
            assert!(Instant::now() < due, "nginx does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Self(child, own, folder)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Proxy {
    fn drop(&mut self) {
        // Its worker ends with it only after SIGTERM, not after SIGKILL.
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").arg(pid).status();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.2);
    }
}

// web.md §5
// USE-14
#[cfg(target_os = "linux")]
#[test]
fn the_first_event_comes_through_nginx_before_the_second_step_begins() {
    let Some(nginx) = nginx() else {
        println!("SKIPPED: there is no nginx");
        return;
    };
    for on in EVERYWHERE {
        let server = served(on);
        let proxy = Proxy::start(&nginx, server.address());
        let mut client = Client::ask(proxy.1, &post("stream", "[60000]"));
        client.until("told");
        // The handler has not gone on, and when the client closes it is dropped, through the proxy, too.
        server.wait_running(1);
        drop(client);
        let after = server.wait_running(0);
        assert!(after < Duration::from_millis(1500), "{on:?}: {after:?}");
    }
}
