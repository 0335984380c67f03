//! One end of a link: a connection, its driver's buffers, and the records about it.
//!
//! Events are handled in `digest`. What a connection is told and asked goes through `End::run`, which
//! counts its memory. A refused command must change nothing; an accepted one is recorded.

use antiphon::{
    CallId, Config, Connection, ErrorObject, Framing, Id, Instant, Payload, ReadBuffer, RequestKey,
    SendError,
};

use crate::book::{Answer, Book, Call, Held, Purpose, Said, spelled};
use crate::checks::{Broken, Check, Checked};
use crate::counts::{self, Counts};
use crate::observer::{ItemKind, Observer};
use crate::plant::Plant;
use antiphon_test_support::heap::measured;

/// Room for the memory, in bytes, that the simulation counts and `memory_bytes_max_for` does not: ids
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
    /// The records.
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
    /// The latest time that was told, in nanoseconds.
    pub told: u64,
    /// Something has been said, which is all that an HTTP exchange allows.
    pub said_once: bool,
    /// The framing is known: it was configured, or something has been received.
    pub heard: bool,
    /// The planted fault, if there is one.
    pub plant: Option<Plant>,
    /// How many bytes of memory the connection holds.
    heap: isize,
    /// How many bytes it held when it was found above its bound.
    over: Option<isize>,
}

/// What an event asks of the application.
pub enum Seen {
    /// A request to handle.
    Request(Held, RequestKey),
    /// A call that has settled.
    Settled(Call, Settled),
    /// A request was cancelled, by the peer or by a close.
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
            buffer: ReadBuffer::new(config.max_input_bytes()),
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
        let done = self.conn.transmit_done();
        let conn = &mut self.conn;
        let (result, used) = measured(|| op(conn));
        // Output that goes without a write was dropped: it was over its limit, or its peer too slow.
        self.book.silenced |= self.conn.transmit_done() != done;
        let most = self.heap + used.most;
        self.heap += used.left;
        let mut bound = self.config.memory_bytes_max_for::<u64>() as isize + MEMORY_SLACK;
        if self.plant == Some(Plant::MemoryClaim) {
            bound = 400;
        }
        if most > bound {
            self.over = Some(most);
        }
        result
    }

    /// As [`run`](Self::run), for a write: output that goes has left.
    pub fn run_write<R>(&mut self, op: impl FnOnce(&mut Connection<u64>) -> R) -> R {
        let silenced = self.book.silenced;
        let result = self.run(op);
        self.book.silenced = silenced;
        result
    }

    /// Drops a part of an event that may own memory of the connection's.
    pub(crate) fn release<V>(&mut self, part: V) {
        let ((), used) = measured(|| drop(part));
        self.heap += used.left;
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
            // The bound does not count the memory that a payload takes until it is found to be too large.
            self.over = None;
        }
        if self.plant == Some(Plant::TraceLeft) {
            // As if the refused command had said something.
            let _ = self.conn.notify("sorry", ());
        }
        let after = self.state();
        Check::NoTrace.that(before == after, || {
            format!("{error:?} left {before:?} as {after:?}")
        })
    }

    /// Checks how a call or notification ended, without an `error` if it was accepted: `Full` only
    /// above the soft limit of the output, and never accepted there.
    pub fn lane(&self, before: State, error: Option<&SendError>) -> Checked {
        let waiting = before.queued - before.done;
        let is_above = waiting > self.config.limits.soft_max_outbox_bytes as u64;
        let is_full = error == Some(&SendError::Full);
        let is_accepted = error.is_none();
        Check::ResponseLane.that((is_above || !is_full) && !(is_above && is_accepted), || {
            let soft = self.config.limits.soft_max_outbox_bytes;
            format!("{waiting} bytes wait, {soft} may, and a call got {error:?}")
        })
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
            || spelled(self.config.dialect.id_scheme, call.number()),
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

    /// Answers a request with a result or an error, and gives it back if that is refused. An error may
    /// lose its data, but only if the connection says so, and has a reason.
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
            mut mark,
            method,
        } = held;
        let key = token.key();
        let before = self.state();
        let full = before.queued - before.done > self.config.limits.soft_max_outbox_bytes as u64;
        let (kind, result) = match answer {
            Ok(result) => (ItemKind::Ok, self.run(|conn| conn.respond(token, result))),
            Err(error) => {
                let kind = ItemKind::Err(error.code());
                let may_lose = self.may_lose_data(key, before, &error);
                let result = match self.plant {
                    Some(Plant::DataLost) => {
                        let bare = ErrorObject::new(error.code(), error.message());
                        self.run(|conn| conn.respond_err(token, &bare))
                    }
                    _ => self.run(|conn| conn.respond_err(token, &error)),
                };
                let is_lost =
                    self.conn.poll_data_dropped() || self.plant == Some(Plant::DataLostAtWill);
                if is_lost {
                    Check::Getters.that(may_lose && result.is_ok(), || {
                        format!("{error:?} is said to have lost its data: {result:?}")
                    })?;
                    counts.add("handler: data dropped");
                    mark = None;
                }
                let again = self.conn.poll_data_dropped();
                Check::Getters.that(!again, || "data were dropped twice".into())?;
                (kind, result)
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

    /// Whether an error may be sent without its data: it has some, and its batch has little space for
    /// answers, or the output has.
    fn may_lose_data(&self, key: RequestKey, before: State, error: &ErrorObject<'_>) -> bool {
        /// More than the rest of an error needs here.
        const MARGIN: u64 = 400;
        let Some(data) = error.data() else {
            return false;
        };
        let limits = &self.config.limits;
        let is_in_batch = self.book.debts.get(&key).is_some_and(|debt| debt.batch);
        // How much is kept for open batches is not known, but nothing is if no answer waits for another.
        let is_kept = !self.book.batch_answers.is_empty() || !self.honest_peer;
        let waiting = before.queued - before.done + data.len() as u64 + MARGIN;
        is_in_batch || is_kept || waiting > limits.max_outbox_bytes as u64
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

    /// Answers a request whose token was lost.
    ///
    /// # Errors
    /// If an invariant breaks.
    pub fn abandon(&mut self, key: RequestKey, counts: &mut Counts) -> Checked {
        let answered = self.run(|conn| conn.abandon(key));
        let owed = self.book.debts.contains_key(&key);
        // A connection that was closed gives its requests up one by one: this one may be gone already.
        // Whether it was closed shows in the refusal of a blank method, which is never sent.
        let ending = self.book.ending || self.conn.notify("", ()) == Err(SendError::Closed);
        Check::TokenSafety.that(answered == owed || ending, || {
            format!("{key:?} abandoned: {answered}, owed: {owed}")
        })?;
        match answered {
            true => self.paid(key, ItemKind::Err(-32603), None, counts),
            false => Ok(()),
        }
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
                "{open} calls are open, {} in the records",
                self.book.calls.len()
            )
        })?;
        let requests = self.conn.requests_open();
        if !self.book.half_read {
            Check::Getters.that(requests == self.book.debts.len(), || {
                format!(
                    "{requests} requests are open, {} in the records",
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

    /// What also has to hold once all events have been taken.
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
