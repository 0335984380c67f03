//! What comes in: each event goes to the call it settles, or to the service.
//!
//! The rule guarded: all that one read holds is taken before anything of it begins.

use std::sync::atomic::Ordering;
use std::time::Duration;

use antiphon::{CloseReason, Event, Input, Outcome, Response};

use super::{Session, Signal, State, Tag};
use crate::rare::rare;
use crate::report::Report;
use crate::reported::ReportedRequest;

impl Session {
    /// Takes every event that `input` and the time hold: answers settle their calls here, all
    /// else goes to the service. Nothing is begun before this is through, so a cancel finds its
    /// request still waiting if both came in one read.
    pub fn pump(&self, state: &mut State, input: &mut Input<'_>) {
        if state.is_paused {
            rare();
            state.conn.restart_frame_time();
        }
        while let Some(event) = state.conn.poll_event(input) {
            self.take(state, event);
        }
        if state.queue.is_full() {
            rare();
            self.pause(state);
        }
        if !state.queue.is_empty() {
            self.signal(state, Signal::Work);
        }
    }

    /// Stops reading, as more waits for the service than may; or ends the connection, if far more does
    /// and a call of ours is open.
    #[cold]
    fn pause(&self, state: &mut State) {
        if state.is_to_pause() {
            state.is_paused = true;
            self.is_paused.store(true, Ordering::Release);
        } else if state.queue.is_overflowing() && state.closed.is_none() && !state.is_overflown {
            state.is_overflown = true;
            state.queue.push_report(Report::QueueOverflow, 0);
            self.close_state(state, CloseReason::Other("too much waits for the service"));
        }
    }

    /// Has reading go on, if there is room or a reason. Before the lock is free.
    #[cold]
    pub(super) fn resume(&self, state: &mut State) {
        if state.is_to_pause() {
            return;
        }
        // What the other side was not heard for is no delay of its own.
        self.tell_time(state);
        state.conn.restart_frame_time();
        #[cfg(feature = "websocket")]
        self.restart_frames(state);
        state.is_paused = false;
        self.is_paused.store(false, Ordering::Release);
        self.signal(state, Signal::Readable);
    }

    fn take(&self, state: &mut State, event: Event<'_, Tag>) {
        #[cfg(feature = "websocket")]
        if let Event::Notification(notification) = &event {
            if self.is_heartbeat(state, &notification.method) {
                return;
            }
        }
        state.has_heard |= is_of_the_peer(&event);
        let queue = &mut state.queue;
        match event {
            Event::Request(request) => {
                if let Err(request) = queue.push_request(request) {
                    rare();
                    let about = ReportedRequest {
                        method: request.method.into_owned(),
                        id: request.id.into(),
                        duration: Duration::ZERO,
                    };
                    let busy = state.conn.config().error_profile.busy();
                    // It can only be refused where nobody waits for it any more.
                    let _ = state.conn.respond_err(request.token, &busy);
                    queue.push_report(Report::QueueFull(about), 0);
                }
            }
            Event::Notification(notification) => {
                queue.push_notification(notification);
            }
            Event::Response(Response {
                call, tag, outcome, ..
            }) => {
                state.reading.is_call_settled = true;
                match tag {
                    Tag::Once(place) => state.settle(&place, outcome),
                    Tag::Batch(place) => state.gather(&place, call, outcome),
                    Tag::Then(then) => queue.push_settled(then, outcome.into_owned()),
                }
            }
            Event::Cancelled(cancelled) => {
                rare();
                if let Some(request) = queue.remove_request(cancelled.key) {
                    if cancelled.answer_owed {
                        // It can only be refused where nobody waits for it any more.
                        let _ = state.conn.respond_cancelled(request.into_token());
                    }
                } else if state.cancelled.insert(cancelled.key) {
                    self.has_cancelled.store(true, Ordering::Release);
                    let reason = cancelled.reason.map(|reason| reason.to_owned_json());
                    queue.push_cancelled(cancelled.key, reason);
                    self.signal(state, Signal::Changed);
                }
            }
            Event::Malformed(malformed) => {
                rare();
                let (report, bytes) = Report::malformed(malformed);
                queue.push_report(report, bytes);
            }
            Event::Refused(refused) => {
                rare();
                let (report, bytes) = Report::refused(refused);
                queue.push_report(report, bytes);
            }
            Event::Stray(stray) => {
                rare();
                let (report, bytes) = Report::stray(stray);
                queue.push_report(report, bytes);
            }
            Event::Closed(why) => {
                rare();
                state.closed = Some(why);
                state.closing = true;
                self.signal(state, Signal::Turn);
                self.signal(state, Signal::Changed);
            }
            // Events that a later core may have are none that an adapter promises.
            _ => {}
        }
    }
}

/// Whether an event shows that the peer has sent a message that is one.
fn is_of_the_peer(event: &Event<'_, Tag>) -> bool {
    match event {
        Event::Malformed(_) | Event::Closed(_) => false,
        // A call may also settle by itself.
        Event::Response(response) => !matches!(
            response.outcome,
            Outcome::TimedOut | Outcome::Aborted | Outcome::Unsent
        ),
        _ => true,
    }
}
