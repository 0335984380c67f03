//! One JSON-RPC connection, both roles at once. Every decision of the protocol is made in this
//! folder.
//!
//! `mod` has the state, the order in which events are looked for, and the bytes to be written.
//!
//! * Sending: `commands` sends calls, notifications and cancels; `answers` sends answers;
//!   `batch` sends several messages as one.
//! * Receiving: `receive` splits the input into messages, `items` prepares the peer's batches,
//!   `refuse` answers malformed and refused messages, and `deliver` turns all others into events.
//!   `plain` is a fast path through all of this for the most common messages.
//! * `timing` takes the current time, `settle` ends calls that get no answer and the connection
//!   itself, `phase` has the phases of a connection's life.
//! * `parts` is a message that has been read and not completely delivered.
//! * `memory` computes the most memory that a connection can hold.
//!
//! ```text
//!   bytes ──▶ receive ──▶ deliver ──▶ Event            time ──▶ settle ──▶ Event
//!                │ error replies         │ ends calls, opens requests
//!                ▼                       ▼
//!   bytes ◀── outbox ◀── commands      calls   requests   batches
//! ```

mod answers;
mod batch;
mod commands;
mod deliver;
mod items;
mod memory;
mod own_ids;
mod parts;
mod phase;
mod plain;
mod receive;
mod refuse;
mod settle;
mod timing;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::num::NonZeroU64;
use core::time::Duration;

use crate::calls::Calls;
use crate::config::{Config, Dialect, FixedConfig, Settings, Settled};
use crate::deadlines::NEVER;
use crate::event::{CloseReason, Closed, ConnectionError, Event};
use crate::frame::{Cutter, Framing};
use crate::input::{Input, InputKind};
use crate::json::Envelope;
use crate::number::Number;
use crate::outbox::Outbox;
use crate::requests::Requests;
use crate::target::{KEPT, SMALL, rare};
use crate::time::Instant;

use parts::{Parts, Ready};
use phase::Phase;

pub use answers::AnswerMark;
pub use batch::{Batch, Handle};
pub use commands::{Rejected, SendError};

/// A JSON-RPC connection as a state machine without I/O.
///
/// Bytes go in and events come out of [`poll_event`](Self::poll_event); commands such as
/// [`call`](Self::call) and [`respond`](Self::respond) go in and bytes come out of
/// [`poll_transmit`](Self::poll_transmit). Pass the current time to
/// [`handle_timeout`](Self::handle_timeout); [`poll_timeout`](Self::poll_timeout) returns when to
/// call it next. A connection has no socket, thread, clock or randomness, and its methods may be
/// called in any order.
///
/// `T` is the *tag*: a value that the caller gives with a call and gets back when the call ends,
/// such as a channel that wakes the caller, the token of a request that is being forwarded, or a
/// number. For a peer that only answers, the tag can be a type without values:
/// `Connection<core::convert::Infallible>`. Then the compiler leaves out the code for calls, which
/// is a quarter of a small program.
///
/// ```
/// use antiphon::{Config, Connection, Event, Input, Outcome};
///
/// let (mut client, mut server) = (Connection::new(Config::new()), Connection::<()>::new(Config::new()));
/// client.call("add", &[10, 5], None, "the sum").unwrap();
///
/// // The client's bytes reach the server …
/// let mut wire = Vec::new();
/// client.take_transmit(&mut wire);
/// let mut input = Input::stream(&wire);
/// while let Some(event) = server.poll_event(&mut input) {
///     if let Event::Request(request) = event {
///         let (a, b): (i64, i64) = request.params.unwrap().decode().unwrap();
///         server.respond(request.token, &(a + b)).unwrap();
///     }
/// }
/// // … and the answer comes back.
/// let mut wire = Vec::new();
/// server.take_transmit(&mut wire);
/// let Some(Event::Response(response)) = client.poll_event(&mut Input::stream(&wire)) else { panic!() };
/// assert_eq!(response.tag, "the sum");
/// assert!(matches!(response.outcome, Outcome::Ok(result) if result.as_str() == "15"));
/// ```
// The fields keep this order, so that the fields that every message needs are in few cache lines.
#[repr(C)]
pub struct Connection<T = (), S = Config> {
    config: Settled<S>,
    deadlines: OwnDeadlines,
    /// The first call number of a batch builder that has neither been sent nor dropped.
    building: Option<NonZeroU64>,
    phase: Phase,
    outbox: Outbox<S>,
    /// The latest time that the driver set.
    now: Instant,
    /// The latest time up to which deadlines may take effect: the current time, unless the driver
    /// has more input to read first.
    judged: Instant,
    cutter: Cutter,
    calls: Calls<T>,
    requests: Requests,
    /// The envelopes of the message that is being read.
    envelopes: Vec<Envelope>,
    /// The state of batches, and of messages that make more than one event. `None`, without an
    /// allocation, before the first of them.
    parts: Option<Box<Parts>>,
    /// The calls of messages that could not be sent, see [`Connection::fail_transmit`]. `None`,
    /// without an allocation, if there are no such calls.
    failed: Option<Box<Failed>>,
    /// Goes into tokens and call ids.
    number: Number,
    unmatched_responses: u64,
    malformed: u64,
}

