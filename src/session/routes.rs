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

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::report::Report;
use crate::event::NotificationRef;
use crate::id::CallId;
use crate::json::{Json, OwnedJson, write_str};
use crate::subscription::{Style, is_id};
use crate::time::Instant;

/// The most events of one style whose id is not known, that are kept until the answers to open calls
/// have come, and the most bytes of them.
const MAX_KEPT: usize = 64;
const MAX_KEPT_BYTES: usize = 64 * 1024;

/// The number of a route in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(u64);

impl RouteId {
    /// The token by which a request asks for the events of a route that was opened with an id of ours.
    pub fn token(self) -> String {
        format!("antiphon-{}", self.0)
    }
}

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
}

/// All routes of a session.
#[derive(Default)]
pub(super) struct Routes {
    /// The ids of open routes, by the notification that carries their events.
    streams: BTreeMap<&'static str, Streams>,
    routes: BTreeMap<RouteId, Route>,
    /// The routes that end or open at the end of a call, by the call's number.
    calls: BTreeMap<u64, RouteId>,
    /// The routes that have got events since they were polled.
    ready: BTreeSet<RouteId>,
    /// How many bytes all waiting events have.
    bytes: usize,
    next: u64,
}

/// The open routes of one style.
struct Streams {
    style: Style,
    ids: BTreeMap<Box<[u8]>, RouteId>,
    /// How many calls are open whose answer opens a route.
    opening: usize,
    /// Events whose id is not known, with their ids, while there are such calls.
    kept: Vec<(Box<[u8]>, OwnedJson)>,
    kept_bytes: usize,
    /// How many events were not kept.
    not_kept: u64,
}

struct Route {
    style: Style,
    bound: Bound,
    life: Life,
    ring: VecDeque<Waiting>,
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
///   open by an answer ──▶ Opening ── an id ──▶ Open ── end of its call ──▶ Ended
///                            └── no id, or no answer ──────────────────────▲
/// ```
enum Life {
    /// The answer to this call brings the id.
    Opening(CallId),
    /// The id is in the table.
    Open {
        id: Box<[u8]>,
        /// The call with which it ends, if any, and how events move its deadline.
        call: Option<(CallId, Option<Extend>)>,
    },
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
        route.is_some_and(|route| !matches!(route.life, Life::Ended))
    }

    /// Returns a route that has got events since it was returned here last.
    pub(super) fn pop_ready(&mut self) -> Option<RouteId> {
        self.ready.pop_first()
    }

    pub(super) fn open(&mut self, style: Style, bound: Bound, call: Option<CallId>) -> RouteId {
        let route = RouteId(self.next);
        self.next += 1;
        let streams = self.streams.entry(style.method());
        let streams = streams.or_insert_with(|| Streams::new(style));
        let life = match call {
            Some(call) => {
                streams.opening += 1;
                self.calls.insert(call.number(), route);
                Life::Opening(call)
            }
            None => {
                let id = text_key(&route.token()).into_boxed_slice();
                streams.ids.insert(id.clone(), route);
                Life::Open { id, call: None }
            }
        };
        let opened = Route {
            style,
            bound,
            life,
            ring: VecDeque::new(),
            lost: 0,
            unreported: 0,
        };
        self.routes.insert(route, opened);
        route
    }

    pub(super) fn attach(&mut self, route: RouteId, call: CallId, extend: Option<Extend>) {
        let life = self.routes.get_mut(&route).map(|route| &mut route.life);
        if let Some(Life::Open { call: ends, .. }) = life {
            *ends = Some((call, extend));
            self.calls.insert(call.number(), route);
        }
    }

