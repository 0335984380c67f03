//! The flows of an end: how they begin, who reads them and how they end, and what is known of each: the
//! oracle. The making of items is in `producing`.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Poll;
use std::time::Duration;

use antiphon::flow::{
    ConsumerId, Consumers, FlowConfig, FlowError, FlowId, OpenFlowError, Producers, PullOptions,
};
use antiphon::session::{Phase, Ticket};
use antiphon::{CallId, Instant, Json, OwnedOutcome, SendError};

use super::checks::{Broken, Check, Checked};
use super::end::{End, Tag};
use super::hub::number_in;
use super::world::World;
use crate::skim;

/// The flows of one end.
pub(super) struct Flows {
    pub(super) config: FlowConfig,
    pub(super) producers: Producers<Ticket>,
    pub(super) consumers: Consumers,
    /// What produces the flows, by their numbers in the world.
    pub(super) producing: BTreeMap<FlowId, u64>,
    /// All flows that were ever produced here: the first one has the id 1.
    pub(super) numbers: Vec<u64>,
    /// Pulls that have their item and are not answered.
    pub(super) held: Vec<Held>,
    pub(super) readers: Vec<Reader>,
    pub(super) pulls: BTreeSet<CallId>,
    /// The pulls in the order in which they were sent, for `Plant::ItemsByAnswer`.
    pub(super) sent: Vec<antiphon::flow::Pull>,
}

/// A pull that has its item.
pub(super) struct Held {
    pub(super) ticket: Ticket,
    pub(super) number: u64,
    pub(super) item: u64,
}

/// What reads a flow.
pub(super) struct Reader {
    pub(super) number: u64,
    pub(super) life: ReaderLife,
    pub(super) options: PullOptions,
    /// The request that has the flow in its params.
    pub(super) ticket: Option<Ticket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReaderLife {
    /// The id comes with the answer to a call.
    Asking,
    /// Nobody wants it any more; the id is still to come.
    Unwanted,
    Open(ConsumerId),
}

/// What is known of a flow.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) count: u64,
    pub(super) fails: bool,
    /// Items that were given to pulls, and items that were read.
    pub(super) made: u64,
    pub(super) read: u64,
    /// The producer has ended it: in order or with its error.
    pub(super) is_done: bool,
    /// It was given up on the side of its producer.
    pub(super) is_given_up: bool,
    /// A pull was over a limit, or its answer could not be sent.
    pub(super) is_refused: bool,
    pub(super) has_ended: bool,
}

impl Flows {
    pub(super) fn new(config: FlowConfig) -> Self {
        Self {
            config,
            producers: Producers::new(config),
            consumers: Consumers::new(config),
            producing: BTreeMap::new(),
            numbers: Vec::new(),
            held: Vec::new(),
            readers: Vec::new(),
            pulls: BTreeSet::new(),
            sent: Vec::new(),
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let due = [self.producers.poll_timeout(), self.consumers.poll_timeout()];
        due.into_iter().flatten().min()
    }

    /// Whether no flow is left, and no pull is open.
    pub(super) fn is_at_rest(&self) -> bool {
        self.readers.is_empty()
            && self.held.is_empty()
            && self.producing.is_empty()
            && self.consumers.flows_open() == 0
            && self.consumers.pulls_open() == 0
    }

    /// Opens a flow that is produced here.
    fn produce(&mut self, number: u64, now: Instant) -> Option<FlowId> {
        self.producers.handle_timeout(now);
        let flow = self.producers.open().ok()?;
        self.producing.insert(flow, number);
        self.numbers.push(number);
        Some(flow)
    }

    /// The flow of a pull or a cancel, by the second account.
    pub(super) fn number_of(&self, params: Option<Json<'_>>) -> Option<(u64, u64)> {
        let id = number_in(params?)?;
        let at = usize::try_from(id).ok()?.checked_sub(1)?;
        Some((id, *self.numbers.get(at)?))
    }

    pub(super) fn check(&self) -> Checked {
        let (config, consumers) = (&self.config, &self.consumers);
        let most = config.max_pulls.max(config.max_flows);
        let is_held = self.producers.flows_open() <= config.max_flows
            && consumers.flows_open() <= config.max_flows
            && consumers.pulls_open() <= most
            && self.waiting() <= config.max_pulls;
        Check::LimitsHeld.that(is_held, || {
            format!("{consumers:?}, {} wait", self.waiting())
        })
    }

    /// A flow was refused: there are as many as may be.
    fn is_at_limit(&self, open: usize) -> Checked {
        Check::LimitsHeld.that(open == self.config.max_flows, || {
            format!("a flow is refused, and {open} are open")
        })
    }

    /// How many pulls of the peer wait.
    pub(super) fn waiting(&self) -> usize {
        let flows = self.producing.keys();
        flows.map(|flow| self.producers.pulls_waiting(*flow)).sum()
    }
}

impl World {
    /// Asks the peer for a flow.
    pub(super) fn open_flow(&mut self, link: usize, at: usize) -> Checked {
        let number = self.next();
        let (count, fails) = (self.rng.below(12), self.rng.chance(25));
        let options = self.pull_options();
        let end = &mut self.links[link].ends[at];
        let params = [number, count, u64::from(fails)];
        let called = end.session.call("flow", &params, None, Tag::Flow(number));
        if called.is_err() {
            return Ok(());
        }
        end.flows.readers.push(Reader {
            number,
            life: ReaderLife::Asking,
            options,
            ticket: None,
        });
        let flow = Flow {
            count,
            fails,
            ..Flow::default()
        };
        self.flows.insert(number, flow);
        Ok(())
    }

