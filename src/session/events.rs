//! Events of streams: notifications that go to a route instead of the service.

use super::machine::Session;
use super::routes::{Bound, Extend, RouteId, Routed, Routes};
use crate::connection::SendError;
use crate::event::NotificationRef;
use crate::id::CallId;
use crate::json::Json;
use crate::subscription::Style;

impl<W> Session<W> {
    /// Opens a route for the events of a stream whose id is the [`token`](RouteId::token) of the route. A
    /// request asks for them under this token: see [`Style::ask`]. Events under ids of no route are
    /// ordinary notifications. A route stays until it is [closed](Self::close_route).
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
    /// session.end_route_with(route, call, None);
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
        Ok(self.routes()?.open(style, bound, None))
    }

    /// Opens a route for the events of a stream whose id is the result of an open call of ours. Events
    /// that come before it, also those of other streams of this style, are kept until the call has ended:
    /// 64 events and 64 KiB at most. Those that belong to no stream then are
    /// [reported](super::Report::EventsUnmatched).
    ///
    /// # Errors
    /// See [`open_route`](Self::open_route).
    pub fn open_route_by(
        &mut self,
        call: CallId,
        style: Style,
        bound: Bound,
    ) -> Result<RouteId, SendError> {
        Ok(self.routes()?.open(style, bound, Some(call)))
    }

    fn routes(&mut self) -> Result<&mut Routes, SendError> {
        let max = self.conn.config().limits.max_open_calls;
        let routes = self.routes.get_or_insert_default();
        match routes.len() < max {
            true => Ok(routes),
            false => Err(SendError::TooManyCalls),
        }
    }

    /// Has a route that was opened with a token end with an open call, and each of its events move the
    /// call's deadline if `extend` says so. What came before the end can still be read.
    pub fn end_route_with(&mut self, route: RouteId, call: CallId, extend: Option<Extend>) {
        if let Some(routes) = &mut self.routes {
            routes.attach(route, call, extend);
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

    /// Closes a route. Events that wait are dropped; later ones are ordinary notifications.
    pub fn close_route(&mut self, route: RouteId) {
        let closed = self.routes.as_mut().map(|routes| routes.close(route));
        let reports = closed.into_iter().flatten().flatten();
        reports.for_each(|report| self.report(report));
    }

    /// Takes a notification that is an event of a stream, and moves the deadline of its call. Returns
    /// false for any other notification.
    pub(super) fn take_event(&mut self, notification: &NotificationRef<'_>) -> bool {
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

    /// Ends or opens the route of a call that has ended, with this answer if it was not an error.
    pub(super) fn settle_route(&mut self, call: CallId, answer: Option<Json<'_>>) {
        let max_bytes = self.queue.max_bytes();
        let routes = self.routes.as_mut();
        let report = routes.and_then(|routes| routes.settle(call, answer, max_bytes));
        report.into_iter().for_each(|report| self.report(report));
    }
}