/// Ranges of call numbers. A range has the numbers above its first value, up to its second.
#[derive(Debug, Default)]
struct Failed(VecDeque<(u64, u64)>);

/// The deadlines of the connection itself, in nanoseconds; [`NEVER`] where there is none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct OwnDeadlines {
    drain: u64,
    frame: u64,
    /// The deadline for writing queued output, see [`Connection::write_due`]; [`NEVER`] if no
    /// output is queued.
    write: u64,
}

impl OwnDeadlines {
    const NONE: Self = Self {
        frame: NEVER,
        write: NEVER,
        drain: NEVER,
    };
}

impl<T> Connection<T> {
    /// Makes a connection. It allocates nothing.
    pub const fn new(config: Config) -> Self {
        Self::begin(&config, Settled(config))
    }

    /// Makes it a new connection with another configuration, and keeps the memory of its buffers. What was open has
    /// no outcome.
    pub(crate) fn renew(&mut self, config: Config) {
        let old = mem::replace(self, Self::new(config));
        self.outbox.reuse(old.outbox);
        self.calls.reuse(old.calls);
        self.envelopes = old.envelopes;
        self.envelopes.clear();
        self.envelopes.shrink_to(KEPT);
    }

    /// Changes the dialect: to that of the revision of MCP that was agreed on, for example. It counts for
    /// all messages from now on. The [`id_scheme`](crate::Dialect::id_scheme) of our calls stays as it is.
    pub fn set_dialect(&mut self, dialect: Dialect) {
        let id_scheme = self.config.dialect.id_scheme;
        self.config.0.dialect = Dialect {
            id_scheme,
            ..dialect
        };
    }
}

impl<T, F: FixedConfig> Connection<T, F> {
    /// Makes a connection whose configuration is known at compile time. It allocates nothing.
    pub const fn fixed(of: F) -> Self {
        Self::begin(&F::CONFIG, Settled(of))
    }
}

impl<T, S: Settings> Connection<T, S> {
    const fn begin(config: &Config, settings: Settled<S>) -> Self {
        Self {
            config: settings,
            now: Instant::ZERO,
            judged: Instant::ZERO,
            cutter: Cutter::new(config.framing),
            calls: Calls::new(config.first_call),
            requests: Requests::new(),
            outbox: Outbox::new(config.framing, kept_bytes(config)),
            envelopes: Vec::new(),
            parts: None,
            building: None,
            failed: None,
            deadlines: OwnDeadlines::NONE,
            unmatched_responses: 0,
            malformed: 0,
            number: Number::new(config.connection),
            phase: Phase::Open,
        }
    }
}

