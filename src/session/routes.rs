//! Routes: notifications that are events of a stream find it by their method and the id in their
//! params.
//!
//! ```text
//!   notification ── method, id ──▶ table ──▶ route ── ring ──▶ its reader
//!                                    │ id unknown, and the answer to a call that opens a
//!                                    ▼ stream of this style is awaited
//!                                  kept ── its answer ──▶ the route that it opens, or a report
//! ```
//!
//! A route is opened with an id of ours, which a request carries as a token; or the answer to a call
//! brings the id. Then the route opens while that answer is settled, because the first event may be in
//! the same read.
//!
//! The streams that nobody reads any more are in `unsubscribe`.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::mem;
use core::time::Duration;

use super::report::Report;
use super::streams::{RouteId, Streams, key, text_key};
use crate::event::NotificationRef;
use crate::id::CallId;
use crate::json::{Json, OwnedJson};
use crate::subscription::{Object, Style, is_id};
use crate::time::Instant;

/// How many events of a route may wait for its reader, and what happens to more. All that wait in a
/// session have at most [`max_queued_bytes`](super::SessionConfig::max_queued_bytes) bytes; beyond that a
/// route is full too. One event is always accepted while none waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The most events. 0 counts as 1.
    pub max_events: usize,
    /// What happens to more.
    pub overflow: Overflow,
}

/// Which event is dropped when a route is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// The oldest one.
    DropOldest,
    /// The new one.
    DropNewest,
}

/// How each event of a call moves the call's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extend {
    /// The time from the event to the new deadline of the call.
    pub timeout: Duration,
    /// The latest possible deadline.
    pub until: Instant,
}

/// What the reader of a route is given.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Routed {
    /// An event.
    Event(OwnedJson),
    /// So many events were dropped at this place, because the route was full.
    Lost(u64),
    /// The peer has given the stream up, for this reason. Nothing comes after it.
    GivenUp(OwnedJson),
}

/// How a call has ended.
#[derive(Clone, Copy)]
pub(super) enum CallEnd<'a> {
    /// With this result.
    Result(Json<'a>),
    /// Without a result, and none will come.
    NoResult,
    /// It is not awaited any more. Its answer may still come.
    GivenUp,
}

/// All routes of a session.
#[derive(Default)]
pub(super) struct Routes {
    /// The ids of open routes, by the notification that carries their events.
    streams: BTreeMap<&'static str, Streams>,
    pub(super) routes: BTreeMap<RouteId, Route>,
    /// The routes that end or open at the end of a call, by the call's number.
    pub(super) calls: BTreeMap<u64, RouteId>,
    /// Calls that were given up before their answer brought the id of a stream, by their numbers.
    pub(super) late: BTreeMap<u64, Style>,
    /// The routes of streams that are to be unsubscribed.
    pub(super) unsubscribed: BTreeSet<RouteId>,
    /// The routes that have got events since they were polled.
    ready: BTreeSet<RouteId>,
    /// How many bytes all waiting events have.
    bytes: usize,
    next: u64,
}

pub(super) struct Route {
    pub(super) style: Style,
    bound: Bound,
    pub(super) life: Life,
    ring: VecDeque<Waiting>,
    /// Whether the last one in the ring is no event, but the reason why the peer has given the stream up.
    is_given_up: bool,
    /// How many events were dropped after the last one in the ring.
    lost: u64,
    /// How many events were dropped since the last report of them.
    unreported: u64,
}

/// An event that waits, and how many were dropped directly before it.
struct Waiting {
    lost: u64,
    event: OwnedJson,
}

/// ```text
///   New ── its call is sent ──▶ Opening ── an id ──▶ Open ── closed ──▶ Muted ── unsubscribed ──▶ removed
///                                  │ no id             │ its end, or that of its call or the connection
///                                  └───────────────────┴──▶ Ended ── closed ──▶ removed
/// ```
pub(super) enum Life {
    /// A call that is not sent yet has the id, or its answer will bring it.
    New,
    /// The answer to this call brings the id.
    Opening(CallId),
    /// The id is in the table.
    Open {
        id: Box<[u8]>,
        /// The call with which it ends, if any, and how events move its deadline.
        call: Option<(CallId, Option<Extend>)>,
    },
    /// The id is in the table, and nobody reads. So many events have come since.
    Muted { id: Box<[u8]>, events: u64 },
    /// The driver says which events it gets.
    Fed,
    /// Only what waits can still be read.
    Ended,
}