    fn pull_options(&mut self) -> PullOptions {
        let mut options = PullOptions::default();
        options.window = self.rng.pick(&[1, 1, 2, 4, 8]);
        options.pull_timeout = self
            .rng
            .chance(20)
            .then(|| Duration::from_millis(self.rng.within(100, 6000)));
        options
    }

    /// Passes a flow of its own to the peer, as an argument of a call.
    pub(super) fn pass_flow(&mut self, link: usize, at: usize) -> Checked {
        let number = self.next();
        let (count, fails) = (self.rng.below(12), self.rng.chance(25));
        let deadline = self.rng.chance(30).then(|| self.rng.within(100, 4000));
        let Self { links, counts, .. } = self;
        let End {
            flows,
            session,
            told,
            ..
        } = &mut links[link].ends[at];
        if session.phase() != Phase::Open {
            return Ok(());
        }
        let Some(flow) = flows.produce(number, *told) else {
            counts.add("flow: limit of the producer");
            return flows.is_at_limit(flows.producers.flows_open());
        };
        counts.add("flow: argument of a call");
        counts.tally.flows += 1;
        let record = Flow {
            count,
            fails,
            ..Flow::default()
        };
        self.flows.insert(number, record);
        let deadline = deadline.map(|millis| *told + Duration::from_millis(millis));
        let params = [number, flow.number()];
        match session.call("sum", &params, deadline, Tag::Pass) {
            Ok(call) => flows.producers.attach(flow, call),
            Err(_) => {
                flows.producers.close(flow);
                flows.producing.remove(&flow);
            }
        }
        Ok(())
    }

    /// Serves a request that opens a flow, or has one in its params.
    pub(super) fn serve_flow(
        &mut self,
        link: usize,
        at: usize,
        is_asked: bool,
        params: &[u64],
        ticket: Ticket,
    ) -> Checked {
        let Self { links, counts, .. } = self;
        let End {
            flows,
            session,
            told,
            ..
        } = &mut links[link].ends[at];
        let (Some(number), Some(second)) = (params.first(), params.get(1)) else {
            session.abandon(ticket);
            return Ok(());
        };
        if is_asked {
            match flows.produce(*number, *told) {
                Some(flow) => {
                    counts.add("flow: result of a call");
                    counts.tally.flows += 1;
                    if session.respond(ticket, &flow).is_err() {
                        flows.producing.remove(&flow);
                        flows.producers.close(flow);
                    }
                }
                None => {
                    counts.add("flow: limit of the producer");
                    session.refuse(ticket);
                    flows.is_at_limit(flows.producers.flows_open())?;
                }
            }
            return flows.check();
        }
        let id = antiphon::OwnedJson::from_value(second)
            .map_err(|why| Check::NoPanic.broken(why.to_string()))?;
        let opened = flows.consumers.open(id.as_json());
        let options = self.pull_options();
        let End { flows, session, .. } = &mut self.links[link].ends[at];
        match opened {
            Ok(consumer) => {
                flows.consumers.set_options(consumer, options);
                flows.readers.push(Reader {
                    number: *number,
                    life: ReaderLife::Open(consumer),
                    options,
                    ticket: Some(ticket),
                });
            }
            Err(why) => {
                self.counts.add("flow: limit of the consumer");
                session.refuse(ticket);
                if why == OpenFlowError::TooManyFlows {
                    flows.is_at_limit(flows.consumers.flows_open())?;
                }
            }
        }
        flows.check()
    }

