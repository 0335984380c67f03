//! The readers: antiphon, what one would write by hand over a JSON library, and other software with its own message types.
//!
//! Where a crate keeps the type private that its loop reads into, the same is built of its public parts.

use std::hint::black_box;

use antiphon::{Config, Connection, Event, Framing, Input, ReplyToken, UnmatchedKind};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::serde_typed::{self, Frame, Message};
use crate::{Kind, Reader, Row};

/// A reader without state.
struct Plain(fn(&[u8], Kind) -> Option<Kind>);

impl Reader for Plain {
    fn read(&mut self, text: &[u8], expected: Kind) -> Option<Kind> {
        (self.0)(text, expected)
    }
}

pub fn all() -> Vec<Row> {
    let row = |name, reader| Row {
        name,
        reader,
        is_limit: false,
    };
    let plain = |name, read| row(name, Box::new(Plain(read)) as Box<dyn Reader>);
    vec![
        row("antiphon", Box::new(ByItself::new())),
        row("antiphon, on a connection", Box::new(Antiphon::new())),
        plain(crate::table::YARDSTICK, serde_typed),
        plain("serde_json Value", value),
        plain("jsonrpsee-types", jsonrpsee),
        plain("lsp-server", lsp_server),
        plain("tower-lsp-server", tower_lsp_server),
        plain("async-lsp", async_lsp),
        plain("alloy-json-rpc", alloy),
        plain("rmcp", rmcp),
        plain("jsonrpc-core", jsonrpc_core),
        plain("sonic-rs typed", sonic),
        row("simd-json tape", Box::new(SimdJson::new())),
        plain("jiter", jiter),
    ]
}

/// Messages read without a connection, as all others here read them.
struct ByItself(antiphon::Reader);

impl ByItself {
    fn new() -> Self {
        Self(antiphon::Reader::new(Config::new()))
    }
}

impl Reader for ByItself {
    fn read(&mut self, text: &[u8], _: Kind) -> Option<Kind> {
        let messages = self.0.read(text).ok()?;
        let is_batch = messages.is_batch();
        let mut kind = None;
        for message in messages {
            kind = match &message {
                antiphon::Message::Request { .. } => Some(Kind::Request),
                antiphon::Message::Notification { .. } => Some(Kind::Notification),
                antiphon::Message::Response { .. } => Some(Kind::Response),
                _ => return None,
            };
            black_box(&message);
        }
        if is_batch { Some(Kind::Batch) } else { kind }
    }
}

/// A connection that serves and calls. Requests are answered between the runs.
struct Antiphon {
    conn: Connection,
    tokens: Vec<ReplyToken>,
}

impl Antiphon {
    fn new() -> Self {
        let mut config = Config::new().framing(Framing::Messages);
        // The runs have more requests than are served at once by default, and item 07 is larger than the default limit.
        config.limits.max_open_requests = 1 << 17;
        config.limits.max_message_bytes = 2 << 20;
        Self {
            conn: Connection::new(config),
            tokens: Vec::with_capacity(1 << 17),
        }
    }
}

impl Reader for Antiphon {
    fn read(&mut self, text: &[u8], _: Kind) -> Option<Kind> {
        let mut input = Input::message(text);
        let (mut kind, mut events) = (None, 0);
        while let Some(event) = self.conn.poll_event(&mut input) {
            events += 1;
            kind = match event {
                Event::Request(request) => {
                    self.tokens.push(black_box(request).token);
                    Some(Kind::Request)
                }
                Event::Notification(notification) => {
                    black_box(notification);
                    Some(Kind::Notification)
                }
                // A cancelling notification: the connection has acted on it, or there was nothing to cancel.
                Event::Cancelled(cancelled) => {
                    black_box(cancelled);
                    Some(Kind::Notification)
                }
                Event::UnmatchedResponse(unmatched)
                    if matches!(unmatched.kind, UnmatchedKind::Cancel) =>
                {
                    black_box(unmatched);
                    Some(Kind::Notification)
                }
                // The answers of the corpus belong to no open call.
                Event::UnmatchedResponse(unmatched) => {
                    black_box(unmatched);
                    Some(Kind::Response)
                }
                _ => return None,
            };
        }
        if events > 1 { Some(Kind::Batch) } else { kind }
    }

    fn between(&mut self) {
        while let Some(token) = self.tokens.pop() {
            // A request that was cancelled is answered all the same.
            drop(self.conn.respond(token, ()));
            self.conn.consume_transmit(usize::MAX);
        }
    }
}

