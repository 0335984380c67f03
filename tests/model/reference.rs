//! The reference model: one connection in plain lists, without optimisation.
//!
//! It gets every command and every message in a form that needs no parsing, and predicts the
//! connection: each event, each refusal, each frame. Where several events are right (which of two
//! due calls ends first), any of them is accepted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use antiphon::{
    CloseReason, Closed, ConnectionError, ErrorProfile, Framing, InvalidReason, MissingResponseId,
    NullIdError, Role, SendError,
};

use crate::rendering;

/// How one conversation differs from another, in the few ways that the model knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) framing: Framing,
    pub(crate) role: Role,
    pub(crate) exchange: bool,
    /// The notification that gives a request up, and the member with its id.
    pub(crate) cancel: Option<(&'static str, &'static str)>,
    /// The code that a cancelled request is answered with; `None` if it is not answered.
    pub(crate) cancel_code: Option<i64>,
    pub(crate) sends_cancels: bool,
    pub(crate) cancel_on_timeout: bool,
    pub(crate) repeated_ids: bool,
    pub(crate) null_ids: bool,
    pub(crate) echo_ids: bool,
    /// What an error without id does to our calls.
    pub(crate) null_id_error: NullIdError,
    /// What an answer without id does on an exchange of ours.
    pub(crate) missing_response_id: MissingResponseId,
    pub(crate) error_profile: ErrorProfile,
    /// Whether our ids are `"srv-1"`, … instead of numbers.
    pub(crate) prefixed: bool,
    pub(crate) batches: bool,
    pub(crate) max_open_calls: usize,
    pub(crate) max_open_requests: usize,
    pub(crate) max_batch_items: usize,
    /// `soft_max_outbox_bytes`.
    pub(crate) soft: usize,
    /// The timeouts of writing and draining, in nanoseconds.
    pub(crate) write_time: Option<u64>,
    pub(crate) drain_time: Option<u64>,
}

/// One object from the peer.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// An answer. Without an `id` it leaves its id out.
    Answer {
        id: Option<String>,
        body: Body,
    },
    Request {
        id: String,
        params: Option<String>,
    },
    Notification {
        params: Option<String>,
    },
    Cancel {
        target: String,
        id: Option<String>,
    },
    /// No object at all.
    Scalar,
    /// Neither call nor response.
    Bare {
        id: String,
    },
    ScalarParams {
        id: String,
    },
    ArrayId,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Ok(String),
    /// The code as it is written, and the message.
    Error(&'static str, &'static str),
    Both,
    BadError,
    NoVersion,
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    One(Item),
    Array(Vec<Item>),
    Garbage(&'static str),
}

impl Rules {
    /// The id of our call of this number.
    pub(crate) fn spell(&self, number: u64) -> String {
        match self.prefixed {
            true => format!("\"srv-{number}\""),
            false => number.to_string(),
        }
    }
}