    /// Takes the event that a notification carries: it waits for the reader of its route, or, if its
    /// id may come with an answer, for that answer. `None` if it is neither; otherwise the call whose
    /// deadline moves, if there is one.
    pub(super) fn take(
        &mut self,
        notification: &NotificationRef<'_>,
        max_bytes: usize,
    ) -> Option<Option<(CallId, Extend)>> {
        let streams = self.streams.get_mut(&*notification.method)?;
        let (id, event) = streams.style.read(notification.params?)?;
        let id = key(id);
        match streams.ids.get(&*id) {
            Some(&route) => Some(self.push(route, event.to_owned_json(), max_bytes)),
            None if streams.opening > 0 => {
                streams.keep(&id, event);
                Some(None)
            }
            None => None,
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

    /// Ends or opens the route of a call that has ended, with this answer if it was not an error.
    /// Returns a report of the events that belong to no stream.
    pub(super) fn settle(
        &mut self,
        call: CallId,
        answer: Option<Json<'_>>,
        max_bytes: usize,
    ) -> Option<Report> {
        let number = self.calls.remove(&call.number())?;
        let route = self.routes.get_mut(&number)?;
        let method = route.style.method();
        match (mem::replace(&mut route.life, Life::Ended), answer) {
            (Life::Opening(_), Some(id)) if is_id(&id) => {
                let id: Box<[u8]> = key(id).into();
                let call = None;
                route.life = Life::Open {
                    id: id.clone(),
                    call,
                };
                self.enter(number, method, id, max_bytes)
            }
            (life, _) => self.end(method, life),
        }
    }

    /// Puts a route into the table, under the id that an answer has brought.
    fn enter(
        &mut self,
        number: RouteId,
        method: &'static str,
        id: Box<[u8]>,
        max_bytes: usize,
    ) -> Option<Report> {
        let streams = self.streams.get_mut(method)?;
        let kept = streams.take_kept(&id);
        let report = streams.end_opening();
        // The peer may use an id again after it has ended the stream that had it.
        let earlier = streams.ids.insert(id, number);
        if let Some(earlier) = earlier.and_then(|earlier| self.routes.get_mut(&earlier)) {
            earlier.life = Life::Ended;
        }
        for event in kept {
            self.push(number, event, max_bytes);
        }
        report
    }

    /// Takes a route that has ended out of the table of ids.
    fn end(&mut self, method: &'static str, life: Life) -> Option<Report> {
        let streams = self.streams.get_mut(method)?;
        let report = match life {
            Life::Opening(_) => streams.end_opening(),
            Life::Open { id, .. } => {
                streams.ids.remove(&id);
                None
            }
            Life::Ended => None,
        };
        if streams.ids.is_empty() && streams.opening == 0 {
            self.streams.remove(method);
        }
        report
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
        Ok(Routed::Event(event))
    }

    pub(super) fn close(&mut self, number: RouteId) -> [Option<Report>; 2] {
        self.ready.remove(&number);
        let Some(mut route) = self.routes.remove(&number) else {
            return [None, None];
        };
        for waiting in &route.ring {
            self.bytes -= waiting.event.as_str().len();
        }
        if let Life::Opening(call)
        | Life::Open {
            call: Some((call, _)),
            ..
        } = &route.life
        {
            self.calls.remove(&call.number());
        }
        let report = route.report();
        [report, self.end(route.style.method(), route.life)]
    }
}

impl Streams {
    fn new(style: Style) -> Self {
        Self {
            style,
            ids: BTreeMap::new(),
            opening: 0,
            kept: Vec::new(),
            kept_bytes: 0,
            not_kept: 0,
        }
    }

    fn keep(&mut self, id: &[u8], event: Json<'_>) {
        let bytes = self.kept_bytes + id.len() + event.len();
        if self.kept.len() == MAX_KEPT || bytes > MAX_KEPT_BYTES {
            self.not_kept += 1;
        } else {
            self.kept_bytes = bytes;
            self.kept.push((id.into(), event.to_owned_json()));
        }
    }

    /// Takes the kept events with this id.
    fn take_kept(&mut self, id: &[u8]) -> Vec<OwnedJson> {
        let all = mem::take(&mut self.kept).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = all.partition(|(kept, _)| **kept == *id);
        self.kept = others;
        let bytes = |(id, event): &(Box<[u8]>, OwnedJson)| id.len() + event.as_str().len();
        self.kept_bytes -= own.iter().map(bytes).sum::<usize>();
        own.into_iter().map(|(_, event)| event).collect()
    }

    /// Notes that a call that opens a route has ended. After the last one no id can become known, so
    /// the events that are left are reported.
    fn end_opening(&mut self) -> Option<Report> {
        self.opening -= 1;
        if self.opening > 0 {
            return None;
        }
        self.kept_bytes = 0;
        let kept = mem::take(&mut self.kept).len() as u64;
        let events = kept + mem::take(&mut self.not_kept);
        let method = self.style.method();
        (events > 0).then_some(Report::EventsUnmatched { method, events })
    }
}

impl Route {
    /// Returns a report of the events that were dropped since the last one.
    fn report(&mut self) -> Option<Report> {
        let (method, events) = (self.style.method(), mem::take(&mut self.unreported));
        (events > 0).then_some(Report::EventsDropped { method, events })
    }
}

/// Returns the bytes under which an id is known: those the peer wrote, but for escapes in a string, which
/// may be spelt in several ways.
fn key(id: Json<'_>) -> Cow<'_, [u8]> {
    let text = id.as_string().filter(|text| text.has_escapes());
    match text.and_then(|text| text.to_cow()) {
        Some(text) => Cow::Owned(text_key(&text)),
        None => Cow::Borrowed(id.as_bytes()),
    }
}

fn text_key(text: &str) -> Vec<u8> {
    let mut key = Vec::new();
    write_str(&mut key, text);
    key
}
