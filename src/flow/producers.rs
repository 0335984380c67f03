//! The flows that this end produces.
//!
//! ```text
//!   open ──▶ Open ── end or failure while a pull waits ──▶ (removed)
//!             │ └─── end or failure, no pull waits ──▶ Over ── the next pull is told ──▶ (removed)
//!             │                                         │
//!             └── cancelFlow, close, idle ──▶ (removed) ◀
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use super::config::{FlowConfig, FlowId, FlowMethod, read_params};
use crate::codes;
use crate::error_object::{ErrorObject, OwnedError};
use crate::id::CallId;
use crate::json::{Json, to_u64};
use crate::time::Instant;

/// The flows that one end of a connection produces, and the pulls that wait for their items.
///
/// `R` is the right to answer a request, such as [`ReplyToken`](crate::ReplyToken) or
/// [`Ticket`](crate::session::Ticket). The program produces the items: while a pull of a flow waits, it
/// makes the next item, and answers with it the request that [`next_pull`](Self::next_pull) returns. All
/// other answers come out of [`poll_answer`](Self::poll_answer), which is called after every other method
/// until it returns `None`.
///
/// ```
/// use antiphon::Json;
/// use antiphon::flow::{FlowConfig, Handled, Producers};
///
/// let config = FlowConfig::new();
/// let mut producers = Producers::new(config);
/// let flow = producers.open()?; // The result of the call that asked for the flow.
/// assert_eq!(flow.number(), 1);
///
/// // The peer pulls twice; `"a"` and `"b"` stand for the rights to answer.
/// let next = "kotlinx.rpc.jsonrpc.internal.nextFlowValue";
/// let params = Json::parse_str("[1]")?;
/// assert_eq!(producers.handle_request(next, Some(params), "a"), Ok(Handled::Pulled(flow)));
/// assert_eq!(producers.handle_request(next, Some(params), "b"), Ok(Handled::Pulled(flow)));
///
/// // There is one item, and then the flow ends.
/// assert_eq!(producers.next_pull(flow), Some("a"));
/// producers.end(flow);
/// let answer = producers.poll_answer().unwrap();
/// assert_eq!(answer.to, "b");
/// assert!(answer.reply.is_err_and(|error| error.code() == -32001));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Producers<R> {
    config: FlowConfig,
    flows: BTreeMap<FlowId, Producer<R>>,
    /// How many pulls wait, of all flows.
    waiting: usize,
    /// The flows of which the peer was told last that they ended in order. More of its pulls may be on
    /// their way, and are told too.
    completed: VecDeque<FlowId>,
    answers: VecDeque<FlowAnswer<R>>,
    /// How many flows were ever opened.
    opened: u64,
    now: Instant,
}

#[derive(Debug)]
pub(super) struct Producer<R> {
    life: Life<R>,
    /// The call that has the flow in its params.
    call: Option<CallId>,
    /// Since when no pull waits.
    quiet_since: Instant,
}

#[derive(Debug)]
pub(super) enum Life<R> {
    /// The pulls that wait, oldest first.
    Open(VecDeque<R>),
    /// The end, of which the next pull is told.
    Over(OwnedError),
}

/// An answer that the program sends.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowAnswer<R> {
    /// The right to answer the request.
    pub to: R,
    /// The result null, or an error.
    pub reply: Result<(), OwnedError>,
}

/// What a request of the peer has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// A pull more waits for an item of this flow.
    Pulled(FlowId),
    /// The consumer wants no more of this flow: what produces it can be dropped.
    Cancelled(FlowId),
    /// Nothing. The request has its answer.
    Answered,
}

/// As many flows are open as [`FlowConfig::max_flows`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyFlows;

impl fmt::Display for TooManyFlows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many flows are open")
    }
}

impl core::error::Error for TooManyFlows {}

impl<R> Producers<R> {
    /// Makes the flows of a connection, none at first.
    pub const fn new(config: FlowConfig) -> Self {
        Self {
            config,
            flows: BTreeMap::new(),
            waiting: 0,
            completed: VecDeque::new(),
            answers: VecDeque::new(),
            opened: 0,
            now: Instant::ZERO,
        }
    }

    /// Opens a flow. Its id is sent as the result of the call that asked for it, or in the params of a
    /// call; then [`attach`](Self::attach) says which.
    ///
    /// # Errors
    /// Too many flows are open. A call that asked for one is answered *busy*.
    pub fn open(&mut self) -> Result<FlowId, TooManyFlows> {
        if self.flows.len() >= self.config.max_flows {
            return Err(TooManyFlows);
        }
        self.opened += 1;
        let flow = FlowId(self.opened);
        let producer = Producer {
            life: Life::Open(VecDeque::new()),
            call: None,
            quiet_since: self.now,
        };
        self.flows.insert(flow, producer);
        Ok(flow)
    }

