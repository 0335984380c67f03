//! Events of streams: notifications that go to a route instead of the service.

use alloc::vec::Vec;
use core::time::Duration;

use super::machine::Session;
use super::routes::{Bound, CallEnd, Extend, Routed, Routes};
use super::streams::{Diverted, RouteId, key};
use crate::config::{CancelAnswer, CancelStyle};
use crate::connection::SendError;
use crate::event::{NotificationRef, Outcome, UnmatchedKind, UnmatchedResponse};
use crate::id::CallId;
use crate::json::{Json, OwnedJson};
use crate::subscription::Style;

impl<W> Session<W> {
    /// Opens a route for the events of one stream. The call that asks for them is made next, and
    /// [attached](Self::attach_route) to the route:
    ///
    /// * If a request of this style has a token, the call asks for the events under the
    ///   [`token`](RouteId::token) of the route: see [`Style::ask`].
    /// * If its own id is that of the stream ([`Style::MCP_LISTEN`]), the route opens under this id.
    /// * Otherwise the result of the call is the id of the stream. Events that come before it, also those of
    ///   other streams of this style, are kept until the call has ended: 64 events and 64 KiB at most. Those
    ///   that belong to no stream then are [reported](super::Report::EventsUnmatched).
    ///
    /// Events under ids of no route are ordinary notifications. A route stays until it is
    /// [closed](Self::close_route).
    ///
    /// ```
    /// use antiphon::session::{Bound, Overflow, Routed, Session, Wire};
    /// use antiphon::{Config, Instant, Style};
    ///
    /// let mut session: Session<()> =
    ///     Session::new(Config::lsp().into(), Wire::Messages, Instant::ZERO);
    /// let bound = Bound { max_events: 64, overflow: Overflow::DropOldest };
    /// let route = session.open_route(Style::LSP_PROGRESS, bound)?;
    /// let params = Style::LSP_PROGRESS.ask((), &route.token()).unwrap();
    /// let call = session.call("index", params.as_json(), None, ()).unwrap();
    /// session.attach_route(route, call, None);
    /// session.handle_input(
    ///     br#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"antiphon-0","value":50}}"#,
    /// );
    /// assert_eq!(session.poll_ready_route(), Some(route));
    /// let Some(Routed::Event(value)) = session.poll_route(route) else { panic!() };
    /// assert_eq!(value.as_str(), "50");
    /// # Ok::<(), antiphon::SendError>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::TooManyCalls`] if there are as many routes as calls may be open.
    pub fn open_route(&mut self, style: Style, bound: Bound) -> Result<RouteId, SendError> {
        Ok(self.routes()?.open(style, bound))
    }

    pub(super) fn routes(&mut self) -> Result<&mut Routes, SendError> {
        let max = self.conn.config().limits.max_open_calls;
        let routes = self.routes.get_or_insert_default();
        match routes.len() < max {
            true => Ok(routes),
            false => Err(SendError::TooManyCalls),
        }
    }

    /// Attaches a route to the call that asks for its events. If the call has the route's token or id, the route
    /// ends with it, and each event moves the call's deadline if `extend` says so; what came before the end
    /// can still be read. Otherwise the result of the call is the id under which the route opens.
    pub fn attach_route(&mut self, route: RouteId, call: CallId, extend: Option<Extend>) {
        if let Some(diverted) = self.diverted.as_mut().filter(|_| {
            let routes = self.routes.as_ref();
            routes.is_some_and(|routes| routes.is_fed(route))
        }) {
            diverted.calls.insert(call.number(), route);
        }
        if let Some(routes) = &mut self.routes {
            routes.attach(route, call, extend, || {
                let id = self.conn.call_id(call);
                Json::parse(&id).map_or_else(|_| (*id).into(), |id| (*key(id)).into())
            });
        }
    }

    /// Returns a route that has got events since it was returned here last.
    pub fn poll_ready_route(&mut self) -> Option<RouteId> {
        self.routes.as_mut()?.pop_ready()
    }

    /// Returns the next event of a route, or how many were dropped before it.
    pub fn poll_route(&mut self, route: RouteId) -> Option<Routed> {
        match self.routes.as_mut()?.pop(route) {
            Ok(routed) => Some(routed),
            Err(report) => {
                report.into_iter().for_each(|report| self.report(report));
                None
            }
        }
    }

    /// Whether a route may get more events: its id is known, or may come with an answer.
    pub fn is_route_open(&self, route: RouteId) -> bool {
        let routes = self.routes.as_ref();
        routes.is_some_and(|routes| routes.is_open(route))
    }

    /// Closes a route. Events that wait are dropped. If a call has brought its id, the stream is to be
    /// [unsubscribed](Self::unsubscribe), and later events are ignored until that is answered; so is a
    /// stream whose id comes after this. Otherwise later events are ordinary notifications.
    pub fn close_route(&mut self, route: RouteId) {
        let closed = self.routes.as_mut().map(|routes| routes.close(route));
        let reports = closed.into_iter().flatten().flatten();
        reports.for_each(|report| self.report(report));
    }

