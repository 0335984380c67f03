//! What the client does: streams of topics and of subscriptions, and what each has to bring: the oracle.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon::pubsub::{Pattern, Publication, TopicMethod};
use antiphon::session::{Bound, Diverted, Overflow, Phase, RouteId, Routed};
use antiphon::{CallId, OwnedOutcome, SendError, Style};

use super::checks::{Broken, Check, Checked};
use super::end::{End, Tag};
use super::hub::number_in;
use super::plant::Plant;
use super::settings::{PATTERNS, STYLES, bound};
use super::world::{Link, World};
use crate::observer::{Item, ItemKind};

/// How the publications of topics come.
const TOPIC_STYLE: Style = Style::named("rpc.subscribe", Publication::METHOD, "rpc.unsubscribe");

/// Stands for the end of a stream among its events: it has a place among those that wait.
const END: u64 = 0;

/// What a stream has events of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    Topic(Pattern),
    Sub(usize),
}

/// A stream of the client.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) link: usize,
    pub(super) source: Source,
    /// It is to be opened again after a reconnect.
    pub(super) resubscribes: bool,
    bound: Bound,
    pub(super) life: Life,
    /// What has arrived, in order, and was neither read nor told as lost.
    pub(super) expected: VecDeque<u64>,
    /// How many events wait, how many were dropped, and how many were told as dropped.
    ring: usize,
    lost: u64,
    told: u64,
    /// The server has given it up: in order, or not.
    pub(super) given_up: Option<bool>,
    /// How many events were read or told as lost.
    pub(super) read: u64,
    /// An event that came in the input with which a drain ended: it was taken if it came before the end.
    doubtful: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// There is no connection, and it is to be opened over the next one.
    Waiting,
    Asking(RouteId, CallId),
    Open(RouteId),
    /// Its reader is gone, or was told of the end.
    Over,
}

impl Stream {
    pub(super) fn route(&self) -> Option<RouteId> {
        match self.life {
            Life::Asking(route, _) | Life::Open(route) => Some(route),
            _ => None,
        }
    }

    /// An event has arrived for it.
    fn arrive(&mut self, number: u64) -> Option<&'static str> {
        self.expected.push_back(number);
        if self.ring < self.bound.max_events.max(1) {
            self.ring += 1;
            return None;
        }
        self.lost += 1;
        Some(match self.bound.overflow {
            Overflow::DropOldest => "stream: client lags, oldest dropped",
            _ => "stream: client lags, newest dropped",
        })
    }

    fn forget(&mut self) {
        self.expected.clear();
        self.doubtful = None;
        (self.ring, self.lost, self.told) = (0, 0, 0);
    }
}

impl World {
    /// Opens a stream, by a call of its own or in a batch with a slow member.
    pub(super) fn open_stream(&mut self, link: usize) -> Checked {
        let number = self.next();
        let source = match self.rng.chance(60) {
            true => {
                let pattern = Pattern::parse(self.rng.pick(&PATTERNS));
                Source::Topic(pattern.map_err(|why| Check::NoPanic.broken(why.as_str()))?)
            }
            false => Source::Sub(self.rng.size(0, 1)),
        };
        let stream = Stream {
            link,
            source,
            resubscribes: self.rng.chance(60),
            bound: bound(&mut self.rng),
            life: Life::Waiting,
            expected: VecDeque::new(),
            ring: 0,
            lost: 0,
            told: 0,
            given_up: None,
            read: 0,
            doubtful: None,
        };
        self.streams.insert(number, stream);
        let is_batch = self.rng.chance(25);
        self.subscribe(number, is_batch)
    }