    /// Lets a flow end with the call that has it in its params.
    pub fn attach(&mut self, flow: FlowId, call: CallId) {
        if let Some(producer) = self.flows.get_mut(&flow) {
            producer.call = Some(call);
        }
    }

    /// Takes a request of the peer, if it is for flows.
    ///
    /// # Errors
    /// It is another method, and the right to answer comes back.
    pub fn handle_request(
        &mut self,
        method: &str,
        params: Option<Json<'_>>,
        to: R,
    ) -> Result<Handled, R> {
        match self.config.method(method) {
            Some(FlowMethod::Next) => Ok(self.pull(params, to)),
            Some(FlowMethod::Cancel) => Ok(self.cancel(params, to)),
            None => Err(to),
        }
    }

    fn pull(&mut self, params: Option<Json<'_>>, to: R) -> Handled {
        let number = read_params(params).and_then(|id| to_u64(id.as_bytes()));
        let flow = FlowId(number.unwrap_or_default());
        if self.completed.contains(&flow) {
            return self.refuse(to, self.config.completed());
        }
        let Some(producer) = self.flows.get_mut(&flow) else {
            return self.refuse(to, OwnedError::new(codes::INVALID_PARAMS, "Unknown flow"));
        };
        match &mut producer.life {
            Life::Open(pulls) if self.waiting < self.config.max_pulls => {
                pulls.push_back(to);
                self.waiting += 1;
                Handled::Pulled(flow)
            }
            Life::Open(_) => self.refuse(to, ErrorObject::server_busy().into_owned()),
            Life::Over(error) => {
                let error = error.clone();
                self.flows.remove(&flow);
                self.remember(flow, &error);
                self.refuse(to, error)
            }
        }
    }

    /// A flow that is cancelled twice, or is not known, is cancelled: the answer is null.
    fn cancel(&mut self, params: Option<Json<'_>>, to: R) -> Handled {
        let Some(id) = read_params(params) else {
            return self.refuse(to, ErrorObject::invalid_params().into_owned());
        };
        let flow = FlowId(to_u64(id.as_bytes()).unwrap_or_default());
        let was_open = self.flows.contains_key(&flow);
        self.finish(flow, self.config.completed());
        let reply = Ok(());
        self.answers.push_back(FlowAnswer { to, reply });
        match was_open {
            true => Handled::Cancelled(flow),
            false => Handled::Answered,
        }
    }

    fn refuse(&mut self, to: R, error: OwnedError) -> Handled {
        let reply = Err(error);
        self.answers.push_back(FlowAnswer { to, reply });
        Handled::Answered
    }

    /// Returns the oldest pull of a flow that waits. The program answers it with the next item as its
    /// result, which may be null. If that cannot be sent, it answers with an error, and the flow
    /// [fails](Self::fail).
    pub fn next_pull(&mut self, flow: FlowId) -> Option<R> {
        let producer = self.flows.get_mut(&flow)?;
        let Life::Open(pulls) = &mut producer.life else {
            return None;
        };
        let pull = pulls.pop_front()?;
        self.waiting -= 1;
        if pulls.is_empty() {
            producer.quiet_since = self.now;
        }
        Some(pull)
    }

    /// Ends a flow in order, because there are no more items. The pulls that wait are told; if none
    /// waits, the next one is.
    pub fn end(&mut self, flow: FlowId) {
        self.tell(flow, self.config.completed());
    }

    /// Ends a flow with an error. The pulls that wait are told; if none waits, the next one is. An error
    /// with the code of an end in order gets −32000 instead, so that no consumer takes a part for the
    /// whole.
    pub fn fail(&mut self, flow: FlowId, error: OwnedError) {
        self.tell(flow, self.config.failed(error));
    }

    fn tell(&mut self, flow: FlowId, error: OwnedError) {
        let Some(producer) = self.flows.get_mut(&flow) else {
            return;
        };
        match &producer.life {
            Life::Open(pulls) if pulls.is_empty() => {
                producer.life = Life::Over(error);
                producer.quiet_since = self.now;
            }
            Life::Open(_) => {
                self.remember(flow, &error);
                self.finish(flow, error);
            }
            Life::Over(_) => {}
        }
    }

