//! The flows of the peer that this end consumes.
//!
//! ```text
//!   open ──▶ pulling ── the end is known ──▶ its items are read ── poll_item returns the end ──▶ (removed)
//!               │ cancel                                                    pulls still open?
//!               ▼                                                                  ▼
//!            cancelFlow ──────────────────────────────────────────▶ given up, until the last is answered
//! ```

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::task::Poll;
use core::time::Duration;

use super::config::{FlowConfig, FlowMethod, is_flow_id, write_params};
use super::window::{FlowError, Slot, Window, is_over_at_peer};
use crate::id::Id;
use crate::json::{Json, OwnedJson};
use crate::owned::OwnedOutcome;
use crate::time::Instant;

/// The flows of the peer that one end of a connection consumes.
///
/// A reader asks for items by [`poll_item`](Self::poll_item), which also decides what is to be pulled.
/// [`poll_request`](Self::poll_request) returns the calls to make, without a timeout; their answers go to
/// [`handle_answer`](Self::handle_answer). A consumer pulls nothing before it is asked, and no more than
/// its window.
///
/// ```
/// use antiphon::flow::{Consumers, FlowConfig};
/// use antiphon::{Json, OwnedOutcome};
/// use core::task::Poll;
///
/// let mut consumers = Consumers::new(FlowConfig::new());
/// let numbers = consumers.open(Json::parse_str("7")?)?; // The result of a call.
/// assert_eq!(consumers.poll_item(numbers), Poll::Pending);
///
/// let request = consumers.poll_request().unwrap();
/// assert_eq!(consumers.name(request.method), "kotlinx.rpc.jsonrpc.internal.nextFlowValue");
/// assert_eq!(request.params.as_str(), "[7]");
///
/// // The answer comes.
/// let item = Json::parse_str("1.50")?.to_owned_json();
/// consumers.handle_answer(request.pull.unwrap(), OwnedOutcome::Ok(item.clone()));
/// assert_eq!(consumers.poll_item(numbers), Poll::Ready(Some(Ok(item))));
///
/// // The reader wants no more.
/// consumers.cancel(numbers);
/// let request = consumers.poll_request().unwrap();
/// assert_eq!(consumers.name(request.method), "kotlinx.rpc.jsonrpc.internal.cancelFlow");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Consumers {
    config: FlowConfig,
    /// The names of the two methods.
    next: String,
    cancel: String,
    flows: BTreeMap<ConsumerId, Consumer>,
    /// How many pulls are open of each flow that has no reader any more. They count as flows, so a peer
    /// that answers no pull does not make this end hold more and more of them.
    given_up: BTreeMap<ConsumerId, usize>,
    /// The calls that were not made yet.
    requests: VecDeque<FlowRequest>,
    /// The flows that have become readable since they were returned last.
    ready: BTreeSet<ConsumerId>,
    /// How many pulls are open, of all flows.
    open_pulls: usize,
    opened: u64,
    is_closed: bool,
    now: Instant,
}

#[derive(Debug)]
pub(super) struct Consumer {
    id: OwnedJson,
    window: Window,
    pull_timeout: Option<Duration>,
    /// When the last answer came, or when a pull was made while none was open.
    since: Instant,
}

/// The number of a consumer on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(u64);

/// One pull of one consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pull {
    consumer: ConsumerId,
    number: u64,
}

impl Pull {
    /// The consumer that has made it.
    pub const fn consumer(&self) -> ConsumerId {
        self.consumer
    }
}

/// A call that the program makes, each as a message of its own: a batch of pulls is answered as a whole, so
/// its first item would wait for its last.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRequest {
    /// The method; [`Consumers::name`] has its name.
    pub method: FlowMethod,
    /// The params: the id of the flow, as the peer has written it.
    pub params: OwnedJson,
    /// What the answer is passed on with. `None` for the answer to a cancel, in which nothing is of
    /// interest. Pulls have no timeout of a call; a cancel has.
    pub pull: Option<Pull>,
}