    /// Takes the answer to the call for a flow.
    pub(super) fn settle_flow(
        &mut self,
        link: usize,
        at: usize,
        number: u64,
        outcome: &OwnedOutcome,
    ) -> Checked {
        let Self { links, counts, .. } = self;
        let flows = &mut links[link].ends[at].flows;
        let Some(place) = flows.readers.iter().position(|one| one.number == number) else {
            return Ok(());
        };
        let OwnedOutcome::Ok(id) = outcome else {
            flows.readers.swap_remove(place);
            return Ok(());
        };
        let reader = &mut flows.readers[place];
        if reader.life == ReaderLife::Unwanted {
            counts.add("flow: late id declined");
            flows.consumers.decline(id.as_json());
            flows.readers.swap_remove(place);
            return Ok(());
        }
        match flows.consumers.open(id.as_json()) {
            Ok(consumer) => {
                if reader.options.window > 1 {
                    counts.add("flow: window of several");
                }
                flows.consumers.set_options(consumer, reader.options);
                reader.life = ReaderLife::Open(consumer);
            }
            Err(why) => {
                let is_right = matches!(
                    why,
                    OpenFlowError::TooManyFlows | OpenFlowError::Disconnected
                );
                Check::FlowIsolated.that(is_right, || format!("{number}: {why}"))?;
                if why == OpenFlowError::TooManyFlows {
                    counts.add("flow: limit of the consumer");
                    flows.is_at_limit(flows.consumers.flows_open())?;
                }
                flows.readers.swap_remove(place);
            }
        }
        flows.check()
    }

    /// The call that has a flow in its params has ended.
    pub(super) fn end_passed(&mut self, link: usize, at: usize, call: CallId) {
        let flows = &mut self.links[link].ends[at].flows;
        for flow in flows.producers.handle_call_end(call) {
            self.counts.add("flow: ended with the call that has it");
            if let Some(number) = flows.producing.remove(&flow) {
                self.flows.entry(number).or_default().is_given_up = true;
            } else if let Some(number) = flows.numbers.get(flow.number() as usize - 1) {
                self.flows.entry(*number).or_default().is_given_up = true;
            }
        }
        self.answer_flows(link, at);
    }

    /// Makes the calls of the consumers, and gives up what is late. Returns whether it did anything.
    pub(super) fn move_flows(&mut self, link: usize, at: usize) -> Result<bool, Broken> {
        let Self { links, counts, .. } = self;
        let End {
            flows,
            session,
            told,
            ..
        } = &mut links[link].ends[at];
        let mut has_moved = false;
        flows.producers.handle_timeout(*told);
        flows.consumers.handle_timeout(*told);
        while let Some(flow) = flows.producers.poll_idle() {
            counts.add("flow: idle, given up");
            flows.producing.remove(&flow);
            let number = flows.numbers[flow.number() as usize - 1];
            self.flows.entry(number).or_default().is_given_up = true;
            has_moved = true;
        }
        while let Some(request) = flows.consumers.poll_request() {
            let tag = request.pull.map_or(Tag::Unsubscribe, Tag::Pull);
            let name = flows.consumers.name(request.method);
            let called = session.call(name, request.params.as_json(), None, tag);
            match called.map_err(|rejected| rejected.error) {
                Ok(call) => {
                    has_moved = true;
                    if let Some(pull) = request.pull {
                        flows.pulls.insert(call);
                        flows.sent.push(pull);
                    }
                }
                Err(SendError::Full | SendError::TooManyCalls) => {
                    flows.consumers.put_back(request);
                    break;
                }
                Err(_) => {
                    if let Some(pull) = request.pull {
                        let number = flows.reader_of(pull.consumer());
                        if let Some(number) = number {
                            self.flows.entry(number).or_default().is_refused = true;
                        }
                        flows.consumers.handle_answer(pull, OwnedOutcome::Unsent);
                    }
                }
            }
        }
        while flows.consumers.poll_ready().is_some() {}
        self.links[link].ends[at].flows.check()?;
        self.answer_flows(link, at);
        Ok(has_moved)
    }

