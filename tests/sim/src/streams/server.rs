//! What the server does: topics, subscriptions, and requests of every kind.

use antiphon::pubsub::{Publication, TopicMethod, TopicRequest};
use antiphon::session::{Report, Ticket, Work};
use antiphon::{CloseReason, ErrorObject, ErrorProfile, Json, OwnedNotification};

use super::checks::{Broken, Check, Checked};
use super::end::{End, Sub};
use super::hostile;
use super::plant::Plant;
use super::settings::{STYLES, TOPICS};
use super::wire_book::{Made, Meaning};
use super::world::{Link, World};
use crate::skim;

impl World {
    /// Serves everything that has arrived. Returns whether there was anything.
    pub(super) fn work(&mut self, link: usize, at: usize) -> Result<bool, Broken> {
        let mut has_moved = false;
        while let Some(work) = self.links[link].ends[at].session.poll_work(true) {
            has_moved = true;
            match work {
                Work::Request(message, ticket) => self.serve(link, at, &message, ticket)?,
                Work::Cancelled(key, _) => {
                    self.cancel_pull(link, at, key);
                    let End { slow, session, .. } = &mut self.links[link].ends[at];
                    if let Some(place) = slow.iter().position(|(ticket, _)| ticket.key() == key) {
                        // The connection may have ended.
                        let _ = session.respond_cancelled(slow.swap_remove(place).0);
                    }
                }
                Work::Report(Report::PublicationsDropped { .. }) => {}
                _ => {}
            }
            self.after(link)?;
        }
        Ok(has_moved)
    }

    fn serve(
        &mut self,
        link: usize,
        at: usize,
        message: &OwnedNotification,
        ticket: Ticket,
    ) -> Checked {
        let (method, params) = (message.method(), message.params());
        let session = &self.links[link].ends[at].session;
        let id = session.request_id(ticket.key());
        let id = id
            .map(|id| id.as_id().text().to_string())
            .unwrap_or_default();
        if let Some(hostile) = hostile::of_id(&id) {
            let known = self.links[link].ends[at].flows.numbers.len() as u64;
            let is_foreign =
                hostile.is_flow && params.and_then(first).is_some_and(|id| id <= known);
            if is_foreign {
                // By now the flow is one of this end, and the message is not to touch it.
                self.links[link].ends[at].session.abandon(ticket);
                return Ok(());
            }
            let code = match self.plant {
                Some(Plant::CodesConfused) => hostile.codes[at].map(|code| code - 1),
                _ => hostile.codes[at],
            };
            // A connection that ends has left the hub.
            if !self.links[link].ends[at].is_closed() {
                self.links[link].books[at].expect(id.clone(), Meaning::Hostile(code));
            }
        }
        let Some(ticket) = self.serve_pull(link, at, method, params, ticket)? else {
            return Ok(());
        };
        let numbers = params.map(numbers).unwrap_or_default();
        let topic = TopicMethod::ALL
            .into_iter()
            .find(|one| one.name() == method);
        if let Some(topic) = topic.filter(|_| at == 0) {
            return self.serve_topics(link, topic, id, params, ticket);
        }
        for (style, named) in STYLES.iter().enumerate().filter(|_| at == 0) {
            if named.subscribe_method() == Some(method) {
                return self.serve_subscribe(link, style, id, &numbers, ticket);
            }
            if named.unsubscribe_method() == Some(method) {
                return self.serve_unsubscribe(link, style, id, params, ticket);
            }
        }
        match method {
            "flow" => return self.serve_flow(link, at, true, &numbers, ticket),
            "sum" => return self.serve_flow(link, at, false, &numbers, ticket),
            _ => {}
        }
        let end = &mut self.links[link].ends[at];
        // If the connection has ended, no answer is awaited.
        let _ = match method {
            "ask" => end.session.respond(ticket, &numbers),
            "slow" => {
                let number = numbers.first().copied().unwrap_or_default();
                end.slow.push((ticket, number));
                Ok(())
            }
            _ => end.session.respond_unknown_method(ticket, method),
        };
        Ok(())
    }