    /// Gives a flow up on this side. The pulls that wait are answered −32000, and later ones −32602.
    pub fn close(&mut self, flow: FlowId) {
        let error = OwnedError::new(codes::FLOW_BROKEN, "Flow closed");
        self.finish(flow, error);
    }

    /// Closes the flows that were [attached](Self::attach) to a call which has ended, and returns them:
    /// what produces them can be dropped. A consumer that still pulls is told that the flow failed.
    pub fn handle_call_end(&mut self, call: CallId) -> Vec<FlowId> {
        self.close_where(|producer| producer.call == Some(call))
    }

    /// Closes all flows and returns them, at the end of the connection, or before a shutdown that waits
    /// until all requests have their answers.
    pub fn close_all(&mut self) -> Vec<FlowId> {
        self.close_where(|_| true)
    }

    fn close_where(&mut self, ends: impl Fn(&Producer<R>) -> bool) -> Vec<FlowId> {
        let ending = self.flows.iter().filter(|(_, producer)| ends(producer));
        let ending: Vec<FlowId> = ending.map(|(flow, _)| *flow).collect();
        for flow in &ending {
            self.close(*flow);
        }
        ending
    }

    /// Answers a pull that the peer has cancelled as a request, by −32000. The flow goes on: later pulls
    /// get its items. Returns false if no such pull waits.
    pub fn cancel_pull(&mut self, is_cancelled: impl Fn(&R) -> bool) -> bool {
        for producer in self.flows.values_mut() {
            let Life::Open(pulls) = &mut producer.life else {
                continue;
            };
            let found = pulls.iter().position(&is_cancelled);
            if let Some(to) = found.and_then(|at| pulls.remove(at)) {
                if pulls.is_empty() {
                    producer.quiet_since = self.now;
                }
                self.waiting -= 1;
                self.refuse(to, OwnedError::new(codes::FLOW_BROKEN, "Pull cancelled"));
                return true;
            }
        }
        false
    }

    /// Removes a flow, and tells the pulls that wait.
    fn finish(&mut self, flow: FlowId, error: OwnedError) {
        let Some(Producer {
            life: Life::Open(pulls),
            ..
        }) = self.flows.remove(&flow)
        else {
            return;
        };
        self.waiting -= pulls.len();
        for to in pulls {
            self.refuse(to, error.clone());
        }
    }

    /// Notes a flow that has ended in order, for pulls that are on their way.
    fn remember(&mut self, flow: FlowId, error: &OwnedError) {
        if error.code() != self.config.completion_code {
            return;
        }
        if self.completed.len() >= self.config.max_flows {
            self.completed.pop_front();
        }
        self.completed.push_back(flow);
    }

    /// Returns the next answer to send.
    pub fn poll_answer(&mut self) -> Option<FlowAnswer<R>> {
        self.answers.pop_front()
    }

    /// Tells the current time. It is only needed with
    /// [`idle_timeout`](FlowConfig::idle_timeout), and then before the other methods are called.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
    }

    /// Gives up a flow that was not pulled for too long, and returns it: what produces it can be dropped.
    /// Call it until it returns `None`, after the requests that have arrived.
    pub fn poll_idle(&mut self) -> Option<FlowId> {
        let now = self.now;
        let mut flows = self.flows.iter();
        let (&flow, _) = flows.find(|(_, producer)| {
            let idle_at = self.idle_at(producer);
            idle_at.is_some_and(|at| at <= now)
        })?;
        self.close(flow);
        Some(flow)
    }

    /// Returns when [`poll_idle`](Self::poll_idle) will return a flow; `None` for never, unless something
    /// happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let producers = self.flows.values();
        producers
            .filter_map(|producer| self.idle_at(producer))
            .min()
    }

    fn idle_at(&self, producer: &Producer<R>) -> Option<Instant> {
        let is_waited_for = matches!(&producer.life, Life::Open(pulls) if !pulls.is_empty());
        let timeout = self.config.idle_timeout.filter(|_| !is_waited_for)?;
        Some(producer.quiet_since + timeout)
    }

    /// How many pulls of a flow wait. While there are any, the program makes the next item.
    pub fn pulls_waiting(&self, flow: FlowId) -> usize {
        match self.flows.get(&flow).map(|producer| &producer.life) {
            Some(Life::Open(pulls)) => pulls.len(),
            _ => 0,
        }
    }

    /// How many flows are open, also those whose end the peer was not told yet.
    pub fn flows_open(&self) -> usize {
        self.flows.len()
    }
}
