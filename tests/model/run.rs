//! Runs a real connection together with the model, and compares the two after every step.
//!
//! Rule: what is done is given by names and numbers only ([`Op`]), so a random test and a
//! fuzz target run the same code. They choose what is done, nothing else.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use antiphon::{
    CallId, CancelAnswer, CancelStyle, CloseReason, Config, Connection, DuplicateIds, ErrorObject,
    Event, Framing, Id, IdScheme, Input, Instant, InvalidRequestId, Json, ReplyToken, RequestKey,
    SendError,
};

use crate::reference::{Body, Item, Message, Model, Rules, framed};
use crate::rendering;

/// Changes what the model is told of an event: nothing, or what a planted fault says.
pub(crate) type Hear = fn(Option<String>) -> Option<String>;

/// One thing that a driver, its application or its peer does. A call is given by its place among all
/// calls that were made, a request by its place among those with an unused token; both modulo how many
/// there are.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Call {
        params: u8,
        deadline: Option<u16>,
    },
    CallWithId {
        id: u8,
        deadline: Option<u16>,
    },
    Batch {
        items: Vec<u8>,
        deadline: Option<u16>,
        end: u8,
    },
    Notify {
        params: u8,
    },
    Cancel(u8),
    AskCancel(u8),
    SetDeadline(u8, Option<u16>),
    Respond(u8, u8),
    RespondElsewhere,
    Peer {
        items: Vec<Said>,
        array: bool,
    },
    Garbage(u8),
    Feed(u16),
    PollOne,
    Poll,
    Clock(i32),
    Write(u16),
    Take,
    FailTransmit,
    Eof,
    Drain,
    Close,
}

/// One object that the peer sends, before it is known which ids are open.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Answer {
        call: u8,
        body: u8,
    },
    AnswerId {
        id: u8,
        body: u8,
    },
    /// With a null id, or with none.
    AnswerUnnamed {
        is_null: bool,
        body: u8,
    },
    Request {
        id: u8,
        params: u8,
    },
    Notification {
        params: u8,
    },
    Cancel {
        target: u8,
        id: Option<u8>,
    },
    Scalar,
    Bare {
        call: u8,
    },
    ScalarParams {
        id: u8,
    },
    ArrayId,
}

const IDS: [&str; 12] = [
    "1",
    "1.0",
    "1e0",
    "\"1\"",
    "\"\\u0031\"",
    "null",
    "2",
    "0.7e1",
    "\"srv-7\"",
    "\"\"",
    "-4",
    "999999",
];
const PARAMS: [Option<&str>; 4] = [
    None,
    Some("[1,{\"a\":null}]"),
    Some("{\"k\":1.50}"),
    Some("[]"),
];
/// Codes as they are written, and messages; the last two say that a message was over a limit.
const ERRORS: [(&str, &str); 5] = [
    ("-32000", "busy"),
    ("-32000.0", "busy"),
    ("-3.26e4", "Invalid Request"),
    ("-32004", "Request too large"),
    ("-32600.0", "at most 9 bytes"),
];
const GARBAGE: [&str; 4] = [
    "{nope}",
    "{\"a\":1,}",
    "[01]",
    "{\"jsonrpc\":\"2.0\" \"x\"}",
];

