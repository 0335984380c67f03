//! Real sockets on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::support::{LONG, Scripted, echo, within};
use antiphon::{CloseReason, Closed, Config};
use antiphon_blocking::{ConnectionConfig, Context, Link, TcpServer, attach};

// SRV-32
#[test]
fn both_sides_of_a_tcp_connection_call_each_other() {
    within(LONG, || {
        let server = TcpServer::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let make = |_: &Context| {
            Scripted::new(|_, request, reply| {
                let text = request.raw_params().unwrap().to_owned_json();
                reply.spawn(move |reply| {
                    let back = antiphon_blocking::Peer::of(&reply)
                        .call("echo", text.as_json())
                        .timeout(LONG)
                        .raw()
                        .wait();
                    reply.ok(back.unwrap().as_json()).unwrap();
                });
            })
            .0
        };
        let running = server.start(Config::new(), make).unwrap();
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let link = Link::tcp(address).unwrap();
                attach(link, Config::new(), Scripted::new(echo).0).unwrap()
            })
            .collect();
        for (n, client) in clients.iter().enumerate() {
            let text = "ä".repeat(200_000);
            let (number, back): (usize, String) = client.call("ask", &(n, &text)).wait().unwrap();
            assert_eq!((number, back), (n, text));
        }
        assert_eq!(running.connections(), 4);
        running.stop();
        for client in clients {
            assert_eq!(client.wait_closed(LONG).wait(), Some(Closed::EndOfInput));
        }
        assert!(TcpStream::connect(address).is_err());
    });
}

// CON-09
#[test]
fn a_shutdown_lets_what_has_begun_finish_and_waits_no_longer() {
    within(LONG, || {
        let (begun, begins) = mpsc::channel();
        let server = || {
            let server = TcpServer::bind("127.0.0.1:0").unwrap();
            let address = server.local_addr().unwrap();
            let begun = begun.clone();
            let (gone, is_gone) = mpsc::channel::<()>();
            let make = move |_: &Context| {
                let (begun, gone) = (begun.clone(), gone.clone());
                let service = Scripted::new(move |_, request, reply| {
                    // Dropped with the service, when the connection is over.
                    let _ = &gone;
                    let span = if request.method() == "short" {
                        50
                    } else {
                        600_000
                    };
                    let (begun, is_large) = (begun.clone(), request.method() == "large");
                    reply.spawn(move |reply| {
                        begun.send(()).unwrap();
                        if is_large {
                            let text = "x".repeat(8_000_000);
                            return reply.ok(&text).unwrap();
                        }
                        if reply.cancellation().wait(Duration::from_millis(span)) {
                            return drop(reply.cancelled());
                        }
                        reply.ok(&1).unwrap();
                    });
                });
                service.0
            };
            let mut options = ConnectionConfig::from(Config::new());
            options.linger = Duration::ZERO;
            (server.start(options, make).unwrap(), address, is_gone)
        };

        let (running, address, _) = server();
        let client = attach(Link::tcp(address).unwrap(), Config::new(), ()).unwrap();
        let call = client
            .call("short", ())
            .timeout(LONG)
            .start()
            .wait()
            .unwrap();
        begins.recv().unwrap();
        assert!(running.shutdown(LONG), "the request was cut off");
        assert_eq!(call.wait::<u8>().unwrap(), 1);
        assert!(client.wait_closed(LONG).wait().is_some());
        assert!(TcpStream::connect(address).is_err());

        let (running, address, _) = server();
        let client = attach(Link::tcp(address).unwrap(), Config::new(), ()).unwrap();
        let call = client
            .call("long", ())
            .timeout(LONG)
            .start()
            .wait()
            .unwrap();
        begins.recv().unwrap();
        assert!(!running.shutdown(Duration::from_millis(50)), "it has ended");
        assert!(call.wait::<u8>().is_err());

        // The client does not read the answer: the connection is dropped before it is written.
        let (running, address, is_gone) = server();
        let mut deaf = TcpStream::connect(address).unwrap();
        deaf.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"large\",\"id\":1}\n")
            .unwrap();
        begins.recv().unwrap();
        assert!(!running.shutdown(Duration::from_millis(50)), "it has ended");
        assert_eq!(
            is_gone.recv_timeout(LONG),
            Err(RecvTimeoutError::Disconnected)
        );
        deaf.set_read_timeout(Some(LONG)).unwrap();
        let mut read = Vec::new();
        // Cut short, or reset.
        let _ = deaf.read_to_end(&mut read);
        assert!(read.len() < 8_000_000, "{}", read.len());
    });
}

