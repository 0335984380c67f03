//! Writing what other operations do not: an error that answers a request, and a float.

use std::hint::black_box;
use std::io::Write;

use antiphon::{Config, Connection, Encoded, ErrorObject, Event, Framing, Input, ReplyToken};
use serde::Serialize;

use crate::operations::Operation;

const REQUEST: &[u8] =
    b"Content-Length: 49\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[],\"id\":1}";
const MESSAGE: &str = "Account not found";

/// Answers a request with an error, with Content-Length; its place in the table of requests included.
pub struct EncodeError {
    conn: Connection,
    tokens: Vec<ReplyToken>,
}

impl EncodeError {
    pub fn new() -> Self {
        let mut new = Self {
            conn: Connection::new(Config::new().framing(Framing::ContentLength)),
            tokens: Vec::new(),
        };
        new.between();
        new
    }
}

impl Operation for EncodeError {
    fn run(&mut self) {
        let error = ErrorObject::new(-32001, MESSAGE);
        for token in self.tokens.drain(..) {
            let sent = self.conn.respond_err(token, black_box(&error));
            sent.expect("there is room");
            black_box(self.conn.poll_transmit());
            self.conn.consume_transmit(usize::MAX);
        }
    }

    fn between(&mut self) {
        while self.tokens.len() < 32 {
            let event = self.conn.poll_event(&mut Input::stream(REQUEST));
            let Some(Event::Request(request)) = event else {
                panic!("{event:?}");
            };
            self.tokens.push(request.token);
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// An error that serde_json writes from a struct.
pub struct SerdeError {
    body: Vec<u8>,
    out: Vec<u8>,
}

#[derive(Serialize)]
struct SerdeResponse<'a> {
    jsonrpc: &'a str,
    error: SerdeObject<'a>,
    id: u64,
}

#[derive(Serialize)]
struct SerdeObject<'a> {
    code: i64,
    message: &'a str,
}

impl SerdeError {
    pub fn new() -> Self {
        Self {
            body: Vec::new(),
            out: Vec::new(),
        }
    }
}

impl Operation for SerdeError {
    fn run(&mut self) {
        let Self { body, out } = self;
        for _ in 0..32 {
            body.clear();
            out.clear();
            let message = SerdeResponse {
                jsonrpc: "2.0",
                error: SerdeObject {
                    code: -32001,
                    message: black_box(MESSAGE),
                },
                id: 1,
            };
            serde_json::to_writer(&mut *body, black_box(&message)).expect("it has a JSON form");
            write!(out, "Content-Length: {}\r\n\r\n", body.len()).expect("a vector takes all");
            out.extend_from_slice(body);
            black_box(&*out);
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// Writes one float, as a result or as one of the params.
pub struct WriteFloat {
    out: Vec<u8>,
}

impl WriteFloat {
    pub fn new() -> Self {
        Self { out: Vec::new() }
    }
}

impl Operation for WriteFloat {
    fn run(&mut self) {
        for number in [0.1, 15.0, 1.0 / 3.0, 6.022e23] {
            self.out.clear();
            let written = Encoded::write(black_box(&number), &mut self.out);
            black_box(written.expect("it is finite"));
            black_box(&self.out);
        }
    }

    fn count(&self) -> u64 {
        4
    }
}