fn serde_typed(text: &[u8], _: Kind) -> Option<Kind> {
    Some(match black_box(serde_typed::parse::<&RawValue>(text)) {
        Frame::One(Message::Request { .. }) => Kind::Request,
        Frame::One(Message::Notification { .. }) => Kind::Notification,
        Frame::One(Message::Result { .. } | Message::Error { .. }) => Kind::Response,
        Frame::Batch(_) => Kind::Batch,
    })
}

fn value(text: &[u8], _: Kind) -> Option<Kind> {
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let kind = match (value.is_array(), value.get("method"), value.get("id")) {
        (true, ..) => Kind::Batch,
        (_, Some(_), Some(_)) => Kind::Request,
        (_, Some(_), None) => Kind::Notification,
        (_, None, _) => Kind::Response,
    };
    black_box(value);
    Some(kind)
}

/// Its server tries to read a request and then a notification; its client reads answers. A batch is split first.
fn jsonrpsee(text: &[u8], expected: Kind) -> Option<Kind> {
    use jsonrpsee_types::{Notification, Request, Response};
    if expected == Kind::Response {
        let response = serde_json::from_slice::<Response<'_, &RawValue>>(text).ok()?;
        black_box(response);
        return Some(Kind::Response);
    }
    if text.first() == Some(&b'[') {
        let items: Vec<&RawValue> = serde_json::from_slice(text).ok()?;
        for item in items {
            jsonrpsee(item.get().as_bytes(), Kind::Request)?;
        }
        return Some(Kind::Batch);
    }
    if let Ok(request) = serde_json::from_slice::<Request<'_>>(text) {
        black_box(request);
        return Some(Kind::Request);
    }
    let notification = serde_json::from_slice::<Notification<'_, Option<&RawValue>>>(text).ok()?;
    black_box(notification);
    Some(Kind::Notification)
}

fn lsp_server(text: &[u8], _: Kind) -> Option<Kind> {
    use lsp_server::Message;
    let message: Message = serde_json::from_slice(text).ok()?;
    let kind = match &message {
        Message::Request(_) => Kind::Request,
        Message::Response(_) => Kind::Response,
        Message::Notification(_) => Kind::Notification,
    };
    black_box(message);
    Some(kind)
}

fn tower_lsp_server(text: &[u8], _: Kind) -> Option<Kind> {
    use tower_lsp_server::jsonrpc::{Request, Response};
    #[derive(Deserialize)]
    #[serde(untagged)]
    #[allow(dead_code, reason = "what a dispatcher would look at")]
    enum Message {
        Response(Response),
        Request(Request),
    }
    let message: Message = serde_json::from_slice(text).ok()?;
    let kind = match &message {
        Message::Response(_) => Kind::Response,
        Message::Request(request) if request.id().is_some() => Kind::Request,
        Message::Request(_) => Kind::Notification,
    };
    black_box(&message);
    Some(kind)
}

fn async_lsp(text: &[u8], _: Kind) -> Option<Kind> {
    use async_lsp::{AnyNotification, AnyRequest, ResponseError};
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "as in its private type")]
    struct AnyResponse {
        id: async_lsp::lsp_types::NumberOrString,
        result: Option<serde_json::Value>,
        error: Option<ResponseError>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    #[allow(dead_code, reason = "what a dispatcher would look at")]
    enum Message {
        Request(AnyRequest),
        Response(AnyResponse),
        Notification(AnyNotification),
    }
    #[derive(Deserialize)]
    struct Raw<T> {
        #[allow(dead_code, reason = "as in its private type")]
        jsonrpc: String,
        #[serde(flatten)]
        inner: T,
    }
    let message: Raw<Message> = serde_json::from_slice(text).ok()?;
    let kind = match &message.inner {
        Message::Request(_) => Kind::Request,
        Message::Response(_) => Kind::Response,
        Message::Notification(_) => Kind::Notification,
    };
    black_box(message);
    Some(kind)
}

/// A client of Ethereum nodes: it reads answers; its request type is read by servers in tests.
fn alloy(text: &[u8], expected: Kind) -> Option<Kind> {
    use alloy_json_rpc::{Request, Response};
    match expected {
        Kind::Response => drop(black_box(serde_json::from_slice::<Response>(text).ok()?)),
        Kind::Batch => {
            let requests: Vec<Request<&RawValue>> = serde_json::from_slice(text).ok()?;
            black_box(requests);
        }
        Kind::Request => {
            let request: Request<&RawValue> = serde_json::from_slice(text).ok()?;
            black_box(request);
        }
        Kind::Notification => return None,
    }
    Some(expected)
}

