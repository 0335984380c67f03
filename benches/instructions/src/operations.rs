//! The operations that are counted and timed. Each goes through the public API and nothing else.
//!
//! Rule: what is measured is what a driver does on every message. What the measurement needs to go on (answering
//! the requests that were read, opening the calls to be settled) is done outside the measured part.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io::Write;
use std::mem;
use std::sync::Mutex;

use antiphon::service::{Interceptor, LocalRequest, LocalRouter};
use antiphon::{
    CallId, Config, Connection, Event, Framing, Input, Instant, Json, Outcome, OwnedError,
    OwnedJson, Payload, Reader, ReplyToken, RequestRef,
};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::corpus::Item;
use crate::decoding;
use crate::serde_typed;
use crate::tables::{CallAndGiveUp, HashAndHeap, RUN, Turns};
use crate::topics::Publish;
use crate::writing::{EncodeError, SerdeError, WriteFloat};

/// Something that is measured.
pub trait Operation {
    /// Does the operation [`count`](Self::count) times.
    fn run(&mut self);
    /// Makes ready for the next run, unmeasured.
    fn between(&mut self) {}
    /// Makes ready for a turn, unmeasured.
    fn turn(&mut self) {}
    /// How often one run does the operation.
    fn count(&self) -> u64;
}

/// An operation and its name.
pub struct Named {
    pub name: String,
    pub operation: Box<dyn Operation>,
}

const FRAMINGS: [Framing; 4] = [
    Framing::Newline,
    Framing::ContentLength,
    Framing::Concatenated,
    Framing::Messages,
];
const FAR: Option<Instant> = Some(Instant::from_millis(1 << 40));

/// Reading each item, by a `Reader` and by serde_json in turn.
pub fn reading(corpus: &[Item]) -> Vec<Named> {
    let mut reading = Vec::new();
    for item in corpus {
        let short = item.name;
        let mut add = |name, operation: Box<dyn Operation>| {
            reading.push(Named { name, operation });
        };
        add(format!("parse {short}"), Box::new(Read::new(item)));
        add(format!("serde {short}"), Box::new(Serde::new(item, false)));
    }
    reading
}

/// Receiving each item within a conversation.
pub fn receiving(corpus: &[Item]) -> Vec<Named> {
    let receive = |item: &Item| Named {
        name: format!("receive {}", item.name),
        operation: Box::new(Receive::new(item, false)),
    };
    corpus.iter().map(receive).collect()
}

/// Receiving each item and decoding its params or result, on a connection and by serde_json in turn, which decodes as it reads.
fn receiving_decoded(corpus: &[Item]) -> Vec<Named> {
    let both = |item: &Item| {
        let name = format!("read and decode {}", item.name);
        [
            Named {
                name: name.clone(),
                operation: Box::new(Receive::new(item, true)) as Box<dyn Operation>,
            },
            Named {
                name: format!("{name} by serde_json"),
                operation: Box::new(Serde::new(item, true)),
            },
        ]
    };
    corpus.iter().flat_map(both).collect()
}