impl Item {
    pub(crate) fn text(&self, rules: &Rules) -> String {
        let params = |params: &Option<String>| {
            params
                .as_ref()
                .map_or(String::new(), |p| format!(r#","params":{p}"#))
        };
        match self {
            Item::Answer { id, body } => {
                let id = id
                    .as_ref()
                    .map_or(String::new(), |id| format!(r#","id":{id}"#));
                let said = match body {
                    Body::Ok(result) => format!(r#""jsonrpc":"2.0","result":{result}"#),
                    Body::Error(code, message) => format!(
                        r#""jsonrpc":"2.0","error":{{"code":{code},"message":"{message}"}}"#
                    ),
                    Body::Both => {
                        r#""jsonrpc":"2.0","result":1,"error":{"code":1,"message":""}"#.to_string()
                    }
                    Body::BadError => r#""jsonrpc":"2.0","error":7"#.to_string(),
                    Body::NoVersion => r#""result":1"#.to_string(),
                };
                format!("{{{said}{id}}}")
            }
            Item::Request { id, params: p } => {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"ask"{},"id":{id}}}"#,
                    params(p)
                )
            }
            Item::Notification { params: p } => {
                format!(r#"{{"jsonrpc":"2.0","method":"tell"{}}}"#, params(p))
            }
            Item::Cancel { target, id } => {
                let (method, member) = rules.cancel.unwrap_or(("$/cancelRequest", "id"));
                let id = id
                    .as_ref()
                    .map_or(String::new(), |id| format!(r#","id":{id}"#));
                format!(
                    r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":{target}}}{id}}}"#
                )
            }
            Item::Scalar => "1".to_string(),
            Item::Bare { id } => format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
            Item::ScalarParams { id } => {
                format!(r#"{{"jsonrpc":"2.0","method":"ask","params":3,"id":{id}}}"#)
            }
            Item::ArrayId => r#"{"jsonrpc":"2.0","method":"ask","id":[1]}"#.to_string(),
        }
    }
}

impl Message {
    pub(crate) fn text(&self, rules: &Rules) -> String {
        match self {
            Message::One(item) => item.text(rules),
            Message::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| item.text(rules)).collect();
                format!("[{}]", items.join(","))
            }
            Message::Garbage(text) => text.to_string(),
        }
    }
}

/// An id by type and value. The generator's number ids are whole numbers in several spellings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Null,
    Number(i64),
    Text(String),
}

pub(crate) fn key(text: &str) -> Key {
    match serde_json::from_str(text).expect("the generator writes JSON") {
        serde_json::Value::Null => Key::Null,
        serde_json::Value::String(text) => Key::Text(text),
        serde_json::Value::Number(number) => {
            Key::Number(number.as_f64().expect("small numbers only") as i64)
        }
        other => panic!("{other} is no id of the generator's"),
    }
}

#[derive(Clone, Debug)]
struct Call {
    id: String,
    /// The application has chosen the id.
    chosen: bool,
    /// The number of the first call in the same message.
    message: u64,
    deadline: Option<u64>,
    tag: u64,
    /// At least one byte of its message was written.
    sent: bool,
    /// Its cancel was sent.
    cancelled: bool,
}

#[derive(Clone, Debug)]
struct Request {
    /// Its number among all requests that were opened.
    serial: usize,
    id: String,
    cancelled: bool,
    /// The batch it came in, and its place there.
    batch: Option<(usize, usize)>,
}

#[derive(Clone, Debug, Default)]
struct Batch {
    /// Answers by the places of their items.
    replies: BTreeMap<usize, String>,
    /// Requests that are open, and one more while it is being delivered.
    waits_for: usize,
}

#[derive(Clone, Debug)]
struct Frame {
    bytes: Vec<u8>,
    /// How many of its bytes were written.
    taken: usize,
    /// The numbers of the calls in it.
    calls: Vec<u64>,
}

/// What becomes of an item of a batch when its turn comes.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    /// It is delivered as if it came alone.
    Deliver,
    /// It is a request that is open already, in this slot.
    Open(usize),
    /// It is refused, by this event.
    Refused(String),
    /// Nothing: it is a request that was cancelled in the same batch, or the cancel.
    Done,
}

/// A batch of which some items have not been delivered.
#[derive(Clone, Debug)]
struct Reading {
    items: Vec<Item>,
    fates: Vec<Fate>,
    next: usize,
    batch: usize,
}

pub(crate) struct Model {
    pub(crate) rules: Rules,
    now: u64,
    calls: BTreeMap<u64, Call>,
    last_number: u64,
    /// Whether the last message that was queued has calls.
    ends_in_calls: bool,
    /// Calls of messages that could not be delivered, which have not settled yet.
    undelivered: Vec<u64>,
    /// Open requests.
    slots: Vec<Option<Request>>,
    /// Slots without a request; the last one is used next.
    free: Vec<usize>,
    /// How many requests were ever opened.
    serials: usize,
    batches: Vec<Batch>,
    /// Messages that have arrived, each with whether its end has, too.
    inbox: VecDeque<(Message, bool)>,
    reading: Option<Reading>,
    /// An answer that names no call and settles all open ones up to this number.
    fanout: Option<(u64, Body)>,
    /// A part of a message has arrived after the whole ones.
    has_rest: bool,
    frames: VecDeque<Frame>,
    /// The serial of the request that the last event delivered.
    pub(crate) delivered: Option<usize>,
    eof: bool,
    draining: bool,
    /// The calls that ended without an answer and whose cancel was sent: their numbers, or the ids
    /// that their callers chose.
    cancelled: std::collections::BTreeSet<u64>,
    cancelled_ids: Vec<String>,
    /// Why the connection has ended.
    ended: Option<Closed>,
    /// Requests cannot be answered any more.
    closed: bool,
    /// The event `Closed` has come.
    told: bool,
    write_deadline: Option<u64>,
    drain_deadline: Option<u64>,
}

impl Model {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            now: 0,
            calls: BTreeMap::new(),
            last_number: 0,
            ends_in_calls: false,
            undelivered: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            serials: 0,
            batches: Vec::new(),
            inbox: VecDeque::new(),
            reading: None,
            fanout: None,
            has_rest: false,
            frames: VecDeque::new(),
            delivered: None,
            eof: false,
            draining: false,
            cancelled: std::collections::BTreeSet::new(),
            cancelled_ids: Vec::new(),
            ended: None,
            closed: false,
            told: false,
            write_deadline: None,
            drain_deadline: None,
        }
    }

    // ---- what the driver reports -------------------------------------------------------------

    pub(crate) fn arrived(&mut self, message: Message) {
        self.inbox.push_back((message, true));
    }

    /// A last message whose line feed is missing.
    pub(crate) fn arrived_unterminated(&mut self, message: Message) {
        self.inbox.push_back((message, false));
    }

    pub(crate) fn has_rest(&mut self, has_rest: bool) {
        self.has_rest = has_rest;
    }

    pub(crate) fn clock(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    pub(crate) fn eof(&mut self) {
        self.eof = true;
    }

    pub(crate) fn is_reading(&self) -> bool {
        self.ended.is_none() && !self.eof
    }

    pub(crate) fn drain(&mut self) {
        if self.ended.is_none() && !self.draining {
            self.draining = true;
            self.drain_deadline = self.rules.drain_time.map(|span| self.now + span);
        }
    }

    pub(crate) fn close(&mut self) {
        self.end(Closed::Local(CloseReason::Done));
        self.drain_deadline = None;
        self.closed = true;
        self.drop_unsent();
    }

    // ---- commands ----------------------------------------------------------------------------

    /// Why a call or notification is refused before its content is looked at.
    pub(crate) fn may_queue(&self) -> Result<(), SendError> {
        if self.ended.is_some() || self.eof || self.draining || self.closed {
            Err(SendError::Closed)
        } else {
            self.may_push()
        }
    }

    fn may_push(&self) -> Result<(), SendError> {
        if self.rules.exchange && self.rules.role == Role::Server {
            Err(SendError::NoPush)
        } else if self.waiting() > self.rules.soft {
            Err(SendError::Full)
        } else {
            Ok(())
        }
    }

    /// Why a notification is refused. After an orderly end of input and in a drain it still goes
    /// while a request is to be answered.
    pub(crate) fn may_notify(&self) -> Result<(), SendError> {
        let in_order = match self.ended {
            None => self.eof || self.draining,
            Some(why) => why == Closed::EndOfInput && !self.draining,
        };
        let open = in_order && !self.closed;
        if !(open && self.requests_open() > 0) {
            return self.may_queue();
        }
        self.may_push()
    }

    pub(crate) fn may_call(&self, id: Option<&str>, extra: usize) -> Result<(), SendError> {
        if self.calls.len() + extra >= self.rules.max_open_calls {
            return Err(SendError::TooManyCalls);
        }
        let Some(id) = id else { return Ok(()) };
        if key(id) == Key::Null {
            Err(SendError::IdNotAllowed)
        } else if self.open_call(id).is_some() {
            Err(SendError::IdInUse)
        } else {
            Ok(())
        }
    }

    /// Notes a call that the connection has taken, under the number it gave. `message` is the
    /// number of the first call in the same message.
    pub(crate) fn called(
        &mut self,
        number: u64,
        id: Option<&str>,
        message: u64,
        deadline: Option<u64>,
        tag: u64,
    ) -> Result<(), String> {
        if number <= self.last_number {
            return Err(format!("number {number} is not above {}", self.last_number));
        }
        let spelled = self.rules.spell(number);
        if id.is_none() && self.open_call(&spelled).is_some() {
            return Err(format!(
                "number {number} is spelled like an id that is open"
            ));
        }
        self.last_number = number;
        let call = Call {
            id: id.map_or(spelled, str::to_string),
            chosen: id.is_some(),
            message,
            deadline,
            tag,
            sent: false,
            cancelled: false,
        };
        self.calls.insert(number, call);
        Ok(())
    }

    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.calls.contains_key(&number)
    }