    /// Makes the call that opens a stream.
    pub(super) fn subscribe(&mut self, number: u64, is_batch: bool) -> Checked {
        let deadline = self.rng.chance(25).then(|| self.rng.within(50, 3000));
        let Self {
            links,
            streams,
            counts,
            ..
        } = self;
        let Some(stream) = streams.get_mut(&number) else {
            return Ok(());
        };
        let client = &mut links[stream.link].ends[1];
        let deadline = deadline.map(|millis| client.told + Duration::from_millis(millis));
        stream.given_up = None;
        stream.forget();
        stream.life = Life::Over;
        let session = &mut client.session;
        let opened = match &stream.source {
            Source::Topic(_) => session.open_fed_route(TOPIC_STYLE, stream.bound),
            Source::Sub(style) => session.open_route(STYLES[*style], stream.bound),
        };
        let Ok(route) = opened else {
            counts.add("stream: call refused by the client");
            return Ok(());
        };
        let (method, params, tag) = match &stream.source {
            Source::Topic(pattern) => {
                if !client.topics.open(route.number(), pattern.clone()) {
                    counts.add("topics: two streams of one pattern");
                }
                client.routes.insert(route.number(), number);
                client.unsubscribed.retain(|other| other != pattern);
                let params = TopicMethod::Subscribe.params(std::slice::from_ref(pattern));
                (TopicMethod::Subscribe.name(), params, Tag::Topic(number))
            }
            Source::Sub(style) => {
                let method = STYLES[*style].subscribe_method().unwrap_or_default();
                let params = antiphon::OwnedJson::from_value(&[number]);
                let params = params.map_err(|why| Check::NoPanic.broken(why.to_string()))?;
                (method, params, Tag::Sub(number))
            }
        };
        let session = &mut client.session;
        let called = match is_batch {
            false => session.call(method, params.as_json(), deadline, tag).ok(),
            true => {
                let mut batch = session.batch(deadline);
                let call = batch.call::<()>(method, params.as_json(), tag);
                let call = call.ok().map(|handle| handle.call());
                let slow = batch.call::<()>("slow", &[number], Tag::Ask).is_ok();
                let is_sent = slow && batch.send().is_ok();
                if is_sent {
                    counts.add(match stream.source {
                        Source::Topic(_) => "topics: subscribed in a batch with a slow member",
                        Source::Sub(_) => "subscription: in a batch with a slow member",
                    });
                }
                call.filter(|_| is_sent)
            }
        };
        let Some(call) = called else {
            counts.add("stream: call refused by the client");
            stream.life = Life::Open(route);
            return self.close_stream(number);
        };
        stream.life = Life::Asking(route, call);
        counts.tally.streams += 1;
        if let Source::Sub(_) = stream.source {
            session.attach_route(route, call, None);
        }
        Ok(())
    }

    /// Takes the answer to the call that opens a stream.
    pub(super) fn settle_stream(&mut self, number: u64, outcome: &OwnedOutcome) -> Checked {
        let Some(stream) = self.streams.get_mut(&number) else {
            return Ok(());
        };
        let Life::Asking(route, _) = stream.life else {
            return Ok(());
        };
        stream.life = Life::Open(route);
        if let OwnedOutcome::Ok(_) = outcome {
            return Ok(());
        }
        if matches!(outcome, OwnedOutcome::Err(_)) {
            self.counts.add("stream: refused");
        }
        let is_lost = self.links[stream.link].ends[1].is_closed();
        if !is_lost {
            return self.close_stream(number);
        }
        // It ends with its connection, as an open stream does.
        Ok(())
    }

    /// Closes a stream, because its reader is gone.
    pub(super) fn close_stream(&mut self, number: u64) -> Checked {
        let Self { links, streams, .. } = self;
        let Some(stream) = streams.get_mut(&number) else {
            return Ok(());
        };
        let client = &mut links[stream.link].ends[1];
        if let Some(route) = stream.route() {
            client.session.close_route(route);
            client.routes.remove(&route.number());
            let last = client.topics.close(route.number());
            client.unsubscribed.extend(last);
        }
        if let Life::Asking(_, call) = stream.life {
            if matches!(stream.source, Source::Sub(_)) {
                self.counts
                    .add("subscription: call given up, its id comes late");
            }
            client.session.cancel(call);
        }
        stream.life = Life::Over;
        stream.forget();
        Ok(())
    }

