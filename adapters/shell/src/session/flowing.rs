//! What the flows of a connection do in a turn, and what those who produce and consume them do.

use std::mem::take;
use std::task::{Poll, Waker};
use std::time::Duration;

use antiphon::flow::{
    ConsumerId, FlowAnswer, FlowError, FlowId, FlowRequest, Handled, OpenFlowError, Pull,
    PullOptions,
};
use antiphon::session::Phase;
use antiphon::{
    CallId, Instant, Json, OwnedError, OwnedJson, OwnedOutcome, Payload, RequestKey, SendError,
};

use super::{Session, State, Tag, Work};

impl State {
    /// Serves the requests that are for flows, without a handler and before all other work: a handler may wait for
    /// what they bring.
    pub(super) fn serve_flows(&mut self) {
        // A pull that came behind the answer to the call of its flow finds no flow.
        self.settle_all();
        while let Some((message, ticket)) = self.conn.poll_overtaking() {
            let Some(flows) = &mut self.flows else {
                return;
            };
            let (method, params) = (message.method(), message.params());
            let task = match flows.producers.handle_request(method, params, ticket) {
                Ok(Handled::Pulled(flow)) => flows.producing.get_mut(&flow).map(Option::take),
                Ok(Handled::Cancelled(flow)) => flows.producing.remove(&flow),
                // No request for another method overtakes.
                Ok(Handled::Answered) | Err(_) => None,
            };
            self.wakes.extend(task.flatten());
        }
        self.answer_flows();
    }

    /// Returns work for the service; `None` if it was the cancel of a pull.
    pub(super) fn for_service(&mut self, work: Work) -> Option<Work> {
        match &work {
            Work::Cancelled(key, _) if self.cancel_pull(*key) => {
                self.answer_flows();
                return None;
            }
            Work::Settled(settled) => self.end_flows_of(settled.call),
            _ => {}
        }
        Some(work)
    }

    fn settle_all(&mut self) {
        while let Some(settled) = self.conn.poll_settled() {
            self.settle(settled);
        }
    }

    /// Lets flows that are in the params of a call end with it.
    pub(crate) fn attach_flows(&mut self, flows: &[FlowId], call: CallId) {
        for flow in flows {
            if let Some(all) = &mut self.flows {
                all.producers.attach(*flow, call);
            }
        }
    }

    /// Ends the flows that are in the params of a call, because it has ended.
    pub(super) fn end_flows_of(&mut self, call: CallId) {
        let Some(flows) = &mut self.flows else {
            return;
        };
        for flow in flows.producers.handle_call_end(call) {
            let task = flows.producing.remove(&flow);
            self.wakes.extend(task.flatten());
        }
        self.answer_flows();
    }

    fn cancel_pull(&mut self, request: RequestKey) -> bool {
        let flows = self.flows.as_mut();
        flows.is_some_and(|flows| flows.producers.cancel_pull(|pull| pull.key() == request))
    }

    /// Sends the answers to pulls and cancels that are no items.
    fn answer_flows(&mut self) {
        let Some(flows) = &mut self.flows else {
            return;
        };
        while let Some(FlowAnswer { to, reply }) = flows.producers.poll_answer() {
            // If the connection has ended, no answer is awaited.
            let _ = match reply {
                Ok(()) => self.conn.respond(to, ()),
                Err(error) => self.conn.respond_err(to, &error.as_error()),
            };
        }
    }

    /// Takes the outcome of a call for a pull.
    pub(super) fn settle_pull(&mut self, call: CallId, pull: Pull, outcome: OwnedOutcome) {
        let Some(flows) = &mut self.flows else {
            return;
        };
        flows.pulls.remove(&call);
        flows.consumers.handle_answer(pull, outcome);
        flows.take_readers(&mut self.wakes);
        // The task makes the calls for the next pulls.
        self.rouse();
    }

    /// Makes the calls of the consumers, after the answers that have come, and gives up what is late.
    pub(super) fn move_flows(
        &mut self,
        now: Instant,
        is_drained: bool,
        cancel_timeout: Option<Duration>,
    ) {
        self.settle_all();
        let Some(flows) = &mut self.flows else {
            return;
        };
        if is_drained {
            flows.producers.handle_timeout(now);
            flows.consumers.handle_timeout(now);
            while let Some(flow) = flows.producers.poll_idle() {
                let task = flows.producing.remove(&flow);
                self.wakes.extend(task.flatten());
            }
        }
        if flows.is_held && !self.conn.is_full() {
            flows.is_held = false;
            let tasks = flows.producing.values_mut().filter_map(Option::take);
            self.wakes.extend(tasks);
        }
        while let Some(request) = flows.consumers.poll_request() {
            let FlowRequest { method, pull, .. } = request;
            let (deadline, tag) = match pull {
                Some(pull) => (None, Tag::Pull(pull)),
                None => (cancel_timeout.map(|span| now + span), Tag::Unsubscribe),
            };
            let name = flows.consumers.name(method);
            let params = request.params.as_json();
            let called = self.conn.call(name, params, deadline, tag);
            match called.map_err(|rejected| rejected.error) {
                Ok(call) => {
                    flows.pulls.extend(pull.map(|_| call));
                }
                Err(SendError::Full | SendError::TooManyCalls) => {
                    flows.consumers.put_back(request);
                    break;
                }
                Err(_) => {
                    if let Some(pull) = pull {
                        flows.consumers.handle_answer(pull, OwnedOutcome::Unsent);
                    }
                }
            }
        }
        flows.take_readers(&mut self.wakes);
        self.answer_flows();
    }

    /// When a flow is given up, if nothing happens before.
    pub(super) fn flows_due(&self) -> Option<Instant> {
        let flows = self.flows.as_ref()?;
        let due = [
            flows.producers.poll_timeout(),
            flows.consumers.poll_timeout(),
        ];
        due.into_iter().flatten().min()
    }

