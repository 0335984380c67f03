//! Streams that nobody reads any more.
//!
//! A stream whose reader is gone is unsubscribed. Until that is answered its events are ignored. A call
//! that opens a stream may be given up before its answer; then an id that comes late is unsubscribed too.

use alloc::boxed::Box;

use super::routes::{Bound, Life, Overflow, Routes};
use super::streams::{Diversion, Diverted, RouteId, key};
use crate::id::CallId;
use crate::json::Json;
use crate::subscription::{Style, is_id};

/// The most calls of each kind whose answer may still open a stream that nobody reads.
const MAX_LATE: usize = 1024;

impl Routes {
    /// Notes that the answer to a call that was given up may still bring the id of a stream.
    pub(super) fn expect_late(&mut self, call: CallId, style: Style) {
        self.late.insert(call.number(), style);
        if self.late.len() > MAX_LATE {
            self.late.pop_first();
        }
    }

    /// Takes the answer to a call that was given up, if it brings the id of a stream: the stream is
    /// unsubscribed. Returns false for any other answer.
    pub(super) fn take_late(&mut self, call: u64, answer: Json<'_>, max_bytes: usize) -> bool {
        let Some(style) = self.late.remove(&call) else {
            return false;
        };
        if is_id(&answer) {
            let id: Box<[u8]> = key(answer).into();
            let bound = Bound {
                max_events: 0,
                overflow: Overflow::DropOldest,
            };
            let muted = Life::Muted {
                id: id.clone(),
                events: 0,
            };
            let number = self.insert(style, bound, muted);
            self.enter(number, style, id, max_bytes);
            self.unsubscribed.insert(number);
        }
        true
    }

    /// Has the streams that calls have opened unsubscribed, which are still read.
    pub(super) fn unsubscribe_all(&mut self) {
        for (number, route) in &self.routes {
            let is_open = matches!(route.life, Life::Open { call: None, .. });
            if is_open && route.style.unsubscribe_method().is_some() {
                self.unsubscribed.insert(*number);
            }
        }
    }

    /// Returns a route whose stream is to be unsubscribed, with the method and the id.
    pub(super) fn next_unsubscribed(&self) -> Option<(RouteId, &'static str, &[u8])> {
        let number = *self.unsubscribed.first()?;
        let route = self.routes.get(&number)?;
        match &route.life {
            Life::Muted { id, .. } | Life::Open { id, .. } => {
                Some((number, route.style.unsubscribe_method()?, id))
            }
            _ => None,
        }
    }

    /// Notes the call that unsubscribes the stream of a route. Without one the route is removed, unless it is read.
    pub(super) fn unsubscribing(&mut self, number: RouteId, call: Option<CallId>) {
        self.unsubscribed.remove(&number);
        if let Some(call) = call {
            self.calls.insert(call.number(), number);
        } else if !self.is_open(number) {
            let removed = self.routes.remove(&number);
            removed.and_then(|route| self.end(route.style, route.life));
        }
    }
}

impl Diversion {
    /// Tells the driver how the call of a route has ended.
    pub(super) fn end_call(&mut self, route: RouteId, answer: Option<Json<'_>>) {
        let answer = answer.map(Json::to_owned_json);
        self.waiting.push_back(Diverted::Answer(route, answer));
    }

    /// Notes that the answer to a call that was given up may still come.
    pub(super) fn expect_late(&mut self, call: CallId, route: RouteId) {
        self.late.insert(call.number(), route);
        if self.late.len() > MAX_LATE {
            let oldest = self.late.pop_first();
            oldest
                .into_iter()
                .for_each(|(_, route)| self.end_call(route, None));
        }
    }
}
