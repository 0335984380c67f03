//! One end of a link: a connection, its driver's buffers, and the books that are kept beside it.
//!
//! Every command goes through here, so that every command is checked: what is refused leaves no
//! trace, what is accepted stands in the books, and all of it fits into the memory promised.

use antiphon::{
    CallId, Config, Connection, ErrorObject, Event, Framing, Id, Instant, Outcome, Payload,
    ReadBuffer, RefusedCause, RequestKey, SendError,
};

use crate::book::{Answer, Book, Call, Debt, Held, Purpose, Said, Told, WantedId, spelled};
use crate::checks::{Broken, Check, Checked};
use crate::counts::{self, Counts};
use crate::memory;
use crate::observer::{ItemKind, Observer};
use crate::plant::Plant;
use crate::skim;

/// What the simulation counts of a connection's memory that `memory_bytes_max_for` leaves out: ids
/// that callers chose, and methods with escapes that an event holds for a moment.
const MEMORY_SLACK: isize = 8 << 10;

/// One end of a link.
pub struct End {
    /// The connection under test.
    pub conn: Connection<u64>,
    /// What it was made with.
    pub config: Config,
    /// The driver's buffer.
    pub buffer: ReadBuffer,
    /// The books.
    pub book: Book,
    /// Reads what leaves.
    pub observer: Observer,
    /// Requests that handlers keep.
    pub held: Vec<Held>,
    /// Requests whose tokens were lost.
    pub lost: Vec<RequestKey>,
    /// The call ids of open calls, by mark.
    pub call_ids: Vec<(u64, CallId)>,
    /// The peer keeps the rules, and what arrives is known.
    pub honest_peer: bool,
    /// The latest time that was told.
    pub told: u64,
    /// Something has been said in this exchange.
    pub said_once: bool,
    /// Something has been received, so that a detected framing is known.
    pub heard: bool,
    /// Frames shown by the transport that have not been delivered, of whole messages.
    pub plant: Option<Plant>,
    heap: isize,
    over: Option<isize>,
}

/// What an event asks of the application.
pub enum Seen {
    /// A request to handle.
    Request(Held, RequestKey),
    /// A call that has settled.
    Settled(Call, Settled),
    /// A request was given up.
    Cancelled(RequestKey),
    /// The end.
    Closed,
    /// Nothing to do.
    Other,
}

/// How a call ended, as far as a handler that waits for it cares.
pub enum Settled {
    /// With this result.
    Ok(String),
    /// With this error code.
    Err(i64),
    /// At its deadline.
    TimedOut,
    /// In some other way.
    Otherwise,
}

/// What a refused command must not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    queued: u64,
    done: u64,
    shown: usize,
    calls: usize,
    requests: usize,
}

impl End {
    /// A fresh end.
    pub fn new(config: Config, honest_peer: bool, now: u64, plant: Option<Plant>) -> Self {
        let mut end = Self {
            conn: Connection::new(config),
            config,
            buffer: ReadBuffer::new(config.input_bytes_max()),
            book: Book::default(),
            observer: Observer::new(config.framing),
            held: Vec::new(),
            lost: Vec::new(),
            call_ids: Vec::new(),
            honest_peer,
            told: 0,
            said_once: false,
            heard: config.framing != Framing::Detect,
            plant,
            heap: 0,
            over: None,
        };
        end.tell_time(now);
        end
    }

    /// Lets the connection do something, and counts the memory.
    pub fn run<R>(&mut self, op: impl FnOnce(&mut Connection<u64>) -> R) -> R {
        let shown = self.conn.poll_transmit().is_some();
        let conn = &mut self.conn;
        let (result, left, most) = memory::measured(|| op(conn));
        if shown && self.conn.poll_transmit().is_none() {
            // Given up: the output was over its limit, or nobody took it in time.
            self.book.silenced = true;
        }
        let most = self.heap + most;
        self.heap += left;
        let mut bound = self.config.memory_bytes_max_for::<u64>() as isize + MEMORY_SLACK;
        if self.plant == Some(Plant::MemoryClaim) {
            bound = 400;
        }
        if most > bound {
            self.over = Some(most);
        }
        result
    }