impl Routes {
    /// How many routes there are, also those that have ended.
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether a route may get more events: its id is known, or may come with an answer.
    pub(super) fn is_open(&self, route: RouteId) -> bool {
        let route = self.routes.get(&route);
        route.is_some_and(|route| !matches!(route.life, Life::Ended | Life::Muted { .. }))
    }

    /// Returns a route that has got events since it was returned here last.
    pub(super) fn pop_ready(&mut self) -> Option<RouteId> {
        self.ready.pop_first()
    }

    /// Opens a route with an id of ours, or for a call that will bring the id.
    pub(super) fn open(&mut self, style: Style, bound: Bound) -> RouteId {
        let route = RouteId::new(self.next);
        let life = match style.has_token() {
            false => Life::New,
            true => {
                let id = text_key(&route.token()).into_boxed_slice();
                self.streams_of(style).ids.insert(id.clone(), route);
                Life::Open { id, call: None }
            }
        };
        self.insert(style, bound, life)
    }

    pub(super) fn insert(&mut self, style: Style, bound: Bound, life: Life) -> RouteId {
        let number = RouteId::new(self.next);
        self.next += 1;
        let route = Route {
            style,
            bound,
            life,
            ring: VecDeque::new(),
            is_given_up: false,
            lost: 0,
            unreported: 0,
        };
        self.routes.insert(number, route);
        number
    }

    fn streams_of(&mut self, style: Style) -> &mut Streams {
        let streams = self.streams.entry(style.method());
        streams.or_insert_with(|| Streams::new(style))
    }

    /// Attaches a route to a call that was sent under the id that `id` returns.
    pub(super) fn attach(
        &mut self,
        number: RouteId,
        call: CallId,
        extend: Option<Extend>,
        id: impl FnOnce() -> Box<[u8]>,
    ) {
        let Some(route) = self.routes.get_mut(&number) else {
            return;
        };
        match &mut route.life {
            Life::New if route.style.subscribe_method().is_none() => {
                let (id, style, call) = (id(), route.style, Some((call, extend)));
                route.life = Life::Open {
                    id: id.clone(),
                    call,
                };
                self.streams_of(style).ids.insert(id, number);
            }
            Life::New => {
                route.life = Life::Opening(call);
                let style = route.style;
                self.streams_of(style).opening += 1;
            }
            Life::Open { call: ends, .. } => *ends = Some((call, extend)),
            Life::Opening(_) | Life::Muted { .. } | Life::Fed | Life::Ended => return,
        }
        self.calls.insert(call.number(), number);
    }

    /// Takes the event that a notification carries: it waits for the reader of its route, or, if its
    /// id may come with an answer, for that answer. `None` if it is neither; otherwise the call whose
    /// deadline moves, if there is one.
    pub(super) fn take(
        &mut self,
        notification: &NotificationRef<'_>,
        max_bytes: usize,
    ) -> Option<Option<(CallId, Extend)>> {
        // A notification of any method may belong to a call that listens.
        let listening = Style::MCP_LISTEN.method();
        let method = match self.streams.contains_key(&*notification.method) {
            true => &*notification.method,
            false => listening,
        };
        let streams = self.streams.get_mut(method)?;
        let params = notification.params?;
        let Some((id, event)) = streams.style.read(params) else {
            let (id, why) = streams.style.read_end(params)?;
            let route = *streams.ids.get(&*key(id))?;
            self.give_up(route, why.to_owned_json(), max_bytes);
            return Some(None);
        };
        let id = key(id);
        match streams.ids.get(&*id) {
            Some(&route) if method == listening => {
                let event = Object::of_notification(&notification.method, event).ok()?;
                Some(self.push(route, event, max_bytes))
            }
            Some(&route) => Some(self.push(route, event.to_owned_json(), max_bytes)),
            None if streams.opening > 0 => {
                streams.keep(&id, event);
                Some(None)
            }
            None => None,
        }
    }

