//! One JSON-RPC conversation, both roles at once. Every protocol decision is made in this folder.
//!
//! `mod` has the state, and what goes in and out besides messages: time, ends, bytes to write.
//! Speaking: `commands` says things to the peer, `answers` replies to it, `batch` says several at
//! once. Listening: `receive` cuts the input into messages, `items` prepares the peer's batches,
//! `refuse` answers what needs no decision of the driver, `deliver` turns the rest into events, and
//! `plain` is the short cut through all of it that nearly every message takes.
//! Time: `timing`. Ending: `settle`. `parts` is a message on its way from the input to its events.
//! `memory` sums up what all of it may hold.
//!
//! ```text
//!   bytes ──▶ receive ──▶ deliver ──▶ Event            time ──▶ settle ──▶ Event
//!                │ error replies         │ answers the calls it finds
//!                ▼                       ▼
//!   bytes ◀── outbox ◀── commands      calls   requests   batches
//! ```

mod answers;
mod batch;
mod commands;
mod deliver;
mod items;
mod memory;
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
use core::num::NonZeroU64;
use core::time::Duration;

use crate::calls::Calls;
use crate::config::{Config, FixedConfig, Settings, Settled};
use crate::deadlines::NEVER;
use crate::event::{CloseReason, Closed, ConnectionError, Event};
use crate::frame::{Cutter, Framing};
use crate::input::{Input, InputKind};
use crate::json::Envelope;
use crate::outbox::Outbox;
use crate::requests::Requests;
use crate::target::{SMALL, rare};
use crate::time::Instant;

use parts::{Parts, Ready};
use phase::Phase;

pub use batch::{Batch, Handle};
pub use commands::{Rejected, SendError};

/// One JSON-RPC conversation as a pure state machine.
///
/// Bytes go in and events come out of [`poll_event`](Self::poll_event); commands such as
/// [`call`](Self::call) and [`respond`](Self::respond) go in and bytes come out of
/// [`poll_transmit`](Self::poll_transmit); the current time goes into
/// [`handle_timeout`](Self::handle_timeout) and the next wanted wake-up comes out of
/// [`poll_timeout`](Self::poll_timeout). It owns no socket, thread, clock or randomness, and any
/// order of calls is legal.
///
/// `T` is the tag that a caller hands over with a call and gets back when the call settles: a
/// channel that wakes the caller, the token of a request that is being forwarded, a number. A peer
/// that only answers can say so by a type without values,
/// `Connection<core::convert::Infallible>`. The code for calls is then left out of the program,
/// which is a quarter of a small one.
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
// The fields keep this order: those that every message is checked against stand together, in few
// cache lines.
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
    /// The latest time up to which deadlines may end something: the current time, unless the driver has
    /// more to read first.
    judged: Instant,
    cutter: Cutter,
    calls: Calls<T>,
    requests: Requests,
    /// The objects of the message being read.
    envelopes: Vec<Envelope>,
    /// The state of batches, and of messages that give more than one event. `None`, without an
    /// allocation, before the first of them.
    parts: Option<Box<Parts>>,
    /// Numbers of calls whose frames were not delivered: above the first, up to the second.
    /// `None`, without an allocation, if there are no such calls.
    failed: Option<Box<Failed>>,
    unmatched_responses: u64,
    malformed: u64,
}

/// Ranges of call numbers: above the first, up to the second.
#[derive(Debug, Default)]
struct Failed(VecDeque<(u64, u64)>);

/// The deadlines that are not of calls, in nanoseconds; [`NEVER`] where there is none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct OwnDeadlines {
    drain: u64,
    frame: u64,
    /// The deadline of output that has waited since an earlier present, see
    /// [`Connection::write_due`]. Never if none waits.
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
    /// Makes a connection. Allocates nothing.
    pub const fn new(config: Config) -> Self {
        Self::begin(&config, Settled(config))
    }
}

impl<T, F: FixedConfig> Connection<T, F> {
    /// Makes a connection whose configuration is known when the program is built. Allocates nothing.
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
            phase: Phase::Open,
        }
    }
}