    /// The same for a write, which takes output away.
    pub fn run_write<R>(&mut self, op: impl FnOnce(&mut Connection<u64>) -> R) -> R {
        let silenced = self.book.silenced;
        let result = self.run(op);
        self.book.silenced = silenced;
        result
    }

    /// Drops a part of an event that may own memory of the connection's.
    fn release<V>(&mut self, part: V) {
        let ((), left, _) = memory::measured(|| drop(part));
        self.heap += left;
    }

    /// Tells the time.
    pub fn tell_time(&mut self, now: u64) {
        self.told = self.told.max(now);
        let told = match self.plant {
            Some(Plant::ClockNotTold) => return,
            Some(Plant::ClockAhead) => now + 20_000_000_000,
            _ => now,
        };
        self.run(|conn| conn.handle_timeout(Instant::from_nanos(told)));
    }

    /// Everything that a refused command must not change.
    pub fn state(&self) -> State {
        State {
            queued: self.conn.transmit_queued(),
            done: self.conn.transmit_done(),
            shown: self.conn.poll_transmit().map_or(0, <[u8]>::len),
            calls: self.conn.calls_open(),
            requests: self.conn.requests_open(),
        }
    }

    /// A command was refused: counts why, and checks that nothing has changed.
    pub fn refused(&mut self, before: State, error: &SendError, counts: &mut Counts) -> Checked {
        counts.add(counts::command(error));
        if *error == SendError::TooLarge {
            // What the application wanted to say is its own doing, while it is found too large.
            self.over = None;
        }
        if self.plant == Some(Plant::TraceLeft) {
            // A driver that says something of its own instead.
            let _ = self.conn.notify("sorry", ());
        }
        let after = self.state();
        Check::NoTrace.that(before == after, || {
            format!("{error:?} left {before:?} as {after:?}")
        })
    }

    /// Whether calls and notifications have to be refused for want of room, and were or were not.
    pub fn lane(&self, before: State, error: Option<&SendError>) -> Checked {
        let waiting = before.queued - before.done;
        let is_above = waiting > self.config.outbox_bytes_soft as u64;
        let is_full = error == Some(&SendError::Full);
        let is_accepted = error.is_none();
        Check::ResponseLane.that(
            !(is_full && !is_above) && !(is_accepted && is_above),
            || {
                let soft = self.config.outbox_bytes_soft;
                format!("{waiting} bytes wait, {soft} may, and a call got {error:?}")
            },
        )
    }

    /// Makes a call.
    ///
    /// # Errors
    /// If an invariant breaks; a refused call is not an error, and gives its purpose back.
    #[expect(clippy::too_many_arguments, reason = "one for every part of a call")]
    pub fn call(
        &mut self,
        id: Option<&str>,
        method: &str,
        params: impl Payload,
        deadline: Option<u64>,
        mark: u64,
        purpose: Purpose,
        counts: &mut Counts,
    ) -> Result<Option<Purpose>, Broken> {
        let before = self.state();
        let at = deadline.map(Instant::from_nanos);
        let result = match id {
            None => self.run(|conn| conn.call(method, params, at, mark)),
            Some(text) => {
                let json = antiphon::Json::parse_str(text).expect("chosen ids are JSON");
                let id = Id::new(json).expect("chosen ids are scalars");
                self.run(|conn| conn.call_with_id(id, method, params, at, mark))
            }
        };
        self.lane(
            before,
            result.as_ref().err().map(|rejected| &rejected.error),
        )?;
        let call = match result {
            Ok(call) => call,
            Err(rejected) => {
                Check::NoTrace.that(rejected.value == mark, || "another tag came back".into())?;
                self.refused(before, &rejected.error, counts)?;
                return Ok(Some(purpose));
            }
        };
        let id = id.map_or_else(
            || spelled(self.config.id_scheme, call.number()),
            str::to_string,
        );
        self.book.said.push_back(Said::One(Some(id.clone()), mark));
        self.open(call, id, deadline, mark, purpose);
        Ok(None)
    }