fn config(rules: &Rules) -> Config {
    let mut config = Config::new().framing(rules.framing).role(rules.role);
    config.connection = 3;
    config.exchange = rules.exchange;
    config.dialect.cancel_receive = match rules.cancel {
        None => CancelStyle::None,
        Some((_, "id")) => CancelStyle::Lsp,
        Some(_) => CancelStyle::Mcp,
    };
    config.dialect.cancel_answer = match rules.cancel_code {
        None => CancelAnswer::Silent,
        Some(-32800) => CancelAnswer::Lsp,
        Some(_) => CancelAnswer::RequestCancelled,
    };
    config.dialect.cancel_send = match rules.sends_cancels {
        true => CancelStyle::Lsp,
        false => CancelStyle::None,
    };
    config.dialect.cancel_on_timeout = rules.cancel_on_timeout;
    config.dialect.duplicate_ids = match rules.repeated_ids {
        true => DuplicateIds::Allow,
        false => DuplicateIds::Reject,
    };
    config.dialect.null_ids = rules.null_ids;
    config.dialect.invalid_request_id = match rules.echo_ids {
        true => InvalidRequestId::EchoIfReadable,
        false => InvalidRequestId::AlwaysNull,
    };
    config.dialect.null_id_error = rules.null_id_error;
    config.dialect.missing_response_id = rules.missing_response_id;
    config.dialect.error_profile = rules.error_profile;
    if rules.prefixed {
        config.dialect.id_scheme = IdScheme::Prefixed("srv-");
    }
    config.dialect.batches = rules.batches;
    config.limits.max_open_calls = rules.max_open_calls;
    config.limits.max_open_requests = rules.max_open_requests;
    config.limits.max_batch_items = rules.max_batch_items;
    config.limits.max_batch_calls = rules.max_batch_items;
    config.limits.soft_max_outbox_bytes = rules.soft;
    config.timeouts.message_timeout = None;
    config.timeouts.write_timeout = rules.write_time.map(Duration::from_nanos);
    config.timeouts.drain_timeout = rules.drain_time.map(Duration::from_nanos);
    config
}

/// A message on its way, and how much of it has arrived.
struct Wire {
    message: Message,
    bytes: Vec<u8>,
    /// From this many bytes on the framing can tell that the message is whole.
    whole_at: usize,
    /// How long the message is, without framing.
    body: usize,
    /// How many bytes have arrived.
    fed: usize,
}

struct Run {
    conn: Connection<u64>,
    model: Model,
    wire: VecDeque<Wire>,
    buffer: Vec<u8>,
    /// `Framing::Messages`: what has arrived and not been shown, and what is being shown.
    arrived: VecDeque<Wire>,
    current: Option<Vec<u8>>,
    calls: Vec<CallId>,
    /// Tokens by the model's serial of their request.
    tokens: BTreeMap<usize, ReplyToken>,
    /// The model's serial of each request.
    names: HashMap<RequestKey, usize>,
    /// How often the tag of each call has come back.
    tags: Vec<u32>,
    /// All events were taken, and nothing was done since.
    drained: bool,
    /// Every event and all output, to compare two runs.
    log: Vec<String>,
    hear: Hear,
}

type Checked = Result<(), String>;

impl Run {
    fn new(rules: Rules, hear: Hear) -> Self {
        Self {
            hear,
            conn: Connection::new(config(&rules)),
            model: Model::new(rules),
            wire: VecDeque::new(),
            buffer: Vec::new(),
            arrived: VecDeque::new(),
            current: None,
            calls: Vec::new(),
            tokens: BTreeMap::new(),
            names: HashMap::new(),
            tags: Vec::new(),
            drained: false,
            log: Vec::new(),
        }
    }

    fn step(&mut self, op: &Op) -> Checked {
        if !matches!(op, Op::Poll) {
            self.drained = false;
        }
        match op {
            Op::Call { params, deadline } => self.call(*params, *deadline)?,
            Op::CallWithId { id, deadline } => self.call_with_id(*id, *deadline)?,
            Op::Batch {
                items,
                deadline,
                end,
            } => self.batch(items, *deadline, *end)?,
            Op::Notify { params } => self.notify(*params)?,
            Op::Cancel(call) => {
                if let Some(call) = pick(&self.calls, *call) {
                    let tag = self.conn.cancel(call);
                    equal("cancel", tag, self.model.cancel(call.number()))?;
                    self.settled(tag)?;
                }
            }
            Op::AskCancel(call) => {
                if let Some(call) = pick(&self.calls, *call) {
                    let wanted = self.model.ask_cancel(call.number());
                    equal("ask_cancel", self.conn.ask_cancel(call), wanted)?;
                }
            }
            Op::SetDeadline(call, deadline) => {
                if let Some(call) = pick(&self.calls, *call) {
                    let deadline = self.deadline(*deadline);
                    let wanted = self.model.set_deadline(call.number(), deadline);
                    let deadline = deadline.map(Instant::from_nanos);
                    equal(
                        "set_deadline",
                        self.conn.set_deadline(call, deadline),
                        wanted,
                    )?;
                }
            }
            Op::Respond(request, how) => self.respond(*request, *how)?,
            Op::RespondElsewhere => self.respond_elsewhere()?,
            Op::Peer { items, array } => {
                let items: Vec<Item> = items.iter().map(|said| self.item(said)).collect();
                match array {
                    true => self.send(Message::Array(items)),
                    false => items
                        .into_iter()
                        .for_each(|item| self.send(Message::One(item))),
                }
            }
            Op::Garbage(which) => {
                self.send(Message::Garbage(GARBAGE[*which as usize % GARBAGE.len()]))
            }
            Op::Feed(n) => self.feed(*n as usize),
            Op::PollOne => {
                self.poll()?;
            }
            Op::Poll => self.poll_all()?,
            Op::Clock(by) => {
                let now = self.model.now().saturating_add_signed(i64::from(*by));
                self.conn.handle_timeout(Instant::from_nanos(now));
                self.model.clock(now);
            }
            Op::Write(n) => {
                self.conn.consume_transmit(*n as usize);
                self.model.wrote(*n as usize);
            }
            Op::Take => self.take()?,
            Op::FailTransmit => {
                self.conn.fail_transmit();
                self.model.fail_transmit();
            }
            Op::Eof => self.eof()?,
            Op::Drain => {
                self.conn.drain();
                self.model.drain();
            }
            Op::Close => {
                self.conn.close(CloseReason::Done);
                self.model.close();
            }
        }
        self.check()
    }