impl FlowRequest {
    fn cancel(id: &OwnedJson) -> Self {
        Self {
            method: FlowMethod::Cancel,
            params: write_params(id),
            pull: None,
        }
    }
}

/// How a consumer pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PullOptions {
    /// How many items may be on their way, or wait for the reader, together. Default 1: the next item is
    /// pulled when the reader asks for it. 0 counts as 1, and more than [`FlowConfig::max_pulls`] as that. A
    /// larger window saves round trips, and may have pulled items that nobody reads. Each flow may hold so
    /// many items, each of the size of a message.
    pub window: usize,
    /// How long no answer may come while a pull is open. Then the flow ends with
    /// [`FlowError::TimedOut`]. Default `None`: a producer may wait as long as it likes for its next item.
    pub pull_timeout: Option<Duration>,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            window: 1,
            pull_timeout: None,
        }
    }
}

/// Why a flow was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenFlowError {
    /// The value is no integer, so it is not the id of a flow.
    NoFlowId,
    /// As many flows are open as [`FlowConfig::max_flows`] allows. The peer's flow is cancelled.
    TooManyFlows,
    /// The flow has a consumer already.
    InUse,
    /// The connection has ended.
    Disconnected,
}

impl fmt::Display for OpenFlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFlowId => "the value is no id of a flow",
            Self::TooManyFlows => "too many flows are open",
            Self::InUse => "the flow has a consumer already",
            Self::Disconnected => "the connection has ended",
        })
    }
}

impl core::error::Error for OpenFlowError {}

impl Consumers {
    /// Makes the consumers of a connection, none at first.
    pub fn new(config: FlowConfig) -> Self {
        Self {
            next: config.name(FlowMethod::Next),
            cancel: config.name(FlowMethod::Cancel),
            config,
            flows: BTreeMap::new(),
            given_up: BTreeMap::new(),
            requests: VecDeque::new(),
            ready: BTreeSet::new(),
            open_pulls: 0,
            opened: 0,
            is_closed: false,
            now: Instant::ZERO,
        }
    }

    /// Opens a consumer of the flow with this id, which came as the result of a call or in the params of
    /// a request. Nothing is sent before the first [`poll_item`](Self::poll_item).
    ///
    /// # Errors
    /// The value is no id, the limit is reached, the flow has a consumer, or the connection has ended.
    pub fn open(&mut self, id: Json<'_>) -> Result<ConsumerId, OpenFlowError> {
        if !is_flow_id(&id) {
            return Err(OpenFlowError::NoFlowId);
        }
        if self.is_closed {
            return Err(OpenFlowError::Disconnected);
        }
        if self.is_consumed(id) {
            return Err(OpenFlowError::InUse);
        }
        if self.flows.len() + self.given_up.len() >= self.config.max_flows {
            self.decline(id);
            return Err(OpenFlowError::TooManyFlows);
        }
        let consumer = ConsumerId(self.opened);
        self.opened += 1;
        let opened = Consumer {
            id: id.to_owned_json(),
            window: Window::new(),
            pull_timeout: None,
            since: self.now,
        };
        self.flows.insert(consumer, opened);
        Ok(consumer)
    }

    /// Cancels a flow that nobody wants: its id has come as the result of a call that was given up.
    pub fn decline(&mut self, id: Json<'_>) {
        if is_flow_id(&id) && !self.is_closed && !self.is_consumed(id) {
            self.requests
                .push_back(FlowRequest::cancel(&id.to_owned_json()));
        }
    }

    fn is_consumed(&self, id: Json<'_>) -> bool {
        let mut others = self.flows.values().map(|flow| flow.id.as_json());
        others.any(|other| Id::of_scalar(other) == Id::of_scalar(id))
    }

    /// Sets how a consumer pulls, at any time.
    pub fn set_options(&mut self, consumer: ConsumerId, options: PullOptions) {
        if let Some(flow) = self.flows.get_mut(&consumer) {
            flow.window.size = options.window.min(self.config.max_pulls);
            flow.pull_timeout = options.pull_timeout;
        }
    }