    fn serve_topics(
        &mut self,
        link: usize,
        method: TopicMethod,
        id: String,
        params: Option<Json<'_>>,
        ticket: Ticket,
    ) -> Checked {
        let step = self.next();
        let Self {
            links, hub, counts, ..
        } = self;
        let Link {
            ends, books, key, ..
        } = &mut links[link];
        let (key, server) = (*key, &mut ends[0]);
        let is_hostile = hostile::of_id(&id).is_some();
        let request = match TopicRequest::parse(method, params, hub.settings()) {
            Ok(request) => request,
            Err(error) => {
                if !is_hostile {
                    Check::LimitsHeld.that(!hub.settings().wildcards, || error.to_string())?;
                    counts.add("topics: wildcards off");
                }
                let _ = server.session.respond_err(ticket, &error.as_error());
                return Ok(());
            }
        };
        let mark = server.session.answer_mark(ticket.key());
        let is_subscribe = request.is_subscribe();
        let Some(mark) = mark.filter(|_| !server.has_left) else {
            // The peer would not know of it.
            server.session.abandon(ticket);
            return Ok(());
        };
        let patterns = request.topics().to_vec();
        let waited = hub.last_waiting(key);
        let accepted = hub.accept(key, request, server.subs.len(), counts)?;
        let (answer, hold) = match accepted {
            Ok(accepted) => accepted,
            Err(why) => {
                let error = why.error(ErrorProfile::Antiphon);
                let _ = server.session.respond_err(ticket, &error);
                return Ok(());
            }
        };
        let meaning = match is_subscribe {
            true => Meaning::Subscribed(patterns.clone(), step),
            false => Meaning::Unsubscribed(patterns.clone(), step),
        };
        if !is_hostile {
            books[0].expect(id, meaning);
        }
        if is_subscribe {
            counts.add("topics: subscribed");
            server.holds.extend(hold.map(|hold| (mark, hold)));
            let states = TOPICS.iter().filter(|topic| {
                patterns.len() == 1 && patterns[0].as_str() == **topic && step % 3 == 0
            });
            for topic in states {
                counts.add("topics: state of a topic first");
                books[0].firsts.insert(step);
                hub.push_first(key, step, topic)?;
            }
            if self.plant == Some(Plant::ReleasedEarly) {
                if let Some((_, hold)) = server.holds.pop() {
                    hub.release(key, hold);
                }
            }
        } else {
            counts.add("topics: unsubscribed");
        }
        let sent = server.session.respond(ticket, answer.as_json());
        if self.plant == Some(Plant::FeedKept) && !is_subscribe && sent.is_ok() {
            if let Some((number, topic)) = waited.filter(|_| hub.waiting(key) == 0) {
                let kept = Publication::new(topic, &[number])
                    .map_err(|error| Check::NoPanic.broken(error.to_string()))?;
                let _ = server.session.notify(Publication::METHOD, kept.params());
            }
        }
        Ok(())
    }

    fn serve_subscribe(
        &mut self,
        link: usize,
        style: usize,
        id: String,
        numbers: &[u64],
        ticket: Ticket,
    ) -> Checked {
        let number = self.next();
        let Self {
            links,
            hub,
            counts,
            rng,
            ..
        } = self;
        let Link {
            ends, books, key, ..
        } = &mut links[link];
        let server = &mut ends[0];
        let mark = server.session.answer_mark(ticket.key());
        let (Some(mark), Some(stream)) = (mark, numbers.first()) else {
            server.session.abandon(ticket);
            return Ok(());
        };
        if server.subs.len() + hub.topics_of(*key) >= hub.settings().max_per_connection {
            counts.add("subscription: limit");
            server.session.refuse(ticket);
            return Ok(());
        }
        let (name, is_again) = server.new_id(style, rng);
        if is_again {
            counts.add("subscription: id used again");
        }
        books[0].expect(id, Meaning::Opened(number));
        if server.session.respond(ticket, &*name).is_ok() {
            counts.add("subscription: opened");
            server.subs.push(Sub {
                number,
                stream: *stream,
                style,
                id: name,
                mark,
                is_open: false,
            });
        }
        Ok(())
    }