    /// Opens a route to which the driver gives the events.
    pub(super) fn open_fed(&mut self, style: Style, bound: Bound) -> RouteId {
        self.insert(style, bound, Life::Fed)
    }

    pub(super) fn is_fed(&self, route: RouteId) -> bool {
        let route = self.routes.get(&route);
        route.is_some_and(|route| matches!(route.life, Life::Fed))
    }

    /// Adds an event to a route that was opened so, also after the end of the connection: it came before.
    pub(super) fn feed(&mut self, number: RouteId, event: OwnedJson, max_bytes: usize) {
        let route = self.routes.get(&number);
        if route.is_some_and(|route| matches!(route.life, Life::Fed | Life::Ended)) {
            self.push(number, event, max_bytes);
        }
    }

    /// Ends a route whose stream the peer has given up, for this reason.
    fn give_up(&mut self, number: RouteId, why: OwnedJson, max_bytes: usize) {
        self.push(number, why, max_bytes);
        let Some(route) = self.routes.get_mut(&number) else {
            return;
        };
        if matches!(route.life, Life::Open { .. }) {
            route.is_given_up = route.lost == 0;
            let (style, life) = (route.style, mem::replace(&mut route.life, Life::Ended));
            self.end(style, life);
        }
    }

    /// Adds an event to a route. Returns the call whose deadline it moves, if there is one.
    fn push(
        &mut self,
        number: RouteId,
        event: OwnedJson,
        max_bytes: usize,
    ) -> Option<(CallId, Extend)> {
        let route = self.routes.get_mut(&number)?;
        if let Life::Muted { events, .. } = &mut route.life {
            *events += 1;
            return None;
        }
        let (waiting, bytes) = (&mut self.bytes, event.as_str().len());
        let is_full = |ring: usize, waiting: usize| {
            ring >= route.bound.max_events.max(1) || waiting > 0 && waiting + bytes > max_bytes
        };
        while route.bound.overflow == Overflow::DropOldest && is_full(route.ring.len(), *waiting) {
            let Some(oldest) = route.ring.pop_front() else {
                break;
            };
            *waiting -= oldest.event.as_str().len();
            let next = route.ring.front_mut();
            *next.map_or(&mut route.lost, |next| &mut next.lost) += oldest.lost + 1;
            route.unreported += 1;
        }
        if is_full(route.ring.len(), *waiting) {
            route.lost += 1;
            route.unreported += 1;
        } else {
            *waiting += bytes;
            let lost = mem::take(&mut route.lost);
            route.ring.push_back(Waiting { lost, event });
        }
        self.ready.insert(number);
        match route.life {
            Life::Open {
                call: Some((call, Some(extend))),
                ..
            } => Some((call, extend)),
            _ => None,
        }
    }

    /// Ends or opens the route of a call that has ended. Returns a report of events that belong to no
    /// stream, or of a stream that could not be unsubscribed.
    pub(super) fn settle(
        &mut self,
        call: CallId,
        end: CallEnd<'_>,
        max_bytes: usize,
    ) -> Option<Report> {
        let Some(number) = self.calls.remove(&call.number()) else {
            match end {
                CallEnd::Result(id) => {
                    self.take_late(call.number(), id, max_bytes);
                }
                CallEnd::NoResult => {
                    self.late.remove(&call.number());
                }
                CallEnd::GivenUp => {}
            }
            return None;
        };
        let route = self.routes.get_mut(&number)?;
        let style = route.style;
        match (mem::replace(&mut route.life, Life::Ended), end) {
            (Life::Opening(_), CallEnd::Result(id)) if is_id(&id) => {
                let id: Box<[u8]> = key(id).into();
                let call = None;
                route.life = Life::Open {
                    id: id.clone(),
                    call,
                };
                self.enter(number, style, id, max_bytes);
                self.streams_of(style).end_opening()
            }
            (Life::Muted { id, events }, end) => {
                self.routes.remove(&number);
                self.end(style, Life::Muted { id, events });
                let unsubscribe = style.unsubscribe_method()?;
                matches!(end, CallEnd::GivenUp).then_some(Report::NotUnsubscribed {
                    method: unsubscribe,
                    events,
                })
            }
            (life, end) => {
                if matches!((&life, end), (Life::Opening(_), CallEnd::GivenUp)) {
                    self.expect_late(call, style);
                }
                self.end(style, life)
            }
        }
    }