    /// Ends all flows of an end whose connection has ended or drains.
    pub(super) fn end_flows(&mut self, link: usize, at: usize) {
        let Self { links, counts, .. } = self;
        let End { flows, session, .. } = &mut links[link].ends[at];
        let phase = session.phase();
        if phase.closed().is_none() && phase != Phase::Draining {
            return;
        }
        for flow in flows.producers.close_all() {
            if phase == Phase::Draining {
                counts.add("flow: ended by a drain");
            }
            let number = flows.numbers[flow.number() as usize - 1];
            self.flows.entry(number).or_default().is_given_up = true;
        }
        flows.producing.clear();
        flows.consumers.handle_closed();
        for call in std::mem::take(&mut flows.pulls) {
            // It has no reader any more.
            let _ = session.cancel(call);
        }
        if phase.closed().is_some() {
            flows.held.clear();
        }
        self.answer_flows(link, at);
    }

    /// Reads a flow. Returns whether there was something.
    pub(super) fn read_item(
        &mut self,
        link: usize,
        at: usize,
        reader: usize,
    ) -> Result<bool, Broken> {
        let Self { links, counts, .. } = self;
        let End {
            flows,
            session,
            told,
            ..
        } = &mut links[link].ends[at];
        let (number, options) = (flows.readers[reader].number, flows.readers[reader].options);
        let ReaderLife::Open(consumer) = flows.readers[reader].life else {
            return Ok(false);
        };
        flows.consumers.handle_timeout(*told);
        let Poll::Ready(next) = flows.consumers.poll_item(consumer) else {
            return Ok(false);
        };
        let record = self.flows.entry(number).or_default();
        Check::FlowEndsRightly.that(!record.has_ended, || format!("{number} after its end"))?;
        if let Some(Ok(item)) = next {
            let item = skim::elements(item.as_str().as_bytes()).unwrap_or_default();
            let item: Vec<u64> = item.into_iter().filter_map(skim::mark).collect();
            Check::FlowIsolated.that(item.first() == Some(&number), || {
                format!("{item:?} is read from {number}")
            })?;
            Check::ItemOrder.that(item.get(1) == Some(&record.read), || {
                format!("{item:?} is read, not {} of {number}", record.read)
            })?;
            record.read += 1;
            counts.tally.items += 1;
            return Ok(true);
        }
        record.has_ended = true;
        let is_whole = record.is_done && record.read == record.count;
        // A pull cannot be sent after a failed write either.
        let is_closed = session.phase() != Phase::Open;
        let (name, is_right) = match &next {
            None => ("flow: completed", is_whole && !record.fails),
            Some(Err(FlowError::Failed(error))) => {
                let is_own = is_whole && record.fails && error.code() == 7;
                let is_given_up = record.is_given_up || record.is_refused;
                ("flow: failed by its producer", is_own || is_given_up)
            }
            Some(Err(FlowError::TimedOut)) => ("flow: timed out", options.pull_timeout.is_some()),
            Some(Err(FlowError::Disconnected)) => (
                "flow: lost with its connection",
                is_closed || record.is_refused,
            ),
            _ => ("flow: completed", false),
        };
        Check::FlowEndsRightly.that(is_right, || format!("{next:?}: {record:?}"))?;
        counts.add(name);
        Check::FlowEndsRightly.that(
            flows.consumers.poll_item(consumer) == Poll::Ready(None),
            || format!("{number} goes on after its end"),
        )?;
        self.finish_reader(link, at, reader);
        Ok(true)
    }

    /// Drops the reader of a flow before its end.
    pub(super) fn drop_reader(&mut self, link: usize, at: usize, reader: usize) -> Checked {
        let Self { links, counts, .. } = self;
        let flows = &mut links[link].ends[at].flows;
        let ReaderLife::Open(consumer) = flows.readers[reader].life else {
            flows.readers[reader].life = ReaderLife::Unwanted;
            return Ok(());
        };
        let before = flows.consumers.pulls_open();
        counts.add("flow: consumer dropped before its end");
        if before > 0 && flows.readers[reader].options.window > 1 {
            counts.add("flow: cancelled in mid-window");
        }
        flows.consumers.cancel(consumer);
        self.finish_reader(link, at, reader);
        Ok(())
    }

    fn finish_reader(&mut self, link: usize, at: usize, reader: usize) {
        let End { flows, session, .. } = &mut self.links[link].ends[at];
        let reader = flows.readers.swap_remove(reader);
        if let Some(ticket) = reader.ticket {
            // If the connection has ended, no answer is awaited.
            let _ = session.respond(ticket, &[reader.number]);
        }
    }
}

impl Flows {
    fn reader_of(&self, consumer: ConsumerId) -> Option<u64> {
        let is_it = |reader: &&Reader| reader.life == ReaderLife::Open(consumer);
        self.readers.iter().find(is_it).map(|reader| reader.number)
    }
}