    /// What has to hold whatever was done.
    fn check(&mut self) -> Checked {
        let shown = self.conn.poll_transmit().unwrap_or_default();
        self.log.push(String::from_utf8_lossy(shown).into_owned());
        equal("poll_transmit", text(shown), text(&self.model.shown()))?;
        equal(
            "calls_open",
            self.conn.calls_open(),
            self.model.calls_open(),
        )?;
        equal(
            "requests_open",
            self.conn.requests_open(),
            self.model.requests_open(),
        )?;
        let waiting = self.conn.transmit_queued() - self.conn.transmit_done();
        equal("waiting", waiting, self.model.waiting() as u64)?;
        equal("is_closed", self.conn.is_closed(), self.model.is_closed())?;
        let timeout = self.conn.poll_timeout().map(Instant::as_nanos);
        if let Some(earliest) = self.model.earliest() {
            // The next wake-up may be early, never late.
            if timeout.is_none_or(|timeout| timeout > earliest) {
                return Err(format!("poll_timeout {timeout:?} is after {earliest}"));
            }
        }
        if self.drained && timeout.is_some_and(|timeout| timeout <= self.model.now()) {
            return Err(format!(
                "drained at {}, yet poll_timeout is {timeout:?}",
                self.model.now()
            ));
        }
        Ok(())
    }

    /// A deadline so many nanoseconds from now.
    fn deadline(&self, after: Option<u16>) -> Option<u64> {
        after.map(|after| self.model.now() + u64::from(after))
    }

    fn tag(&mut self) -> u64 {
        self.tags.push(0);
        self.tags.len() as u64 - 1
    }

    /// Notes that the tag of a call has come back, and checks that it has not before.
    fn settled(&mut self, tag: Option<u64>) -> Checked {
        let Some(tag) = tag else { return Ok(()) };
        self.tags[tag as usize] += 1;
        equal("times settled", self.tags[tag as usize], 1)
    }

    fn call(&mut self, which: u8, deadline: Option<u16>) -> Checked {
        let (method, params) = (method(which), params(which));
        let deadline = self.deadline(deadline);
        let tag = self.tag();
        let wanted = self.model.may_queue();
        let wanted = wanted.and(if method.is_empty() {
            Err(SendError::BlankMethod)
        } else {
            Ok(())
        });
        let wanted = wanted
            .and(self.model.may_call(None, 0))
            .and(params.as_ref().map(|_| ()).map_err(Clone::clone));
        let at = deadline.map(Instant::from_nanos);
        let result = match params {
            Ok(params) => self.conn.call(method, params.map(json), at, tag),
            Err(_) => self.conn.call(method, &7, at, tag),
        };
        match (result, wanted) {
            (Ok(call), Ok(())) => {
                let body = request(
                    method,
                    params.unwrap_or_default(),
                    &self.model.rules.spell(call.number()),
                );
                self.model
                    .called(call.number(), None, call.number(), deadline, tag)?;
                self.model.queue(body, vec![call.number()]);
                self.calls.push(call);
                Ok(())
            }
            (Err(rejected), Err(error)) => {
                self.settled(Some(rejected.value))?;
                equal("call", rejected.error, error)
            }
            (result, wanted) => Err(format!("call gave {result:?}, wanted {wanted:?}")),
        }
    }