    /// Notes an open call.
    pub fn open(
        &mut self,
        call: CallId,
        id: String,
        deadline: Option<u64>,
        mark: u64,
        purpose: Purpose,
    ) {
        self.said_once = true;
        self.call_ids.push((mark, call));
        let number = call.number();
        let left = false;
        let call = Call {
            mark,
            number,
            id,
            deadline,
            purpose,
            left,
        };
        self.book.calls.insert(mark, call);
    }

    /// Answers a request with a result or an error, and gives it back if that is refused.
    ///
    /// # Errors
    /// If an invariant breaks.
    pub fn answer(
        &mut self,
        held: Held,
        answer: Result<impl Payload, ErrorObject<'_>>,
        counts: &mut Counts,
    ) -> Result<Option<Held>, Broken> {
        let Held {
            token,
            mark,
            method,
        } = held;
        let key = token.key();
        let before = self.state();
        let full = before.queued - before.done > self.config.outbox_bytes_soft as u64;
        let (kind, result) = match answer {
            Ok(result) => (ItemKind::Ok, self.run(|conn| conn.respond(token, result))),
            Err(error) => {
                let kind = ItemKind::Err(error.code());
                (kind, self.run(|conn| conn.respond_err(token, &error)))
            }
        };
        let planted = full && self.plant == Some(Plant::LaneBlocked);
        match result {
            Ok(()) if !planted => {
                self.paid(key, kind, mark, counts)?;
                Ok(None)
            }
            Ok(()) => Err(Check::ResponseLane.broken("an answer had to wait for room")),
            Err(rejected) => {
                let error = &rejected.error;
                Check::ResponseLane
                    .that(*error != SendError::Full, || "an answer got Full".into())?;
                Check::TokenSafety.that(rejected.value.key() == key, || {
                    "another token came back".into()
                })?;
                let is_open = self.book.debts.contains_key(&key);
                Check::TokenSafety.that(*error != SendError::NotOpen || !is_open, || {
                    format!("{key:?} is owed an answer and is not open")
                })?;
                self.refused(before, error, counts)?;
                let token = rejected.value;
                Ok(Some(Held {
                    token,
                    mark,
                    method,
                }))
            }
        }
    }

    /// An answer was accepted: the debt is paid, and cannot be paid again.
    pub fn paid(
        &mut self,
        key: RequestKey,
        kind: ItemKind,
        mark: Option<u64>,
        counts: &mut Counts,
    ) -> Checked {
        if let ItemKind::Err(code) = kind {
            counts.add(counts::code(code));
        }
        let Some(debt) = self.book.debts.remove(&key) else {
            let why = format!("{key:?} was answered and is owed nothing");
            return Err(Check::TokenSafety.broken(why));
        };
        let id = self.echo(&debt.id);
        self.book.answered(Answer { id, kind, mark }, debt.batch);
        self.said_once = true;
        let other = match self.plant {
            Some(Plant::TokenForged) => self.book.debts.keys().next().copied(),
            _ => None,
        };
        let again = other.unwrap_or(key);
        let again = self.run(|conn| conn.abandon(again));
        Check::TokenSafety.that(!again, || format!("{key:?} could be answered twice"))
    }

    /// Answers for a token that was lost.
    ///
    /// # Errors
    /// If an invariant breaks.
    pub fn abandon(&mut self, key: RequestKey, counts: &mut Counts) -> Checked {
        let answered = self.run(|conn| conn.abandon(key));
        let owed = self.book.debts.contains_key(&key);
        // A connection that was closed gives its requests up one by one.
        let ending = self.book.ending || self.conn.notify("", ()) == Err(SendError::Closed);
        Check::TokenSafety.that(answered == owed || ending, || {
            format!("{key:?} abandoned: {answered}, owed: {owed}")
        })?;
        match answered {
            true => self.paid(key, ItemKind::Err(-32603), None, counts),
            false => Ok(()),
        }
    }

