//! Notifications whose streams only the driver knows: those of topics, which it finds by patterns.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::machine::Session;
use super::routes::Bound;
use super::streams::{Diversion, Diverted, RouteId};
use crate::connection::SendError;
use crate::json::OwnedJson;
use crate::subscription::Style;

impl<W> Session<W> {
    /// Opens a route whose events the driver gives it by [`feed_route`](Self::feed_route). From now on the
    /// notifications of `style` are not work for the service: [`poll_diverted`](Self::poll_diverted) returns them.
    /// If the route is [attached](Self::attach_route) to a call, that also returns how the call has ended, in its place
    /// among them.
    ///
    /// # Errors
    /// [`SendError::TooManyCalls`] if there are as many routes as calls may be open.
    pub fn open_fed_route(&mut self, style: Style, bound: Bound) -> Result<RouteId, SendError> {
        let route = self.routes()?.open_fed(style, bound);
        let diverted = self.diverted.get_or_insert_with(|| {
            Box::new(Diversion {
                methods: Vec::new(),
                calls: BTreeMap::new(),
                late: BTreeMap::new(),
                waiting: VecDeque::new(),
            })
        });
        if !diverted.methods.contains(&style.method()) {
            diverted.methods.push(style.method());
        }
        Ok(route)
    }

    /// Returns what was diverted next. To be called after each input until it returns `None`.
    pub fn poll_diverted(&mut self) -> Option<Diverted> {
        self.diverted.as_mut()?.waiting.pop_front()
    }

    /// Adds an event to a route, which [`open_fed_route`](Self::open_fed_route) has opened. Its bound holds.
    pub fn feed_route(&mut self, route: RouteId, event: OwnedJson) {
        let max_bytes = self.queue.max_bytes();
        if let Some(routes) = &mut self.routes {
            routes.feed(route, event, max_bytes);
        }
    }
}