    /// Returns the next item of a flow; `Ready(None)` if it has ended in order, or its end was returned
    /// before. `Pending` means that an answer is awaited: the program makes the calls that
    /// [`poll_request`](Self::poll_request) returns, and asks again when
    /// [`poll_ready`](Self::poll_ready) has returned this consumer.
    pub fn poll_item(
        &mut self,
        consumer: ConsumerId,
    ) -> Poll<Option<Result<OwnedJson, FlowError>>> {
        self.pull(consumer);
        let Some(flow) = self.flows.get_mut(&consumer) else {
            return Poll::Ready(None);
        };
        match flow.window.pop() {
            None | Some(Slot::Open) => Poll::Pending,
            Some(Slot::Item(item)) => Poll::Ready(Some(Ok(item))),
            Some(Slot::End(end)) => {
                self.remove(consumer);
                Poll::Ready(end.err().map(Err))
            }
        }
    }

    /// Fills the window of a flow with pulls.
    ///
    /// One pull of each flow is always allowed, so no flow waits for another one. What is left of the most
    /// open pulls then goes to the flows that ask first.
    fn pull(&mut self, consumer: ConsumerId) {
        let Some(flow) = self.flows.get_mut(&consumer) else {
            return;
        };
        let shared = self.config.max_pulls.saturating_sub(self.config.max_flows);
        while flow.window.open() == 0 || self.open_pulls < shared {
            let was_quiet = flow.window.open() == 0;
            let Some(number) = flow.window.pull() else {
                return;
            };
            if was_quiet {
                flow.since = self.now;
            }
            self.open_pulls += 1;
            self.requests.push_back(FlowRequest {
                method: FlowMethod::Next,
                params: write_params(&flow.id),
                pull: Some(Pull { consumer, number }),
            });
        }
    }

    /// Returns the next call to make. Call it until it returns `None`, after the input that has arrived:
    /// then an item that came in time is not too late.
    pub fn poll_request(&mut self) -> Option<FlowRequest> {
        let is_late = |flow: &Consumer| flow.late_at().is_some_and(|at| at <= self.now);
        let late = self.flows.iter().filter(|(_, flow)| is_late(flow));
        let late: Vec<ConsumerId> = late.map(|(consumer, _)| *consumer).collect();
        for consumer in late {
            self.break_off(consumer, FlowError::TimedOut);
        }
        self.requests.pop_front()
    }

    /// Takes the last call back, because it could not be made now: the output is full. It is returned
    /// again.
    pub fn put_back(&mut self, request: FlowRequest) {
        self.requests.push_front(request);
    }

    /// The name of a method.
    pub fn name(&self, method: FlowMethod) -> &str {
        match method {
            FlowMethod::Next => &self.next,
            FlowMethod::Cancel => &self.cancel,
        }
    }

    /// Takes the outcome of the call for a pull. A pull that could not be sent at all, not even
    /// [later](Self::put_back), ends as [`OwnedOutcome::Unsent`].
    pub fn handle_answer(&mut self, pull: Pull, outcome: OwnedOutcome) {
        if !self.flows.contains_key(&pull.consumer) {
            return self.settle_given_up(pull.consumer);
        }
        self.open_pulls = self.open_pulls.saturating_sub(1);
        let slot = match outcome {
            OwnedOutcome::Ok(item) => Slot::Item(item),
            OwnedOutcome::Err(error) if error.code() == self.config.completion_code => {
                Slot::End(Ok(()))
            }
            OwnedOutcome::Err(error) => Slot::End(Err(FlowError::Failed(error))),
            OwnedOutcome::Invalid(invalid) => Slot::End(Err(FlowError::Invalid(invalid))),
            OwnedOutcome::TimedOut => Slot::End(Err(FlowError::TimedOut)),
            OwnedOutcome::Missing | OwnedOutcome::Unsent | OwnedOutcome::Aborted => {
                Slot::End(Err(FlowError::Disconnected))
            }
        };
        if let Slot::End(end) = &slot {
            if !is_over_at_peer(end) {
                self.cancel_at_peer(pull.consumer);
            }
            self.unsend(pull.consumer);
        }
        if let Some(flow) = self.flows.get_mut(&pull.consumer) {
            flow.since = self.now;
            if flow.window.answer(pull.number, slot) && flow.window.is_readable() {
                self.ready.insert(pull.consumer);
            }
        }
    }

