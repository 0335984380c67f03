//! Input: bytes become messages, answers end their calls, events of streams go to their
//! routes, and other messages wait for the service.
//!
//! All messages that one read has brought are put into the queue before the service is given any of
//! them. So a cancel that arrives together with its request finds the request still waiting.

use alloc::vec::Vec;
use core::mem;

use super::machine::Session;
use super::phase::Phase;
use super::queue::Settled;
use super::report::{Report, RequestDetails};
use super::routes::CallEnd;
use super::wire::{Layer, LayerEnd, LayerEvent, Wire};
use crate::event::{CloseReason, Event, ResponseRef, UnmatchedKind};
use crate::http::{Opening, opening};
use crate::input::Input;
use crate::owned::OwnedOutcome;
use crate::websocket::Heartbeat;

/// The largest buffer for unfinished input, in bytes, that is kept when it is empty.
const REST_BYTES_KEPT: usize = 64 * 1024;

impl<W> Session<W> {
    /// Takes received input: any bytes of a stream, or one whole message. Takes all of it; after
    /// the end of the session it is dropped.
    pub fn handle_input(&mut self, bytes: &[u8]) {
        if self.is_paused() {
            // While reading is paused, the peer's bytes may wait although it sent them in time, so
            // its time limits do not run: they begin anew with these bytes.
            self.restart_times();
        }
        match &self.wire {
            Wire::Layered(_) if !self.phase.is_over() => self.handle_layer(bytes),
            _ if !self.phase.is_listening() => {}
            Wire::Messages => self.pump(&mut Input::message(bytes)),
            _ => self.handle_stream(bytes),
        }
        self.advance();
    }

    /// Takes a whole message, or the size of one that was too large to assemble, under
    /// [`Wire::Messages`].
    pub fn handle_message(&mut self, mut message: Input<'_>) {
        if self.phase.is_listening() {
            self.pump(&mut message);
        }
        self.advance();
    }

    /// Takes bytes of a stream, and keeps those of an unfinished message.
    fn handle_stream(&mut self, bytes: &[u8]) {
        if self.rest.is_empty() {
            let consumed = self.take_stream(bytes);
            self.rest.extend_from_slice(&bytes[consumed..]);
            return;
        }
        let mut rest = mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let consumed = self.take_stream(&rest);
        rest.drain(..consumed);
        if !rest.is_empty() || rest.capacity() <= REST_BYTES_KEPT {
            self.rest = rest;
        }
    }

    /// Takes the messages at the beginning of `bytes`, and returns how many bytes they had.
    fn take_stream(&mut self, bytes: &[u8]) -> usize {
        let safe = if self.is_at_start {
            self.look_at_start(bytes)
        } else {
            bytes.len()
        };
        let mut input = Input::stream(&bytes[..safe]);
        self.pump(&mut input);
        match self.phase.is_listening() {
            true => input.consumed(),
            // No more messages are taken, so the rest is dropped.
            false => bytes.len(),
        }
    }

    /// Returns how many of the first bytes of a stream may be read as messages: all, if they do not
    /// begin an HTTP request. While this is undecided, only those that mean the same in either case,
    /// because they end no message and no header line: nothing of a web page's request must run. If
    /// they do begin an HTTP request, closes the session and returns 0.
    fn look_at_start(&mut self, bytes: &[u8]) -> usize {
        match opening(bytes) {
            // The other bytes are kept, and examined again with the next ones. At the size of the
            // longest message all are read as messages, so that they do not grow without a limit.
            Opening::Undecided(safe) if bytes.len() < self.conn.config().max_input_bytes() => safe,
            Opening::Undecided(_) | Opening::Other => {
                self.is_at_start = false;
                bytes.len()
            }
            Opening::Http => {
                self.is_at_start = false;
                self.report(Report::HttpRequest);
                self.close_now(CloseReason::PeerMisbehaved);
                0
            }
        }
    }