    /// Unsubscribes where nobody reads any more.
    pub(super) fn unsubscribe(&mut self, link: usize) {
        if self.plant == Some(Plant::UnsubscribeUnsent) {
            return;
        }
        let timeout = Some(Duration::from_secs(3));
        let End {
            session,
            unsubscribed,
            told,
            ..
        } = &mut self.links[link].ends[1];
        session.unsubscribe(timeout, || Tag::Unsubscribe);
        while let Some(pattern) = unsubscribed.pop_front() {
            let method = TopicMethod::Unsubscribe;
            let params = method.params(std::slice::from_ref(&pattern));
            let deadline = timeout.map(|timeout| *told + timeout);
            let params = params.as_json();
            let called = session.call(method.name(), params, deadline, Tag::Unsubscribe);
            if let Err(SendError::Full | SendError::TooManyCalls) =
                called.map_err(|rejected| rejected.error)
            {
                unsubscribed.push_front(pattern);
                break;
            }
        }
    }

    /// The client is about to take these messages.
    pub(super) fn arrive(&mut self, link: usize, items: &[Item]) {
        let phase = self.links[link].ends[1].session.phase();
        if !phase.is_listening() {
            return;
        }
        let Self {
            links,
            streams,
            made,
            counts,
            hub,
            ..
        } = self;
        let Link {
            ends, key, given, ..
        } = &mut links[link];
        let is_answer = |item: &Item| matches!(item.kind, ItemKind::Ok);
        let has_answer = items.iter().any(is_answer);
        for item in items {
            let (ItemKind::Notification, Some(number)) = (item.kind, item.mark) else {
                continue;
            };
            if let Some(topic) = hub.published.get(&number) {
                let routes = ends[1].routes.values();
                let mut is_read = false;
                for stream in routes {
                    let Some(stream) = streams.get_mut(stream) else {
                        continue;
                    };
                    let Source::Topic(pattern) = &stream.source else {
                        continue;
                    };
                    if pattern.matches(topic) {
                        is_read = true;
                        if has_answer && matches!(stream.life, Life::Asking(..)) {
                            counts.add("topics: answer and publication in one read");
                        }
                        if let Some(lag) = stream.arrive(number) {
                            counts.add(lag);
                        }
                    }
                }
                if !is_read {
                    counts.add("topics: unsubscribe with publications in flight");
                }
            } else if let Some(event) = made.get(&number) {
                let stream = streams.get_mut(&event.stream);
                let Some(stream) = stream.filter(|stream| {
                    stream.route().is_some() && event.key == *key && stream.link == link
                }) else {
                    counts.add("subscription: unsubscribe with events in flight");
                    continue;
                };
                if has_answer && matches!(stream.life, Life::Asking(..)) {
                    counts.add("subscription: answer and event in one read");
                }
                if let Some(lag) = stream.arrive(number) {
                    counts.add(lag);
                }
            } else if STYLES.iter().any(|style| style.method() == item.method) {
                // The server has given up a stream: they leave in this order. Others are hostile.
                let Some(stream) = item
                    .mark
                    .filter(|mark| is_end(*mark))
                    .and_then(|_| given.pop_front())
                else {
                    continue;
                };
                let stream = streams.get_mut(&stream).filter(|one| one.route().is_some());
                if let Some(lag) = stream.and_then(|stream| stream.arrive(END)) {
                    counts.add(lag);
                }
            }
        }
    }

    /// The input of these messages has ended a drain: some of them may have come too late.
    pub(super) fn doubt(&mut self, link: usize, items: &[Item]) {
        let streams = self.streams.values_mut();
        for stream in streams.filter(|stream| stream.link == link) {
            let last = stream.expected.back().copied();
            let is_last = |item: &Item| item.mark.is_some() && item.mark == last;
            stream.doubtful = last.filter(|_| items.iter().any(is_last));
        }
    }

    /// Gives the publications that have come to their streams.
    pub(super) fn deliver(&mut self, link: usize) {
        let client = &mut self.links[link].ends[1];
        while let Some(diverted) = client.session.poll_diverted() {
            let Diverted::Event(_, params) = diverted else {
                continue;
            };
            let Some((topic, _)) = Publication::read(params.as_json()) else {
                continue;
            };
            let receivers = client.topics.receivers(&topic).to_vec();
            for route in receivers {
                client
                    .session
                    .feed_route(RouteId::of(route), params.clone());
            }
        }
        while client.session.poll_ready_route().is_some() {}
    }