    pub(crate) fn calls_open(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn id_of(&self, number: u64) -> Option<String> {
        self.calls.get(&number).map(|call| call.id.clone())
    }

    /// Gives a call up. Returns its tag if it was open.
    pub(crate) fn cancel(&mut self, number: u64) -> Option<u64> {
        self.is_open(number).then(|| self.send_cancel(number));
        self.give_up(number).map(|call| call.tag)
    }

    pub(crate) fn ask_cancel(&mut self, number: u64) -> Result<(), SendError> {
        if !self.is_open(number) {
            Err(SendError::NotOpen)
        } else if self.send_cancel(number) {
            Ok(())
        } else {
            Err(SendError::NoPush)
        }
    }

    /// Sends a cancel of an open call, if that is possible. Returns whether it is.
    fn send_cancel(&mut self, number: u64) -> bool {
        let can = self.rules.sends_cancels && self.ended.is_none() && !self.rules.exchange;
        if can && !self.calls[&number].cancelled {
            let id = &self.calls[&number].id;
            let body =
                format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#);
            self.queue(body, Vec::new());
            self.calls.get_mut(&number).expect("it is open").cancelled = true;
        }
        can
    }

    /// Ends a call without an answer. If its cancel was sent, an answer is expected although the call
    /// is over; remembered are at most as many calls as may be open, of those with an id that the
    /// caller chose the newest, of the others those with the highest numbers.
    fn give_up(&mut self, number: u64) -> Option<Call> {
        let call = self.retire(number)?;
        if call.cancelled {
            self.note_cancelled(number, &call);
        }
        Some(call)
    }

    fn note_cancelled(&mut self, number: u64, call: &Call) {
        let most = self.rules.max_open_calls;
        if call.chosen {
            self.cancelled_ids.insert(0, call.id.clone());
            self.cancelled_ids.truncate(most);
        } else if self.cancelled.insert(number) && self.cancelled.len() > most.max(1) {
            let others = self.cancelled.iter().filter(|other| **other != number);
            let lowest = *others.min().expect("there is another");
            self.cancelled.remove(&lowest);
        }
    }

    /// Whether this is the id of a call that was cancelled, which is then forgotten.
    fn take_cancelled(&mut self, id: &str) -> bool {
        let is_it = |number: &&u64| key(&self.rules.spell(**number)) == key(id);
        if let Some(number) = self.cancelled.iter().find(is_it).copied() {
            return self.cancelled.remove(&number);
        }
        let at = self.cancelled_ids.iter().position(|chosen| chosen == id);
        at.map(|at| self.cancelled_ids.remove(at)).is_some()
    }

    pub(crate) fn set_deadline(
        &mut self,
        number: u64,
        deadline: Option<u64>,
    ) -> Result<(), SendError> {
        match self.calls.get_mut(&number) {
            Some(call) => {
                call.deadline = deadline;
                Ok(())
            }
            None => Err(SendError::NotOpen),
        }
    }

    /// Answers a request. `reply` is the member `result` or `error`.
    pub(crate) fn respond(&mut self, serial: usize, reply: &str) -> Result<(), SendError> {
        if self.closed {
            return Err(SendError::Closed);
        }
        let slot = self.slot_of(serial).ok_or(SendError::NotOpen)?;
        let request = self.remove(slot);
        let text = format!(r#"{{"jsonrpc":"2.0",{reply},"id":{}}}"#, request.id);
        match request.batch {
            None => self.queue(text, Vec::new()),
            Some((batch, place)) => {
                self.batches[batch].replies.insert(place, text);
                self.release(batch);
            }
        }
        Ok(())
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.closed
    }

    pub(crate) fn requests_open(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    // ---- output ------------------------------------------------------------------------------

    pub(crate) fn queue(&mut self, body: String, calls: Vec<u64>) {
        let bytes = framed(self.rules.framing, &body);
        self.ends_in_calls = !calls.is_empty();
        self.frames.push_back(Frame {
            bytes,
            taken: 0,
            calls,
        });
        self.watch();
    }

    pub(crate) fn waiting(&self) -> usize {
        self.frames
            .iter()
            .map(|frame| frame.bytes.len() - frame.taken)
            .sum()
    }

    /// What `poll_transmit` shows.
    pub(crate) fn shown(&self) -> Vec<u8> {
        let frames = match self.rules.framing {
            Framing::Messages => 1,
            _ => self.frames.len(),
        };
        let shown = self.frames.iter().take(frames);
        shown
            .flat_map(|frame| frame.bytes[frame.taken..].to_vec())
            .collect()
    }

    pub(crate) fn wrote(&mut self, n: usize) {
        let mut n = n.min(self.shown().len());
        if n == 0 {
            return;
        }
        while n > 0 {
            let frame = self
                .frames
                .front_mut()
                .expect("there are as many as are shown");
            let taken = n.min(frame.bytes.len() - frame.taken);
            frame.taken += taken;
            n -= taken;
            for number in &frame.calls {
                if let Some(call) = self.calls.get_mut(number) {
                    call.sent = true;
                }
            }
            if frame.taken == frame.bytes.len() {
                self.frames.pop_front();
            }
        }
        self.write_deadline = None;
        self.watch();
    }

    pub(crate) fn fail_transmit(&mut self) {
        if self.rules.framing != Framing::Messages {
            return;
        }
        if let Some(frame) = self.frames.pop_front() {
            self.undelivered.extend(frame.calls);
        }
        self.write_deadline = None;
        self.watch();
    }

    fn watch(&mut self) {
        if self.frames.is_empty() {
            self.write_deadline = None;
        } else if self.write_deadline.is_none() {
            self.write_deadline = self.rules.write_time.map(|span| self.now + span);
        }
    }

    fn drop_unsent(&mut self) {
        self.frames
            .retain(|frame| frame.calls.is_empty() || frame.taken > 0);
        self.watch();
    }

    // ---- events ------------------------------------------------------------------------------

    /// Compares what `poll_event` gave with what is right, and goes on from there.
    pub(crate) fn expect(&mut self, actual: Option<&str>) -> Result<(), String> {
        self.delivered = None;
        loop {
            if self.closed && self.requests_open() > 0 {
                let wanted = self.all_cancelled();
                return self.choose_cancelled(wanted, actual);
            }
            if self.ended.is_none() {
                if let Some((high, body)) = self.fanout.clone() {
                    let open: Vec<u64> = self.calls.range(..=high).map(|(n, _)| *n).collect();
                    if open.is_empty() {
                        self.fanout = None;
                        continue;
                    }
                    let outcome = shown(&body);
                    let number = self.find_call(&open, &outcome, actual)?;
                    self.retire(number);
                    return Ok(());
                }
                if self.reading.is_some() {
                    match self.next_item() {
                        Some(event) => return same(&event, actual),
                        None => continue,
                    }
                }
                if self.draining && self.is_idle() {
                    self.end(Closed::Drained);
                    continue;
                }
                if let Some((message, whole)) = self.inbox.pop_front() {
                    match self.read(message, whole) {
                        Some(event) => return same(&event, actual),
                        None => continue,
                    }
                }
                if self.eof {
                    self.end(if self.has_rest {
                        Closed::Failed(ConnectionError::Truncated)
                    } else {
                        Closed::EndOfInput
                    });
                }
            } else {
                self.inbox.clear();
                self.has_rest = false;
            }
            return self.settle(actual);
        }
    }

    /// What is right once no message is left to read: calls that end, then the end.
    fn settle(&mut self, actual: Option<&str>) -> Result<(), String> {
        self.undelivered
            .retain(|number| self.calls.contains_key(number));
        if !self.undelivered.is_empty() {
            let numbers = self.undelivered.clone();
            return self.choose_call(&numbers, "Unsent", actual);
        }
        if self.ended.is_none() {
            let now = self.now;
            let due = |call: &Call| call.deadline.is_some_and(|deadline| deadline <= now);
            let due: Vec<u64> = self
                .calls
                .iter()
                .filter(|(_, call)| due(call))
                .map(|(n, _)| *n)
                .collect();
            if !due.is_empty() {
                let chosen = self.find_call(&due, "TimedOut", actual)?;
                if self.rules.cancel_on_timeout {
                    self.send_cancel(chosen);
                }
                self.give_up(chosen);
                return Ok(());
            }
        }
        if self.ended.is_some() && self.is_idle() {
            self.drain_deadline = None;
        }
        if self
            .write_deadline
            .is_some_and(|deadline| deadline <= self.now)
        {
            self.end(Closed::Failed(ConnectionError::WriteTimedOut));
            self.frames.clear();
            self.watch();
            self.drain_deadline = None;
            self.closed = true;
        } else if self
            .drain_deadline
            .is_some_and(|deadline| deadline <= self.now)
        {
            self.end(Closed::Failed(ConnectionError::DrainTimedOut));
            self.drain_deadline = None;
            self.closed = true;
            self.drop_unsent();
        }
        let Some(why) = self.ended else {
            return nothing(actual);
        };
        if self.closed && self.requests_open() > 0 {
            let wanted = self.all_cancelled();
            return self.choose_cancelled(wanted, actual);
        }
        if !self.calls.is_empty() {
            // Any of them, each with its own ending.
            let missing = self.rules.exchange && why == Closed::EndOfInput;
            for number in self.calls.keys().copied().collect::<Vec<_>>() {
                let outcome = match self.calls[&number].sent {
                    false => "Unsent",
                    true if missing => "Missing",
                    true => "Aborted",
                };
                if self.choose_call(&[number], outcome, actual).is_ok() {
                    return Ok(());
                }
            }
            return Err(format!(
                "one of {:?} should settle, got {actual:?}",
                self.calls
            ));
        }
        if self.told {
            return nothing(actual);
        }
        self.told = true;
        same(&rendering::closed(why), actual)
    }

    fn end(&mut self, why: Closed) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(why);
        self.abandon();
        self.fanout = None;
        self.drop_unsent();
        // After an orderly end of input open requests may still be answered, until the drain's deadline.
        if why != Closed::EndOfInput {
            self.drain_deadline = None;
        }
    }

    /// Answers −32603 to the requests of a batch that were not delivered.
    fn abandon(&mut self) {
        let Some(reading) = self.reading.take() else {
            return;
        };
        for place in reading.next..reading.fates.len() {
            if let Fate::Open(slot) = reading.fates[place] {
                let request = self.remove(slot);
                let reply = failure(-32603, "Internal error", &request.id);
                self.batches[reading.batch].replies.insert(place, reply);
                self.release(reading.batch);
            }
        }
        self.release(reading.batch);
    }

    /// Takes a message. Returns its event, or `None` if what it causes is still to be found out.
    fn read(&mut self, message: Message, whole: bool) -> Option<String> {
        match message {
            Message::Garbage(_) if !whole => {
                self.end(Closed::Failed(ConnectionError::Truncated));
                None
            }
            Message::Garbage(_) => {
                let answered = self.answer(-32700, "Parse error", "null");
                Some(format!("malformed syntax answered {answered:?}"))
            }
            Message::One(item) => {
                if let Item::Answer { id, body } = &item {
                    let settles = match id {
                        None => self.settles_without_id(body),
                        Some(id) => key(id) == Key::Null && self.settles_with_null(body),
                    };
                    if settles && !self.calls.is_empty() {
                        self.fanout = Some((self.last_number, body.clone()));
                        return None;
                    }
                }
                Some(self.deliver(item, None))
            }
            Message::Array(items) => self.read_array(items),
        }
    }

    fn is_our_exchange(&self) -> bool {
        self.rules.exchange && self.rules.role == Role::Client
    }

    /// Whether an answer that leaves its id out is taken for the reply to an exchange of ours.
    fn is_reply_without_id(&self) -> bool {
        self.is_our_exchange() && self.rules.missing_response_id == MissingResponseId::SoleExchange
    }

    /// Whether an answer that leaves its id out settles open calls: an error settles all of them,
    /// anything else that could be an answer only a single one.
    fn settles_without_id(&self, body: &Body) -> bool {
        self.is_reply_without_id()
            && match body {
                Body::Error(..) => true,
                Body::Ok(_) | Body::BadError => self.calls.len() == 1,
                Body::Both | Body::NoVersion => false,
            }
    }

    /// Whether an answer with a null id settles the open calls: only an error does, if it is for all,
    /// or if it says that a message was too large and the only open call was the last to leave.
    fn settles_with_null(&self, body: &Body) -> bool {
        let Body::Error(code, message) = body else {
            return false;
        };
        let is_over_limit = match integer(code) {
            -32004 => true,
            -32600 => message.contains("bytes"),
            _ => false,
        };
        self.is_for_all() || (is_over_limit && self.is_last_sent())
    }

    /// Whether errors with a null id are only reported, a single call is open and has begun to leave, and
    /// no message was queued after it.
    fn is_last_sent(&self) -> bool {
        let is_last = |(number, call): (&u64, &Call)| *number == self.last_number && call.sent;
        let is_only = self.calls.len() == 1 && self.calls.iter().all(is_last);
        self.rules.null_id_error == NullIdError::Report && is_only && self.ends_in_calls
    }

    /// Whether an error with a null id settles what is open, whatever it says.
    fn is_for_all(&self) -> bool {
        let messages: BTreeSet<u64> = self.calls.values().map(|call| call.message).collect();
        self.is_our_exchange()
            || match self.rules.null_id_error {
                NullIdError::Report => false,
                NullIdError::FailSole => messages.len() == 1,
                NullIdError::FailAll => true,
                other => unreachable!("the model knows no {other:?}"),
            }
    }

    fn read_array(&mut self, items: Vec<Item>) -> Option<String> {
        let reason = if items.is_empty() {
            if self.is_our_exchange() {
                return None;
            }
            Some(InvalidReason::EmptyBatch)
        } else if !self.rules.batches {
            Some(InvalidReason::BatchesOff)
        } else {
            None
        };
        if let Some(reason) = reason {
            let answered = self.answer(-32600, "Invalid Request", "null");
            return Some(format!("malformed Call({reason:?}) answered {answered:?}"));
        }
        let limit = self.rules.max_batch_items;
        if items.len() > limit {
            // A batch of answers is never answered. With anything else in it, its sender may wait.
            let answers = items[..limit]
                .iter()
                .all(|item| matches!(item, Item::Answer { .. }));
            let answered = match answers {
                false => self.answer(-32003, &format!("Batch too large, limit: {limit}"), "null"),
                true => None,
            };
            let items = items.len();
            return Some(format!(
                "refused BatchTooLong {{ items: {items} }} answered {answered:?} id -"
            ));
        }
        self.open_batch(items);
        None
    }

    fn open_batch(&mut self, items: Vec<Item>) {
        let batch = self.batches.len();
        self.batches.push(Batch {
            waits_for: 1,
            ..Batch::default()
        });
        let mut fates = Vec::new();
        for (place, item) in items.iter().enumerate() {
            let mut fate = Fate::Deliver;
            if let Some((id, cancel)) = request_id(item) {
                if !(cancel && self.rules.cancel.is_some()) {
                    fate = match self.over_limit(&id) {
                        Some((cause, code, message)) => {
                            self.batches[batch]
                                .replies
                                .insert(place, failure(code, message, &id));
                            Fate::Refused(format!(
                                "refused {cause} answered {:?} id {id}",
                                Some(code)
                            ))
                        }
                        None => Fate::Open(self.insert(&id, Some((batch, place)))),
                    };
                }
            }
            fates.push(fate);
        }
        // A cancel in a batch comes before the request it cancels, wherever the two stand.
        for place in 0..items.len() {
            let Item::Cancel { target, id } = &items[place] else {
                continue;
            };
            if self.rules.cancel.is_none() {
                continue;
            }
            let Some(slot) = self.wanted(target) else {
                continue;
            };
            let Some(same) = fates.iter().position(|fate| *fate == Fate::Open(slot)) else {
                continue;
            };
            let request = self.remove(slot);
            if let Some(code) = self.rules.cancel_code {
                let reply = failure(code, "Request cancelled", &request.id);
                self.batches[batch].replies.insert(same, reply);
            }
            self.release(batch);
            fates[same] = Fate::Done;
            fates[place] = Fate::Done;
            if let Some(id) = id {
                let reply = format!(r#"{{"jsonrpc":"2.0","result":null,"id":{id}}}"#);
                self.batches[batch].replies.insert(place, reply);
            }
        }
        self.reading = Some(Reading {
            items,
            fates,
            next: 0,
            batch,
        });
    }

    fn next_item(&mut self) -> Option<String> {
        let reading = self.reading.as_mut()?;
        let place = reading.next;
        reading.next += 1;
        let (item, fate) = (reading.items[place].clone(), reading.fates[place].clone());
        let (batch, last) = (reading.batch, reading.next == reading.items.len());
        let event = match fate {
            Fate::Done => None,
            Fate::Refused(event) => Some(event),
            Fate::Open(slot) => {
                self.delivered = self.slots[slot].as_ref().map(|open| open.serial);
                let (id, params) = match &item {
                    Item::Request { id, params } => (id.clone(), params.clone()),
                    Item::Cancel { target, id } => {
                        let (method, member) = ("$/cancelRequest", "id");
                        let id = id.clone().unwrap_or_default();
                        let event = format!(
                            r#"request {method} {{"{member}":{target}}} id {id} at {:?}"#,
                            Some(place)
                        );
                        return self.finish_item(last, batch, Some(event));
                    }
                    _ => unreachable!("only requests are opened"),
                };
                Some(format!(
                    "request ask {} id {id} at {:?}",
                    or_dash(&params),
                    Some(place)
                ))
            }
            Fate::Deliver => Some(self.deliver(item, Some((batch, place)))),
        };
        self.finish_item(last, batch, event)
    }

    fn finish_item(&mut self, last: bool, batch: usize, event: Option<String>) -> Option<String> {
        if last {
            self.reading = None;
            self.release(batch);
        }
        event
    }

    /// Delivers one object. `at` is its batch and its place there.
    fn deliver(&mut self, item: Item, at: Option<(usize, usize)>) -> String {
        let index = at.map(|(_, place)| place);
        match item {
            Item::Request { id, params } => match self.over_limit(&id) {
                Some((cause, code, message)) => {
                    self.queue(failure(code, message, &id), Vec::new());
                    format!("refused {cause} answered {:?} id {id}", Some(code))
                }
                None => {
                    self.delivered = Some(self.serials);
                    self.insert(&id, None);
                    format!("request ask {} id {id} at {index:?}", or_dash(&params))
                }
            },
            Item::Notification { params } => {
                format!("notification tell {} at {index:?}", or_dash(&params))
            }
            Item::Cancel { target, id } => self.deliver_cancel(&target, id, at),
            Item::Answer { id: Some(id), body } => self.deliver_answer(&id, &body),
            Item::Answer { id: None, body } => self.deliver_without_id(&body, at.is_some()),
            Item::Scalar => self.invalid(InvalidReason::NotAnObject, None, at),
            Item::Bare { id } => match self.open_call(&id) {
                Some(number) => {
                    let call = self.retire(number).expect("it is open");
                    let reason = InvalidReason::Unrecognisable;
                    format!("response {number} tag {} invalid {reason:?}", call.tag)
                }
                None => self.invalid(InvalidReason::Unrecognisable, Some(id), at),
            },
            Item::ScalarParams { id } => self.invalid(InvalidReason::ParamsType, Some(id), at),
            Item::ArrayId => self.invalid(InvalidReason::IdType, None, at),
        }
    }

    fn deliver_cancel(
        &mut self,
        target: &str,
        id: Option<String>,
        at: Option<(usize, usize)>,
    ) -> String {
        let index = at.map(|(_, place)| place);
        if self.rules.cancel.is_none() {
            // A method like any other.
            let params = format!(r#"{{"id":{target}}}"#);
            return match id {
                None => format!("notification $/cancelRequest {params} at {index:?}"),
                Some(id) => match self.over_limit(&id) {
                    Some((cause, code, message)) => {
                        self.queue(failure(code, message, &id), Vec::new());
                        format!("refused {cause} answered {:?} id {id}", Some(code))
                    }
                    None => {
                        self.delivered = Some(self.serials);
                        self.insert(&id, None);
                        format!("request $/cancelRequest {params} id {id} at {index:?}")
                    }
                },
            };
        }
        let event = match self.wanted(target) {
            None => format!("unmatched cancel id {target}"),
            Some(slot) => {
                let owed = self.rules.cancel_code.is_some();
                let serial = self.slots[slot].as_ref().expect("it was just found").serial;
                if owed {
                    self.slots[slot]
                        .as_mut()
                        .expect("it was just found")
                        .cancelled = true;
                } else if let Some((batch, _)) = self.remove(slot).batch {
                    self.release(batch);
                }
                format!("cancelled {serial} owed {owed}")
            }
        };
        if let Some(id) = id {
            let reply = format!(r#"{{"jsonrpc":"2.0","result":null,"id":{id}}}"#);
            match at {
                None => self.queue(reply, Vec::new()),
                Some((batch, place)) => {
                    self.batches[batch].replies.insert(place, reply);
                }
            }
        }
        event
    }

    fn deliver_answer(&mut self, id: &str, body: &Body) -> String {
        if let Some(number) = self.open_call(id) {
            let call = self.retire(number).expect("it is open");
            return format!("response {number} tag {} {}", call.tag, shown(body));
        }
        if let Some(reason) = broken(body) {
            return format!("malformed Response({reason:?}) answered None id {id}");
        }
        if key(id) != Key::Null && self.take_cancelled(id) {
            return format!("unmatched cancelled {} id {id}", shown(body));
        }
        let used = |n: u64| key(&self.rules.spell(n)) == key(id);
        let kind = match key(id) {
            Key::Null => "null",
            _ if (1..=self.last_number).any(used) => "late",
            _ => "unknown",
        };
        format!("unmatched {kind} {} id {id}", shown(body))
    }

    /// An answer that leaves its id out and settles nothing.
    fn deliver_without_id(&self, body: &Body, is_in_batch: bool) -> String {
        let is_reply = !is_in_batch && self.is_reply_without_id();
        let reason = match body {
            Body::NoVersion => InvalidReason::Version,
            Body::Error(..) if is_reply => return format!("unmatched null {} id -", shown(body)),
            Body::Both | Body::BadError if is_reply => broken(body).expect("it is broken"),
            _ => InvalidReason::IdMissing,
        };
        format!("malformed Response({reason:?}) answered None")
    }

    fn invalid(
        &mut self,
        reason: InvalidReason,
        id: Option<String>,
        at: Option<(usize, usize)>,
    ) -> String {
        // In a dialect without null ids, a null id counts as unreadable.
        let id = id.filter(|id| self.rules.null_ids || key(id) != Key::Null);
        let echo = match &id {
            Some(id) if self.rules.echo_ids => id.clone(),
            _ => "null".to_string(),
        };
        let answered = match at {
            _ if self.rules.role == Role::Client => None,
            Some((batch, place)) => {
                let reply = failure(-32600, "Invalid Request", &echo);
                self.batches[batch].replies.insert(place, reply);
                Some(-32600)
            }
            None => self.answer(-32600, "Invalid Request", &echo),
        };
        let id = id.map_or(String::new(), |id| format!(" id {id}"));
        format!("malformed Call({reason:?}) answered {answered:?}{id}")
    }

    /// Answers a fault, unless this side only calls.
    fn answer(&mut self, code: i64, message: &str, id: &str) -> Option<i64> {
        if self.rules.role == Role::Client {
            return None;
        }
        self.queue(failure(code, message, id), Vec::new());
        Some(code)
    }

    fn over_limit(&self, id: &str) -> Option<(&'static str, i64, &'static str)> {
        if !self.rules.null_ids && key(id) == Key::Null {
            Some(("NullId", -32600, "Invalid Request"))
        } else if self.draining {
            let code = match self.rules.error_profile {
                ErrorProfile::WebSocketDraft => -32009,
                _ => self.busy_code(),
            };
            Some(("Draining", code, "Server busy"))
        } else if self.requests_open() >= self.rules.max_open_requests {
            Some(("Busy", self.busy_code(), "Server busy"))
        } else if !self.rules.repeated_ids
            && self
                .slots
                .iter()
                .flatten()
                .any(|open| key(&open.id) == key(id))
        {
            Some(("RepeatedId", -32600, "Invalid Request"))
        } else {
            None
        }
    }

    fn busy_code(&self) -> i64 {
        match self.rules.error_profile {
            ErrorProfile::Antiphon => -32002,
            ErrorProfile::WebSocketDraft => -32007,
            ErrorProfile::Lsp => -32803,
            ErrorProfile::Mcp => -32603,
            other => unreachable!("the model knows no {other:?}"),
        }
    }

    /// The code with which `respond_cancelled` answers.
    pub(crate) fn cancelled_code(&self) -> i64 {
        let given_up = match self.rules.error_profile {
            ErrorProfile::Antiphon | ErrorProfile::WebSocketDraft => -32001,
            ErrorProfile::Lsp => -32800,
            ErrorProfile::Mcp => -32603,
            other => unreachable!("the model knows no {other:?}"),
        };
        self.rules.cancel_code.unwrap_or(given_up)
    }

    // ---- tables ------------------------------------------------------------------------------

    /// Opens a request, in the slot that was freed last. Returns the slot.
    fn insert(&mut self, id: &str, batch: Option<(usize, usize)>) -> usize {
        let request = Request {
            serial: self.serials,
            id: id.to_string(),
            cancelled: false,
            batch,
        };
        self.serials += 1;
        if let Some((batch, _)) = batch {
            self.batches[batch].waits_for += 1;
        }
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(request);
                slot
            }
            None => {
                self.slots.push(Some(request));
                self.slots.len() - 1
            }
        }
    }

    fn remove(&mut self, slot: usize) -> Request {
        self.free.push(slot);
        self.slots[slot]
            .take()
            .expect("only open requests are removed")
    }

    /// A batch waits for one thing less. Once it waits for nothing, its answers leave.
    fn release(&mut self, batch: usize) {
        let state = &mut self.batches[batch];
        state.waits_for -= 1;
        if state.waits_for == 0 && !state.replies.is_empty() {
            let replies: Vec<String> = std::mem::take(&mut state.replies).into_values().collect();
            if !self.closed {
                self.queue(format!("[{}]", replies.join(",")), Vec::new());
            }
        }
    }

    fn slot_of(&self, serial: usize) -> Option<usize> {
        self.slots
            .iter()
            .position(|slot| slot.as_ref().is_some_and(|open| open.serial == serial))
    }

    /// The slot of the request that a cancel is for. No rule says which of two with the same id it is:
    /// the core takes the newer one.
    fn wanted(&self, target: &str) -> Option<usize> {
        let open = |slot: &usize| self.slots[*slot].as_ref();
        let fits = |slot: &usize| {
            open(slot).is_some_and(|open| !open.cancelled && key(&open.id) == key(target))
        };
        let all = (0..self.slots.len()).filter(fits);
        all.max_by_key(|slot| open(slot).map(|open| open.serial))
    }

    /// The number of the open call with this id, chosen or spelled.
    fn open_call(&self, id: &str) -> Option<u64> {
        let wanted = key(id);
        let chosen = self
            .calls
            .iter()
            .find(|(_, call)| call.chosen && key(&call.id) == wanted);
        let any = || self.calls.iter().find(|(_, call)| key(&call.id) == wanted);
        chosen.or_else(any).map(|(number, _)| *number)
    }

    fn retire(&mut self, number: u64) -> Option<Call> {
        self.calls.remove(&number)
    }

    /// The one of these calls that `actual` says has ended so.
    fn find_call(
        &self,
        numbers: &[u64],
        outcome: &str,
        actual: Option<&str>,
    ) -> Result<u64, String> {
        let line = |number: u64| {
            format!(
                "response {number} tag {} {outcome}",
                self.calls[&number].tag
            )
        };
        let found = numbers
            .iter()
            .copied()
            .find(|&number| Some(line(number).as_str()) == actual);
        found.ok_or_else(|| {
            let wanted: Vec<String> = numbers.iter().map(|&number| line(number)).collect();
            format!("wanted one of {wanted:?}, got {actual:?}")
        })
    }

    /// Ends, without an answer, the one of these calls that `actual` says has ended so.
    fn choose_call(
        &mut self,
        numbers: &[u64],
        outcome: &str,
        actual: Option<&str>,
    ) -> Result<(), String> {
        let number = self.find_call(numbers, outcome, actual)?;
        self.give_up(number);
        Ok(())
    }

    fn all_cancelled(&self) -> Vec<usize> {
        self.slots
            .iter()
            .flatten()
            .map(|open| open.serial)
            .collect()
    }

    /// Gives up the one of these requests that `actual` says was cancelled.
    fn choose_cancelled(
        &mut self,
        serials: Vec<usize>,
        actual: Option<&str>,
    ) -> Result<(), String> {
        let line = |serial: usize| format!("cancelled {serial} owed false");
        let found = serials
            .iter()
            .copied()
            .find(|&serial| Some(line(serial).as_str()) == actual);
        let serial =
            found.ok_or_else(|| format!("wanted one of {serials:?} cancelled, got {actual:?}"))?;
        let slot = self.slot_of(serial).expect("it is open");
        if let Some((batch, _)) = self.remove(slot).batch {
            self.release(batch);
        }
        Ok(())
    }

    // ---- what is asked of it -----------------------------------------------------------------

    pub(crate) fn is_closed(&self) -> bool {
        self.told && self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.requests_open() == 0 && self.calls.is_empty() && self.frames.is_empty()
    }

    /// The earliest deadline of anything.
    pub(crate) fn earliest(&self) -> Option<u64> {
        let calls = self.calls.values().filter_map(|call| call.deadline);
        calls
            .chain(self.write_deadline)
            .chain(self.drain_deadline)
            .min()
    }
}

/// The id of an item that is a request, and whether it is a cancel.
fn request_id(item: &Item) -> Option<(String, bool)> {
    match item {
        Item::Request { id, .. } => Some((id.clone(), false)),
        Item::Cancel { id: Some(id), .. } => Some((id.clone(), true)),
        _ => None,
    }
}

/// The outcome of an answer, as [`rendering`] writes it.
fn shown(body: &Body) -> String {
    match body {
        Body::Ok(result) => format!("ok {result}"),
        Body::Error(code, message) => format!("error {} {message} -", integer(code)),
        Body::Both | Body::BadError | Body::NoVersion => {
            format!("invalid {:?}", broken(body).expect("it is broken"))
        }
    }
}

/// The rule that an answer breaks, if it breaks one. Its id is not looked at.
fn broken(body: &Body) -> Option<InvalidReason> {
    match body {
        Body::Ok(_) | Body::Error(..) => None,
        Body::Both => Some(InvalidReason::BothOutcomes),
        Body::BadError => Some(InvalidReason::ErrorShape),
        Body::NoVersion => Some(InvalidReason::Version),
    }
}

/// The value of a small whole number, however it is written.
fn integer(code: &str) -> i64 {
    code.parse::<f64>().expect("the generator writes numbers") as i64
}

fn or_dash(params: &Option<String>) -> &str {
    params.as_deref().unwrap_or("-")
}

/// A message as it stands on the wire.
pub(crate) fn framed(framing: Framing, body: &str) -> Vec<u8> {
    match framing {
        Framing::ContentLength => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
        Framing::Messages => body.to_string(),
        _ => format!("{body}\n"),
    }
    .into_bytes()
}

pub(crate) fn failure(code: i64, message: &str, id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":"{message}"}},"id":{id}}}"#)
}

fn same(wanted: &str, actual: Option<&str>) -> Result<(), String> {
    match actual == Some(wanted) {
        true => Ok(()),
        false => Err(format!("wanted {wanted:?}, got {actual:?}")),
    }
}

fn nothing(actual: Option<&str>) -> Result<(), String> {
    match actual {
        None => Ok(()),
        Some(event) => Err(format!("wanted nothing, got {event:?}")),
    }
}