    fn call_with_id(&mut self, id: u8, deadline: Option<u16>) -> Checked {
        let text = IDS[id as usize % IDS.len()];
        let deadline = self.deadline(deadline);
        let tag = self.tag();
        let wanted = self
            .model
            .may_queue()
            .and(self.model.may_call(Some(text), 0));
        let at = deadline.map(Instant::from_nanos);
        let chosen = Id::new(json(text)).expect("a scalar is an id");
        match (self.conn.call_with_id(chosen, "ask", (), at, tag), wanted) {
            (Ok(call), Ok(())) => {
                self.model
                    .called(call.number(), Some(text), call.number(), deadline, tag)?;
                self.model
                    .queue(request("ask", None, text), vec![call.number()]);
                self.calls.push(call);
                Ok(())
            }
            (Err(rejected), Err(error)) => {
                self.settled(Some(rejected.value))?;
                equal("call_with_id", rejected.error, error)
            }
            (result, wanted) => Err(format!("call_with_id gave {result:?}, wanted {wanted:?}")),
        }
    }

    fn notify(&mut self, which: u8) -> Checked {
        let (method, params) = (method(which), params(which));
        let wanted = self.model.may_notify();
        let wanted = wanted.and(if method.is_empty() {
            Err(SendError::BlankMethod)
        } else {
            Ok(())
        });
        let wanted = wanted.and(params.as_ref().map(|_| ()).map_err(Clone::clone));
        let result = match params {
            Ok(params) => self.conn.notify(method, params.map(json)),
            Err(_) => self.conn.notify(method, &7),
        };
        if result.is_ok() {
            self.model
                .queue(notification(method, params.unwrap_or_default()), Vec::new());
        }
        equal("notify", result, wanted)
    }

    /// `end`: 0 is dropped, 1 leaked, anything else sent.
    fn batch(&mut self, items: &[u8], deadline: Option<u16>, end: u8) -> Checked {
        let deadline = self.deadline(deadline);
        let can = self.model.may_queue();
        let can = can.and(if self.model.rules.batches {
            Ok(())
        } else {
            Err(SendError::BatchesOff)
        });
        let (mut bodies, mut calls, mut refused): (Vec<String>, Vec<(CallId, u64)>, Vec<u64>) =
            Default::default();
        let tags: Vec<u64> = items.iter().map(|_| self.tag()).collect();
        let mut batch = self.conn.batch(deadline.map(Instant::from_nanos));
        for (&which, &tag) in items.iter().zip(&tags) {
            let (method, params) = (method(which), params(which));
            let is_call = which % 3 != 0;
            let mut wanted = can.clone();
            if bodies.len() >= self.model.rules.max_batch_items {
                wanted = wanted.and(Err(SendError::BatchTooLong));
            }
            if method.is_empty() {
                wanted = wanted.and(Err(SendError::BlankMethod));
            }
            if is_call {
                wanted = wanted.and(self.model.may_call(None, calls.len()));
            }
            wanted = wanted.and(params.as_ref().map(|_| ()).map_err(Clone::clone));
            let result = match (is_call, params.as_ref()) {
                (true, Ok(params)) => batch.call::<()>(method, params.map(json), tag),
                (true, Err(_)) => batch.call::<()>(method, &7, tag),
                (false, params) => {
                    // A notification does not use its tag, which counts as come back.
                    refused.push(tag);
                    let result = match params {
                        Ok(params) => batch.notify(method, params.map(json)),
                        Err(_) => batch.notify(method, &7),
                    };
                    if result.is_ok() {
                        bodies.push(notification(method, params.copied().unwrap_or_default()));
                    }
                    equal("batched notify", result, wanted)?;
                    continue;
                }
            };
            match (result, wanted) {
                (Ok(handle), Ok(())) => {
                    let call = handle.call();
                    bodies.push(request(
                        method,
                        params.unwrap_or_default(),
                        &self.model.rules.spell(call.number()),
                    ));
                    calls.push((call, tag));
                }
                (Err(rejected), Err(error)) => {
                    refused.push(rejected.value);
                    equal("batched call", rejected.error, error)?;
                }
                (result, wanted) => {
                    return Err(format!("a batched call gave {result:?}, wanted {wanted:?}"));
                }
            }
        }
        let sent = match end {
            0 => {
                drop(batch);
                false
            }
            1 => {
                std::mem::forget(batch);
                // Any next command takes the leaked builder back.
                equal(
                    "deadline of a foreign call",
                    self.conn.set_deadline(foreign_call(), None),
                    Err(SendError::NotOpen),
                )?;
                false
            }
            _ => {
                let wanted = can.and(if bodies.is_empty() {
                    Err(SendError::BatchEmpty)
                } else {
                    Ok(())
                });
                let result = batch.send();
                let sent = result.is_ok();
                equal("send", result, wanted)?;
                sent
            }
        };
        for tag in refused {
            self.settled(Some(tag))?;
        }
        let numbers: Vec<u64> = calls.iter().map(|(call, _)| call.number()).collect();
        for (call, tag) in calls {
            if sent {
                self.model
                    .called(call.number(), None, numbers[0], deadline, tag)?;
                self.calls.push(call);
            } else {
                // The tag was dropped with the builder.
                self.settled(Some(tag))?;
            }
        }
        if sent {
            self.model.queue(format!("[{}]", bodies.join(",")), numbers);
        }
        Ok(())
    }

