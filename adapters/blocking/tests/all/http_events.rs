//! Replies that are streams of events, on threads: over our own connections, and by a sender of the program.
#![cfg(feature = "http")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon::{Config, McpRevision};
use antiphon_blocking::http::{HttpError, HttpRequest, HttpResponse, HttpSend, with_send};
use antiphon_blocking::{Client, connect};
use serde::Deserialize;

const LONG: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct Step {
    progress: u32,
}

/// Reads a head, and returns the length of the body.
fn read_head(reader: &mut impl BufRead) -> usize {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line of a head");
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().expect("a length");
        }
        if line.is_empty() {
            return length;
        }
    }
}

/// A server of one call, which sends the next step only after the last was heard, and then the answer.
fn server(heard: Receiver<u32>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        let mut body = vec![0; read_head(&mut reader)];
        reader.read_exact(&mut body).expect("a body");
        let body = String::from_utf8(body).expect("text");
        let (_, token) = body
            .split_once("\"progressToken\":")
            .expect("it asks for progress");
        let token = token.split(['}', ',']).next().expect("a token");
        let mut stream = &stream;
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("the client reads");
        for step in 1..=3 {
            let params = format!(r#"{{"progressToken":{token},"progress":{step}}}"#);
            let method = "notifications/progress";
            let data = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
            write!(stream, "data: {data}\r\n\r\n").expect("the client reads");
            assert_eq!(heard.recv_timeout(LONG), Ok(step));
        }
        let answer = "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":\"done\"}\n\n";
        stream
            .write_all(answer.as_bytes())
            .expect("the client reads");
    });
    (url, serving)
}

fn mcp() -> Config {
    Config::mcp(McpRevision::V2025_11_25)
}

/// Any blocking HTTP client.
struct Foreign;

impl HttpSend for Foreign {
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError> {
        let mut stream = TcpStream::connect(request.url.authority()).map_err(HttpError::Connect)?;
        stream
            .set_read_timeout(timeout)
            .map_err(HttpError::Unsent)?;
        let head = format!(
            "POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
            request.body.len()
        );
        let sent = stream.write_all(&[head.as_bytes(), &request.body].concat());
        sent.map_err(HttpError::Lost)?;
        let mut reader = BufReader::new(stream);
        read_head(&mut reader);
        let mut response = HttpResponse::new(200, "");
        response.headers.push("Content-Type", b"text/event-stream");
        Ok(response.with_reader(reader))
    }
}

// USE-14 HTP-05
#[test]
fn progress_is_heard_before_the_answer_of_one_reply_on_threads() {
    for with in [
        |url: &str| -> Client { connect(url, mcp(), ()).expect("a client") },
        |url: &str| -> Client { with_send(url, mcp(), Foreign).expect("a client") },
    ] {
        let (tell, heard) = channel();
        let (url, serving) = server(heard);
        let client = with(&url);
        let call = client.call::<String>("work", ()).timeout(LONG);
        let call = call.progress(|step: Step| tell.send(step.progress).expect("the server hears"));
        assert_eq!(call.wait().expect("an answer"), "done");
        serving.join().expect("no fault of the server");
    }
}
