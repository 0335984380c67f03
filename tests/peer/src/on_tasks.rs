//! The contract on the async adapters, whatever their runtime: waiting occupies a task.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use antiphon::service::{
    AsyncMethods, Failure, Implementation, ResultText, ServiceInfo, write_result,
};
use antiphon::session::Report;
use antiphon::{Closed, ErrorObject, Json, OwnedError, OwnedJson, OwnedOutcome, Style};
use antiphon_net::{
    Answer, CallError, Flow, Notification, Peer, PendingCall, Request, Router, Service,
    SharedRuntime, Subscription, SubscriptionSink, until,
};
use futures_util::stream;

use crate::caller::{
    Called, Caller, END_TIMEOUT, FLUSH_TIMEOUT, Refusal, Sides, fill, outcomes_of, side_by_side,
};
use crate::contract::{
    Contract, EVENT_PAUSE, SUBSCRIPTION, WAITING, Waiting, WithoutLayers, events, waiting_of,
};
use crate::desk::Desk;
use crate::items::Item;
use crate::layers::{Head, Layers};
use crate::log::say;

/// The contract's server, whose handlers wait by the timers of `runtime`.
pub fn router(contract: Contract, runtime: SharedRuntime) -> Router {
    let discovery = contract.discovery();
    let layers = contract.layers.clone();
    let timers = Arc::clone(&runtime);
    let router = Router::new()
        // The contract reads all params itself, and describes none.
        .unknown_params(antiphon::UnknownParams::Reject)
        .service(Implementation::new(contract))
        .service(Implementation::new(Waits { runtime }))
        .discovery(discovery)
        .on_report(|_, report| say(format_args!("{report}")));
    match layers {
        Some(layers) => with_layers(router, layers, timers),
        None => without_layers(router, timers),
    }
}

fn with_layers(router: Router, layers: Layers, runtime: SharedRuntime) -> Router {
    let chain = layers.chain;
    let follow = move |kind: String, count: Option<u64>, sink: SubscriptionSink<Head>| {
        let runtime = Arc::clone(&runtime);
        async move {
            for number in chain.numbers(&kind, count)? {
                runtime
                    .sleep_until(runtime.now() + chain.time_to(number))
                    .await;
                sink.send(&Head::of(number)).await?;
            }
            Ok::<_, OwnedError>(())
        }
    };
    let stored = layers.clone();
    let publish =
        move |topic: String, data: OwnedJson| stored.publish_durable(&topic, data.as_json());
    router
        .hub(&layers.hub)
        .durable(&layers.durable)
        .method("publish_durable", ["topic", "data"], publish)
        .service(Implementation::new(layers))
        .subscription(Style::ETHEREUM, ["kind", "count"], follow)
        .method("count_to", ["end"], |end: u64| {
            Flow::of(stream::iter((1..=end).map(Ok::<_, OwnedError>)))
        })
        .method("sum_flow", ["numbers"], async |mut numbers: Flow<u64>| {
            let mut sum = 0_u64;
            while let Some(number) = numbers.next().await {
                sum = sum.saturating_add(number?);
            }
            Ok::<_, OwnedError>(sum)
        })
}

fn without_layers(router: Router, runtime: SharedRuntime) -> Router {
    router
        .service(Implementation::new(WithoutLayers))
        .raw("eth_subscribe", move |request| {
            // The events wait for EVENT_PAUSE, so that the answer leaves first.
            let telling = tell_events(request.peer(), Arc::clone(&runtime));
            runtime.spawn(Box::pin(telling));
            Ok(Answer::new(SUBSCRIPTION))
        })
}

/// The methods that wait.
struct Waits {
    runtime: SharedRuntime,
}

impl AsyncMethods<Request, ()> for Waits {
    fn info(&self) -> &'static ServiceInfo {
        &WAITING
    }

    async fn call<'c>(
        &'c self,
        method: usize,
        params: Option<Json<'c>>,
        request: &'c Request,
        (): &'c (),
        result: &'c mut ResultText,
    ) -> Result<(), Failure> {
        let peer = request.peer();
        match waiting_of(method, params)? {
            Waiting::Sleep(span) => {
                // A cancelled request is answered by the router, which drops this future.
                self.runtime.sleep_until(self.runtime.now() + span).await;
                write_result(Ok::<_, OwnedError>("slept"), result)
            }
            Waiting::CallBack(method, params) => {
                let params = params.as_ref().map(|params| params.as_json());
                match peer.call(&method, params).raw().await {
                    Ok(answer) => write_result(Ok::<_, OwnedError>(answer), result),
                    Err(CallError::Remote(error)) => Err(error.into()),
                    Err(error) => {
                        say(format_args!("{method} was called back in vain: {error}"));
                        Err(OwnedError::from(ErrorObject::internal_error()).into())
                    }
                }
            }
            Waiting::Emit(count) => {
                for i in 0..count {
                    if let Err(error) = peer.notify("tick", &[i]).await {
                        say(format_args!("tick {i} was not sent: {error}"));
                        return Err(OwnedError::from(ErrorObject::internal_error()).into());
                    }
                }
                write_result(Ok::<_, OwnedError>(count), result)
            }
        }
    }
}

async fn tell_events(peer: Peer, runtime: SharedRuntime) {
    runtime.sleep_until(runtime.now() + EVENT_PAUSE).await;
    for event in events() {
        if let Err(error) = peer.notify("eth_subscription", event.as_json()).await {
            return say(format_args!("an event was not sent: {error}"));
        }
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
            // Fails if the answer has come in the meantime, or if the dialect has no cancel. The
            // answer is awaited below in any case.
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

    fn subscribe(
        &self,
        style: Style,
        params: Option<Json<'_>>,
        timeout: Duration,
    ) -> Result<Subscription<OwnedJson>, CallError> {
        let subscribe = self.peer.subscribe(style, params).timeout(timeout);
        self.executor.block_on(subscribe.into_future())
    }

    fn why_closed(&self) -> String {
        crate::caller::why(self.peer.transport_error(), self.peer.closed())
    }

    fn close(&self) {
        self.executor.block_on(async {
            // So that what was sent last arrives. On a dead transport it fails at once.
            let _ = self.peer.flush(FLUSH_TIMEOUT).await;
            self.peer.close(antiphon::CloseReason::Done);
            self.peer.wait_closed(END_TIMEOUT).await;
        });
    }
}
