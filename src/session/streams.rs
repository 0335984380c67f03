//! The ids of the open streams of one style, and the events whose id may still come.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::report::Report;
use crate::json::{Json, OwnedJson, write_str};
use crate::subscription::Style;

/// The most events of one style whose id is not known, that are kept until the answers to open calls
/// have come, and the most bytes of them.
const MAX_KEPT: usize = 64;
const MAX_KEPT_BYTES: usize = 64 * 1024;

/// The number of a route in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(u64);

impl RouteId {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }

    /// The route with this [number](Self::number).
    pub fn of(number: u64) -> Self {
        Self(number)
    }

    /// Its number in the session.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The token by which a request asks for the events of a route that was opened with an id of ours.
    pub fn token(self) -> String {
        format!("antiphon-{}", self.0)
    }
}

/// What the driver is to take.
pub(super) struct Diversion {
    pub(super) methods: Vec<&'static str>,
    /// The calls whose answers stand among the notifications, by their numbers.
    pub(super) calls: BTreeMap<u64, RouteId>,
    /// Such calls that were given up, and whose answers may still come.
    pub(super) late: BTreeMap<u64, RouteId>,
    pub(super) waiting: VecDeque<Diverted>,
}

/// What the driver takes for the routes that it feeds, in the order in which it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Diverted {
    /// A notification of this method, with its params.
    Event(&'static str, OwnedJson),
    /// The call to which a route was attached has ended: its result, or `None` if it has none. For a call that was given
    /// up this comes with its late answer.
    Answer(RouteId, Option<OwnedJson>),
}

/// The open routes of one style.
pub(super) struct Streams {
    pub(super) style: Style,
    pub(super) ids: BTreeMap<Box<[u8]>, RouteId>,
    /// How many calls are open whose answer opens a route.
    pub(super) opening: usize,
    /// Events whose id is not known, with their ids, while there are such calls.
    kept: Vec<(Box<[u8]>, OwnedJson)>,
    kept_bytes: usize,
    /// How many events were not kept.
    not_kept: u64,
}

impl Streams {
    pub(super) fn new(style: Style) -> Self {
        Self {
            style,
            ids: BTreeMap::new(),
            opening: 0,
            kept: Vec::new(),
            kept_bytes: 0,
            not_kept: 0,
        }
    }

    pub(super) fn keep(&mut self, id: &[u8], event: Json<'_>) {
        let bytes = self.kept_bytes + id.len() + event.len();
        if self.kept.len() == MAX_KEPT || bytes > MAX_KEPT_BYTES {
            self.not_kept += 1;
        } else {
            self.kept_bytes = bytes;
            self.kept.push((id.into(), event.to_owned_json()));
        }
    }

    /// Takes the kept events with this id.
    pub(super) fn take_kept(&mut self, id: &[u8]) -> Vec<OwnedJson> {
        let all = mem::take(&mut self.kept).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = all.partition(|(kept, _)| **kept == *id);
        self.kept = others;
        let bytes = |(id, event): &(Box<[u8]>, OwnedJson)| id.len() + event.as_str().len();
        self.kept_bytes -= own.iter().map(bytes).sum::<usize>();
        own.into_iter().map(|(_, event)| event).collect()
    }

    /// Notes that a call that opens a route has ended. After the last one no id can become known, so
    /// the events that are left are reported.
    pub(super) fn end_opening(&mut self) -> Option<Report> {
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

/// Returns the bytes under which an id is known: those the peer wrote, but for escapes in a string, which
/// may be spelt in several ways.
pub(super) fn key(id: Json<'_>) -> Cow<'_, [u8]> {
    let text = id.as_string().filter(|text| text.has_escapes());
    match text.and_then(|text| text.to_cow()) {
        Some(text) => Cow::Owned(text_key(&text)),
        None => Cow::Borrowed(id.as_bytes()),
    }
}

pub(super) fn text_key(text: &str) -> Vec<u8> {
    let mut key = Vec::new();
    write_str(&mut key, text);
    key
}
