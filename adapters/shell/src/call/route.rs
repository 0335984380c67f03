//! Routes: the events of a stream that a connection brings, for one reader; and the events of a call,
//! such as its progress, which has one route for each time that the call is sent.

use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

use antiphon::pubsub::Pattern;
use antiphon::session::{Bound, Extend, Overflow, Report, RequestDetails, RouteId, Routed};
use antiphon::{DecodeError, EncodeError, OwnedJson, SendError, Style};
use serde::ser::Error as _;

use crate::guard::caught;
use crate::lock::Lock;
use crate::session::{Incoming, Session};
use crate::text::Text;

/// How many progress values of a call are kept until they are taken. A further one drops the oldest.
const PROGRESS_BOUND: Bound = Bound {
    max_events: 64,
    overflow: Overflow::DropOldest,
};

/// How many events of a stream are kept until they are taken. A further one drops the oldest.
const STREAM_BOUND: Bound = Bound {
    max_events: 1024,
    overflow: Overflow::DropOldest,
};

/// The events of a call that are read.
#[derive(Clone)]
pub(crate) enum Wanted {
    /// Its progress, in the style of the dialect.
    Progress,
    /// Those of the stream that it asks for in this style.
    Stream(Style),
    /// The publications that a pattern matches.
    Topic(Pattern),
    /// The messages of the durable subscription of this name.
    Durable(Arc<str>, Arc<Incoming>),
}

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

    /// Opens a route for the publications that a pattern matches.
    fn open_topic(session: &Arc<Session>, pattern: Pattern) -> Result<Self, SendError> {
        let opened = session.act(|state| state.open_topic(pattern, STREAM_BOUND));
        let (id, style) = opened?;
        let session = Arc::clone(session);
        Ok(Self { session, id, style })
    }

    /// Opens a route for a durable subscription, whose messages go to `incoming`: it brings only its end.
    fn open_durable(
        session: &Arc<Session>,
        name: &Arc<str>,
        incoming: &Arc<Incoming>,
    ) -> Result<Self, SendError> {
        let (id, style, waker) =
            session.act(|state| state.open_durable(name, incoming, STREAM_BOUND))?;
        caught(|| waker.map(Waker::wake));
        let session = Arc::clone(session);
        Ok(Self { session, id, style })
    }

    /// The connection.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Returns what comes next, or has `waker` woken when there is more; `None` after the end.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Option<Routed>> {
        // Wakers are cloned and dropped without the lock.
        let waker = waker.clone();
        let (next, _unused) = self
            .session
            .act(|state| match state.conn.poll_route(self.id) {
                Some(routed) => (Poll::Ready(Some(routed)), Some(waker)),
                None if state.conn.is_route_open(self.id) => {
                    (Poll::Pending, state.readers.insert(self.id, waker))
                }
                None => (Poll::Ready(None), Some(waker)),
            });
        next
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
            state.close_topic(self.id);
            state.readers.remove(&self.id)
        });
    }
}

/// The events of a call, from all connections on which it is sent.
pub(crate) struct CallEvents {
    wanted: Wanted,
    /// How each event moves the call's deadline.
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

impl CallEvents {
    pub(crate) fn new(wanted: Wanted, extend: Option<Extend>) -> Arc<Self> {
        let heard = Lock::default();
        Arc::new(Self {
            wanted,
            extend,
            heard,
        })
    }

    /// Whether the events follow the answer.
    pub(crate) fn follow_answer(&self) -> bool {
        match self.wanted {
            Wanted::Progress => false,
            Wanted::Stream(style) => style.subscribe_method().is_some(),
            Wanted::Topic(_) | Wanted::Durable(..) => true,
        }
    }

    /// Opens a route on the connection on which the call is sent now, and adds its token to the params if a
    /// request of its style has one. The route must be
    /// [attached](antiphon::session::Session::attach_route) to the call.
    pub(crate) fn ask(
        &self,
        session: &Arc<Session>,
        mut params: Text,
    ) -> Result<(Text, Option<RouteId>), SendError> {
        let no_progress = || EncodeError::custom("the dialect has no progress");
        let route = match &self.wanted {
            Wanted::Progress => {
                let style = session.dialect().progress.style();
                let style = style.ok_or_else(no_progress).map_err(SendError::Encode)?;
                Route::open(session, style, PROGRESS_BOUND)?
            }
            Wanted::Stream(style) => Route::open(session, *style, STREAM_BOUND)?,
            Wanted::Topic(pattern) => Route::open_topic(session, pattern.clone())?,
            Wanted::Durable(name, incoming) => Route::open_durable(session, name, incoming)?,
        };
        let style = route.style;
        let route = Arc::new(route);
        if style.has_token() {
            let asking = style.ask(params.all(), &route.id.token());
            let asking = asking.map_err(SendError::Encode)?.into_string();
            params = Text::from(asking.into_bytes());
        }
        let id = route.id;
        let before = self.heard.lock().route.replace(route);
        if let Some(before) = before {
            let taken = before.take(Waker::noop());
            self.heard.lock().earlier.extend(taken);
        }
        Ok((params, Some(id)))
    }

    /// How each event moves the call's deadline.
    pub(crate) fn extend(&self) -> Option<Extend> {
        self.extend
    }

    /// Takes the route on the connection on which the call was sent last.
    pub(crate) fn take_route(&self) -> Option<Arc<Route>> {
        self.heard.lock().route.take()
    }

    /// Takes all values that have come, and has `waker` woken when there are more. What was lost is left
    /// out, because the session reports it.
    pub(crate) fn take_values(&self, waker: &Waker) -> impl Iterator<Item = OwnedJson> + use<> {
        let taken = self.take(waker).into_iter();
        taken.filter_map(|routed| match routed {
            Routed::Event(value) => Some(value),
            _ => None,
        })
    }

    /// Takes all events that have come, and has `waker` woken when there are more.
    pub(crate) fn take(&self, waker: &Waker) -> Vec<Routed> {
        let mut heard = self.heard.lock();
        let (route, mut taken) = (heard.route.clone(), mem::take(&mut heard.earlier));
        drop(heard);
        taken.extend(route.iter().flat_map(|route| route.take(waker)));
        taken
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