    /// Looks at an event, keeps the books, and says what the application has to do.
    ///
    /// # Errors
    /// If an invariant breaks.
    pub fn digest(&mut self, event: Event<'_, u64>, counts: &mut Counts) -> Result<Seen, Broken> {
        self.heard = true;
        let is_late = self.book.closed.is_some();
        let is_allowed = matches!(&event, Event::Cancelled(cancelled) if !cancelled.answer_owed);
        Check::ClosedOnce.that(!is_late || is_allowed, || {
            format!("{event:?} after the end")
        })?;
        match event {
            Event::Request(request) => {
                counts.add("event: request");
                let mark = request
                    .params
                    .and_then(|params| skim::mark(params.as_bytes()));
                let (id, method) = (request.id.text().to_string(), request.method.to_string());
                let batch = request.origin.batch_index.is_some();
                if batch {
                    counts.add("event: request in a batch");
                }
                let token = request.token;
                let key = token.key();
                self.release(request.method);
                let told = Told::Request(id.clone(), method.clone(), mark);
                self.tell(&told)?;
                if self.plant != Some(Plant::GetterOff) {
                    self.book.debts.insert(key, Debt { id, batch, mark });
                }
                self.book.delivered.extend(mark);
                let held = Held {
                    token,
                    mark,
                    method,
                };
                Ok(Seen::Request(held, key))
            }
            Event::Notification(notification) => {
                counts.add("event: notification");
                let params = notification.params;
                let mark = params.and_then(|params| skim::mark(params.as_bytes()));
                let method = notification.method.to_string();
                self.release(notification.method);
                if self.config.v1_null_id == antiphon::V1NullId::AckAllNull && !self.honest_peer {
                    self.book.excused += 1;
                } else if self.config.v1_null_id == antiphon::V1NullId::AckAllNull {
                    self.acknowledged(notification.origin.batch_index.is_some());
                }
                self.tell(&Told::Notification(method, mark))?;
                Ok(Seen::Other)
            }
            Event::Response(response) => {
                counts.add("event: response");
                let (tag, number) = (response.tag, response.call.number());
                let origin_bytes = response.origin.map(|origin| origin.bytes);
                let seen = self.settled(tag, number, &response.outcome, origin_bytes, counts);
                self.release(response.outcome);
                if self.plant == Some(Plant::SettledTwice) {
                    self.book.settle(tag, number)?;
                }
                seen
            }
            Event::Cancelled(cancelled) => {
                counts.add("event: cancelled");
                if !cancelled.answer_owed && !self.book.cancel_is_next(&self.config) {
                    // No cancel of the peer's: the connection is giving its requests up.
                    self.book.ending = true;
                }
                let is_told = self.book.closed.is_none() && !self.book.ending;
                if is_told {
                    self.tell(&Told::Cancel)?;
                }
                if !self.honest_peer {
                    // The cancel may have had an id of its own.
                    self.book.excused += 1;
                }
                if cancelled.answer_owed {
                    counts.add("event: cancelled, answer owed");
                } else {
                    counts.add("event: cancelled, no answer owed");
                    if let Some(debt) = self.book.debts.remove(&cancelled.key) {
                        if let Some(mark) = debt.mark {
                            self.book.delivered.remove(&mark);
                        }
                    }
                }
                Ok(Seen::Cancelled(cancelled.key))
            }
            Event::Malformed(malformed) => {
                counts.add("event: malformed");
                let (cause, rule) = counts::malformed(malformed.cause);
                counts.add(cause);
                if let Some(rule) = rule {
                    counts.add(rule);
                }
                let in_batch = malformed.origin.batch_index.is_some();
                if let Some(code) = malformed.answered {
                    counts.add(counts::code(code));
                    let id = match self.config.invalid_request_id {
                        antiphon::InvalidRequestId::AlwaysNull => None,
                        _ => malformed.id,
                    };
                    let id = id.map_or(WantedId::Null, |id| self.echo(id.text()));
                    self.owed_by_the_core(id, code, in_batch);
                }
                self.tell(if in_batch { &Told::Item } else { &Told::Frame })?;
                Ok(Seen::Other)
            }
            Event::Refused(refused) => {
                counts.add("event: refused");
                counts.add(counts::refused(refused.cause));
                let in_batch = refused.origin.batch_index.is_some();
                if let Some(code) = refused.answered {
                    counts.add(counts::code(code));
                    let too_long = |id: &Id<'_>| id.text().len() > self.config.id_bytes_max;
                    let unsaid = |id: &Id<'_>| id.is_null() && !self.config.null_ids;
                    let id = refused.id.filter(|id| !too_long(id) && !unsaid(id));
                    let first = self.config.limit_errors == antiphon::LimitErrors::FirstCall;
                    let is_long = matches!(refused.cause, RefusedCause::BatchTooLong { .. });
                    if is_long && first {
                        self.owed_by_the_core(WantedId::Any, code, true);
                    } else {
                        let id = id.map_or(WantedId::Null, |id| self.echo(id.text()));
                        self.owed_by_the_core(id, code, in_batch);
                    }
                }
                self.release(refused.method);
                self.tell(match refused.cause {
                    RefusedCause::TooLarge { .. } => &Told::TooLarge,
                    RefusedCause::BatchTooLong { .. } => &Told::Frame,
                    _ => &Told::Item,
                })?;
                Ok(Seen::Other)
            }
            Event::Stray(stray) => {
                counts.add("event: stray");
                counts.add(counts::stray(&stray.kind));
                let is_cancel = matches!(stray.kind, antiphon::StrayKind::Cancel);
                let id = stray.id.map(|id| id.text().to_string());
                self.release(stray.kind);
                if is_cancel && !self.honest_peer {
                    self.book.excused += 1;
                }
                let told = if is_cancel {
                    Told::Cancel
                } else {
                    Told::Stray(id)
                };
                self.tell(&told)?;
                Ok(Seen::Other)
            }
            Event::Closed(why) => {
                counts.add("event: closed");
                counts.add(counts::closed(why));
                Check::ClosedOnce.that(self.book.calls.is_empty(), || {
                    format!("{} calls were open at the end", self.book.calls.len())
                })?;
                self.book.closed = Some(why);
                self.book.ending = true;
                if self.plant == Some(Plant::ClosedTwice) {
                    return self.digest(Event::Closed(why), counts);
                }
                Ok(Seen::Closed)
            }
            _ => Err(Check::ToldOnce.broken("an event that nobody knows")),
        }
    }

