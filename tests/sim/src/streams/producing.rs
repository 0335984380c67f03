//! What produces flows: pulls come, items are made and sent, in any order.

use antiphon::flow::{FlowId, Handled, Pull};
use antiphon::session::Ticket;
use antiphon::{CallId, Json, OwnedError, OwnedOutcome, RequestKey};

use super::checks::{Broken, Check, Checked};
use super::end::End;
use super::flowing::Held;
use super::plant::Plant;
use super::world::World;

impl World {
    /// Takes the outcome of the call for a pull.
    pub(super) fn settle_pull(
        &mut self,
        link: usize,
        at: usize,
        call: CallId,
        mut pull: Pull,
        outcome: OwnedOutcome,
    ) -> Checked {
        let flows = &mut self.links[link].ends[at].flows;
        flows.pulls.remove(&call);
        if self.plant == Some(Plant::ItemsByAnswer) {
            let is_same = |one: &Pull| one.consumer() == pull.consumer();
            if let Some(place) = flows.sent.iter().position(is_same) {
                pull = flows.sent.remove(place);
            }
        }
        flows.consumers.handle_answer(pull, outcome);
        flows.check()
    }

    /// Serves a pull or a cancel of a flow. Any other request comes back.
    pub(super) fn serve_pull(
        &mut self,
        link: usize,
        at: usize,
        method: &str,
        params: Option<Json<'_>>,
        ticket: Ticket,
    ) -> Result<Option<Ticket>, Broken> {
        let Self { links, counts, .. } = self;
        let flows = &mut links[link].ends[at].flows;
        let known = flows.number_of(params);
        let is_full = flows.waiting() >= flows.config.max_pulls;
        let handled = match flows.producers.handle_request(method, params, ticket) {
            Err(ticket) => return Ok(Some(ticket)),
            Ok(handled) => handled,
        };
        match handled {
            Handled::Pulled(flow) => {
                let is_right = known.is_some_and(|(id, _)| id == flow.number()) && !is_full;
                Check::LimitsHeld.that(is_right, || format!("{flow} pulled, not {known:?}"))?;
            }
            Handled::Cancelled(flow) => {
                Check::FlowIsolated
                    .that(known.is_some_and(|(id, _)| id == flow.number()), || {
                        format!("{flow} cancelled, not {known:?}")
                    })?;
                flows.producing.remove(&flow);
            }
            Handled::Answered => {
                if let Some((_, number)) = known {
                    let is_open = flows.producing.values().any(|open| *open == number);
                    if is_open && is_full {
                        counts.add("flow: limit of pulls");
                        self.flows.entry(number).or_default().is_refused = true;
                    }
                }
            }
        }
        self.links[link].ends[at].flows.check()?;
        self.answer_flows(link, at);
        Ok(None)
    }

    /// The peer has cancelled a pull as a request.
    pub(super) fn cancel_pull(&mut self, link: usize, at: usize, key: RequestKey) {
        let flows = &mut self.links[link].ends[at].flows;
        flows.producers.cancel_pull(|pull| pull.key() == key);
        self.answer_flows(link, at);
    }

    pub(super) fn answer_flows(&mut self, link: usize, at: usize) {
        let End { flows, session, .. } = &mut self.links[link].ends[at];
        while let Some(answer) = flows.producers.poll_answer() {
            // If the connection has ended, no answer is awaited.
            let _ = match answer.reply {
                Ok(()) => session.respond(answer.to, ()),
                Err(error) => session.respond_err(answer.to, &error.as_error()),
            };
        }
    }

    /// Makes an item, or ends a flow that has all of its items. Returns whether it did anything.
    pub(super) fn make_item(&mut self, link: usize, at: usize) -> Result<bool, Broken> {
        let end = &mut self.links[link].ends[at];
        let flows = &mut end.flows;
        let is_full = end.session.is_full();
        let all: Vec<(FlowId, u64)> = flows.producing.iter().map(|(f, n)| (*f, *n)).collect();
        let is_stuck = self.plant == Some(Plant::ProducerStuck) && self.is_healed;
        let ready = all.into_iter().filter(|(flow, number)| {
            let record = &self.flows[number];
            let is_pulled = flows.producers.pulls_waiting(*flow) > 0 && !is_full;
            (is_pulled || record.made == record.count) && !is_stuck
        });
        let ready: Vec<(FlowId, u64)> = ready.collect();
        if ready.is_empty() {
            return Ok(false);
        }
        assert!(self.plant != Some(Plant::Panics), "a producer panics");
        let (flow, number) = self.rng.pick(&ready);
        let record = self.flows.entry(number).or_default();
        let is_early = self.plant == Some(Plant::EndEarly) && record.made + 1 == record.count;
        flows.producers.handle_timeout(end.told);
        if !self.is_healed && self.rng.chance(3) {
            self.counts.add("flow: producer dropped");
            record.is_given_up = true;
            flows.producing.remove(&flow);
            flows.producers.close(flow);
        } else if record.made < record.count && !is_early {
            if let Some(ticket) = flows.producers.next_pull(flow) {
                let mut held = Held {
                    ticket,
                    number,
                    item: record.made,
                };
                record.made += 1;
                if self.plant == Some(Plant::FlowCrossed) && number % 3 == 0 {
                    held.number += 1;
                }
                flows.held.push(held);
            }
        } else {
            flows.producing.remove(&flow);
            record.is_done = true;
            if flows.held.iter().any(|held| held.number == number) {
                self.counts.add("flow: end overtakes items");
            }
            match record.fails {
                true => {
                    let error = OwnedError::new(7, "failed");
                    flows.producers.fail(flow, error);
                }
                false => flows.producers.end(flow),
            }
        }
        self.answer_flows(link, at);
        Ok(true)
    }

    /// Answers one pull that has its item, in any order. Returns whether there was one.
    pub(super) fn answer_pull(&mut self, link: usize, at: usize) -> bool {
        let End { flows, session, .. } = &mut self.links[link].ends[at];
        if flows.held.is_empty() {
            return false;
        }
        let chosen = self.rng.size(0, flows.held.len() - 1);
        let held = flows.held.remove(chosen);
        let mut earlier = flows.held[..chosen].iter();
        if earlier.any(|other| other.number == held.number) {
            self.counts.add("flow: answers out of order");
        }
        if session
            .respond(held.ticket, &[held.number, held.item])
            .is_err()
        {
            self.flows.entry(held.number).or_default().is_refused = true;
        }
        true
    }
}
