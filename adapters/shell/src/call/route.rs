//! Routes: the events of a stream that a connection brings, for one reader; and the progress of a call,
//! which has one route for each time that the call is sent.

use std::mem;
use std::sync::Arc;
use std::task::Waker;

use antiphon::session::{Bound, Extend, Overflow, Report, RequestDetails, RouteId, Routed};
use antiphon::{DecodeError, EncodeError, OwnedJson, SendError, Style};
use serde::ser::Error as _;

use crate::lock::Lock;
use crate::session::Session;
use crate::text::Text;

/// How many progress values of a call are kept until they are taken. A further one drops the oldest.
const PROGRESS_BOUND: Bound = Bound {
    max_events: 64,
    overflow: Overflow::DropOldest,
};

/// A route of a connection. It is closed when this is dropped.
pub(crate) struct Route {
    session: Arc<Session>,
    id: RouteId,
    style: Style,
}

impl Route {
    fn open(session: &Arc<Session>, style: Style, bound: Bound) -> Result<Self, SendError> {
        let id = session.act(|state| state.conn.open_route(style, bound))?;
        let session = Arc::clone(session);
        Ok(Self { session, id, style })
    }

    /// Takes all that waits, and has `waker` woken when there is more.
    fn take(&self, waker: &Waker) -> Vec<Routed> {
        // Wakers are cloned and dropped without the lock.
        let waker = waker.clone();
        let (taken, _before) = self.session.act(|state| {
            let taken = std::iter::from_fn(|| state.conn.poll_route(self.id)).collect();
            (taken, state.readers.insert(self.id, waker))
        });
        taken
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        let _waker = self.session.act(|state| {
            state.conn.close_route(self.id);
            state.readers.remove(&self.id)
        });
    }
}

/// The progress of a call, from all connections on which it is sent.
pub(crate) struct CallProgress {
    /// How each value moves the call's deadline.
    extend: Option<Extend>,
    heard: Lock<Heard>,
}

#[derive(Default)]
struct Heard {
    /// The route on the connection on which the call was sent last.
    route: Option<Arc<Route>>,
    /// What has come on other routes and was not taken.
    earlier: Vec<Routed>,
}

impl CallProgress {
    pub(crate) fn new(extend: Option<Extend>) -> Arc<Self> {
        let heard = Lock::default();
        Arc::new(Self { extend, heard })
    }

    /// Opens a route on the connection on which the call is sent now, and adds its token to the params.
    /// The route must [end with the call](antiphon::session::Session::end_route_with).
    pub(crate) fn ask(
        &self,
        session: &Arc<Session>,
        params: Text,
    ) -> Result<(Text, Option<RouteId>), SendError> {
        let no_progress = || EncodeError::custom("the dialect has no progress");
        let style = session.dialect().progress.style();
        let style = style.ok_or_else(no_progress).map_err(SendError::Encode)?;
        let route = Arc::new(Route::open(session, style, PROGRESS_BOUND)?);
        let asking = style.ask(params.all(), &route.id.token());
        let asking = asking.map_err(SendError::Encode)?.into_string();
        let params = Text::from(asking.into_bytes());
        let id = route.id;
        let before = self.heard.lock().route.replace(route);
        if let Some(before) = before {
            let taken = before.take(Waker::noop());
            self.heard.lock().earlier.extend(taken);
        }
        Ok((params, Some(id)))
    }

    /// How each value moves the call's deadline.
    pub(crate) fn extend(&self) -> Option<Extend> {
        self.extend
    }

    /// Takes all values that have come, and has `waker` woken when there are more.
    pub(crate) fn take(&self, waker: &Waker) -> impl Iterator<Item = OwnedJson> + use<> {
        let mut heard = self.heard.lock();
        let (route, mut taken) = (heard.route.clone(), mem::take(&mut heard.earlier));
        drop(heard);
        taken.extend(route.iter().flat_map(|route| route.take(waker)));
        taken.into_iter().filter_map(|routed| match routed {
            Routed::Event(value) => Some(value),
            // What was lost is reported by the session.
            _ => None,
        })
    }

    /// Reports a value that has not the type that the caller wants.
    pub(crate) fn report(&self, error: DecodeError) {
        let route = self.heard.lock().route.clone();
        if let Some(route) = route {
            let about = RequestDetails::of_notification(route.style.method());
            route.session.report(Report::InvalidParams(about, error));
        }
    }
}