fn rmcp(text: &[u8], _: Kind) -> Option<Kind> {
    use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
    let message: ClientJsonRpcMessage = serde_json::from_slice(text).ok()?;
    let kind = match &message {
        JsonRpcMessage::Request(_) => Kind::Request,
        JsonRpcMessage::Notification(_) => Kind::Notification,
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Kind::Response,
    };
    black_box(message);
    Some(kind)
}

fn jsonrpc_core(text: &[u8], expected: Kind) -> Option<Kind> {
    use jsonrpc_core::{Call, Request, Response};
    if expected == Kind::Response {
        black_box(serde_json::from_slice::<Response>(text).ok()?);
        return Some(Kind::Response);
    }
    let request: Request = serde_json::from_slice(text).ok()?;
    let kind = match &request {
        Request::Single(Call::MethodCall(_)) => Some(Kind::Request),
        Request::Single(Call::Notification(_)) => Some(Kind::Notification),
        Request::Single(Call::Invalid { .. }) => None,
        Request::Batch(_) => Some(Kind::Batch),
    };
    black_box(request);
    kind
}

/// Types written by hand as those over serde_json, but over sonic-rs, with its lazy values.
fn sonic(text: &[u8], _: Kind) -> Option<Kind> {
    use sonic_rs::LazyValue;
    use std::borrow::Cow;
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        id: Option<LazyValue<'a>>,
        #[serde(borrow)]
        method: Option<Cow<'a, str>>,
        #[serde(borrow)]
        params: Option<LazyValue<'a>>,
        #[serde(borrow)]
        result: Option<LazyValue<'a>>,
        #[serde(borrow)]
        error: Option<LazyValue<'a>>,
    }
    fn kind(message: &Message<'_>) -> Kind {
        black_box((&message.params, &message.result, &message.error));
        match (&message.method, &message.id) {
            (Some(_), Some(_)) => Kind::Request,
            (Some(_), None) => Kind::Notification,
            (None, _) => Kind::Response,
        }
    }
    if text.first() == Some(&b'[') {
        let messages: Vec<Message<'_>> = sonic_rs::from_slice(text).ok()?;
        black_box(messages.iter().map(kind).count());
        return Some(Kind::Batch);
    }
    let message: Message<'_> = sonic_rs::from_slice(text).ok()?;
    Some(kind(&message))
}

/// The tape of simd-json. It is made of a copy of the message, for simd-json overwrites its input.
struct SimdJson {
    copy: Vec<u8>,
    buffers: simd_json::Buffers,
}

impl SimdJson {
    fn new() -> Self {
        Self {
            copy: Vec::new(),
            buffers: simd_json::Buffers::default(),
        }
    }
}

impl Reader for SimdJson {
    fn read(&mut self, text: &[u8], expected: Kind) -> Option<Kind> {
        self.copy.clear();
        self.copy.extend_from_slice(text);
        let tape = simd_json::to_tape_with_buffers(&mut self.copy, &mut self.buffers).ok()?;
        black_box(tape);
        // A tape does not tell the kind of a message; so its members have to be found as well.
        Some(expected)
    }
}

fn jiter(text: &[u8], _: Kind) -> Option<Kind> {
    use jiter::{Jiter, Peek};
    fn message(jiter: &mut Jiter<'_>, is_known: bool) -> Option<Kind> {
        /// Whether a member's name is `method`, and whether it is `id`.
        fn known(name: &str) -> (bool, bool) {
            (name == "method", name == "id")
        }
        let (mut has_method, mut has_id) = (false, false);
        let mut key = if is_known {
            jiter.known_object().ok()?.map(known)
        } else {
            jiter.next_object().ok()?.map(known)
        };
        while let Some((is_method, is_id)) = key {
            has_method |= is_method;
            has_id |= is_id;
            jiter.next_skip().ok()?;
            key = jiter.next_key().ok()?.map(known);
        }
        Some(match (has_method, has_id) {
            (true, true) => Kind::Request,
            (true, false) => Kind::Notification,
            (false, _) => Kind::Response,
        })
    }
    let mut jiter = Jiter::new(text);
    if jiter.peek().ok()? == Peek::Array {
        let mut item = jiter.known_array().ok()?;
        while item.is_some() {
            message(&mut jiter, true)?;
            item = jiter.array_step().ok()?;
        }
        jiter.finish().ok()?;
        return Some(Kind::Batch);
    }
    let kind = message(&mut jiter, false)?;
    jiter.finish().ok()?;
    Some(kind)
}