    /// Gives bytes to the layer, and handles its events.
    pub(super) fn handle_layer(&mut self, mut bytes: &[u8]) {
        // The layer is taken out of the session while its events are handled, because handling them
        // borrows the whole session.
        let Wire::Layered(mut layer) = mem::replace(&mut self.wire, Wire::Messages) else {
            return;
        };
        layer.handle_time(self.now);
        while let Some(event) = layer.poll_event(&mut bytes) {
            match event {
                LayerEvent::Opened(handshake) => {
                    if self.phase == Phase::Opening {
                        self.phase = Phase::Open;
                    }
                    self.handshake = Some(handshake);
                    self.queue.push_opened();
                }
                LayerEvent::Message(text) => {
                    self.pump_layered(&mut *layer, &mut Input::text(&text));
                }
                LayerEvent::Oversize(bytes) => {
                    self.pump(&mut Input::oversize(bytes));
                    self.close_now(CloseReason::PeerMisbehaved);
                }
                LayerEvent::Notify(method) => {
                    // It is left out if the output is full: if the peer takes nothing of the output,
                    // `write_timeout` ends the session. It is also left out while the connection
                    // drains and after its end, which `Event::Closed` reports.
                    let _ = self.conn.notify(method, ());
                }
                LayerEvent::Ended(end) => self.end_with_layer(end),
            }
        }
        self.wire = Wire::Layered(layer);
    }

    /// Closes the session because its layer has ended, and drops output that cannot be sent.
    fn end_with_layer(&mut self, end: LayerEnd) {
        let reason = match end {
            LayerEnd::Local => CloseReason::Done,
            LayerEnd::Peer(failure) => {
                if let Some(failure) = failure {
                    self.report(Report::Layer(failure));
                }
                // Nothing more can be sent or received, so the end of the layer counts as the end
                // of the input.
                self.conn.handle_eof();
                self.pump(&mut Input::none());
                CloseReason::Done
            }
            LayerEnd::Misbehaved(fault) => {
                self.report(Report::Layer(fault));
                CloseReason::PeerMisbehaved
            }
            LayerEnd::Lost(fault) => {
                self.note_fault(fault);
                CloseReason::TransportFailed
            }
        };
        self.close_now(reason);
        while self.conn.poll_transmit().is_some() {
            self.conn.fail_transmit();
        }
        self.pump(&mut Input::none());
    }

    /// Takes every event that the input and the time have caused.
    pub(super) fn pump(&mut self, input: &mut Input<'_>) {
        while let Some(event) = self.conn.poll_event(input) {
            self.take(event);
        }
        self.look_at_queue();
    }

    /// Takes the events of one message of a layer. Heartbeats of the layer are not passed on.
    fn pump_layered(&mut self, layer: &mut dyn Layer, input: &mut Input<'_>) {
        while let Some(event) = self.conn.poll_event(input) {
            let heartbeat = match &event {
                Event::Notification(notification) => layer.hear(&notification.method),
                _ => Heartbeat::Deliver,
            };
            match heartbeat {
                Heartbeat::Deliver => self.take(event),
                Heartbeat::Heard => self.has_heard = true,
                Heartbeat::Answer(method) => {
                    self.has_heard = true;
                    // May be left out, for the reasons given in `handle_layer`.
                    let _ = self.conn.notify(method, ());
                }
            }
        }
        self.look_at_queue();
    }

    /// Closes the session if reading goes on, because a call is open, although the queue has
    /// reached twice its limits.
    fn look_at_queue(&mut self) {
        if self.queue.is_overflowing() && !self.is_paused() && self.phase.is_listening() {
            self.report(Report::QueueOverflow);
            self.close_now(CloseReason::Other("too much waits for the service"));
        }
    }

