//! Commands that send something to the peer: calls, notifications, cancels. Answers are in
//! `answers`.
//!
//! If a command is refused, nothing is sent, and the caller gets back the tag or token that it
//! passed.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::Connection;
use super::parts::Parts;
use super::phase::Phase;
use crate::config::{CancelStyle, NullIdError, Settings};
use crate::deadlines::NEVER;
use crate::encode::{self, Payload, Style, WriteError};
use crate::error_object::OwnedError;
use crate::frame::write::FrameStart;
use crate::id::{CallId, Id};
use crate::json::{self, EncodeError};
use crate::message::is_named;
use crate::target::rare;
use crate::time::Instant;

/// About how many bytes of a message are not params or result.
pub(super) const ENVELOPE_HINT: usize = 48;

/// Why a command was refused. Nothing was sent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SendError {
    /// The connection has ended or is draining.
    Closed,
    /// More than `soft_max_outbox_bytes` bytes wait to be written. Try again after some have been
    /// written.
    Full,
    /// `max_open_calls` calls are open.
    TooManyCalls,
    /// The message is larger than `max_outbox_bytes`, the answer does not fit into its batch's
    /// `max_batch_reply_bytes`, or the error's data are larger than `max_error_data_bytes`.
    TooLarge,
    /// The ids of this connection are used up.
    IdsUsedUp,
    /// The chosen id belongs to an open call.
    IdInUse,
    /// The chosen id is not allowed: it is not a string or number, or it is null without
    /// `allow_null_id`.
    IdNotAllowed,
    /// The method is blank.
    BlankMethod,
    /// The params are neither an array nor an object.
    ParamsScalar,
    /// The params are by name, which JSON-RPC 1.0 does not have.
    ParamsByName,
    /// The value has no JSON form.
    Encode(EncodeError),
    /// The call or request is not open on this connection.
    NotOpen,
    /// The transport cannot carry the message: the server's side of an HTTP exchange only answers,
    /// and an HTTP request cannot be cancelled. Or a cancel cannot be sent: the dialect has none,
    /// the connection has ended, or the output is over its hard limit.
    NoPush,
    /// Batches are switched off, or the version of the protocol has none.
    BatchesOff,
    /// The batch has `max_batch_calls` items already.
    BatchTooLong,
    /// The batch has no items.
    BatchEmpty,
    /// The code is reserved and `check_app_codes` is on.
    ReservedCode,
    /// An interceptor of this side failed, for example because it could not get a token, or did not
    /// decide in time. The core has no interceptors for what it sends; adapters return this.
    Interceptor,
    /// The call has a [flow](crate::flow) in its params, and flows are off on this connection, or it cannot
    /// carry them. The core has no such calls; adapters return this.
    FlowsOff,
    /// The call has a [flow](crate::flow) in its params, and [`max_flows`](crate::flow::FlowConfig::max_flows)
    /// of this side are open. Adapters return this too.
    TooManyFlows,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the connection is closed",
            Self::Full => "the output queue is full",
            Self::TooManyCalls => "too many calls are open",
            Self::TooLarge => "the message is too large",
            Self::IdsUsedUp => "the ids are used up",
            Self::IdInUse => "the id belongs to an open call",
            Self::IdNotAllowed => "the id may not be sent",
            Self::BlankMethod => "the method is blank",
            Self::ParamsScalar => "the params are neither an array nor an object",
            Self::ParamsByName => "version 1.0 has no params by name",
            Self::Encode(error) => return error.fmt(f),
            Self::NotOpen => "it is not open on this connection",
            Self::NoPush => "this connection cannot carry the message",
            Self::BatchesOff => "batches are switched off",
            Self::BatchTooLong => "the batch has too many items",
            Self::BatchEmpty => "the batch has no items",
            Self::ReservedCode => "the error code is reserved",
            Self::Interceptor => "an interceptor failed",
            Self::FlowsOff => "flows are off on this connection",
            Self::TooManyFlows => "too many flows are open",
        })
    }
}

impl core::error::Error for SendError {}

/// An *internal error* with this cause, for handlers that send: the cause is reported, and not sent.
impl From<SendError> for OwnedError {
    fn from(error: SendError) -> Self {
        Self::internal(Box::new(error))
    }
}

impl From<WriteError> for SendError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Encode(error) => Self::Encode(error),
            WriteError::ParamsScalar => Self::ParamsScalar,
            WriteError::ParamsByName => Self::ParamsByName,
        }
    }
}

/// A refused command, with the tag or token that was passed to it.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Rejected<V> {
    /// The tag or token that was passed.
    pub value: V,
    /// Why the command was refused.
    pub error: SendError,
}

impl<V> Rejected<V> {
    pub(super) fn new(value: V, error: SendError) -> Self {
        Self { value, error }
    }
}

