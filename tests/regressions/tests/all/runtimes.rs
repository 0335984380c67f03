//! The servers of these tests run on the runtime that a test names.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use antiphon::Config;
use antiphon_net::ConnectionConfig;
use antiphon_net::http::HttpConfig;
use antiphon_regressions::board::{self, request};
use antiphon_regressions::served::{EVERYWHERE, Listener, On, Served};

fn options() -> ConnectionConfig {
    ConnectionConfig::from(Config::new())
}

/// Sends a request, and returns what comes up to the end of its answer.
fn ask(mut stream: impl Read + Write, bytes: &str) -> String {
    stream.write_all(bytes.as_bytes()).expect("it reads");
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"}") {
        stream.read_exact(&mut byte).expect("an answer");
        answer.extend(byte);
    }
    String::from_utf8(answer).expect("text")
}

// ARC-15
#[test]
fn a_server_that_was_started_on_async_std_ran_on_smol() {
    let line = request("runtime", 1) + "\n";
    let http = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{line}",
        line.len()
    );
    for on in EVERYWHERE {
        let runtime = match on {
            On::Threads => None,
            On::Tasks(rt) => Some(rt),
        };
        let expected = format!(r#""result":["{runtime:?}"]"#);
        let connect = |address| TcpStream::connect(address).expect("it listens");
        let check = |answer: String| assert!(answer.contains(&expected), "{on:?}: {answer}");

        let server = Served::start(on, Listener::Tcp(options()));
        check(ask(server.connect(), &line));
        let server = Served::start(on, Listener::Http(Box::new(HttpConfig::from(options()))));
        check(ask(server.connect(), &http));
        let server = Served::start(on, Listener::Unix(options()));
        let stream = UnixStream::connect(server.path()).expect("it listens");
        check(ask(stream, &line));
        // The board has the method in its handlers on tasks alone.
        if on != On::Threads {
            let server = board::Server::start(on, options());
            check(ask(connect(server.address()), &line));
            let server = board::Server::start_http(on, options());
            check(ask(connect(server.address()), &http));
        }
    }
}