    fn serve_unsubscribe(
        &mut self,
        link: usize,
        style: usize,
        id: String,
        params: Option<Json<'_>>,
        ticket: Ticket,
    ) -> Checked {
        let Link { ends, books, .. } = &mut self.links[link];
        let server = &mut ends[0];
        let named = params.and_then(|params| params.elements().next());
        let named = named.and_then(|name| name.as_string()?.to_cow());
        let is_it = |sub: &Sub| sub.style == style && Some(&*sub.id) == named.as_deref();
        let place = server.subs.iter().position(is_it);
        if let Some(place) = place {
            let sub = server.subs.swap_remove(place);
            books[0].expect(id, Meaning::Ended(sub.number));
            server.free[style].push(sub.id.clone());
            server.ghosts.push(sub);
        }
        let _ = server.session.respond(ticket, &place.is_some());
        Ok(())
    }

    /// Publishes under a topic that is drawn.
    pub(super) fn publish(&mut self, topic: &'static str) -> Checked {
        let number = self.next();
        let filler = self.rng.pick(&[0, 0, 5, 40]);
        self.hub.publish(number, topic, filler, &mut self.counts)
    }

    /// Sends an event of a subscription that is drawn.
    pub(super) fn emit(&mut self, link: usize) -> Checked {
        let server = &self.links[link].ends[0];
        let is_any = self.plant == Some(Plant::EventEarly);
        let mut subs: Vec<&Sub> = server.subs.iter().collect();
        subs.retain(|sub| sub.is_open || is_any);
        if self.plant == Some(Plant::EventLate) {
            subs.extend(&server.ghosts);
        }
        if subs.is_empty() {
            return Ok(());
        }
        let sub = self.rng.pick(&subs).clone();
        self.emit_to(link, &sub)
    }

    /// Sends an event of a subscription, if the output has space.
    pub(super) fn emit_to(&mut self, link: usize, sub: &Sub) -> Checked {
        let event = self.next();
        let params = params_of(sub, &[event])?;
        let Link { ends, key, .. } = &mut self.links[link];
        let method = STYLES[sub.style].method();
        if ends[0].session.notify(method, params.as_json()).is_ok() {
            let (key, sub, stream) = (*key, sub.number, sub.stream);
            self.made.insert(event, Made { key, sub, stream });
        }
        Ok(())
    }

    /// Ends a subscription on the side of the server, in order or not.
    pub(super) fn give_up(&mut self, link: usize) -> Checked {
        let is_in_order = self.rng.chance(50);
        let Link { ends, given, .. } = &mut self.links[link];
        let server = &mut ends[0];
        let Some(place) = server.subs.iter().position(|sub| sub.is_open) else {
            return Ok(());
        };
        let sub = &server.subs[place];
        let why = match is_in_order {
            true => ErrorObject::stream_completed(),
            false => ErrorObject::new(-32000, "gone"),
        };
        let id = antiphon::OwnedJson::from_value(&sub.id);
        let id = id.map_err(|why| Check::NoPanic.broken(why.to_string()))?;
        let params = STYLES[sub.style].end_params(id.as_json(), &why);
        let params = params.map_err(|why| Check::NoPanic.broken(why.to_string()))?;
        let method = STYLES[sub.style].method();
        if server.session.notify(method, params.as_json()).is_ok() {
            let sub = server.subs.swap_remove(place);
            given.push_back(sub.stream);
            self.counts.add(match is_in_order {
                true => "subscription: ended in order by the server",
                false => "subscription: given up by the server",
            });
            if let Some(stream) = self.streams.get_mut(&sub.stream) {
                stream.given_up = Some(is_in_order);
            }
        }
        Ok(())
    }

    /// Answers a request that had to wait.
    pub(super) fn answer_slow(&mut self, link: usize, at: usize) -> bool {
        let End { slow, session, .. } = &mut self.links[link].ends[at];
        match slow.pop() {
            Some((ticket, number)) => {
                // If the connection has ended, no answer is awaited.
                let _ = session.respond(ticket, &[number]);
                true
            }
            None => false,
        }
    }