impl<V> fmt::Debug for Rejected<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rejected({:?})", self.error)
    }
}

impl<V> fmt::Display for Rejected<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<V> core::error::Error for Rejected<V> {}

impl<V> From<Rejected<V>> for SendError {
    fn from(rejected: Rejected<V>) -> Self {
        rejected.error
    }
}

/// A message that has been written up to its params.
struct Half {
    frame: FrameStart,
    style: Style,
    /// Where the method ends in the output, before its closing quote.
    method_end: usize,
}

impl<T, S: Settings> Connection<T, S> {
    /// Calls a method of the peer. The call ends exactly once: with an
    /// [`Event::Response`](crate::Event::Response) that has the same `tag`, when the answer comes,
    /// when `deadline` has passed, or when the connection ends; or without an event, by
    /// [`cancel`](Self::cancel), which returns the tag.
    ///
    /// # Errors
    /// Returns the tag with the reason: a limit, a closed connection, params without a JSON form.
    /// Nothing is sent then, and the call is not open.
    pub fn call(
        &mut self,
        method: &str,
        params: impl Payload,
        deadline: Option<Instant>,
        tag: T,
    ) -> Result<CallId, Rejected<T>> {
        if let Some(id) = self.generated_id() {
            rare();
            return self.call_with_id(id.as_id(), method, params, deadline, tag);
        }
        match self.send_call(None, method, params) {
            Ok(number) => Ok(self.open_call(number, deadline, tag)),
            Err(error) => {
                rare();
                Err(Rejected::new(tag, error))
            }
        }
    }

    /// Calls a method with an id that the caller chose: a string or a number; null only with
    /// `allow_null_id`. For peers that give ids a meaning. It allocates memory, which
    /// [`call`](Self::call) does not.
    ///
    /// # Errors
    /// As [`call`](Self::call); also [`SendError::IdInUse`] and [`SendError::IdNotAllowed`].
    pub fn call_with_id(
        &mut self,
        id: Id<'_>,
        method: &str,
        params: impl Payload,
        deadline: Option<Instant>,
        tag: T,
    ) -> Result<CallId, Rejected<T>> {
        match self.send_call(Some(id), method, params) {
            Ok(number) => {
                let call = self.open_call(number, deadline, tag);
                self.calls.name(number, id);
                Ok(call)
            }
            Err(error) => Err(Rejected::new(tag, error)),
        }
    }

    #[inline]
    fn open_call(&mut self, number: u64, deadline: Option<Instant>, tag: T) -> CallId {
        self.calls
            .open_call(number, deadline.map_or(NEVER, Instant::as_nanos), tag);
        if S::BATCHES && self.config.limits.max_joined_calls > 1 {
            rare();
            self.join_call(number);
        }
        CallId {
            connection: self.number.get(),
            number,
        }
    }

    /// Queues a request. Only the code that writes the params depends on their type.
    fn send_call(
        &mut self,
        id: Option<Id<'_>>,
        method: &str,
        params: impl Payload,
    ) -> Result<u64, SendError> {
        self.may_send(method)?;
        let first = self.calls.next();
        let sent = self.next_call(id).and_then(|number| {
            let half = self.begin_message(method, params.size_hint());
            let written = params.write(self.outbox.body());
            self.end_message(half, written, Some(number), id.as_ref())?;
            Ok(number)
        });
        // Numbers that were skipped for a refused call are free again.
        sent.inspect_err(|_| self.calls.rollback(first))
    }