    fn respond(&mut self, request: u8, how: u8) -> Checked {
        let serials: Vec<usize> = self.tokens.keys().copied().collect();
        let Some(serial) = pick(&serials, request) else {
            return Ok(());
        };
        let token = self
            .tokens
            .remove(&serial)
            .ok_or("a token that was just listed")?;
        let error =
            |code: i64, message| format!(r#""error":{{"code":{code},"message":"{message}"}}"#);
        let (result, reply) = match how % 5 {
            0 => (self.conn.respond(token, ()), r#""result":null"#.to_string()),
            1 => (
                self.conn.respond(token, "done"),
                r#""result":"done""#.to_string(),
            ),
            2 => (
                self.conn.respond_err(token, &ErrorObject::new(7, "no")),
                error(7, "no"),
            ),
            3 => (
                self.conn.respond_unknown_method(token, "ask"),
                error(-32601, "Method not found"),
            ),
            _ => (
                self.conn.respond_cancelled(token),
                error(self.model.cancelled_code(), "Request cancelled"),
            ),
        };
        let wanted = self.model.respond(serial, &reply);
        let result = result.map_err(|rejected| {
            // A token that comes back is still the only one.
            self.tokens.insert(serial, rejected.value);
            rejected.error
        });
        equal("respond", result, wanted)
    }

    fn respond_elsewhere(&mut self) -> Checked {
        let mut config = Config::new();
        config.connection = 77;
        let mut other: Connection<u64> = Connection::new(config);
        let asked = br#"{"jsonrpc":"2.0","method":"ask","id":1}"#;
        let Some(Event::Request(asked)) = other.poll_event(&mut Input::message(asked)) else {
            return Err("the other connection has its request".to_string());
        };
        let wanted = if self.model.is_shut() {
            SendError::Closed
        } else {
            SendError::NotOpen
        };
        let result = self.conn.respond(asked.token, ());
        equal(
            "respond elsewhere",
            result.map_err(|rejected| rejected.error),
            Err(wanted),
        )
    }

    fn item(&self, said: &Said) -> Item {
        let id = |which: &u8| IDS[*which as usize % IDS.len()].to_string();
        let params = |which: &u8| PARAMS[*which as usize % PARAMS.len()].map(str::to_string);
        let call = |which: &u8| match pick(&self.calls, *which) {
            // A call that was made under a chosen id is answered under it while it is open.
            Some(call) => self
                .model
                .id_of(call.number())
                .unwrap_or(self.model.rules.spell(call.number())),
            None => "999".to_string(),
        };
        match said {
            Said::Answer {
                call: which,
                body: how,
            } => Item::Answer {
                id: Some(call(which)),
                body: body(*how),
            },
            Said::AnswerId {
                id: which,
                body: how,
            } => Item::Answer {
                id: Some(id(which)),
                body: body(*how),
            },
            Said::AnswerUnnamed { is_null, body: how } => Item::Answer {
                id: is_null.then(|| "null".to_string()),
                body: body(*how),
            },
            Said::Request {
                id: which,
                params: p,
            } => Item::Request {
                id: id(which),
                params: params(p),
            },
            Said::Notification { params: p } => Item::Notification { params: params(p) },
            Said::Cancel { target, id: which } => Item::Cancel {
                target: id(target),
                id: which.as_ref().map(id),
            },
            Said::Scalar => Item::Scalar,
            Said::Bare { call: which } => Item::Bare { id: call(which) },
            Said::ScalarParams { id: which } => Item::ScalarParams { id: id(which) },
            Said::ArrayId => Item::ArrayId,
        }
    }

    fn send(&mut self, message: Message) {
        let rules = &self.model.rules;
        let text = message.text(rules);
        let bytes = framed(rules.framing, &text);
        let whole_at = match rules.framing {
            // A closing bracket ends a message by itself; a bare number ends where the next byte is none.
            Framing::Concatenated if text.starts_with(['{', '[']) => text.len(),
            _ => bytes.len(),
        };
        let body = text.len();
        self.wire.push_back(Wire {
            message,
            bytes,
            whole_at,
            body,
            fed: 0,
        });
    }

    fn feed(&mut self, mut n: usize) {
        if !self.model.is_reading() {
            return;
        }
        while n > 0 {
            let Some(front) = self.wire.front_mut() else {
                break;
            };
            if self.model.rules.framing == Framing::Messages {
                n = n.saturating_sub(front.bytes.len());
                let whole = self.wire.pop_front().expect("it was just looked at");
                self.arrived.push_back(whole);
                continue;
            }
            let end = (front.fed + n).min(front.bytes.len());
            self.buffer.extend_from_slice(&front.bytes[front.fed..end]);
            n -= end - front.fed;
            if front.fed < front.whole_at && end >= front.whole_at {
                self.model.arrived(front.message.clone());
            }
            front.fed = end;
            self.model.has_rest(0 < end && end < front.whole_at);
            if end == front.bytes.len() {
                self.wire.pop_front();
            }
        }
    }

    fn eof(&mut self) -> Checked {
        if !self.model.is_reading() {
            return Ok(());
        }
        // A driver reports the end of separate messages once it has shown them all.
        if self.model.rules.framing == Framing::Messages {
            self.poll_all()?;
        }
        if let Some(front) = self
            .wire
            .front()
            .filter(|front| front.fed < front.whole_at && front.fed == front.body)
        {
            if matches!(
                self.model.rules.framing,
                Framing::Newline | Framing::Concatenated
            ) {
                self.model.arrived_unterminated(front.message.clone());
                self.model.has_rest(false);
            }
        }
        self.conn.handle_eof();
        self.model.eof();
        Ok(())
    }

    /// Polls once and compares. False if there was no event, and no message is left to show.
    fn poll(&mut self) -> Result<bool, String> {
        if self.model.rules.framing == Framing::Messages && self.current.is_none() {
            if let Some(next) = self.arrived.pop_front() {
                self.model.arrived(next.message);
                self.current = Some(next.bytes);
            }
        }
        let mut input = match &self.current {
            Some(message) => Input::message(message),
            None => Input::stream(&self.buffer),
        };
        let event = self.conn.poll_event(&mut input);
        let names = &self.names;
        let mut name = |key: RequestKey| names.get(&key).map_or("?".to_string(), usize::to_string);
        let line = event
            .as_ref()
            .map(|event| rendering::render(event, &mut name));
        let line = (self.hear)(line);
        let (mut token, mut tag) = (None, None);
        match event {
            Some(Event::Request(request)) => token = Some(request.token),
            Some(Event::Response(response)) => tag = Some(response.tag),
            _ => {}
        }
        let consumed = input.consumed();
        match &self.current {
            Some(message) if consumed == message.len() => self.current = None,
            Some(_) => {}
            None => drop(self.buffer.drain(..consumed)),
        }
        self.log.push(format!("{line:?}"));
        self.model.expect(line.as_deref())?;
        self.settled(tag)?;
        equal(
            "delivery of a request",
            token.is_some(),
            self.model.delivered.is_some(),
        )?;
        if let (Some(token), Some(serial)) = (token, self.model.delivered) {
            self.names.insert(token.key(), serial);
            self.tokens.insert(serial, token);
        }
        Ok(line.is_some() || !self.arrived.is_empty())
    }

    fn poll_all(&mut self) -> Checked {
        while self.poll()? {
            self.check()?;
        }
        self.drained = true;
        Ok(())
    }

    fn take(&mut self) -> Checked {
        let wanted = self.model.shown();
        let mut taken = Vec::new();
        equal(
            "take_transmit",
            self.conn.take_transmit(&mut taken),
            !wanted.is_empty(),
        )?;
        equal("taken", text(&taken), text(&wanted))?;
        self.model.wrote(wanted.len());
        Ok(())
    }

    /// Lets everything come to its end: whatever was done before, the connection closes.
    fn finish(&mut self) -> Checked {
        self.feed(1 << 30);
        self.step(&Op::Poll)?;
        while !self.tokens.is_empty() {
            let left = self.tokens.len();
            self.respond(0, 1)?;
            if self.tokens.len() == left {
                // Refused: the request was silently cancelled, or the connection is shut.
                self.tokens.pop_first();
            }
        }
        self.step(&Op::Eof)?;
        self.step(&Op::Poll)?;
        while self.conn.poll_transmit().is_some() {
            self.step(&Op::Take)?;
        }
        self.step(&Op::Poll)?;
        equal("is_closed at the end", self.conn.is_closed(), true)?;
        let lost = self.tags.iter().position(|&times| times != 1);
        equal("a call that was not settled", lost, None)
    }
}

/// Does all of it and then lets everything come to its end. Returns what was seen, or where the
/// connection and the model differ.
pub(crate) fn run(rules: Rules, ops: &[Op], hear: Hear) -> Result<Vec<String>, String> {
    let mut run = Run::new(rules, hear);
    for (at, op) in ops.iter().enumerate() {
        run.step(op)
            .map_err(|why| format!("step {at}, {op:?}: {why}"))?;
    }
    run.finish().map_err(|why| format!("at the end: {why}"))?;
    Ok(run.log)
}

/// A method to send: one in sixteen is blank.
fn method(which: u8) -> &'static str {
    match which % 16 {
        15 => "",
        _ => "ask",
    }
}

/// Params to send, or why they are refused: one in sixteen is a scalar.
fn params(which: u8) -> Result<Option<&'static str>, SendError> {
    match which / 16 {
        15 => Err(SendError::ParamsScalar),
        _ => Ok(PARAMS[which as usize / 16 % PARAMS.len()]),
    }
}