/// Every operation, in the order of the tables.
pub fn all(corpus: &[Item]) -> Vec<Named> {
    let mut all = reading(corpus);
    all.extend(receiving(corpus));
    all.extend(receiving_decoded(corpus));
    all.extend(decoding::all(corpus));
    let mut add = |name: String, operation: Box<dyn Operation>| all.push(Named { name, operation });
    let notification = r#"{"jsonrpc":"2.0","method":"update","params":[1,2.5,"three",null]}"#;
    add(
        "dispatch notification, drained".into(),
        Box::new(Dispatch::new(notification)),
    );
    add("answer by hand".into(), Box::new(Answer::ping(false)));
    add("answer by a router".into(), Box::new(Answer::ping(true)));
    add("add by hand".into(), Box::new(Answer::add(false)));
    add(
        "add by a router past an interceptor".into(),
        Box::new(Answer::add(true)),
    );
    add(
        "batch of 100, both sides".into(),
        Box::new(BatchOf100::new()),
    );
    for framing in FRAMINGS {
        add(
            format!("round trip {framing:?}"),
            Box::new(RoundTrip::new(framing)),
        );
    }
    let payload = &corpus[5].messages[0];
    let large = Json::parse_str(payload)
        .expect("the corpus is valid")
        .get("result")
        .expect("it is an answer");
    let huge = Json::parse_str(&corpus[6].messages[0])
        .expect("the corpus is valid")
        .get("params")
        .expect("it is a request");
    for framing in FRAMINGS {
        let params = OwnedJson::from(Json::parse_str("[42,23]").expect("it is JSON"));
        add(
            format!("encode small {framing:?}"),
            Box::new(Encode::new(framing, Body::Json(params))),
        );
    }
    add(
        "encode small by serde_json".into(),
        Box::new(SerdeEncode::new()),
    );
    add(
        "encode values ContentLength".into(),
        Box::new(Encode::new(Framing::ContentLength, Body::Small)),
    );
    for framing in [Framing::Newline, Framing::ContentLength] {
        for (name, text) in [("24 KB", large), ("1 MiB", huge)] {
            let name = format!("encode {name} {framing:?}");
            add(
                name,
                Box::new(Encode::new(framing, Body::Placed(Placed::new(text)))),
            );
        }
    }
    for (name, text) in [("24 KB", large), ("1 MiB", huge)] {
        add(format!("copy {name}"), Box::new(Copy::new(text)));
    }
    add(
        "encode list of 320 values ContentLength".into(),
        Box::new(Encode::new(Framing::ContentLength, Body::List)),
    );
    add("call".into(), Box::new(CallOnly::new()));
    add("notify".into(), Box::new(NotifyOnly::new()));
    add("settle".into(), Box::new(Settle::new(true)));
    add("unmatched".into(), Box::new(Settle::new(false)));
    add(
        "encode request ContentLength".into(),
        Box::new(EncodeRequest::new()),
    );
    add(
        "encode request by serde_json".into(),
        Box::new(SerdeRequest::new()),
    );
    add(
        "encode error ContentLength".into(),
        Box::new(EncodeError::new()),
    );
    add(
        "encode error by serde_json".into(),
        Box::new(SerdeError::new()),
    );
    add("write a float".into(), Box::new(WriteFloat::new()));
    for open in [1, 10_000, 1_000_000] {
        add(
            format!("call and give up, {open} open"),
            Box::new(CallAndGiveUp::new(open)),
        );
        add(format!("turns, {open} open"), Box::new(Turns::new(open)));
        add(
            format!("table of hash and heap, {open} open"),
            Box::new(HashAndHeap::new(open)),
        );
    }
    for open in [1, 100, 10_000, 1_000_000] {
        add(
            format!("call and settle, {open} open"),
            Box::new(CallAndSettle::new(open)),
        );
    }
    add("deadline moved".into(), Box::new(MoveDeadline::new()));
    add("deadline passed".into(), Box::new(PassDeadline::new()));
    for subscriptions in [1000, 100_000, 1_000_000] {
        add(
            format!("publish to 10 among {subscriptions}"),
            Box::new(Publish::new(subscriptions)),
        );
    }
    for (name, item) in [("01", &corpus[0]), ("09", &corpus[8])] {
        for framing in [
            Framing::Newline,
            Framing::ContentLength,
            Framing::Concatenated,
        ] {
            for step in [1, usize::MAX] {
                let how = if step == 1 { "by bytes" } else { "whole" };
                let feed = Feed::new(framing, &item.messages[0], step);
                add(format!("feed {name} {framing:?} {how}"), Box::new(feed));
            }
        }
    }
    all
}

/// Reading an item, message by message, by a `Reader`.
struct Read {
    messages: Vec<String>,
    times: usize,
    reader: Reader,
    /// Where in the messages the next run begins: it reads as many of the mix as are received in a run.
    next: usize,
}

impl Read {
    fn new(item: &Item) -> Self {
        let mut config = Config::new();
        config.limits.max_message_bytes = 2 << 20;
        Self {
            messages: item.messages.clone(),
            times: times(item),
            reader: Reader::new(config),
            next: 0,
        }
    }
}

impl Operation for Read {
    fn run(&mut self) {
        for _ in 0..self.times {
            let end = (self.next + PART).min(self.messages.len());
            for text in &self.messages[self.next..end] {
                let text = text.as_bytes();
                #[cfg(feature = "extra_pass")]
                black_box(text.iter().copied().map(u64::from).sum::<u64>());
                let mut messages = self
                    .reader
                    .read(black_box(text))
                    .expect("the corpus is valid");
                // By reference, as in a `match`: a copy would be the loop's cost and not the reader's.
                while black_box(&messages.next()).is_some() {}
            }
        }
    }

    fn between(&mut self) {
        self.next = (self.next + PART) % self.messages.len().max(PART);
    }

    fn count(&self) -> u64 {
        (self.times * self.messages.len().min(PART)) as u64
    }
}

/// Receiving an item, message by message, through `poll_event`. Requests go to a server, answers to a client that has called:
/// between the runs the server answers, and new clients call.
struct Receive {
    messages: Vec<Message>,
    times: usize,
    server: Connection,
    clients: Vec<Connection>,
    tokens: Vec<ReplyToken>,
    decodes: bool,
    /// Where in the messages the next run begins: it receives a part of the mix, for no usual server has thousands of
    /// requests open.
    next: usize,
}

/// Messages in one run.
pub const PART: usize = 500;

struct Message {
    text: String,
    /// The id, if the message is an answer.
    answers: Option<u64>,
}