    /// Writes a message up to its params. It is inlined into every caller that writes params: a
    /// call and return would cost a ninth of the time of a small request.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    fn begin_message(&mut self, method: &str, params_hint: usize) -> Half {
        let style = self.own_style();
        let body_hint = params_hint + method.len() + ENVELOPE_HINT;
        let frame = self.outbox.begin(body_hint);
        let out = self.outbox.body();
        Half {
            frame,
            style,
            method_end: encode::begin_params(out, style, method),
        }
    }

    /// Completes a message whose params have been written, or removes it. A request has a number,
    /// and perhaps an id that its caller chose; a notification has neither. They are separate
    /// arguments, so that they are passed in registers: a struct in memory would be slower.
    fn end_message(
        &mut self,
        half: Half,
        written: Result<(), EncodeError>,
        call: Option<u64>,
        id: Option<&Id<'_>>,
    ) -> Result<(), SendError> {
        let out = self.outbox.body();
        written
            .map_err(WriteError::Encode)
            .and_then(|()| encode::end_params(out, half.style, half.method_end))
            .map_err(|error| self.take_back(error.into()))?;
        let out = self.outbox.body();
        match (call, id) {
            (Some(_), Some(id)) => {
                rare();
                encode::end_request(out, |out| json::write_json(out, id.json()));
            }
            (Some(number), None) => {
                encode::end_own_request(out, &self.config.dialect.id_scheme, number);
            }
            (None, _) => encode::end_notification(out, half.style),
        }
        self.finish_body(half.frame.body())?;
        self.outbox.commit(half.frame, call);
        Ok(())
    }

    /// Joins the call that was just queued with the calls before it that are not written yet.
    #[cold]
    #[inline(never)]
    fn join_call(&mut self, number: u64) {
        if !self.speaks_batches() || self.config.exchange {
            return;
        }
        let limits = self.config.limits;
        let max_calls = limits.max_joined_calls.min(limits.max_batch_calls);
        let Some((before, calls)) = self.outbox.join_last(max_calls) else {
            return;
        };
        let batches = &mut Parts::of(&mut self.parts).our_batches;
        if calls == 2 {
            batches.push(before, before, usize::from(self.calls.is_open(before)));
        }
        batches.join(number);
    }

    /// Whether batches may be sent.
    pub(super) fn speaks_batches(&self) -> bool {
        self.config.dialect.batches && self.own_style() == Style::V2
    }

    /// Whether the connection must know which calls were sent in one message, for errors without
    /// id.
    pub(super) fn knows_batches(&self) -> bool {
        self.config.dialect.null_id_error == NullIdError::FailSole
            || (S::BATCHES && self.config.limits.max_joined_calls > 1)
    }

    /// Sends a notification. After an orderly end of the input, and in a drain, it is still sent while
    /// a request is open, because a handler's notifications may belong to its answer. On an exchange
    /// that [streams](crate::Config::streams) it is sent only while a request is open.
    ///
    /// # Errors
    /// [`SendError`] for a limit, a closed connection, or params without a JSON form.
    pub fn notify(&mut self, method: &str, params: impl Payload) -> Result<(), SendError> {
        let is_streamed = self.config.streams && self.phase == Phase::Open;
        if (is_streamed || self.phase.lets_requests_finish()) && self.has_requests() {
            rare();
            self.may_push(self.config.can_notify())?;
            check_method(method)?;
        } else {
            self.may_send(method)?;
        }
        let half = self.begin_message(method, params.size_hint());
        let written = params.write(self.outbox.body());
        self.end_message(half, written, None, None)
    }

    /// Moves the deadline of an open call, for a peer that reports progress. With `None` the call
    /// waits for ever.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has ended or belongs to another connection.
    pub fn set_deadline(
        &mut self,
        call: CallId,
        deadline: Option<Instant>,
    ) -> Result<(), SendError> {
        self.forget_builder();
        let deadline = deadline.map_or(NEVER, Instant::as_nanos);
        let is_ours = call.connection == self.number.get();
        let moved = is_ours && self.calls.set_deadline(call.number, deadline);
        if moved {
            Ok(())
        } else {
            Err(SendError::NotOpen)
        }
    }

    /// Ends a call without waiting for its answer, and returns its tag. A cancel is sent if
    /// `cancel_send` defines one. An answer that still comes is unmatched: after a cancel that was
    /// sent it is expected ([`UnmatchedKind::Cancelled`](crate::UnmatchedKind::Cancelled)), otherwise
    /// it is late. Returns `None` if the call is not open.
    pub fn cancel(&mut self, call: CallId) -> Option<T> {
        self.forget_builder();
        if call.connection != self.number.get() {
            return None;
        }
        if self.config.dialect.cancel_send != CancelStyle::None && self.calls.is_open(call.number) {
            self.send_cancel(call.number, None);
        }
        self.end_call(call.number, false).map(|(_, tag)| tag)
    }

    /// Asks the peer to cancel a call, and goes on waiting for its answer, which ends the call. A
    /// call is cancelled once: if it was before, nothing more is sent.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call is not open; [`SendError::NoPush`] if no cancel can be
    /// sent on this connection.
    pub fn ask_cancel(&mut self, call: CallId) -> Result<(), SendError> {
        self.ask_cancel_because(call, None)
    }

    /// Asks the peer to cancel a call, as [`ask_cancel`](Self::ask_cancel) does, with a reason for
    /// the peer's log in dialects that have a member for it (MCP).
    ///
    /// # Errors
    /// See [`ask_cancel`](Self::ask_cancel).
    pub fn ask_cancel_because(
        &mut self,
        call: CallId,
        reason: Option<&str>,
    ) -> Result<(), SendError> {
        self.forget_builder();
        if call.connection != self.number.get() || !self.calls.is_open(call.number) {
            return Err(SendError::NotOpen);
        }
        if self.send_cancel(call.number, reason) {
            Ok(())
        } else {
            Err(SendError::NoPush)
        }
    }

    /// The id of an open call, as it was written.
    pub(crate) fn call_id(&self, call: CallId) -> Vec<u8> {
        let mut id = Vec::new();
        match self.calls.name_of(call.number) {
            Some(text) => id.extend_from_slice(text),
            None => self.config.dialect.id_scheme.write(call.number, &mut id),
        }
        id
    }

    /// Queues the dialect's cancel notification for call `number`, once for each call. It may exceed
    /// the soft limit, because it causes no new work; if the output is over the hard limit, it is
    /// not sent. Returns whether it was queued, now or before.
    pub(super) fn send_cancel(&mut self, number: u64, reason: Option<&str>) -> bool {
        let Some((method, member)) = self.config.dialect.cancel_send.names() else {
            return false;
        };
        // JSON-RPC 1.0 has no params by name, and the cancel of every dialect has such params.
        let can_be_said = self.own_style() == Style::V2 || self.config.dialect.v1_named_params;
        if self.phase.has_ended()
            || self.config.exchange
            || !can_be_said
            || self.outbox.len() > self.config.limits.max_outbox_bytes
        {
            return false;
        }
        let parts = self.parts.as_ref();
        if parts.is_some_and(|parts| parts.cancelled.contains(number)) {
            return true;
        }
        let style = self.own_style();
        let said = reason.map_or(0, str::len);
        let frame = self.outbox.begin(said + 2 * ENVELOPE_HINT);
        let start = self.outbox.body().len();
        let out = self.outbox.body();
        out.extend_from_slice(match style {
            Style::V2 => b"{\"jsonrpc\":\"2.0\",\"method\":",
            Style::V1 => b"{\"method\":",
        });
        json::write_str(out, method);
        out.extend_from_slice(b",\"params\":{");
        json::write_str(out, member);
        out.push(b':');
        match self.calls.name_of(number) {
            Some(text) => out.extend_from_slice(text),
            None => self.config.dialect.id_scheme.write(number, out),
        }
        if let Some(reason) = reason.filter(|_| self.config.dialect.cancel_send == CancelStyle::Mcp)
        {
            out.extend_from_slice(b",\"reason\":");
            json::write_str(out, reason);
        }
        out.extend_from_slice(match style {
            Style::V2 => b"}}",
            Style::V1 => b"},\"id\":null}",
        });
        if self.finish_body(start).is_err() {
            return false;
        }
        self.outbox.commit(frame, None);
        let max_open_calls = self.config.limits.max_open_calls;
        Parts::of(&mut self.parts)
            .cancelled
            .insert(number, max_open_calls);
        true
    }

    /// Checks whether a call or notification may be sent now.
    pub(super) fn may_send(&mut self, method: &str) -> Result<(), SendError> {
        self.forget_builder();
        self.may_queue()?;
        check_method(method)
    }

    /// Checks whether this side may send calls and notifications in the current phase.
    pub(super) fn may_queue(&self) -> Result<(), SendError> {
        if self.phase != Phase::Open {
            rare();
            return Err(SendError::Closed);
        }
        self.may_push(self.config.can_call())
    }

    /// Whether any request is still to be answered.
    fn has_requests(&mut self) -> bool {
        self.forget_builder();
        self.requests.open() > 0
    }

    /// Checks whether the transport (`is_carried`) and the soft limit of the output allow a message that
    /// is not an answer.
    fn may_push(&self, is_carried: bool) -> Result<(), SendError> {
        if !is_carried {
            rare();
            return Err(SendError::NoPush);
        }
        if self.outbox.len() > self.config.limits.soft_max_outbox_bytes {
            rare();
            return Err(SendError::Full);
        }
        Ok(())
    }

    /// Returns the version of our own calls and notifications.
    pub(super) fn own_style(&self) -> Style {
        match self.config.dialect.version {
            crate::VersionPolicy::V1Only => Style::V1,
            _ => Style::V2,
        }
    }

    /// Checks the size of the body written from `start` on, and escapes its braces if the dialect
    /// demands that.
    pub(super) fn finish_body(&mut self, start: usize) -> Result<(), SendError> {
        if self.config.dialect.escape_braces {
            rare();
            encode::escape_braces(self.outbox.body(), start);
        }
        if self.outbox.body().len() - start > self.config.limits.max_outbox_bytes {
            rare();
            return Err(self.take_back(SendError::TooLarge));
        }
        Ok(())
    }

    /// Removes the message that is being written, and returns the error.
    fn take_back(&mut self, error: SendError) -> SendError {
        self.outbox.rollback();
        error
    }
}

#[inline(always)]
pub(super) fn check_method(method: &str) -> Result<(), SendError> {
    if is_named(method) {
        Ok(())
    } else {
        rare();
        Err(SendError::BlankMethod)
    }
}