fn body(how: u8) -> Body {
    match how % 10 {
        0..=4 => Body::Ok("{\"x\":[1e2,null]}".to_string()),
        5 | 6 => {
            let (code, message) = ERRORS[how as usize / 10 % ERRORS.len()];
            Body::Error(code, message)
        }
        7 => Body::Both,
        8 => Body::BadError,
        _ => Body::NoVersion,
    }
}

fn json(text: &str) -> Json<'_> {
    Json::parse_str(text).expect("the generator writes JSON")
}

fn request(method: &str, params: Option<&str>, id: &str) -> String {
    let params = params.map_or(String::new(), |params| format!(r#","params":{params}"#));
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params},"id":{id}}}"#)
}

fn notification(method: &str, params: Option<&str>) -> String {
    let params = params.map_or(String::new(), |params| format!(r#","params":{params}"#));
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#)
}

/// A call of another connection.
fn foreign_call() -> CallId {
    let mut config = Config::new();
    config.connection = 78;
    let mut other: Connection<u64> = Connection::new(config);
    other
        .call("ask", (), None, 0)
        .expect("nothing is in its way")
}

fn pick<V: Copy>(from: &[V], which: u8) -> Option<V> {
    from.get((which as usize).checked_rem(from.len())?).copied()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn equal<V: PartialEq + std::fmt::Debug>(what: &str, actual: V, wanted: V) -> Checked {
    match actual == wanted {
        true => Ok(()),
        false => Err(format!("{what}: got {actual:?}, wanted {wanted:?}")),
    }
}