impl<T, S: Settings> Connection<T, S> {
    /// Returns the next event: a message from `input`, or an effect of the time. `None` means that
    /// there is no event before more bytes arrive, a later time is set, or a method such as
    /// [`close`](Self::close) is called.
    ///
    /// Answers to malformed and refused messages are queued meanwhile. The requests of a batch are
    /// returned one by one, after the whole batch has been checked. Deadlines take effect only when
    /// no whole message is left, so an answer that is already in the buffer wins over its deadline.
    pub fn poll_event<'a>(&mut self, input: &mut Input<'a>) -> Option<Event<'a, T>> {
        if SMALL {
            // The fast path only saves time, so small programs leave it out.
            return self.poll_any(input, Ready::Nothing);
        }
        if self.deadlines.frame != NEVER {
            rare();
            if self.goes_on(input) {
                return None;
            }
        }
        if self.is_between(input) && input.rest().is_empty() && self.is_quiet() {
            return None;
        }
        self.poll_some(input)
    }

    /// Whether only bytes of a stream are to be read: no message is partly delivered, no builder
    /// has to be forgotten, and no end has begun.
    #[inline]
    fn is_between(&self, input: &Input<'_>) -> bool {
        self.phase == Phase::Open
            && self.building.is_none()
            && !self.is_reading()
            && input.kind() == InputKind::Stream
    }

    /// Whether there is no event, because the new bytes only continue the frame that has begun.
    /// False in case of doubt.
    #[inline(never)]
    fn goes_on(&mut self, input: &Input<'_>) -> bool {
        let limits = self.config.frame_limits();
        self.is_between(input)
            && self.failed.is_none()
            && !self.is_due()
            && self.cutter.goes_on(S::FRAMING, limits, input.rest())
    }

    /// Returns the next event, by the fast path if it has one, else by the general code.
    #[inline(never)]
    fn poll_some<'a>(&mut self, input: &mut Input<'a>) -> Option<Event<'a, T>> {
        match self.poll_plain(input) {
            Ok(event) => Some(event),
            Err(Ready::Drained) if self.is_quiet() => None,
            Err(Ready::Drained) => self.settle_next(),
            Err(ready) => {
                rare();
                self.poll_any(input, ready)
            }
        }
    }

    /// Returns the next event by the general code. `ready` is the work that the fast path has done.
    #[inline(never)]
    fn poll_any<'a>(&mut self, input: &mut Input<'a>, ready: Ready<'a>) -> Option<Event<'a, T>> {
        self.forget_builder();
        if self.phase.is_shut() {
            if let Some(event) = self.cancel_next() {
                return Some(event);
            }
        }
        if !self.phase.has_ended() {
            let event = self.read(input, ready);
            if event.is_some() {
                return event;
            }
        }
        if self.phase.has_ended() {
            // Nothing more is read, so the input is dropped.
            input.take(usize::MAX);
        }
        self.settle_next()
    }

    /// Reports that no more input will come. Our open calls end; the peer's open requests may still
    /// be answered.
    ///
    /// Pass the rest of the input to [`poll_event`](Self::poll_event) once more: the last line may
    /// lack its line feed, and half a message ends the connection with
    /// [`Truncated`](ConnectionError::Truncated).
    pub fn handle_eof(&mut self) {
        self.phase.input_ends();
    }

    /// Ends the conversation in good order: refuses calls and notifications of this side and new
    /// requests of the peer, and closes as soon as all that is open is answered and all that is
    /// queued is written, or when `drain_timeout` has passed. Messages after the last answer are
    /// not read, even if they have arrived.
    pub fn drain(&mut self) {
        if self.phase.drain() {
            self.deadlines.drain = self.after(self.config.timeouts.drain_timeout);
        }
    }

    /// Closes the connection immediately. Each open request ends without an answer, as
    /// [`Event::Cancelled`]. Open calls end; calls of which no byte was sent are removed from the
    /// output. The rest of the output can still be written.
    pub fn close(&mut self, reason: CloseReason) {
        let why = Closed::Local(reason);
        self.end(why);
        self.shut(why);
    }

    /// Returns the bytes to be written next, if any: all queued output, or exactly one message
    /// under [`Framing::Messages`].
    pub fn poll_transmit(&self) -> Option<&[u8]> {
        self.outbox.peek()
    }

    /// Reports that the first `n` bytes of [`poll_transmit`](Self::poll_transmit) were written. `n`
    /// may be smaller than their number; a larger `n` counts as all of them.
    pub fn consume_transmit(&mut self, n: usize) {
        if self.outbox.consume(n) {
            self.deadlines.write = NEVER;
        }
    }

    /// Moves the bytes of [`poll_transmit`](Self::poll_transmit) to the end of `into`; it swaps the
    /// buffers if `into` is empty and nothing else is queued. For drivers that write without
    /// holding the connection. Returns false if there are no bytes.
    pub fn take_transmit(&mut self, into: &mut Vec<u8>) -> bool {
        self.forget_builder();
        if self.outbox.swap(into) {
            self.deadlines.write = NEVER;
            return true;
        }
        rare();
        let taken = self.outbox.take(into);
        if taken {
            self.deadlines.write = NEVER;
        }
        taken
    }

    /// Under [`Framing::Messages`]: reports that the message of
    /// [`poll_transmit`](Self::poll_transmit) could not be delivered. The message is dropped, and
    /// its calls end as [`Unsent`](crate::Outcome::Unsent). In a stream single messages cannot
    /// fail: report the end of the stream with [`handle_eof`](Self::handle_eof) or
    /// [`close`](Self::close).
    pub fn fail_transmit(&mut self) {
        self.forget_builder();
        if self.config.framing == Framing::Messages {
            if let Some(range) = self.outbox.fail() {
                let failed = self.failed.get_or_insert_default();
                failed.0.push_back(range);
            }
            self.deadlines.write = NEVER;
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has to be called next; `None` for
    /// never. The time is not later than the earliest deadline, but may be earlier. After all input
    /// was polled, it is in the future.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let own = self.deadlines;
        let calls = self.calls.earliest_deadline();
        let next = calls.min(own.frame).min(self.write_due()).min(own.drain);
        (next != NEVER).then(|| Instant::from_nanos(next))
    }

    /// The latest time that the driver has set; [`Instant::ZERO`] before it has set one.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The configuration with which the connection was made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The number of this connection, which is in its tokens and call ids:
    /// [`Config::connection`], or one that differs from those of all other connections of the
    /// program.
    pub fn number(&self) -> u32 {
        self.number.get()
    }

    /// The number of bytes ever queued. To flush, note this number and wait until
    /// [`transmit_done`](Self::transmit_done) has reached it. When the connection ends it falls by
    /// the calls that are removed from the output, so a flush must also check for the end.
    pub fn transmit_queued(&self) -> u64 {
        self.outbox.queued()
    }

    /// The number of bytes ever written, or dropped because they could not be written.
    pub fn transmit_done(&self) -> u64 {
        self.outbox.done()
    }

    /// Whether a reply to the peer has been taken or written, and none waits.
    pub(crate) fn has_replied(&self) -> bool {
        self.outbox.has_replied()
    }

    /// The number of the next call.
    pub(crate) fn next_number(&self) -> u64 {
        self.calls.next()
    }

    /// How many of our calls are open.
    pub fn calls_open(&self) -> usize {
        self.calls.open()
    }

    /// How many of the peer's requests are open. If there are none and no output is queued, there
    /// is nothing to reply: an HTTP server then answers 204.
    pub fn requests_open(&self) -> usize {
        self.requests.open()
    }

    /// Whether the driver should read on. False after the connection has ended; and if more than
    /// `soft_max_outbox_bytes` wait to be written and no call is open: the peer has to read first,
    /// because new requests would only add output. Meanwhile `message_timeout` does not run.
    pub fn wants_input(&self) -> bool {
        !self.phase.has_ended()
            && (self.outbox.len() <= self.config.limits.soft_max_outbox_bytes
                || self.calls.open() > 0)
    }

    /// Whether the peer has to read first: no call is open, and the replies that wait, with what waits
    /// before them, have more than `soft_max_outbox_bytes` bytes. Notifications alone do not count,
    /// because their sender stops at that limit by itself: if two peers that notify each other both
    /// stopped reading, neither would go on.
    pub(crate) fn is_unread(&self) -> bool {
        let soft_max = self.config.limits.soft_max_outbox_bytes as u64;
        self.outbox.waiting_for_replies() > soft_max && self.calls.open() == 0
    }

    /// The number of valid responses so far that matched no call. Acknowledgements of 1.0
    /// notifications are not counted; an invalid one counts as malformed.
    pub fn unmatched_responses(&self) -> u64 {
        self.unmatched_responses
    }

    /// Returns the number of items of the latest batch from the peer, once for each batch: from the
    /// batch's first event on. `None` if it was returned before, or if there was no batch.
    ///
    /// ```
    /// use antiphon::{Config, Connection, Input};
    ///
    /// let mut conn: Connection = Connection::new(Config::new());
    /// let mut input = Input::message(br#"[{"jsonrpc":"2.0","method":"tick"},7]"#);
    /// assert!(conn.poll_event(&mut input).is_some());
    /// assert_eq!(conn.poll_batch_items(), Some(2));
    /// assert!(conn.poll_event(&mut input).is_some());
    /// assert_eq!(conn.poll_batch_items(), None);
    /// ```
    pub fn poll_batch_items(&mut self) -> Option<usize> {
        self.parts.as_mut()?.batch_items.take()
    }

    /// Whether the last error was sent without its data, or with the standard message of its code
    /// instead of its own, because they did not fit: the answer of its batch had no space for them, or
    /// the output was nearly full. Its code was sent in any case. Returns it once; false for an error
    /// that was sent as it was.
    pub fn poll_data_dropped(&mut self) -> bool {
        let parts = self.parts.as_mut();
        parts.is_some_and(|parts| mem::take(&mut parts.is_data_dropped))
    }

    /// The number of messages so far that were malformed.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether the connection is closed: [`Event::Closed`] was returned, nothing is open, no output
    /// is queued.
    pub fn is_closed(&self) -> bool {
        self.phase.is_told()
            && self.requests.open() == 0
            && self.calls.open() == 0
            && self.outbox.len() == 0
    }

    /// Whether nothing more is read. [`Event::Closed`] has the reason; it may not have been polled
    /// yet, because a command too can end the connection: an answer for which the output is full,
    /// for example.
    pub fn has_ended(&self) -> bool {
        self.phase.has_ended()
    }

    /// Stores why nothing more is read; the first reason is kept.
    fn end(&mut self, why: Closed) {
        if self.phase.end(why) {
            self.abandon_reading();
            self.drop_unsent_calls();
            self.deadlines.frame = NEVER;
            // After an orderly end of the input, open requests may still be answered, until the
            // deadline of a drain that has begun.
            if why != Closed::EndOfInput {
                self.deadlines.drain = NEVER;
            }
        }
    }

    /// Ends the connection because of the peer or the stream.
    fn fail(&mut self, error: ConnectionError) {
        self.end(Closed::Failed(error));
        match error {
            // The peer does not read, so no output can be written any more.
            ConnectionError::OutboxFull | ConnectionError::WriteTimedOut => {
                self.outbox.clear();
                self.shut(Closed::Failed(error));
            }
            ConnectionError::DrainTimedOut => self.shut(Closed::Failed(error)),
            _ => {}
        }
    }

    /// Accepts no more commands, and ends open requests without an answer.
    fn shut(&mut self, why: Closed) {
        self.phase.shut(why);
        self.deadlines.drain = NEVER;
        self.abandon_reading();
        self.drop_unsent_calls();
    }

    /// Removes calls of which no byte was written from the output. If the output is then empty,
    /// there is no deadline for writing it any more.
    fn drop_unsent_calls(&mut self) {
        if Calls::<T>::POSSIBLE {
            self.outbox.drop_unsent_calls();
        }
        if self.outbox.len() == 0 {
            self.deadlines.write = NEVER;
        }
    }

    /// Returns the deadline for writing the queued output, counted from when it was queued, or from
    /// when some of it was last written. It is stored only when the driver sets the time, because
    /// usually all output is written before that.
    fn write_due(&self) -> u64 {
        if self.outbox.len() == 0 {
            NEVER
        } else if self.deadlines.write == NEVER {
            self.after(self.config.timeouts.write_timeout)
        } else {
            self.deadlines.write
        }
    }

    /// Returns the deadline of a timeout of `span` that begins now.
    fn after(&self, span: Option<Duration>) -> u64 {
        span.map_or(NEVER, |span| (self.now + span).as_nanos())
    }
}

/// Returns how many bytes of memory the output buffer may keep while it is empty.
const fn kept_bytes(config: &Config) -> usize {
    if config.limits.soft_max_outbox_bytes < config.limits.max_outbox_bytes {
        config.limits.soft_max_outbox_bytes
    } else {
        config.limits.max_outbox_bytes
    }
}

impl<T, S: Settings> fmt::Debug for Connection<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("calls_open", &self.calls.open())
            .field("requests_open", &self.requests.open())
            .field("transmit_waiting", &self.outbox.len())
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
