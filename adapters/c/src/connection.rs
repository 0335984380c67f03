//! A connection with what C's pointers cannot hold: the input that waits, the texts of the last event, a batch that is being made, and
//! numbers for requests and calls.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use antiphon::{
    CallId, Connection, ErrorObject, Event, Input, Instant, Json, OwnedJson, ReadBuffer, Rejected,
    ReplyToken, RequestKey,
};

use crate::code::antiphon_code as Code;
use crate::config::{ANTIPHON_NEVER, antiphon_config};
use crate::events::{Told, antiphon_event};

/// A connection.
#[allow(non_camel_case_types)]
#[allow(missing_debug_implementations)]
pub struct antiphon_connection {
    pub(crate) core: Connection<u64>,
    stream: ReadBuffer,
    message: Option<Message>,
    /// Whether the last event was taken, and there is none.
    is_drained: bool,
    /// The open requests by the numbers that C has for them, and these numbers by the requests.
    requests: BTreeMap<u64, ReplyToken>,
    numbers: BTreeMap<RequestKey, u64>,
    last_request: u64,
    last_call: u64,
    batch: Option<Batch>,
    told: Told,
}

/// A whole message that waits, as far as it has not been taken.
enum Message {
    Text(Vec<u8>),
    TooLarge(u64),
}

struct Batch {
    deadline: u64,
    entries: Vec<Entry>,
}

struct Entry {
    method: String,
    params: Option<OwnedJson>,
    /// `None` for a notification.
    tag: Option<u64>,
}

/// What a connection is doing.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct antiphon_state {
    /// 1 if it has ended, nothing is open and no output waits; otherwise 0.
    pub is_closed: u32,
    /// 0 if the peer should not be read from now, because it does not read itself, or the connection has ended; otherwise 1.
    pub wants_input: u32,
    /// The calls that have not ended.
    pub calls_open: usize,
    /// The requests of the peer that were not answered.
    pub requests_open: usize,
}

/// A number for a request or call: 24 bits of its connection's number, one bit that is set for a request, and 39 of its own, which begin
/// with 1.
const OWN_BITS: u32 = 40;
const REQUEST: u64 = 1 << (OWN_BITS - 1);
const OWN: u64 = REQUEST - 1;

impl antiphon_connection {
    pub(crate) fn new(config: &antiphon_config) -> Self {
        Self {
            core: Connection::new(config.0),
            stream: ReadBuffer::new(config.0.max_input_bytes()),
            message: None,
            is_drained: true,
            requests: BTreeMap::new(),
            numbers: BTreeMap::new(),
            last_request: 0,
            last_call: 0,
            batch: None,
            told: Told::NOTHING,
        }
    }

    pub(crate) fn state(&self) -> antiphon_state {
        antiphon_state {
            is_closed: self.core.is_closed().into(),
            wants_input: self.core.wants_input().into(),
            calls_open: self.core.calls_open(),
            requests_open: self.core.requests_open(),
        }
    }

    /// Takes bytes of a stream, and returns how many: all, unless the buffer is full.
    pub(crate) fn input(&mut self, mut bytes: &[u8]) -> Result<usize, Code> {
        if self.message.is_some() {
            return Err(Code::ANTIPHON_UNREAD_INPUT);
        }
        let len = bytes.len();
        self.is_drained &= bytes.is_empty();
        while !bytes.is_empty() {
            let spare = self.stream.spare();
            let n = spare.len().min(bytes.len());
            if n == 0 {
                break;
            }
            let (now, rest) = bytes.split_at(n);
            spare[..n].copy_from_slice(now);
            self.stream.advance(n);
            bytes = rest;
        }
        Ok(len - bytes.len())
    }

    pub(crate) fn message(&mut self, bytes: &[u8]) -> Result<(), Code> {
        self.put(|| Message::Text(bytes.into()))
    }

    pub(crate) fn too_large(&mut self, bytes: u64) -> Result<(), Code> {
        self.put(|| Message::TooLarge(bytes))
    }