/// How often a run repeats an item: the smaller the oftener.
pub fn times(item: &Item) -> usize {
    match item.bytes() {
        _ if item.messages.len() > 1 => 1,
        0..10_000 => 32,
        10_000..100_000 => 8,
        _ => 1,
    }
}

impl Receive {
    fn new(item: &Item, decodes: bool) -> Self {
        let message = |text: &String| {
            let json = Json::parse_str(text).expect("the corpus is valid");
            let id = json.get("id").filter(|_| json.get("method").is_none());
            Message {
                text: text.clone(),
                answers: id.map(|id| id.decode().expect("a number")),
            }
        };
        let mut new = Self {
            messages: item.messages.iter().map(message).collect(),
            times: times(item),
            server: Connection::new(Self::config(1)),
            clients: Vec::new(),
            tokens: Vec::with_capacity(1 << 13),
            decodes,
            next: 0,
        };
        new.between();
        new
    }

    fn config(first_call: u64) -> Config {
        let mut config = Config::new().framing(Framing::Messages);
        // By default a connection serves fewer requests at once than the mix has, and takes messages up to 1 MiB.
        config.limits.max_open_requests = 1 << 13;
        config.limits.max_message_bytes = 2 << 20;
        config.first_call = first_call;
        config
    }

    /// A client whose calls from `first` to `last` are open.
    fn client(first: u64, last: u64) -> Connection {
        let mut conn = Connection::new(Self::config(first));
        while conn
            .call("ask", (), None, ())
            .expect("there is room")
            .number()
            < last
        {
            conn.consume_transmit(usize::MAX);
        }
        conn.consume_transmit(usize::MAX);
        conn
    }
}

impl Operation for Receive {
    fn run(&mut self) {
        for time in 0..self.times {
            let end = (self.next + PART).min(self.messages.len());
            for message in &self.messages[self.next..end] {
                let text = message.text.as_bytes();
                #[cfg(feature = "extra_pass")]
                black_box(text.iter().copied().map(u64::from).sum::<u64>());
                let conn = match message.answers {
                    Some(_) => &mut self.clients[time],
                    None => &mut self.server,
                };
                let mut input = Input::message(black_box(text));
                while input.consumed() < text.len() {
                    let event = conn.poll_event(&mut input);
                    if self.decodes {
                        black_box(event.as_ref().and_then(body).map(decode));
                    }
                    match event {
                        Some(Event::Request(request)) => self.tokens.push(black_box(request).token),
                        event => drop(black_box(event)),
                    }
                }
            }
        }
    }

    fn between(&mut self) {
        // The last request is answered first, so that the table of requests is used as a stack of few slots.
        while let Some(token) = self.tokens.pop() {
            self.server.respond(token, ()).expect("it is open");
            self.server.consume_transmit(usize::MAX);
        }
        self.next = (self.next + PART) % self.messages.len().max(PART);
        if self.next > 0 && !self.clients.is_empty() {
            return;
        }
        let answers = self.messages.iter().filter_map(|message| message.answers);
        if let Some(last) = answers.clone().max() {
            let first = answers.min().unwrap_or(last).max(1);
            self.clients.clear();
            for _ in 0..self.times {
                let mut client = Self::client(first, last);
                assert_eq!(client.calls_open() as u64, last - first + 1);
                // The first message allocates what reading needs on the heap.
                let unmatched = br#"{"jsonrpc":"2.0","result":1,"id":0}"#;
                assert!(client.poll_event(&mut Input::message(unmatched)).is_some());
                self.clients.push(client);
            }
        }
    }

    fn count(&self) -> u64 {
        (self.times * self.messages.len().min(PART)) as u64
    }
}

/// The params or the result of what was received.
fn body<'a>(event: &Event<'a, ()>) -> Option<Json<'a>> {
    match event {
        Event::Request(request) => request.params,
        Event::Notification(notification) => notification.params,
        Event::Response(response) => match &response.outcome {
            Outcome::Ok(result) => Some(*result),
            _ => None,
        },
        _ => None,
    }
}

/// Into a type that reads all and keeps nothing.
fn decode(json: Json<'_>) {
    json.decode::<IgnoredAny>().expect("the corpus is valid");
}

struct Serde {
    decodes: bool,
    next: usize,
    messages: Vec<String>,
    times: usize,
}

impl Serde {
    fn new(item: &Item, decodes: bool) -> Self {
        Self {
            decodes,
            next: 0,
            messages: item.messages.clone(),
            times: times(item),
        }
    }
}

impl Operation for Serde {
    fn run(&mut self) {
        for _ in 0..self.times {
            let end = (self.next + PART).min(self.messages.len());
            for message in &self.messages[self.next..end] {
                let text = black_box(message.as_bytes());
                if self.decodes {
                    black_box(serde_typed::parse::<IgnoredAny>(text));
                } else {
                    black_box(serde_typed::parse::<&RawValue>(text));
                }
            }
        }
    }