impl<T, S: Settings> Connection<T, S> {
    /// Takes the next message out of `input`, or tells what time has done, as one event. `None`
    /// means that nothing more can be said until more bytes or a later time come in.
    ///
    /// Answers to malformed and refused messages are queued on the way. Requests of one batch come
    /// one by one, after the whole batch has been checked. Deadlines are judged once no whole
    /// message is left, so an answer that is already in the buffer wins over its deadline.
    pub fn poll_event<'a>(&mut self, input: &mut Input<'a>) -> Option<Event<'a, T>> {
        if SMALL {
            // The short cut makes no decision of its own, so it can be left out.
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

    /// Whether the next thing to read is a frame of a stream.
    #[inline]
    fn is_between(&self, input: &Input<'_>) -> bool {
        self.phase == Phase::Open
            && self.building.is_none()
            && !self.is_reading()
            && input.kind() == InputKind::Stream
    }

    /// Whether a glance at the new bytes shows that the frame that has begun is still incomplete,
    /// and there is nothing else to tell.
    #[inline(never)]
    fn goes_on(&mut self, input: &Input<'_>) -> bool {
        let limits = self.config.frame_limits();
        self.is_between(input)
            && self.failed.is_none()
            && !self.is_due()
            && self.cutter.goes_on(S::FRAMING, limits, input.rest())
    }

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
            // Nothing more is read, and nothing may pile up.
            input.take(usize::MAX);
        }
        self.settle_next()
    }

    /// Reports that nothing more will come in. Calls of ours that are open settle; requests of the
    /// peer's may still be answered.
    ///
    /// What is left of the input is to be shown to [`poll_event`](Self::poll_event) once more: a
    /// last line may lack its line feed, and half a message is a
    /// [`Truncated`](ConnectionError::Truncated) end.
    pub fn handle_eof(&mut self) {
        self.phase.input_ends();
    }

    /// Ends the conversation in good order: takes nothing new from either side, and closes once
    /// all that is open is answered and all that is queued is written, or when `drain_timeout`
    /// has passed.
    pub fn drain(&mut self) {
        if self.phase.drain() {
            self.deadlines.drain = self.after(self.config.timeouts.drain_timeout);
        }
    }

    /// Ends the conversation at once: open requests are given up and their answers dropped, open
    /// calls settle, calls that no byte has left of are taken out of the queue. What else is
    /// queued still drains.
    pub fn close(&mut self, reason: CloseReason) {
        let why = Closed::Local(reason);
        self.end(why);
        self.shut(why);
    }

    /// The bytes to write next, if any: everything that is queued, or exactly one message under
    /// [`Framing::Messages`].
    pub fn poll_transmit(&self) -> Option<&[u8]> {
        self.outbox.peek()
    }

    /// Reports that the first `n` bytes of [`poll_transmit`](Self::poll_transmit) were written.
    /// Partial writes are welcome; more than was shown counts as all of it.
    pub fn consume_transmit(&mut self, n: usize) {
        if self.outbox.consume(n) {
            self.deadlines.write = NEVER;
        }
    }

    /// Moves what [`poll_transmit`](Self::poll_transmit) shows to the end of `into`, by swapping
    /// the buffers when `into` is empty and nothing else waits. For a driver that writes without
    /// holding the connection. False if there was nothing.
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

    /// Under [`Framing::Messages`]: tells that the message that
    /// [`poll_transmit`](Self::poll_transmit) shows could not be delivered. It is dropped, and
    /// exactly its calls settle as [`Unsent`](crate::Outcome::Unsent). In a stream there are no
    /// single messages to fail: report its end with [`handle_eof`](Self::handle_eof) or
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

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next; `None` for never.
    /// Never later than the earliest deadline; it may be earlier, and a wake-up may find nothing
    /// due. After the input has been drained it lies in the future.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let own = self.deadlines;
        let calls = self.calls.earliest_deadline();
        let next = calls.min(own.frame).min(self.write_due()).min(own.drain);
        (next != NEVER).then(|| Instant::from_nanos(next))
    }

    /// What the connection was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Bytes ever queued. With [`transmit_done`](Self::transmit_done) a mark for flushing: what is
    /// queued now has left when `transmit_done` has reached this. It falls by the calls that an end
    /// of the connection takes out of the queue; a flush that waits must also look for the end.
    pub fn transmit_queued(&self) -> u64 {
        self.outbox.queued()
    }

    /// Bytes ever taken.
    pub fn transmit_done(&self) -> u64 {
        self.outbox.done()
    }

    /// The number that the next call gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.calls.next()
    }

    /// How many calls of ours wait for an answer.
    pub fn calls_open(&self) -> usize {
        self.calls.open()
    }

    /// How many requests of the peer's wait for ours. When none does and nothing is to be
    /// transmitted, no reply is owed: an HTTP server then answers 204.
    pub fn requests_open(&self) -> usize {
        self.requests.open()
    }

    /// Whether the driver should read on. False while so much output waits that new requests would
    /// only add to it, and no answer is awaited: then the peer has to read first.
    pub fn wants_input(&self) -> bool {
        !self.phase.has_ended()
            && (self.outbox.len() <= self.config.limits.soft_max_outbox_bytes
                || self.calls.open() > 0)
    }

    /// How many responses fitted no call so far.
    pub fn unmatched_responses(&self) -> u64 {
        self.unmatched_responses
    }

    /// How many messages were malformed so far.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether all is over: nothing more is read, nothing is open, nothing waits to be written.
    pub fn is_closed(&self) -> bool {
        self.phase.is_told()
            && self.requests.open() == 0
            && self.calls.open() == 0
            && self.outbox.len() == 0
    }

    /// Whether nothing more is read. [`Event::Closed`] says why, and may still wait to be polled: a
    /// command can end the connection, too, such as an answer that finds the output full.
    pub fn has_ended(&self) -> bool {
        self.phase.has_ended()
    }

    /// Remembers why nothing more is read; the first reason holds.
    fn end(&mut self, why: Closed) {
        if self.phase.end(why) {
            self.abandon_reading();
            self.drop_unsent_calls();
            self.deadlines.frame = NEVER;
            // After an orderly end of input open requests may still be answered: only so long.
            if why != Closed::EndOfInput {
                self.deadlines.drain = NEVER;
            }
        }
    }

    /// Ends the connection because of the peer or the stream.
    fn fail(&mut self, error: ConnectionError) {
        self.end(Closed::Failed(error));
        match error {
            // The peer does not read, or did not end in time: nothing more can be said.
            ConnectionError::OutboxFull | ConnectionError::WriteTimedOut => {
                self.outbox.clear();
                self.shut(Closed::Failed(error));
            }
            ConnectionError::DrainTimedOut => self.shut(Closed::Failed(error)),
            _ => {}
        }
    }

    /// Takes nothing more from the caller and gives open requests up.
    fn shut(&mut self, why: Closed) {
        self.phase.shut(why);
        self.deadlines.drain = NEVER;
        self.abandon_reading();
        self.drop_unsent_calls();
    }

    /// Takes calls of which no byte has left out of the queue. If that empties the queue, no output
    /// waits any more.
    fn drop_unsent_calls(&mut self) {
        if Calls::<T>::POSSIBLE {
            self.outbox.drop_unsent_calls();
        }
        if self.outbox.len() == 0 {
            self.deadlines.write = NEVER;
        }
    }

    /// When output that waits has waited too long. Its time runs from the time at which it was
    /// queued, or in which some of it was last taken. Usually it is gone before the driver tells
    /// another time, and nothing is calculated.
    fn write_due(&self) -> u64 {
        if self.outbox.len() == 0 {
            NEVER
        } else if self.deadlines.write == NEVER {
            self.after(self.config.timeouts.write_timeout)
        } else {
            self.deadlines.write
        }
    }

    fn after(&self, span: Option<Duration>) -> u64 {
        span.map_or(NEVER, |span| (self.now + span).as_nanos())
    }
}

/// How large a buffer for output may stay once it is empty.
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