    /// How an id comes back: byte for byte, but for braces where the dialect has none in strings.
    fn echo(&self, id: &str) -> WantedId {
        WantedId::Exact(match self.config.escape_braces {
            true => id.replace('{', "\\u007b").replace('}', "\\u007d"),
            false => id.to_string(),
        })
    }

    /// An error that the core has answered by itself.
    fn owed_by_the_core(&mut self, id: WantedId, code: i64, in_batch: bool) {
        let kind = ItemKind::Err(code);
        let mark = None;
        self.book.answered(Answer { id, kind, mark }, in_batch);
    }

    /// A 1.0 notification is acknowledged with nulls; a 2.0 one is not, and the event does not say.
    fn acknowledged(&mut self, _in_batch: bool) {
        self.book.excused += 1;
    }

    fn tell(&mut self, told: &Told) -> Checked {
        match self.honest_peer {
            true => self.book.told(told, &self.config),
            false => Ok(()),
        }
    }

    fn settled(
        &mut self,
        tag: u64,
        number: u64,
        outcome: &Outcome<'_>,
        origin_bytes: Option<usize>,
        counts: &mut Counts,
    ) -> Result<Seen, Broken> {
        let call = self.book.settle(tag, number)?;
        self.call_ids.retain(|(mark, _)| *mark != tag);
        let marked = |text: &[u8]| match text.first() {
            Some(b'[') => skim::mark(text).filter(|mark| *mark != tag),
            _ => None,
        };
        let settled_by_error = matches!(outcome, Outcome::Err(_));
        let partly = self.observer.inside().is_some();
        let (name, settled, other) = match outcome {
            Outcome::Ok(json) => {
                let other = marked(json.as_bytes());
                ("outcome: ok", Settled::Ok(json.as_str().to_string()), other)
            }
            Outcome::Err(error) => {
                counts.add(counts::code(error.code()));
                let other = error.data().and_then(|data| marked(data.as_bytes()));
                ("outcome: error", Settled::Err(error.code()), other)
            }
            Outcome::Invalid(invalid) => {
                counts.add(counts::invalid(invalid.reason));
                ("outcome: invalid", Settled::Otherwise, None)
            }
            Outcome::TimedOut => {
                let due = call.deadline.is_some_and(|deadline| deadline <= self.told);
                Check::NotEarly.that(due, || {
                    let told = self.told;
                    format!(
                        "call {number} timed out at {told}, due at {:?}",
                        call.deadline
                    )
                })?;
                if self.config.cancel_on_timeout {
                    self.book.cancels.push(call.id.clone());
                }
                ("outcome: timed out", Settled::TimedOut, None)
            }
            Outcome::Missing => {
                let is_client = self.config.exchange && self.config.role == antiphon::Role::Client;
                Check::UnsentTrue.that(is_client, || "missing without an exchange".into())?;
                ("outcome: missing", Settled::Otherwise, None)
            }
            Outcome::Unsent => {
                Check::UnsentTrue.that(!call.left, || {
                    format!("call {number} has left and is told as unsent")
                })?;
                ("outcome: unsent", Settled::Otherwise, None)
            }
            Outcome::Aborted => {
                Check::UnsentTrue.that(call.left || partly, || {
                    format!("no byte of call {number} has left and it is told as aborted")
                })?;
                ("outcome: aborted", Settled::Otherwise, None)
            }
            _ => return Err(Check::SettlesOnce.broken("an outcome that nobody knows")),
        };
        counts.add(name);
        // Any number of messages may have had the null id, and an error with it settles what it can.
        let is_plain = call.id != "null" && !(settled_by_error && self.book.next_has_no_id());
        if let Some(other) = other.filter(|_| is_plain) {
            let why = format!("call {number}, marked {tag}, got the answer to {other}");
            return Err(Check::RightCall.broken(why));
        }
        if let Some(bytes) = origin_bytes {
            self.tell(&Told::Response(call.id.clone(), bytes, settled_by_error))?;
        }
        Ok(Seen::Settled(call, settled))
    }