    fn between(&mut self) {
        self.next = (self.next + PART) % self.messages.len().max(PART);
    }

    fn count(&self) -> u64 {
        (self.times * self.messages.len().min(PART)) as u64
    }
}

/// From a line to its event, and the turn of the loop that finds nothing more.
struct Dispatch {
    line: String,
    conn: Connection,
}

impl Dispatch {
    fn new(message: &str) -> Self {
        Self {
            line: format!("{message}\n"),
            conn: Connection::new(Config::new()),
        }
    }
}

impl Operation for Dispatch {
    fn run(&mut self) {
        for _ in 0..32 {
            self.conn.handle_timeout(Instant::from_millis(5));
            let mut input = Input::stream(black_box(self.line.as_bytes()));
            while let Some(event) = self.conn.poll_event(&mut input) {
                black_box(event);
            }
            black_box(self.conn.poll_timeout());
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// From a request to its answer.
struct Answer {
    conn: Connection,
    answering: Answering,
    line: &'static [u8],
}

enum Answering {
    ByHand(fn(&mut Connection, RequestRef<'_>)),
    /// The router, which finds the method by its name.
    Router(LocalRouter),
}

/// An interceptor that does nothing.
struct Passes;

impl Interceptor<LocalRequest> for Passes {}

impl Answer {
    fn new(answering: Answering, line: &'static [u8]) -> Self {
        Self {
            conn: Connection::new(Config::new()),
            answering,
            line,
        }
    }

    /// A request without params, answered with null.
    fn ping(is_routed: bool) -> Self {
        let answering = match is_routed {
            true => Answering::Router(Self::router()),
            false => Answering::ByHand(|conn, request| {
                assert_eq!(request.method, "ping");
                conn.respond(request.token, ()).expect("it is open");
            }),
        };
        let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":7}\n";
        Self::new(answering, line)
    }

    /// Two numbers as params, answered with their sum; where there is a router, past an interceptor.
    fn add(is_routed: bool) -> Self {
        let answering = match is_routed {
            true => {
                let add = |a: i64, b: i64| Ok::<_, OwnedError>(a + b);
                let router = Self::router().method("add", ["a", "b"], add);
                Answering::Router(router.intercept(Passes))
            }
            false => Answering::ByHand(|conn, request| {
                assert_eq!(request.method, "add");
                let params = request.params.expect("two numbers");
                let (a, b): (i64, i64) = params.decode().expect("two numbers");
                conn.respond(request.token, &(a + b)).expect("it is open");
            }),
        };
        let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"add\",\"params\":[10,5],\"id\":7}\n";
        Self::new(answering, line)
    }

    fn router() -> LocalRouter {
        let all = [
            "ping", "one", "two", "three", "four", "five", "six", "seven",
        ];
        let router = LocalRouter::new();
        let add = |router: LocalRouter, name| router.method(name, [], || ());
        all.into_iter().fold(router, add)
    }
}

impl Operation for Answer {
    fn run(&mut self) {
        for _ in 0..32 {
            let mut input = Input::stream(black_box(self.line));
            while let Some(event) = self.conn.poll_event(&mut input) {
                let Event::Request(request) = event else {
                    panic!("{event:?}")
                };
                match &mut self.answering {
                    Answering::Router(router) => router
                        .respond(&mut self.conn, request)
                        .expect("it is served"),
                    Answering::ByHand(answer) => answer(&mut self.conn, request),
                }
            }
            let written = self.conn.poll_transmit().map_or(0, <[u8]>::len);
            self.conn.consume_transmit(written);
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

struct BatchOf100 {
    client: Connection,
    server: Connection,
    wire: Vec<u8>,
}

impl BatchOf100 {
    fn new() -> Self {
        let config = Config::new().framing(Framing::Messages);
        Self {
            client: Connection::new(config),
            server: Connection::new(config),
            wire: Vec::new(),
        }
    }
}

impl Operation for BatchOf100 {
    fn run(&mut self) {
        let mut batch = self.client.batch(None);
        for n in 0..100_u64 {
            black_box(
                batch
                    .call::<u64>("square", black_box(&[n]), ())
                    .expect("there is room"),
            );
        }
        batch.send().expect("it has entries");
        self.wire.clear();
        self.client.take_transmit(&mut self.wire);
        let mut input = Input::message(&self.wire);
        while let Some(event) = self.server.poll_event(&mut input) {
            if let Event::Request(request) = event {
                self.server
                    .respond(request.token, request.params)
                    .expect("it is open");
            }
        }
        self.wire.clear();
        self.server.take_transmit(&mut self.wire);
        let mut input = Input::message(&self.wire);
        while let Some(event) = self.client.poll_event(&mut input) {
            black_box(event);
        }
    }

    fn count(&self) -> u64 {
        1
    }
}

fn show<'a>(framing: Framing, bytes: &'a [u8]) -> Input<'a> {
    match framing {
        Framing::Messages => Input::message(bytes),
        _ => Input::stream(bytes),
    }
}

/// Row 14: encode, parse, dispatch, reply, parse, with 60 bytes each way and a deadline.
struct RoundTrip {
    framing: Framing,
    client: Connection<u64>,
    server: Connection,
    wire: Vec<u8>,
}

impl RoundTrip {
    fn new(framing: Framing) -> Self {
        let config = Config::new().framing(framing);
        Self {
            framing,
            client: Connection::new(config),
            server: Connection::new(config),
            wire: Vec::new(),
        }
    }
}

impl Operation for RoundTrip {
    fn run(&mut self) {
        for tag in 0..32 {
            self.client
                .call("subtract", black_box(&(42, 23)), FAR, tag)
                .expect("there is room");
            self.wire.clear();
            self.client.take_transmit(&mut self.wire);
            let mut input = show(self.framing, &self.wire);
            while let Some(event) = self.server.poll_event(&mut input) {
                if let Event::Request(request) = event {
                    // Dispatch: the method is compared, and the handler gives the params back.
                    let known = matches!(request.method.as_ref(), "subtract" | "add");
                    self.server
                        .respond(request.token, request.params.filter(|_| known))
                        .expect("it is open");
                }
            }
            self.wire.clear();
            self.server.take_transmit(&mut self.wire);
            let mut input = show(self.framing, &self.wire);
            while let Some(event) = self.client.poll_event(&mut input) {
                let Event::Response(response) = event else {
                    panic!("an answer comes back")
                };
                assert!(response.tag == tag && matches!(response.outcome, Outcome::Ok(_)));
            }
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

#[derive(Serialize)]
struct Row {
    id: u32,
    name: String,
    price: f64,
    tags: [&'static str; 2],
}

enum Body {
    Small,
    /// Params that are text already.
    Json(OwnedJson),
    /// Large params that are text already, at another place of memory in each turn.
    Placed(Placed),
    List,
}

struct Encode {
    body: Body,
    rows: Vec<Row>,
    config: Config,
    conn: Connection,
    before: Kept<Connection>,
}

impl Encode {
    fn new(framing: Framing, body: Body) -> Self {
        let row = |id| Row {
            id,
            name: format!("item {id}"),
            price: f64::from(id) + 0.25,
            tags: ["a", "b"],
        };
        let mut config = Config::new().framing(framing);
        // An emptied output keeps at most its soft limit: so 1 MiB is reused as the others are.
        config.limits.soft_max_outbox_bytes = 4 << 20;
        Self {
            body,
            rows: (0..320).map(row).collect(),
            config,
            conn: Connection::new(config),
            before: Kept::default(),
        }
    }

    fn times(&self) -> usize {
        match &self.body {
            Body::Small | Body::Json(_) => 32,
            Body::Placed(placed) => placed.times(),
            Body::List => 4,
        }
    }
}

fn write(
    times: usize,
    conn: &mut Connection,
    method: &str,
    params: impl Payload + std::marker::Copy,
) {
    for _ in 0..times {
        let params = black_box(params);
        conn.notify(method, params).expect("there is room");
        black_box(conn.poll_transmit());
        conn.consume_transmit(usize::MAX);
    }
}

impl Operation for Encode {
    fn run(&mut self) {
        let (times, conn) = (self.times(), &mut self.conn);
        // What is written is chosen before the loop, as it is for serde_json and for the copy.
        match &self.body {
            Body::Small => write(times, conn, "textDocument/hover", &(42, 23)),
            Body::Json(json) => write(times, conn, "subtract", json.as_json()),
            Body::Placed(placed) => write(times, conn, "subtract", placed.text),
            Body::List => write(times, conn, "store", &self.rows),
        }
    }

    fn turn(&mut self) {
        if let Body::Placed(placed) = &mut self.body {
            placed.turn();
            let before = mem::replace(&mut self.conn, Connection::new(self.config));
            self.before.keep(before);
            self.run();
        }
    }

    fn count(&self) -> u64 {
        self.times() as u64
    }
}

/// The small frame by a struct and serde_json: the body into one buffer, then header and body into another.
struct SerdeEncode {
    params: Box<serde_json::value::RawValue>,
    body: Vec<u8>,
    out: Vec<u8>,
}

#[derive(Serialize)]
struct SerdeNotification<'a> {
    jsonrpc: &'a str,
    method: &'a str,
    params: &'a serde_json::value::RawValue,
}

impl SerdeEncode {
    fn new() -> Self {
        Self {
            params: serde_json::value::RawValue::from_string("[42,23]".into()).expect("it is JSON"),
            body: Vec::new(),
            out: Vec::new(),
        }
    }
}

impl Operation for SerdeEncode {
    fn run(&mut self) {
        for _ in 0..32 {
            self.body.clear();
            self.out.clear();
            let message = SerdeNotification {
                jsonrpc: "2.0",
                method: "subtract",
                params: black_box(&self.params),
            };
            serde_json::to_writer(&mut self.body, black_box(&message)).expect("it has a JSON form");
            write!(self.out, "Content-Length: {}\r\n\r\n", self.body.len())
                .expect("a vector takes all");
            self.out.extend_from_slice(&self.body);
            black_box(&self.out);
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// The request of item 01 with Content-Length, its place in the table of calls included.
struct EncodeRequest {
    params: OwnedJson,
    conn: Connection<u64>,
}

impl EncodeRequest {
    fn new() -> Self {
        Self {
            params: OwnedJson::from(Json::parse_str("[42,23]").expect("it is JSON")),
            conn: Connection::new(Config::new().framing(Framing::ContentLength)),
        }
    }
}

impl Operation for EncodeRequest {
    fn run(&mut self) {
        let params = self.params.as_json();
        for tag in 0..32 {
            let sent = self.conn.call("subtract", black_box(params), None, tag);
            black_box(sent.expect("there is room"));
            black_box(self.conn.poll_transmit());
            self.conn.consume_transmit(usize::MAX);
        }
    }

    fn between(&mut self) {
        let mut framed = Vec::new();
        let mut reply = Vec::new();
        let call = self.conn.call("last", (), None, 0).expect("there is room");
        self.conn.consume_transmit(usize::MAX);
        let mut number = call.number();
        while self.conn.calls_open() > 0 {
            answer(&mut reply, number);
            framed.clear();
            write!(framed, "Content-Length: {}\r\n\r\n", reply.len()).expect("a vector takes all");
            framed.extend_from_slice(&reply);
            let mut input = Input::stream(&framed);
            while self.conn.poll_event(&mut input).is_some() {}
            number -= 1;
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// A request that serde_json writes from a struct.
struct SerdeRequest {
    like: SerdeEncode,
    id: u64,
}

#[derive(Serialize)]
struct SerdeCall<'a> {
    jsonrpc: &'a str,
    method: &'a str,
    params: &'a serde_json::value::RawValue,
    id: u64,
}

impl SerdeRequest {
    fn new() -> Self {
        Self {
            like: SerdeEncode::new(),
            id: 1,
        }
    }
}

impl Operation for SerdeRequest {
    fn run(&mut self) {
        let SerdeEncode { params, body, out } = &mut self.like;
        for _ in 0..32 {
            body.clear();
            out.clear();
            let message = SerdeCall {
                jsonrpc: "2.0",
                method: "subtract",
                params: black_box(params),
                id: self.id,
            };
            self.id += 1;
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

/// The bytes of a frame into a reused buffer, at the offset at which a frame has them: the limit of row 10.
struct Copy {
    from: Placed,
    head: String,
    out: Vec<u8>,
    before: Kept<Vec<u8>>,
}

impl Copy {
    fn new(from: Json<'_>) -> Self {
        let body = r#"{"jsonrpc":"2.0","method":"subtract","params":"#;
        let length = body.len() + from.len() + 1;
        Self {
            from: Placed::new(from),
            head: format!("Content-Length: {length}\r\n\r\n{body}"),
            out: Vec::new(),
            before: Kept::default(),
        }
    }
}

impl Operation for Copy {
    fn run(&mut self) {
        let (from, out) = (self.from.text, &mut self.out);
        for _ in 0..self.from.times() {
            out.clear();
            out.extend_from_slice(self.head.as_bytes());
            let from = black_box(from);
            out.extend_from_slice(from.as_str().as_bytes());
            black_box(&out);
        }
    }

    fn turn(&mut self) {
        self.from.turn();
        self.before.keep(mem::take(&mut self.out));
        self.run();
    }

    fn count(&self) -> u64 {
        self.from.times() as u64
    }
}

/// A large text that is at another place in its page in each turn. How long it takes to copy depends, by a factor of two, on
/// where source and destination lie, so a figure of one place would be true of that place only.
struct Placed {
    text: Json<'static>,
    /// `text` in all places; `None` before the first turn.
    places: Option<&'static [Json<'static>]>,
    turns: usize,
}

/// How many places there are, and how far each is from the one before: so they are spread over a page, and over a cache line.
const PLACES: usize = 32;
const STEP: usize = 4096 + 128 + 16;

/// All places of the texts that have had turns; operations with the same text share its places. They last as long as the
/// program, so that an operation can hold a borrowed text.
static PLACED: Mutex<Vec<&'static [Json<'static>]>> = Mutex::new(Vec::new());

impl Placed {
    fn new(text: Json<'_>) -> Self {
        let text: &str = Box::leak(text.as_str().into());
        Self {
            text: Json::parse_str(text).expect("it was parsed before"),
            places: None,
            turns: 0,
        }
    }

    fn turn(&mut self) {
        let places = *self.places.get_or_insert_with(|| places(self.text));
        self.text = places[self.turns % places.len()];
        self.turns += 1;
    }

    fn times(&self) -> usize {
        if self.text.len() > 100_000 { 1 } else { 4 }
    }
}

/// The outputs of the last turns, kept so that a new one lies in other pages of memory.
struct Kept<T>(VecDeque<T>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Kept<T> {
    fn keep(&mut self, output: T) {
        if self.0.len() == PLACES {
            self.0.pop_front();
        }
        self.0.push_back(output);
    }
}

/// Returns copies of a text, one in each place. They are made once.
fn places(text: Json<'_>) -> &'static [Json<'static>] {
    let mut placed = PLACED.lock().expect("nobody panics who has it");
    if let Some(known) = placed.iter().find(|known| known[0] == text) {
        return known;
    }
    // Each begins a step behind the place in its page where the one before began.
    let apart = text.len().next_multiple_of(4096) + STEP;
    let mut all = " ".repeat(PLACES * apart);
    for place in 0..PLACES {
        let start = place * apart;
        all.replace_range(start..start + text.len(), text.as_str());
    }
    let all: &str = Box::leak(all.into());
    let texts = (0..PLACES).map(|place| &all[place * apart..][..text.len()]);
    let texts = texts.map(|text| Json::parse_str(text).expect("it was parsed before"));
    let texts: &[Json<'_>] = Box::leak(texts.collect());
    placed.push(texts);
    texts
}

/// Calls with a deadline. What they cost more than `notify`, and `settle` more than `unmatched`, is the table of calls:
/// row 12.
struct CallOnly {
    conn: Connection<u64>,
}

impl CallOnly {
    fn new() -> Self {
        Self {
            conn: Connection::new(Config::new().framing(Framing::Messages)),
        }
    }
}

impl Operation for CallOnly {
    fn run(&mut self) {
        for tag in 0..32 {
            black_box(
                self.conn
                    .call("subtract", (), FAR, tag)
                    .expect("there is room"),
            );
            self.conn.consume_transmit(usize::MAX);
        }
    }

    fn between(&mut self) {
        settle_all(&mut self.conn);
    }

    fn count(&self) -> u64 {
        32
    }
}

/// Answers every open call, the newest first.
fn settle_all(conn: &mut Connection<u64>) {
    let mut reply = Vec::new();
    let mut number = conn
        .call("last", (), None, 0)
        .expect("there is room")
        .number();
    conn.consume_transmit(usize::MAX);
    while conn.calls_open() > 0 {
        answer(&mut reply, number);
        let mut input = Input::message(&reply);
        while conn.poll_event(&mut input).is_some() {}
        number -= 1;
    }
}

fn answer(reply: &mut Vec<u8>, number: u64) {
    reply.clear();
    write!(reply, r#"{{"jsonrpc":"2.0","result":19,"id":{number}}}"#).expect("a vector takes all");
}

/// What a call is compared with. If the compiler knew the method here, it would check and copy the name ahead, which it
/// cannot do in a call, which is too large to be inlined.
struct NotifyOnly {
    conn: Connection<u64>,
}

impl NotifyOnly {
    fn new() -> Self {
        Self {
            conn: Connection::new(Config::new().framing(Framing::Messages)),
        }
    }
}

impl Operation for NotifyOnly {
    fn run(&mut self) {
        for _ in 0..RUN {
            self.conn
                .notify(black_box("subtract"), ())
                .expect("there is room");
            self.conn.consume_transmit(usize::MAX);
        }
    }

    fn count(&self) -> u64 {
        RUN as u64
    }
}

/// Answers to calls that are open, or to calls that never were.
struct Settle {
    is_open: bool,
    conn: Connection<u64>,
    replies: Vec<Vec<u8>>,
}

impl Settle {
    fn new(is_open: bool) -> Self {
        let mut new = Self {
            is_open,
            conn: Connection::new(Config::new().framing(Framing::Messages)),
            replies: vec![Vec::new(); 32],
        };
        new.between();
        new
    }
}

impl Operation for Settle {
    fn run(&mut self) {
        for reply in &self.replies {
            let mut input = Input::message(reply);
            drop(black_box(self.conn.poll_event(&mut input)));
        }
    }

    fn between(&mut self) {
        for reply in &mut self.replies {
            let number = if self.is_open {
                let call = self
                    .conn
                    .call("subtract", (), FAR, 0)
                    .expect("there is room");
                self.conn.consume_transmit(usize::MAX);
                call.number()
            } else {
                4711
            };
            answer(reply, number);
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// A call and its answer while others are open.
struct CallAndSettle {
    conn: Connection<u64>,
    reply: Vec<u8>,
}

impl CallAndSettle {
    fn new(open: u64) -> Self {
        let mut config = Config::new().framing(Framing::Messages);
        config.limits.max_open_calls = 1 << 21;
        let mut conn = Connection::new(config);
        for tag in 1..open {
            conn.call("slow", (), FAR, tag).expect("there is room");
            conn.consume_transmit(usize::MAX);
        }
        Self {
            conn,
            reply: Vec::new(),
        }
    }
}

impl Operation for CallAndSettle {
    fn run(&mut self) {
        for _ in 0..32 {
            let call: CallId = self.conn.call("quick", (), FAR, 0).expect("there is room");
            self.conn.consume_transmit(usize::MAX);
            // The answer is put together by hand: `write!` would cost as much as the operation.
            self.reply.clear();
            self.reply
                .extend_from_slice(br#"{"jsonrpc":"2.0","result":1,"id":"#);
            let mut digits = [0; 20];
            let (mut rest, mut start) = (call.number(), digits.len());
            while rest > 0 {
                start -= 1;
                digits[start] = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            self.reply.extend_from_slice(&digits[start..]);
            self.reply.push(b'}');
            let mut input = Input::message(&self.reply);
            while let Some(event) = self.conn.poll_event(&mut input) {
                black_box(event);
            }
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// Putting off the deadline of one of a thousand calls.
struct MoveDeadline {
    conn: Connection<u64>,
    calls: Vec<CallId>,
    next: usize,
    at: u64,
}

impl MoveDeadline {
    fn new() -> Self {
        let mut conn = Connection::new(Config::new().framing(Framing::Messages));
        let mut calls = Vec::new();
        for tag in 0..1000 {
            calls.push(conn.call("slow", (), FAR, tag).expect("there is room"));
            conn.consume_transmit(usize::MAX);
        }
        Self {
            conn,
            calls,
            next: 0,
            at: 1 << 40,
        }
    }
}

impl Operation for MoveDeadline {
    fn run(&mut self) {
        for _ in 0..32 {
            self.next = (self.next + 389) % self.calls.len();
            self.at += 1;
            self.conn
                .set_deadline(self.calls[self.next], Some(Instant::from_millis(self.at)))
                .expect("it is open");
            black_box(self.conn.poll_timeout());
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// Calls that time out, one a millisecond.
struct PassDeadline {
    conn: Connection<u64>,
    now: u64,
}

impl PassDeadline {
    fn new() -> Self {
        let mut new = Self {
            conn: Connection::new(Config::new().framing(Framing::Messages)),
            now: 0,
        };
        for tag in 0..1000 {
            new.conn.call("slow", (), FAR, tag).expect("there is room");
        }
        new.conn.consume_transmit(usize::MAX);
        new.between();
        new
    }
}

impl Operation for PassDeadline {
    fn run(&mut self) {
        for _ in 0..32 {
            self.now += 1;
            self.conn.handle_timeout(Instant::from_millis(self.now));
            while let Some(event) = self.conn.poll_event(&mut Input::none()) {
                black_box(event);
            }
            black_box(self.conn.poll_timeout());
        }
    }

    fn between(&mut self) {
        for n in 1..=32 {
            let at = Instant::from_millis(self.now + n);
            self.conn
                .call("slow", (), Some(at), n)
                .expect("there is room");
            while self.conn.poll_transmit().is_some() {
                self.conn.consume_transmit(usize::MAX);
            }
        }
    }

    fn count(&self) -> u64 {
        32
    }
}

/// A frame given byte by byte, or whole.
struct Feed {
    frame: Vec<u8>,
    step: usize,
    conn: Connection,
    tokens: Vec<ReplyToken>,
}

impl Feed {
    fn new(framing: Framing, message: &str, step: usize) -> Self {
        let mut frame = Vec::new();
        match framing {
            Framing::ContentLength => {
                write!(frame, "Content-Length: {}\r\n\r\n{message}", message.len())
            }
            _ => writeln!(frame, "{message}"),
        }
        .expect("a vector takes all");
        Self {
            frame,
            step,
            conn: Connection::new(Config::new().framing(framing)),
            tokens: Vec::new(),
        }
    }
}

impl Operation for Feed {
    fn run(&mut self) {
        for _ in 0..8 {
            let (mut start, mut end) = (0, 0);
            while end < self.frame.len() {
                end = end.saturating_add(self.step).min(self.frame.len());
                let mut input = Input::stream(black_box(&self.frame[start..end]));
                while let Some(event) = self.conn.poll_event(&mut input) {
                    if let Event::Request(request) = black_box(event) {
                        self.tokens.push(request.token);
                    }
                }
                start += input.consumed();
            }
        }
    }

    fn between(&mut self) {
        while let Some(token) = self.tokens.pop() {
            self.conn.respond(token, ()).expect("it is open");
            self.conn.consume_transmit(usize::MAX);
        }
    }

    fn count(&self) -> u64 {
        8
    }
}