    /// Ends all flows, in both directions, if the connection has ended or drains: a drain waits neither for
    /// pulls of the peer nor for those of this end.
    pub(super) fn end_flows(&mut self, phase: Phase) {
        let Some(flows) = &mut self.flows else {
            return;
        };
        if phase.closed().is_none() && phase != Phase::Draining {
            return;
        }
        flows.producers.close_all();
        let tasks = take(&mut flows.producing);
        self.wakes.extend(tasks.into_values().flatten());
        flows.consumers.handle_closed();
        flows.take_readers(&mut self.wakes);
        for call in take(&mut flows.pulls) {
            // It has no reader any more.
            let _ = self.conn.cancel(call);
        }
        self.answer_flows();
    }
}

impl Session {
    /// Whether flows are on, and the connection can carry them.
    pub(crate) fn has_flows(&self) -> bool {
        self.lock().flows.is_some()
    }

    /// Opens a flow that this end produces. `None` if there are too many, or the connection ends.
    pub(crate) fn open_flow(&self) -> Option<FlowId> {
        let now = self.now();
        self.act(|state| {
            let is_closing = state.is_closing();
            let flows = state.flows.as_mut().filter(|_| !is_closing)?;
            flows.producers.handle_timeout(now);
            let flow = flows.producers.open().ok()?;
            flows.producing.insert(flow, None);
            state.rouse();
            Some(flow)
        })
    }

    /// Ready with true while a pull of a flow waits and the output has space, with false when nobody wants the
    /// flow any more. `waker` is woken when that changes.
    pub(crate) fn poll_pull(&self, flow: FlowId, waker: &Waker) -> Poll<bool> {
        // Wakers are cloned and dropped without the lock.
        let waker = waker.clone();
        let (polled, _before) = self.act(|state| {
            let is_full = state.conn.is_full();
            let Some(flows) = &mut state.flows else {
                return (Poll::Ready(false), Some(waker));
            };
            let Some(task) = flows.producing.get_mut(&flow) else {
                return (Poll::Ready(false), Some(waker));
            };
            flows.is_held |= is_full;
            let is_wanted = flows.producers.pulls_waiting(flow) > 0 && !is_full;
            let polled = match is_wanted {
                true => Poll::Ready(true),
                false => Poll::Pending,
            };
            (polled, task.replace(waker))
        });
        polled
    }

    /// Answers the oldest pull of a flow with an item. `None` if no pull waits.
    pub(crate) fn answer_pull(
        &self,
        flow: FlowId,
        item: impl Payload,
    ) -> Option<Result<(), SendError>> {
        let now = self.now();
        self.act(|state| {
            let flows = state.flows.as_mut()?;
            flows.producers.handle_timeout(now);
            let pull = flows.producers.next_pull(flow)?;
            Some(state.conn.respond(pull, item))
        })
    }

    /// Ends a flow that this end produces: in order, with an error, or, if `how` is `None`, because its producer
    /// was dropped. The error has no cause, which could not be dropped under the lock.
    pub(crate) fn end_flow(&self, flow: FlowId, how: Option<Result<(), OwnedError>>) {
        let _task = self.act(|state| {
            let flows = state.flows.as_mut()?;
            let task = flows.producing.remove(&flow)?;
            match how {
                Some(Ok(())) => flows.producers.end(flow),
                Some(Err(error)) => flows.producers.fail(flow, error),
                None => flows.producers.close(flow),
            }
            state.answer_flows();
            task
        });
    }

    /// Opens a flow of the peer, whose id was the result of a call or a param of a request.
    pub(crate) fn consume(
        &self,
        id: Json<'_>,
        options: PullOptions,
    ) -> Result<ConsumerId, OpenFlowError> {
        self.act(|state| {
            let flows = state.flows.as_mut().ok_or(OpenFlowError::Disconnected)?;
            let consumer = flows.consumers.open(id);
            if let Ok(consumer) = consumer {
                flows.consumers.set_options(consumer, options);
            }
            // If there are too many, the peer's flow is cancelled.
            state.rouse();
            consumer
        })
    }

    /// Sets how a flow of the peer is pulled from now on.
    pub(crate) fn set_pull_options(&self, consumer: ConsumerId, options: PullOptions) {
        self.act(|state| {
            let flows = state.flows.as_mut();
            flows.map(|flows| flows.consumers.set_options(consumer, options))
        });
    }

    /// Returns the next item of a flow of the peer, or has `waker` woken when there is one; `None` after the end.
    pub(crate) fn poll_item(
        &self,
        consumer: ConsumerId,
        waker: &Waker,
    ) -> Poll<Option<Result<OwnedJson, FlowError>>> {
        // Wakers are cloned and dropped without the lock.
        let (waker, now) = (waker.clone(), self.now());
        let (polled, _unused) = self.act(|state| {
            let Some(flows) = &mut state.flows else {
                return (Poll::Ready(None), Some(waker));
            };
            flows.consumers.handle_timeout(now);
            let polled = flows.consumers.poll_item(consumer);
            let unused = match polled {
                Poll::Pending => flows.readers.insert(consumer, waker),
                Poll::Ready(_) => Some(waker),
            };
            // The task makes the calls for the pulls.
            state.rouse();
            (polled, unused)
        });
        polled
    }

    /// Cancels a flow of the peer that nobody reads any more.
    pub(crate) fn leave_flow(&self, consumer: ConsumerId) {
        let _reader = self.act(|state| {
            let flows = state.flows.as_mut()?;
            flows.consumers.cancel(consumer);
            let reader = flows.readers.remove(&consumer);
            state.rouse();
            reader
        });
    }
}