    /// Reads a stream once. Returns whether there was something.
    pub(super) fn read_stream(&mut self, number: u64) -> Result<bool, Broken> {
        let routes: Vec<RouteId> = self.streams.values().filter_map(Stream::route).collect();
        let Self {
            links,
            streams,
            counts,
            ..
        } = self;
        let Some(stream) = streams.get_mut(&number) else {
            return Ok(false);
        };
        let (Some(route), Life::Open(_)) = (stream.route(), stream.life) else {
            return Ok(false);
        };
        let session = &mut links[stream.link].ends[1].session;
        let is_mixed = self.plant == Some(Plant::StreamsMixed) && routes.len() > 1;
        let read = match is_mixed {
            true => routes[0],
            false => route,
        };
        match session.poll_route(read) {
            Some(Routed::Event(event)) => {
                let event = number_in(event.as_json());
                let next = stream.expected.pop_front();
                Check::OwnStreamOnly.that(event.is_some() && event == next, || {
                    format!("{event:?} is read from {number}, not {next:?} of {stream:?}")
                })?;
                stream.ring = stream.ring.saturating_sub(1);
                stream.read += 1;
                counts.tally.events += 1;
                Ok(true)
            }
            Some(Routed::Lost(events)) => {
                if self.plant == Some(Plant::LossForgotten) {
                    return Ok(true);
                }
                stream.told += events;
                let is_right = stream.told <= stream.lost && stream.expected.len() as u64 >= events;
                Check::LossTold.that(is_right, || format!("{events} lost: {stream:?}"))?;
                stream.expected.drain(..events as usize);
                stream.read += events;
                counts.tally.lost += events;
                Ok(true)
            }
            Some(Routed::GivenUp(why)) => {
                let is_in_order = Style::is_completed(why.as_json());
                let is_right = stream.given_up == Some(is_in_order)
                    && stream.expected.pop_front() == Some(END);
                Check::StreamEndsRightly.that(is_right, || {
                    format!("{} ends {number}: {stream:?}", why.as_str())
                })?;
                self.check_all_read(number)?;
                self.close_stream(number)?;
                Ok(true)
            }
            None => {
                let is_over = !session.is_route_open(route);
                let is_invented = self.plant == Some(Plant::EndInvented) && stream.read > 3;
                if is_mixed {
                    return Ok(false);
                }
                self.check_all_read(number)?;
                if is_over || is_invented {
                    self.end_stream(number)?;
                }
                Ok(is_over)
            }
            _ => Ok(false),
        }
    }

    /// Nothing is left to be read or told.
    fn check_all_read(&self, number: u64) -> Checked {
        let stream = &self.streams[&number];
        let is_doubtful = stream.expected.len() == 1
            && stream.expected.back() == stream.doubtful.as_ref()
            && stream.told + 1 >= stream.lost;
        let is_all = is_doubtful || stream.expected.is_empty() && stream.told == stream.lost;
        let check = match self.plant {
            Some(Plant::LossForgotten) => Check::LossTold,
            _ => Check::OwnStreamOnly,
        };
        check.that(is_all, || format!("{number} has nothing: {stream:?}"))
    }

    /// A stream has ended with its connection: it is opened again, or its reader is told.
    fn end_stream(&mut self, number: u64) -> Checked {
        let Self { links, streams, .. } = self;
        let Some(stream) = streams.get_mut(&number) else {
            return Ok(());
        };
        let client = &mut links[stream.link].ends[1];
        let phase = client.session.phase();
        let is_lost = phase.closed().is_some() || phase == Phase::Draining;
        let is_right = is_lost || stream.given_up.is_some();
        Check::StreamEndsRightly.that(is_right, || {
            format!("{number} ends in {phase:?}: {stream:?}")
        })?;
        let again = stream.resubscribes && stream.given_up.is_none();
        self.close_stream(number)?;
        if let Some(stream) = self.streams.get_mut(&number).filter(|_| again) {
            stream.life = Life::Waiting;
        } else {
            self.counts.add("stream: ends with its connection");
        }
        Ok(())
    }
}

/// Whether a number is the code by which the server gives a stream up.
fn is_end(number: u64) -> bool {
    number == 32_000 || number == 32_001
}