    /// Unsubscribes the streams whose routes were closed, and those whose ids came after their calls had
    /// been given up. Those for which the output has no space wait for the next call of this function.
    /// Each of its calls takes `timeout` at most, and ends with a waiter that `waiter` makes. If it is not
    /// answered by then, that is [reported](super::Report::NotUnsubscribed).
    pub fn unsubscribe(&mut self, timeout: Option<Duration>, mut waiter: impl FnMut() -> W) {
        if self.routes.is_none() {
            return;
        }
        let deadline = timeout.map(|timeout| self.now + timeout);
        while let Some((route, method, params)) = self.next_unsubscribed() {
            let called = match self.call(method, params.as_json(), deadline, waiter()) {
                Ok(call) => Some(call),
                Err(rejected) => match rejected.error {
                    SendError::Full | SendError::TooManyCalls => return,
                    // The connection has ended, so the stream has, too.
                    _ => None,
                },
            };
            if let Some(routes) = &mut self.routes {
                routes.unsubscribing(route, called);
            }
        }
    }

    /// Has all streams that calls have opened [unsubscribed](Self::unsubscribe), before a clean end. What they bring
    /// until then can be read.
    pub fn unsubscribe_all(&mut self) {
        if let Some(routes) = &mut self.routes {
            routes.unsubscribe_all();
        }
    }

    /// Returns a route whose stream is to be unsubscribed, with the method and its params.
    fn next_unsubscribed(&self) -> Option<(RouteId, &'static str, OwnedJson)> {
        let (route, method, id) = self.routes.as_ref()?.next_unsubscribed()?;
        let mut params = Vec::from(*b"[");
        params.extend_from_slice(id);
        params.push(b']');
        // The id is JSON, so this does not fail.
        Some((route, method, OwnedJson::of_parts(params).ok()?))
    }

    /// Takes a notification that is an event of a stream, and moves the deadline of its call. Returns
    /// false for any other notification.
    pub(super) fn take_event(&mut self, notification: &NotificationRef<'_>) -> bool {
        if let Some(diverted) = &mut self.diverted {
            let mut methods = diverted.methods.iter();
            if let Some(method) = methods.find(|method| notification.method == **method) {
                let params = notification.params.map(Json::to_owned_json);
                diverted
                    .waiting
                    .extend(params.map(|params| Diverted::Event(method, params)));
                return true;
            }
        }
        let max_bytes = self.queue.max_bytes();
        let routes = self.routes.as_mut();
        let Some(taken) = routes.and_then(|routes| routes.take(notification, max_bytes)) else {
            return false;
        };
        if let Some((call, extend)) = taken {
            let deadline = (self.now + extend.timeout).min(extend.until);
            // A call with a route is open, so this does not fail.
            let _ = self.conn.set_deadline(call, Some(deadline));
        }
        true
    }

    /// Ends or opens the route of a call that has ended.
    pub(super) fn settle_route(&mut self, call: CallId, end: CallEnd<'_>) {
        if let Some(diverted) = &mut self.diverted {
            if let Some(route) = diverted.calls.remove(&call.number()) {
                let dialect = &self.conn.config().dialect;
                let is_answered = dialect.cancel_send == CancelStyle::None
                    || dialect.cancel_answer != CancelAnswer::Silent;
                match end {
                    CallEnd::GivenUp if is_answered => diverted.expect_late(call, route),
                    CallEnd::Result(answer) => diverted.end_call(route, Some(answer)),
                    CallEnd::GivenUp | CallEnd::NoResult => diverted.end_call(route, None),
                }
            }
        }
        let max_bytes = self.queue.max_bytes();
        let routes = self.routes.as_mut();
        let report = routes.and_then(|routes| routes.settle(call, end, max_bytes));
        report.into_iter().for_each(|report| self.report(report));
    }

    /// Takes the answer to a call that was given up, if it opens a stream.
    pub(super) fn take_late_id(&mut self, unmatched: &UnmatchedResponse<'_>) -> bool {
        let (Some(routes), Some(id)) = (&mut self.routes, unmatched.id) else {
            return false;
        };
        let answer = match &unmatched.kind {
            UnmatchedKind::Late(outcome) | UnmatchedKind::Cancelled(outcome) => match outcome {
                Outcome::Ok(answer) => Some(*answer),
                _ => None,
            },
            _ => return false,
        };
        let Some(call) = self.conn.config().dialect.id_scheme.read(id.json()) else {
            return false;
        };
        if let Some(diverted) = &mut self.diverted {
            if let Some(route) = diverted.late.remove(&call) {
                diverted.end_call(route, answer);
                return answer.is_some();
            }
        }
        let max_bytes = self.queue.max_bytes();
        answer.is_some_and(|answer| routes.take_late(call, answer, max_bytes))
    }
}
