//! Flows that are arguments of a call.
//!
//! A flow gets its id when its call is sent, because ids belong to a connection. Until then a random number stands in
//! the params, and what produces the flow is kept with the call.

use std::cell::RefCell;
use std::sync::Arc;

use antiphon::flow::FlowId;
use antiphon::{CallId, EncodeError, Payload, SendError};
use serde::ser::Error;

use crate::entropy::Entropy;
use crate::runtime::Task;
use crate::session::{PeerFlow, Session, State};
use crate::text::Text;
use crate::wait::Wait;

/// The first number with as many digits as any larger one of 64 bits, so that none begins another one.
const LEAST: u64 = 10_000_000_000_000_000_000;

thread_local! {
    /// The flows in the params that are being written; `None` while none are written.
    static WRITTEN: RefCell<Option<Vec<Passed>>> = const { RefCell::new(None) };
}

/// Makes the task that produces a flow for a call of this method.
type Produce = Box<dyn FnOnce(Arc<PeerFlow>, &str) -> Task + Send>;

/// A flow in the params of a call.
struct Passed {
    /// The number that stands for its id.
    number: u64,
    produce: Produce,
}

/// The flows in the params of a call that was not sent.
#[derive(Default)]
pub(crate) struct PassedFlows(Vec<Passed>);

/// Writes the params of a call, and keeps the flows that are among them.
pub(crate) fn write(params: impl Payload) -> (Result<Text, SendError>, PassedFlows) {
    let before = WRITTEN.replace(Some(Vec::new()));
    let text = Text::of(params);
    let passed = WRITTEN.replace(before).unwrap_or_default();
    (text, PassedFlows(passed))
}

/// Adds a flow to the params that are being written. `write` writes the number that stands for its id, and returns
/// what produces it.
pub(crate) fn pass<R, E: Error>(
    write: impl FnOnce(u64) -> Result<(R, Produce), E>,
) -> Result<R, E> {
    if WRITTEN.with_borrow(Option::is_none) {
        let why = "a flow is a parameter of a call of its own, or all that a handler returns, not in a `Result`";
        return Err(E::custom(why));
    }
    let number = LEAST + Entropy::new(None).next() % (u64::MAX - LEAST);
    let (written, produce) = write(number)?;
    let passed = Passed { number, produce };
    WRITTEN.with_borrow_mut(|all| all.get_or_insert_default().push(passed));
    Ok(written)
}

impl PassedFlows {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Opens the flows on a connection, and puts their ids into the params.
    pub(crate) fn open(
        self,
        session: &Arc<Session>,
        method: &str,
        mut params: Text,
    ) -> Result<(Text, OpenedFlows), SendError> {
        let mut opened = Vec::new();
        if !self.is_empty() && !session.has_flows() {
            return Err(SendError::FlowsOff);
        }
        for Passed { number, produce } in self.0 {
            let flow =
                PeerFlow::open(session).ok_or_else(|| match session.lock().is_closing() {
                    true => SendError::Closed,
                    false => SendError::TooManyFlows,
                })?;
            params = with_id(&params, number, flow.id).ok_or_else(|| {
                let changed = "an interceptor has changed a flow in the params";
                SendError::Encode(EncodeError::custom(changed))
            })?;
            opened.push((flow.id, produce(flow, method)));
        }
        Ok((params, OpenedFlows(opened)))
    }
}

/// Puts an id where a number stands; `None` if it does not stand there once.
fn with_id(params: &Text, number: u64, id: FlowId) -> Option<Text> {
    let (params, number) = (params.to_json()?, number.to_string());
    let is_once = params.as_str().matches(&number).count() == 1;
    let params = is_once.then(|| params.as_str().replace(&number, &id.to_string()));
    params.map(|params| Text::from(params.into_bytes()))
}

/// The flows of a call that is being sent, and the tasks that will produce them. Without its task a flow is closed.
pub(crate) struct OpenedFlows(Vec<(FlowId, Task)>);

impl OpenedFlows {
    /// Returns what lets the flows end with the call that has been sent.
    pub(crate) fn attach(&self) -> impl Fn(&mut State, CallId) + Send + use<> {
        let flows: Vec<FlowId> = self.0.iter().map(|(flow, _)| *flow).collect();
        move |state, call| state.attach_flows(&flows, call)
    }

    /// Begins to produce as soon as the call has been sent.
    pub(crate) fn start_after<'p, T: Send + 'p>(
        self,
        session: &'p Session,
        sending: Wait<'p, Result<T, SendError>>,
    ) -> Wait<'p, Result<T, SendError>> {
        match self.0.is_empty() {
            true => sending,
            false => sending.map(|sent| sent.inspect(|_| self.start(session))),
        }
    }

    /// Begins to produce.
    pub(crate) fn start(self, session: &Session) {
        for (_, task) in self.0 {
            session.runtime().spawn(task);
        }
    }
}