    /// What has to hold after every step.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Checked {
        if let Some(most) = self.over {
            let bound = self.config.memory_bytes_max_for::<u64>();
            return Err(Check::Memory.broken(format!("{most} bytes of {bound}")));
        }
        let open = self.conn.calls_open();
        Check::Getters.that(open == self.book.calls.len(), || {
            format!(
                "{open} calls are open, {} in the books",
                self.book.calls.len()
            )
        })?;
        let requests = self.conn.requests_open();
        if !self.book.half_read {
            Check::Getters.that(requests == self.book.debts.len(), || {
                format!(
                    "{requests} requests are open, {} in the books",
                    self.book.debts.len()
                )
            })?;
        }
        let (queued, done) = (self.conn.transmit_queued(), self.conn.transmit_done());
        let shown = self.conn.poll_transmit().map_or(0, <[u8]>::len) as u64;
        let is_stream = self.config.framing != Framing::Messages;
        Check::Getters.that(
            queued >= done && shown <= queued - done && (!is_stream || shown == queued - done),
            || format!("{shown} bytes are shown, {queued} were queued and {done} taken"),
        )?;
        let Some(earliest) = self.book.earliest() else {
            return Ok(());
        };
        let mut wake = self.conn.poll_timeout().map(Instant::as_nanos);
        if self.plant == Some(Plant::WakeUpLate) {
            wake = wake.map(|wake| wake + 1_000_000_000);
        }
        Check::WakeUp.that(wake.is_some_and(|wake| wake <= earliest), || {
            format!("a call is due at {earliest}, the next wake-up is {wake:?}")
        })
    }

    /// What has to hold besides once the input has been drained.
    ///
    /// # Errors
    /// What does not.
    pub fn check_drained(&mut self) -> Checked {
        let told = self.told;
        let due = self
            .book
            .calls
            .iter()
            .find(|(_, call)| call.deadline.is_some_and(|at| at <= told));
        if let Some((mark, call)) = due {
            let why = format!(
                "call {} ({mark}) is due and was not told at {told}",
                call.number
            );
            return Err(Check::DueYielded.broken(why));
        }
        let wake = self.conn.poll_timeout().map(Instant::as_nanos);
        Check::DueYielded.that(wake.is_none_or(|wake| wake > told), || {
            format!("drained at {told}, yet the next wake-up is {wake:?}")
        })?;
        self.book.drained()
    }
}