// CON-12 SEC-10
#[test]
fn one_address_takes_only_its_places() {
    within(LONG, || {
        let server = TcpServer::bind("127.0.0.1:0")
            .unwrap()
            .max_connections_per_address(1);
        let address = server.local_addr().unwrap();
        let running = server
            .start(Config::new(), |_| Scripted::new(echo).0)
            .unwrap();
        let first = attach(Link::tcp(address).unwrap(), Config::new(), ()).unwrap();
        assert_eq!(first.call::<[u8; 1]>("echo", &[1]).wait().unwrap(), [1]);
        let mut second = TcpStream::connect(address).unwrap();
        second.set_read_timeout(Some(LONG)).unwrap();
        assert!(matches!(second.read(&mut [0]), Ok(0) | Err(_)));
        first.close(CloseReason::Done);
        first.wait_closed(LONG).wait().unwrap();
        while running.connections() > 0 {
            std::thread::yield_now();
        }
        let third = attach(Link::tcp(address).unwrap(), Config::new(), ()).unwrap();
        assert_eq!(third.call::<[u8; 1]>("echo", &[3]).wait().unwrap(), [3]);
    });
}

#[test]
fn small_messages_are_not_delayed_on_either_side() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let observer = stream.try_clone().unwrap();
    assert!(!observer.nodelay().unwrap());
    let _link = Link::from_tcp(stream).unwrap();
    assert!(observer.nodelay().unwrap());

    // The socket that a server accepts.
    let (seen, accepted) = mpsc::channel();
    let seen = std::sync::Mutex::new(seen);
    let server = TcpServer::bind("127.0.0.1:0").unwrap();
    let server = server.on_accept(move |socket| {
        let is_prompt = socket.tcp_nodelay().unwrap();
        seen.lock().unwrap().send(is_prompt).unwrap();
    });
    let address = server.local_addr().unwrap();
    let _running = server.start(Config::new(), |_| ()).unwrap();
    let _link = Link::tcp(address).unwrap();
    assert_eq!(accepted.recv_timeout(LONG), Ok(true));
}

#[test]
fn a_connection_beyond_the_limit_is_closed_and_one_that_ends_makes_room() {
    within(LONG, || {
        let server = TcpServer::bind("127.0.0.1:0").unwrap().max_connections(1);
        let address = server.local_addr().unwrap();
        let (ended, ends) = mpsc::channel();
        let make = move |_: &Context| {
            let (service, log) = Scripted::new(echo);
            ended.send(log).unwrap();
            service
        };
        let running = server.start(Config::new(), make).unwrap();
        let first = attach(Link::tcp(address).unwrap(), Config::new(), ()).unwrap();
        assert_eq!(first.call::<[u8; 1]>("echo", &[1]).wait().unwrap(), [1]);
        let mut second = TcpStream::connect(address).unwrap();
        second.set_read_timeout(Some(LONG)).unwrap();
        assert!(matches!(second.read(&mut [0]), Ok(0) | Err(_)));
        first.close(CloseReason::Done);
        first.wait_closed(LONG).wait().unwrap();
        // Waits until the first service is dropped.
        ends.recv().unwrap().rest();
        // The first connection is no longer counted once the server has seen its end.
        while running.connections() > 0 {
            std::thread::yield_now();
        }
        let third = attach(Link::tcp(address).unwrap(), Config::new(), ()).unwrap();
        assert_eq!(third.call::<[u8; 1]>("echo", &[3]).wait().unwrap(), [3]);
    });
}