    fn put(&mut self, message: impl FnOnce() -> Message) -> Result<(), Code> {
        if !self.is_drained || !self.stream.is_empty() {
            return Err(Code::ANTIPHON_UNREAD_INPUT);
        }
        self.message = Some(message());
        self.is_drained = false;
        Ok(())
    }

    pub(crate) fn input_end(&mut self) {
        self.core.handle_eof();
        self.is_drained = false;
    }

    pub(crate) fn timeout(&self) -> u64 {
        self.core
            .poll_timeout()
            .map_or(ANTIPHON_NEVER, Instant::as_nanos)
    }

    /// The next event. Its texts stay until the one after it.
    pub(crate) fn next_event(&mut self) -> antiphon_event {
        let mut input = match &self.message {
            None => Input::stream(self.stream.filled()),
            Some(Message::Text(text)) => Input::message(text),
            Some(Message::TooLarge(bytes)) => Input::oversize(*bytes),
        };
        let event = self.core.poll_event(&mut input);
        self.is_drained = event.is_none();
        let (mut told, mut opened, mut ended) = (Told::NOTHING, None, None);
        if let Some(event) = event {
            told = Told::of(&event);
            match event {
                Event::Request(request) => opened = Some(request.token),
                Event::Cancelled(cancelled) => ended = Some((cancelled.key, cancelled.answer_owed)),
                Event::Response(response) => {
                    told.event.call = numbered(&self.core, response.call.number());
                }
                _ => {}
            }
        }
        let consumed = input.consumed();
        match &self.message {
            None => self.stream.consume(consumed),
            // A message is taken whole.
            Some(Message::Text(text)) if consumed < text.len() && !self.is_drained => {}
            Some(_) => self.message = None,
        }
        if let Some(token) = opened {
            told.event.request = self.open(token);
        }
        if let Some((key, is_owed)) = ended {
            told.event.request = self.numbers.get(&key).copied().unwrap_or(0);
            if !is_owed {
                self.end(key);
            }
        }
        self.told = told;
        self.told.shown()
    }

    fn open(&mut self, token: ReplyToken) -> u64 {
        self.last_request += 1;
        let number = numbered(&self.core, self.last_request) | REQUEST;
        self.numbers.insert(token.key(), number);
        self.requests.insert(number, token);
        number
    }

    fn end(&mut self, key: RequestKey) {
        if let Some(number) = self.numbers.remove(&key) {
            self.requests.remove(&number);
        }
    }

    /// Answers a request; it stays open if the answer is refused.
    pub(crate) fn answer(
        &mut self,
        request: u64,
        answer: impl FnOnce(&mut Connection<u64>, ReplyToken) -> Result<(), Rejected<ReplyToken>>,
    ) -> Result<(), Code> {
        self.check(request)?;
        let token = self.requests.remove(&request);
        let token = token.ok_or(Code::ANTIPHON_NOT_OPEN)?;
        let key = token.key();
        let Err(Rejected { value, error, .. }) = answer(&mut self.core, token) else {
            self.numbers.remove(&key);
            return Ok(());
        };
        if self.core.request_id(key).is_some() {
            self.requests.insert(request, value);
        } else {
            self.numbers.remove(&key);
        }
        Err(error.into())
    }

    pub(crate) fn call(
        &mut self,
        method: &str,
        params: Option<Json<'_>>,
        deadline: u64,
        tag: u64,
    ) -> Result<u64, Code> {
        let called = self.core.call(method, params, deadline_of(deadline), tag);
        self.last_call = called.map_err(|rejected| rejected.error)?.number();
        Ok(numbered(&self.core, self.last_call))
    }

    pub(crate) fn cancel(&mut self, call: u64) -> Result<u64, Code> {
        let call = self.call_of(call)?;
        self.core.cancel(call).ok_or(Code::ANTIPHON_NOT_OPEN)
    }

    pub(crate) fn ask_cancel(&mut self, call: u64) -> Result<(), Code> {
        let call = self.call_of(call)?;
        Ok(self.core.ask_cancel(call)?)
    }