    /// Puts what waits in the feed into the output. Returns whether there was anything.
    pub(super) fn drain_feed(&mut self, link: usize) -> Result<bool, Broken> {
        let max_bytes = self.rng.pick(&[1, 50, 100, 64 << 10]);
        let Self {
            links, hub, counts, ..
        } = self;
        let Link { ends, key, .. } = &mut links[link];
        let (key, server) = (*key, &mut ends[0]);
        if server.has_left {
            return Ok(false);
        }
        // Other output goes first. If something is being written, nothing else is put behind it.
        let may_send = server.output.is_empty();
        server.session.take_transmit(&mut server.output);
        let before = hub.waiting(key);
        if before > 0 && !server.holds.is_empty() {
            counts.add("topics: publication waits for a slow member");
            if hub.overtakes(key) {
                counts.add("topics: publication overtakes one that waits");
            }
        }
        let session = &mut server.session;
        let (plant, mut kept) = (self.plant, None);
        let (mut is_full, mut sent) = (false, 0);
        let drained = hub.drain(key, max_bytes, |publication| {
            if !may_send {
                return false;
            }
            let params = publication.params();
            if plant == Some(Plant::PublicationsSwapped) && kept.is_none() && before > 1 {
                kept = Some(params.to_owned_json());
                return true;
            }
            let mut notify = |params| session.notify(Publication::METHOD, params).is_ok();
            let is_sent = notify(params);
            if plant == Some(Plant::PublishedTwice) && is_sent {
                notify(params);
            }
            if let Some(kept) = kept.take().filter(|_| is_sent) {
                notify(kept.as_json());
            }
            is_full = !is_sent;
            sent += usize::from(is_sent);
            is_sent
        })?;
        if is_full {
            counts.add("feed: output full");
        } else if sent > 0 && hub.waiting(key) > 0 {
            counts.add("feed: drained in parts");
        }
        if let Some(publications) = drained.lost {
            let limit = "max_messages";
            server.session.report(Report::PublicationsDropped {
                limit,
                publications,
            });
        }
        if drained.has_overflowed && !server.is_closed() {
            server.session.close(CloseReason::Other("too slow"));
        }
        Ok(hub.waiting(key) < before)
    }

    /// After everything: opens the subscriptions whose answers are in the output, and lets the feed go.
    pub(super) fn open_answered(&mut self, link: usize) -> Checked {
        let is_kept = self.plant == Some(Plant::HoldKept);
        let Link { ends, key, .. } = &mut self.links[link];
        let server = &mut ends[0];
        if server.is_closed() {
            if !server.has_left {
                server.has_left = true;
                server.subs.clear();
                server.holds.clear();
                return self.hub.leave(*key);
            }
            return Ok(());
        }
        let session = &server.session;
        for sub in &mut server.subs {
            sub.is_open = sub.is_open || session.is_answered(sub.mark);
        }
        let hub = &mut self.hub;
        server.holds.retain(|(mark, hold)| {
            let is_answered = session.is_answered(*mark) && !is_kept;
            if is_answered {
                hub.release(*key, *hold);
            }
            !is_answered
        });
        Ok(())
    }
}

fn params_of(sub: &Sub, event: &[u64]) -> Result<antiphon::OwnedJson, Broken> {
    let broken = |why: antiphon::EncodeError| Check::NoPanic.broken(why.to_string());
    let id = antiphon::OwnedJson::from_value(&sub.id).map_err(broken)?;
    let style = STYLES[sub.style];
    style.params(id.as_json(), event).map_err(broken)
}

/// The numbers in an array.
fn numbers(params: Json<'_>) -> Vec<u64> {
    let elements = skim::elements(params.as_bytes()).unwrap_or_default();
    elements.into_iter().filter_map(skim::mark).collect()
}

fn first(params: Json<'_>) -> Option<u64> {
    skim::mark(params.as_bytes())
}