    /// Handles one event of the connection.
    fn take(&mut self, event: Event<'_, W>) {
        self.has_heard |= is_of_the_peer(&event);
        if is_of_a_batch(&event) {
            if let Some(items) = self.conn.poll_batch_items() {
                self.queue.push_batch(items);
            }
        }
        match event {
            Event::Request(request) => {
                self.note_request(&request.method, request.token.key());
                if let Err(request) = self.queue.push_request(request) {
                    let id = request.id.into();
                    let about = RequestDetails::new(&request.method, id, Default::default());
                    let busy = self.conn.config().dialect.error_profile.busy();
                    // Answering fails only if no answer is awaited any more.
                    let _ = self.conn.respond_err(request.token, &busy);
                    self.report(Report::QueueFull(about));
                }
            }
            Event::Notification(notification) => {
                let is_exit = notification.method == "exit";
                if !self.take_event(&notification) {
                    self.queue.push_notification(notification);
                }
                self.note_notification(is_exit);
            }
            Event::Response(ResponseRef {
                call, tag, outcome, ..
            }) => self.settle(Settled {
                call,
                waiter: tag,
                outcome: outcome.into_owned(),
            }),
            Event::Cancelled(cancelled) => {
                if let Some(request) = self.queue.remove_request(cancelled.key) {
                    if cancelled.answer_owed {
                        // Answering fails only if no answer is awaited any more.
                        let _ = self.conn.respond_cancelled(request.into_token());
                    }
                } else if !self.cancelled.contains(&cancelled.key) {
                    self.cancelled.push(cancelled.key);
                    let reason = cancelled.reason.map(|reason| reason.to_owned_json());
                    self.queue.push_cancelled(cancelled.key, reason);
                }
            }
            Event::Malformed(malformed) => self.queue.push_report(Report::malformed(malformed)),
            Event::Refused(refused) => self.queue.push_report(Report::refused(refused)),
            Event::UnmatchedResponse(unmatched) if self.take_late_id(&unmatched) => {}
            // The answer to a call that was cancelled at the peer is expected.
            Event::UnmatchedResponse(unmatched)
                if matches!(unmatched.kind, UnmatchedKind::Cancelled(_)) => {}
            Event::UnmatchedResponse(unmatched) => {
                self.queue.push_report(Report::unmatched(unmatched))
            }
            Event::Closed(why) => self.note_closed(why),
        }
    }

    /// Passes on a call that has ended: as work of the service, in order with other work, if it was
    /// made by [`call_in_order`](Self::call_in_order); otherwise directly, by
    /// [`poll_settled`](Self::poll_settled).
    fn settle(&mut self, settled: Settled<W>) {
        let end = match &settled.outcome {
            OwnedOutcome::Ok(answer) => CallEnd::Result(answer.as_json()),
            OwnedOutcome::TimedOut => CallEnd::GivenUp,
            _ => CallEnd::NoResult,
        };
        self.settle_route(settled.call, end);
        if !self.in_order.is_empty() && self.in_order.remove(&settled.call.number()) {
            self.queue.push_settled(settled);
        } else {
            self.settled.push_back(settled);
        }
    }

    /// Whether reading is paused: too much waits for the service or for the peer, and no call is open.
    pub(super) fn is_paused(&self) -> bool {
        let is_reading = matches!(self.phase, Phase::Opening | Phase::Open | Phase::Draining);
        let is_behind = self.queue.is_full() || self.lags && self.queue.requests() > 0;
        is_reading && (is_behind && self.conn.calls_open() == 0 || self.is_unread())
    }

    /// Whether the peer has to read first. Then no request begins, because its answer would only add to
    /// those that wait.
    pub(super) fn is_unread(&self) -> bool {
        self.conn.is_unread()
    }

    /// Restarts the peer's time limits if reading was paused until now.
    pub(super) fn resume_after(&mut self, was_paused: bool) {
        if was_paused && !self.is_paused() {
            self.restart_times();
        }
    }

    /// Restarts all of the peer's time limits.
    pub(super) fn restart_times(&mut self) {
        self.conn.restart_frame_time();
        match &mut self.wire {
            Wire::Layered(layer) => layer.restart_times(self.now),
            // The time limit of a message begins when the connection sees its first byte, so the
            // unfinished input is passed to it again.
            Wire::Stream if !self.rest.is_empty() => self.handle_stream(&[]),
            Wire::Stream | Wire::Messages => {}
        }
    }

    /// Returns the bytes that were left when the input ended.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        mem::take(&mut self.rest)
    }
}

/// Whether an event shows that the peer has sent a message that is not malformed. An answer to one
/// of our calls counts even if it is invalid.
fn is_of_the_peer<W>(event: &Event<'_, W>) -> bool {
    match event {
        Event::Malformed(_) | Event::Closed(_) => false,
        // A call may also end without an answer, by a timeout for example.
        Event::Response(response) => response.origin.is_some(),
        // A request that our own close cancels has come before, and has counted then.
        _ => true,
    }
}

/// Whether an event is an item of a batch for which the service is told of the batch: a request, a
/// notification, or a refused or malformed item. Responses and cancels are not such items.
fn is_of_a_batch<W>(event: &Event<'_, W>) -> bool {
    let origin = match event {
        Event::Request(request) => request.origin,
        Event::Notification(notification) => notification.origin,
        Event::Malformed(malformed) => malformed.origin,
        Event::Refused(refused) => refused.origin,
        _ => return false,
    };
    origin.batch_index.is_some()
}