    pub(crate) fn deadline(&mut self, call: u64, deadline: u64) -> Result<(), Code> {
        let call = self.call_of(call)?;
        Ok(self.core.set_deadline(call, deadline_of(deadline))?)
    }

    pub(crate) fn batch(&mut self, deadline: u64) {
        let entries = Vec::new();
        self.batch = Some(Batch { deadline, entries });
    }

    pub(crate) fn add(
        &mut self,
        method: &str,
        params: Option<Json<'_>>,
        tag: Option<u64>,
    ) -> Result<(), Code> {
        let max_entries = self.core.config().limits.max_batch_calls;
        let batch = self.batch.as_mut().ok_or(Code::ANTIPHON_NO_BATCH)?;
        if batch.entries.len() >= max_entries {
            return Err(Code::ANTIPHON_BATCH_TOO_LONG);
        }
        batch.entries.push(Entry {
            method: method.into(),
            params: params.map(Json::to_owned_json),
            tag,
        });
        Ok(())
    }

    pub(crate) fn batch_drop(&mut self) -> Result<(), Code> {
        self.batch.take().map(drop).ok_or(Code::ANTIPHON_NO_BATCH)
    }

    /// How many calls the batch has.
    pub(crate) fn batch_calls(&self) -> Result<usize, Code> {
        let batch = self.batch.as_ref().ok_or(Code::ANTIPHON_NO_BATCH)?;
        Ok(batch
            .entries
            .iter()
            .filter(|entry| entry.tag.is_some())
            .count())
    }

    /// Sends the batch, and returns its calls. If it is refused, it stays.
    pub(crate) fn batch_send(&mut self) -> Result<Vec<u64>, Code> {
        let batch = self.batch.as_ref().ok_or(Code::ANTIPHON_NO_BATCH)?;
        let mut building = self.core.batch(deadline_of(batch.deadline));
        let mut calls = Vec::new();
        for entry in &batch.entries {
            let params = entry.params.as_ref().map(OwnedJson::as_json);
            match entry.tag {
                Some(tag) => {
                    let handle = building.call::<()>(&entry.method, params, tag);
                    let handle = handle.map_err(|rejected| rejected.error)?;
                    calls.push(handle.call().number());
                }
                None => building.notify(&entry.method, params)?,
            }
        }
        building.send()?;
        self.batch = None;
        self.last_call = calls.last().copied().unwrap_or(self.last_call);
        Ok(calls
            .into_iter()
            .map(|call| numbered(&self.core, call))
            .collect())
    }

    /// The call of a number: the latest one whose lower bits are these.
    fn call_of(&self, call: u64) -> Result<CallId, Code> {
        self.check(call)?;
        let since = self.last_call.wrapping_sub(call) & OWN;
        let number = self.last_call.checked_sub(since);
        let number = number.filter(|_| call & REQUEST == 0);
        let number = number.ok_or(Code::ANTIPHON_NOT_OPEN)?;
        Ok(CallId::new(self.core.number(), number))
    }

    /// Refuses numbers of other connections. Zero is one of none.
    fn check(&self, number: u64) -> Result<(), Code> {
        let is_own = number == 0 || number >> OWN_BITS == numbered(&self.core, 0) >> OWN_BITS;
        is_own.then_some(()).ok_or(Code::ANTIPHON_OTHER_CONNECTION)
    }
}

fn numbered(core: &Connection<u64>, own: u64) -> u64 {
    u64::from(core.number()) << OWN_BITS | own & OWN
}

fn deadline_of(nanos: u64) -> Option<Instant> {
    (nanos != ANTIPHON_NEVER).then(|| Instant::from_nanos(nanos))
}

/// The error of a code and a message, or of the code with its standard message.
pub(crate) fn error_of<'a>(
    code: i64,
    message: Option<&'a str>,
    data: Option<Json<'a>>,
) -> ErrorObject<'a> {
    let error = message.map_or_else(
        || ErrorObject::of(code),
        |text| ErrorObject::new(code, text),
    );
    match data {
        Some(data) => error.with_data(data),
        None => error,
    }
}