#[test]
fn a_taken_port_and_an_absent_server_are_clear_errors() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = TcpServer::bind(address).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    drop(taken);
    assert!(Link::tcp(address).is_err());
}

// STD-09
#[test]
fn a_client_that_has_said_all_still_gets_its_answer() {
    within(LONG, || {
        let server = TcpServer::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let _running = server
            .start(Config::new(), |_| Scripted::new(echo).0)
            .unwrap();
        // No line feed: the end of input ends the message, too.
        let request = br#"{"jsonrpc":"2.0","method":"echo","params":[1],"id":1}"#;
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let lines: Vec<_> = BufReader::new(stream).lines().map(Result::unwrap).collect();
        assert_eq!(lines, [r#"{"jsonrpc":"2.0","result":[1],"id":1}"#]);
    });
}

// STD-03
#[test]
fn the_last_answer_before_a_broken_framing_reaches_a_client_that_writes_on() {
    within(LONG, || {
        let server = TcpServer::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let _running = server
            .start(Config::lsp(), |_| Scripted::new(echo).0)
            .unwrap();
        let body = r#"{"jsonrpc":"2.0","method":"echo","id":1}"#;
        let frame = format!(
            "Content-Length: {}\r\n\r\n{body}rubbish\r\n\r\n",
            body.len()
        );
        stream.write_all(frame.as_bytes()).unwrap();
        // The server parses none of this. To close a socket with unread input would discard the
        // answer, so the server has to read all of this.
        stream.write_all(&[b'x'; 100_000]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert!(heard.ends_with(r#""result":null,"id":1}"#), "{heard}");
    });
}

#[cfg(unix)]
mod unix {
    use super::{Config, LONG, Link, Scripted, attach, echo, within};
    use antiphon_blocking::UnixServer;
    use std::path::PathBuf;

    /// A path of this test's own, in a folder that is removed afterwards.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = format!("antiphon-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn socket(&self) -> PathBuf {
            self.0.join("socket")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_unix_socket_serves_and_is_removed_when_its_server_stops() {
        within(LONG, || {
            let folder = Folder::new("serves");
            let server = UnixServer::bind(folder.socket()).unwrap();
            let running = server
                .start(Config::new(), || Scripted::new(echo).0)
                .unwrap();
            let link = Link::unix(folder.socket()).unwrap();
            let peer = attach(link, Config::new(), ()).unwrap();
            assert_eq!(peer.call::<[u8; 1]>("echo", &[1]).wait().unwrap(), [1]);
            running.stop();
            assert!(!folder.socket().exists());
            assert!(Link::unix(folder.socket()).is_err());
        });
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        within(LONG, || {
            let folder = Folder::new("stale");
            // A listener of the standard library leaves its path behind, as a killed server does.
            drop(std::os::unix::net::UnixListener::bind(folder.socket()).unwrap());
            assert!(folder.socket().exists());
            let server = UnixServer::bind(folder.socket()).unwrap();
            let error = UnixServer::bind(folder.socket()).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
            let path = folder.socket().display().to_string();
            assert!(error.to_string().contains(&path), "{error}");
            let _running = server
                .start(Config::new(), || Scripted::new(echo).0)
                .unwrap();
            let link = Link::unix(folder.socket()).unwrap();
            let peer = attach(link, Config::new(), ()).unwrap();
            assert_eq!(peer.call::<[u8; 1]>("echo", &[2]).wait().unwrap(), [2]);
        });
    }

    #[test]
    fn a_file_that_is_no_socket_is_not_removed() {
        let folder = Folder::new("file");
        std::fs::write(folder.socket(), "precious").unwrap();
        assert!(UnixServer::bind(folder.socket()).is_err());
        assert_eq!(std::fs::read(folder.socket()).unwrap(), b"precious");
    }
}
