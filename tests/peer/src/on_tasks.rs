//! The contract on the async adapters, whatever their runtime: waiting occupies a task.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use antiphon::{Closed, ErrorObject, Json, OwnedError, OwnedOutcome};
use antiphon_net::{
    Answer, CallError, Notification, Peer, PendingCall, Report, Request, Service, SharedRuntime,
    sleep_until, until,
};

use crate::caller::{
    Called, Caller, END_TIMEOUT, FLUSH_TIMEOUT, Refusal, Sides, fill, outcomes_of, side_by_side,
};
use crate::contract::{Begun, Contract, EVENT_PAUSE, Waiting, events};
use crate::desk::Desk;
use crate::items::Item;
use crate::log::say;

/// The contract's server.
#[derive(Clone, Debug)]
pub struct Tasks {
    contract: Contract,
    runtime: SharedRuntime,
}

impl Tasks {
    /// Waits by the timers of `runtime`.
    pub fn new(contract: Contract, runtime: SharedRuntime) -> Self {
        Self { contract, runtime }
    }

    async fn wait(
        &self,
        peer: &Peer,
        request: &Request,
        waiting: Waiting,
    ) -> Result<Answer, OwnedError> {
        match waiting {
            Waiting::Sleep(span) => {
                let reply = request.defer();
                let until_at = self.runtime.now() + span;
                let is_cancelled = until(&*self.runtime, until_at, reply.cancellation()).await;
                let answered = match is_cancelled {
                    Some(()) => reply.cancelled(),
                    None => reply.ok("slept"),
                };
                // Nobody waits for it any more: a silent cancel, or the end.
                drop(answered);
                Ok(Answer::deferred())
            }
            Waiting::CallBack(method, params) => {
                let params = params.as_ref().map(|params| params.as_json());
                match peer.call(&method, params).raw().await {
                    Ok(result) => Ok(Answer::new(result.as_json())),
                    Err(CallError::Remote(error)) => Err(error),
                    Err(error) => {
                        say(format_args!("{method} was called back in vain: {error}"));
                        Err(ErrorObject::internal_error().into())
                    }
                }
            }
            Waiting::Emit(count) => {
                for i in 0..count {
                    if let Err(error) = peer.notify("tick", &[i]).await {
                        say(format_args!("tick {i} was not sent: {error}"));
                        return Err(ErrorObject::internal_error().into());
                    }
                }
                Ok(count.into())
            }
            Waiting::Subscribe => {
                // The events come after the answer.
                if request.defer().ok("0x51").is_ok() {
                    self.tell_events(peer).await;
                }
                Ok(Answer::deferred())
            }
        }
    }

    async fn tell_events(&self, peer: &Peer) {
        sleep_until(&*self.runtime, self.runtime.now() + EVENT_PAUSE).await;
        for event in events() {
            if let Err(error) = peer.notify("eth_subscription", event.as_json()).await {
                return say(format_args!("an event was not sent: {error}"));
            }
        }
    }
}

impl Service for Tasks {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match self.contract.begin(request)? {
            Begun::Answered(answer) => Ok(answer),
            Begun::Waits(waiting) => self.wait(peer, request, waiting).await,
        }
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        self.contract.notified(&notification);
    }

    fn report(&self, _: &Peer, report: Report) {
        say(format_args!("{report}"));
    }
}

/// What serves on the client's side: fixed answers.
impl Service for Desk {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        Ok(self.answer(request))
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        self.keep(&notification);
    }

    fn report(&self, _: &Peer, report: Report) {
        say(format_args!("{report}"));
    }

    fn closed(&self, _: &Peer, why: Closed) {
        self.close(why);
    }
}

/// An executor that a thread can wait with.
#[derive(Clone, Debug)]
pub enum Executor {
    /// tokio's.
    Tokio(Arc<tokio::runtime::Runtime>),
    /// Any whose timers and sockets are async-io's: smol's, async-std's.
    AsyncIo,
}

impl Executor {
    /// Runs a future to its end on the calling thread.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Tokio(runtime) => runtime.block_on(future),
            Self::AsyncIo => async_io::block_on(future),
        }
    }
}

/// Calls from a thread that runs the futures itself.
#[derive(Debug)]
pub struct TaskCaller {
    peer: Peer,
    runtime: SharedRuntime,
    executor: Executor,
}

impl TaskCaller {
    /// Calls `peer`; `runtime` is that of `executor`.
    pub fn new(peer: Peer, runtime: SharedRuntime, executor: Executor) -> Self {
        Self {
            peer,
            runtime,
            executor,
        }
    }

    async fn start(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        timeout: Duration,
    ) -> Result<PendingCall, Refusal> {
        let call = self.peer.call(method, params).timeout(timeout).start();
        Ok(call.await?)
    }

    async fn call_until(
        &self,
        mut call: PendingCall,
        cancel_after: Option<Duration>,
        is_silent: bool,
    ) -> Called {
        if let Some(span) = cancel_after {
            let until_at = self.runtime.now() + span;
            if let Some(outcome) = until(&*self.runtime, until_at, &mut call).await {
                return Called::Ended(outcome);
            }
            if is_silent {
                call.cancel();
                return Called::GivenUp;
            }
            // Answered in the meantime, or there is no way to say it: its answer comes below.
            let _ = self.peer.ask_cancel(call.id());
        }
        Called::Ended(call.await)
    }
}

impl Caller for TaskCaller {
    fn call(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        timeout: Duration,
        cancel_after: Option<Duration>,
        is_silent: bool,
    ) -> Result<Called, Refusal> {
        self.executor.block_on(async {
            let call = self.start(method, params, timeout).await?;
            Ok(self.call_until(call, cancel_after, is_silent).await)
        })
    }

    fn calls(&self, items: &[Item<'_>], timeout: Duration) -> Result<Sides, Refusal> {
        side_by_side(items, |item, then| {
            let call = self
                .peer
                .call(&item.method, item.params)
                .timeout(timeout)
                .then(then);
            let called = self.executor.block_on(call);
            called.map(drop).map_err(|refused| refused.error)
        })
    }

    fn notify(&self, method: &str, params: Option<Json<'_>>) -> Result<(), Refusal> {
        Ok(self.executor.block_on(self.peer.notify(method, params))?)
    }

    fn batch(&self, items: &[Item<'_>], timeout: Duration) -> Result<Vec<OwnedOutcome>, Refusal> {
        let sent = self.peer.batch(|batch| fill(batch, items)).timeout(timeout);
        Ok(outcomes_of(self.executor.block_on(sent)?))
    }

    fn why_closed(&self) -> String {
        crate::caller::why(self.peer.transport_error(), self.peer.closed())
    }

    fn close(&self) {
        self.executor.block_on(async {
            // What was sent last is to arrive; a dead transport has nothing to wait for.
            let _ = self.peer.flush(FLUSH_TIMEOUT).await;
            self.peer.close(antiphon::CloseReason::Done);
            self.peer.wait_closed(END_TIMEOUT).await;
        });
    }
}