    /// Puts a route into the table, under the id that an answer has brought, and gives it the events that
    /// were kept.
    pub(super) fn enter(&mut self, number: RouteId, style: Style, id: Box<[u8]>, max_bytes: usize) {
        let streams = self.streams_of(style);
        let kept = streams.take_kept(&id);
        // The peer may use an id again after it has ended the stream that had it.
        let earlier = streams.ids.insert(id, number);
        if let Some(earlier) = earlier {
            match self.routes.get_mut(&earlier) {
                Some(route) if matches!(route.life, Life::Muted { .. }) => {
                    self.unsubscribed.remove(&earlier);
                    self.routes.remove(&earlier);
                }
                Some(route) => {
                    route.life = Life::Ended;
                    self.ready.insert(earlier);
                }
                None => {}
            }
        }
        for event in kept {
            self.push(number, event, max_bytes);
        }
    }

    /// Takes a route that has ended out of the table of ids.
    pub(super) fn end(&mut self, style: Style, life: Life) -> Option<Report> {
        let streams = self.streams.get_mut(style.method())?;
        let report = match life {
            Life::Opening(_) => streams.end_opening(),
            Life::Open { id, .. } | Life::Muted { id, .. } => {
                streams.ids.remove(&id);
                None
            }
            Life::New | Life::Fed | Life::Ended => None,
        };
        if streams.ids.is_empty() && streams.opening == 0 {
            self.streams.remove(style.method());
        }
        report
    }

    /// Ends all routes, because the connection has ended.
    pub(super) fn end_all(&mut self) {
        self.streams.clear();
        self.calls.clear();
        self.late.clear();
        self.unsubscribed.clear();
        let is_read = |route: &mut Route| !matches!(route.life, Life::Muted { .. });
        self.routes.retain(|_, route| is_read(route));
        for (number, route) in &mut self.routes {
            route.life = Life::Ended;
            self.ready.insert(*number);
        }
    }

    /// Returns what the reader of a route gets next; an error is the report of what was dropped before
    /// nothing was left.
    pub(super) fn pop(&mut self, number: RouteId) -> Result<Routed, Option<Report>> {
        let route = self.routes.get_mut(&number).ok_or(None)?;
        let next = route.ring.front_mut();
        let lost = mem::take(next.map_or(&mut route.lost, |next| &mut next.lost));
        if lost > 0 {
            return Ok(Routed::Lost(lost));
        }
        let Some(Waiting { event, .. }) = route.ring.pop_front() else {
            return Err(route.report());
        };
        self.bytes -= event.as_str().len();
        Ok(match route.is_given_up && route.ring.is_empty() {
            true => Routed::GivenUp(event),
            false => Routed::Event(event),
        })
    }

    /// Closes a route, because nobody reads it any more.
    pub(super) fn close(&mut self, number: RouteId) -> [Option<Report>; 2] {
        self.ready.remove(&number);
        let Some(mut route) = self.routes.remove(&number) else {
            return [None, None];
        };
        for waiting in route.ring.drain(..) {
            self.bytes -= waiting.event.as_str().len();
        }
        let (style, report) = (route.style, route.report());
        match route.life {
            Life::Open { id, call: None } if style.unsubscribe_method().is_some() => {
                route.life = Life::Muted { id, events: 0 };
                self.routes.insert(number, route);
                self.unsubscribed.insert(number);
                return [report, None];
            }
            Life::Opening(call) => {
                self.calls.remove(&call.number());
                self.expect_late(call, style);
            }
            Life::Open {
                call: Some((call, _)),
                ..
            } => {
                self.calls.remove(&call.number());
            }
            _ => {}
        }
        [report, self.end(style, route.life)]
    }
}

impl Route {
    /// Returns a report of the events that were dropped since the last one.
    fn report(&mut self) -> Option<Report> {
        let (method, events) = (self.style.method(), mem::take(&mut self.unreported));
        (events > 0).then_some(Report::EventsDropped { method, events })
    }
}