    /// Ends a flow early, because its reader wants no more. The peer is told, unless the flow has ended
    /// there. Its open pulls stay open until they are answered.
    pub fn cancel(&mut self, consumer: ConsumerId) {
        self.cancel_at_peer(consumer);
        self.remove(consumer);
    }

    /// Removes a flow that has no reader any more. Its open pulls are answered later.
    fn remove(&mut self, consumer: ConsumerId) {
        self.unsend(consumer);
        self.ready.remove(&consumer);
        let Some(flow) = self.flows.remove(&consumer) else {
            return;
        };
        if flow.window.open() > 0 && !self.is_closed {
            self.given_up.insert(consumer, flow.window.open());
        }
    }

    /// Counts a pull of a flow without a reader that is not open any more.
    fn settle_given_up(&mut self, consumer: ConsumerId) {
        let Some(open) = self.given_up.get_mut(&consumer) else {
            return;
        };
        self.open_pulls = self.open_pulls.saturating_sub(1);
        *open = open.saturating_sub(1);
        if *open == 0 {
            self.given_up.remove(&consumer);
        }
    }

    /// Takes the pulls of a flow back that were not sent yet.
    fn unsend(&mut self, consumer: ConsumerId) {
        let before = self.requests.len();
        let is_own = |pull: Pull| pull.consumer == consumer;
        self.requests
            .retain(|request| !request.pull.is_some_and(is_own));
        let unsent = before - self.requests.len();
        self.open_pulls = self.open_pulls.saturating_sub(unsent);
        if let Some(flow) = self.flows.get_mut(&consumer) {
            flow.window.take_back(unsent);
        }
    }

    /// Cancels a flow at the peer, unless it has ended.
    fn cancel_at_peer(&mut self, consumer: ConsumerId) {
        let flow = self.flows.get(&consumer);
        let Some(flow) = flow.filter(|flow| !flow.window.has_end() && !self.is_closed) else {
            return;
        };
        self.requests.push_back(FlowRequest::cancel(&flow.id));
    }

    /// Ends a flow for a reason on this side, behind the items that have come.
    fn break_off(&mut self, consumer: ConsumerId, error: FlowError) {
        self.cancel_at_peer(consumer);
        self.unsend(consumer);
        if let Some(flow) = self.flows.get_mut(&consumer) {
            flow.window.break_off(error);
            self.ready.insert(consumer);
        }
    }

    /// Returns a consumer that has become readable since it was returned last: its reader is woken.
    pub fn poll_ready(&mut self) -> Option<ConsumerId> {
        self.ready.pop_first()
    }

    /// Ends all flows with the connection. Items that have come can still be read.
    pub fn handle_closed(&mut self) {
        self.is_closed = true;
        self.requests.clear();
        self.given_up.clear();
        self.open_pulls = 0;
        let consumers: Vec<ConsumerId> = self.flows.keys().copied().collect();
        for consumer in consumers {
            self.break_off(consumer, FlowError::Disconnected);
        }
    }

    /// Tells the current time, before the other methods are called. Whether an answer is late is judged
    /// by [`poll_request`](Self::poll_request).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
    }

    /// Returns when [`poll_request`](Self::poll_request) will end a flow; `None` for never, unless
    /// something happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.flows.values().filter_map(Consumer::late_at).min()
    }

    /// How many flows count: those with a reader, and those whose pulls are still open.
    pub fn flows_open(&self) -> usize {
        self.flows.len() + self.given_up.len()
    }

    /// How many pulls are not answered.
    pub fn pulls_open(&self) -> usize {
        self.open_pulls
    }
}

impl Consumer {
    /// When the flow ends if no answer comes.
    fn late_at(&self) -> Option<Instant> {
        let timeout = self.pull_timeout?;
        self.window.awaits().then(|| self.since + timeout)
    }
}
