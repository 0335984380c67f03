//! The contract on the blocking adapter: waiting occupies a thread.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use antiphon::service::Implementation;
use antiphon::{Closed, Internal, Json, OwnedJson, OwnedOutcome, Style};
use antiphon_blocking::{
    Answer, CallError, DEFAULT_CALL_TIMEOUT, Flow, Notification, OwnedError, Peer, Report, Request,
    Responder, Router, Service, Subscription, SubscriptionSink,
};

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

/// The contract's server.
pub fn router(contract: Contract) -> Router {
    let discovery = contract.discovery();
    let layers = contract.layers.clone();
    let mut router = Router::new()
        // The contract reads all params itself, and describes none.
        .unknown_params(antiphon::UnknownParams::Reject)
        .service(Implementation::new(contract))
        .discovery(discovery)
        .on_report(|_, report| say(format_args!("{report}")));
    for (method, info) in WAITING.methods.iter().enumerate() {
        router = router.raw(info.name(), move |request| {
            let waiting = waiting_of(method, request.raw_params())?;
            wait(&request.peer(), request.defer(), waiting);
            Ok(Answer::deferred())
        });
    }
    match layers {
        Some(layers) => with_layers(router, layers),
        None => without_layers(router),
    }
}

fn with_layers(router: Router, layers: Layers) -> Router {
    let chain = layers.chain;
    let follow = move |kind: String, count: Option<u64>, sink: SubscriptionSink<Head>| {
        let numbers = chain.numbers(&kind, count)?;
        let follower = thread::Builder::new().spawn(move || {
            for number in numbers {
                thread::sleep(chain.time_to(number));
                if sink.send(&Head::of(number)).wait().is_err() {
                    // The client has unsubscribed, or is gone.
                    break;
                }
            }
        });
        follower.map(drop).internal()
    };
    let stored = layers.clone();
    let publish = move |topic: String, data: OwnedJson| {
        antiphon_net::block_on(stored.publish_durable(&topic, data.as_json()))
    };
    router
        .hub(&layers.hub)
        .durable(&layers.durable)
        .method("publish_durable", ["topic", "data"], publish)
        .service(Implementation::new(layers))
        .subscription(Style::ETHEREUM, ["kind", "count"], follow)
        .method("count_to", ["end"], |end: u64| {
            Flow::of_iter((1..=end).map(Ok::<_, OwnedError>))
        })
        .method("sum_flow", ["numbers"], |numbers: Flow<u64>| {
            let mut sum = 0_u64;
            for number in numbers {
                sum = sum.saturating_add(number?);
            }
            Ok::<_, OwnedError>(sum)
        })
}

fn without_layers(router: Router) -> Router {
    router
        .service(Implementation::new(WithoutLayers))
        .raw("eth_subscribe", |request| {
            request.defer().spawn(subscribe);
            Ok(Answer::deferred())
        })
}

fn wait(peer: &Peer, reply: Responder, waiting: Waiting) {
    match waiting {
        Waiting::Sleep(span) => reply.spawn(move |reply| sleep(reply, span)),
        Waiting::Emit(count) => reply.spawn(move |reply| emit(reply, count)),
        Waiting::CallBack(method, params) => {
            let params = params.as_ref().map(|params| params.as_json());
            // No thread waits for the outcome, so any number of these can be open. A refused call
            // drops the responder, which then answers.
            let called = peer
                .call(&method, params)
                .timeout(DEFAULT_CALL_TIMEOUT)
                .then(|outcome| {
                    // A connection that has closed in the meantime awaits no answer.
                    drop(reply.outcome(&outcome));
                })
                .wait();
            if let Err(refused) = called {
                say(format_args!("{method} was not called: {refused}"));
            }
        }
    }
}

fn sleep(reply: Responder, span: Duration) {
    let answered = if reply.cancellation().wait(span) {
        reply.cancelled()
    } else {
        reply.ok("slept")
    };
    // Fails if no answer is awaited any more: after a silent cancel, or the end of the connection.
    drop(answered);
}

fn emit(reply: Responder, count: u64) {
    let peer = Peer::of(&reply);
    for i in 0..count {
        if let Err(error) = peer.notify("tick", &[i]).wait() {
            return say(format_args!("tick {i} was not sent: {error}"));
        }
    }
    // A connection that has closed in the meantime awaits no answer.
    drop(reply.ok(&count));
}

fn subscribe(reply: Responder) {
    let peer = Peer::of(&reply);
    if reply.ok(SUBSCRIPTION).is_err() {
        return;
    }
    thread::sleep(EVENT_PAUSE);
    for event in events() {
        if let Err(error) = peer.notify("eth_subscription", event.as_json()).wait() {
            return say(format_args!("an event was not sent: {error}"));
        }
    }
}

/// What serves on the client's side: fixed answers.
impl Service for Desk {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        Ok(self.answer(request))
    }

    fn notification(&mut self, _: &Peer, notification: Notification) {
        self.keep(&notification);
    }

    fn report(&mut self, _: &Peer, report: Report) {
        say(format_args!("{report}"));
    }

    fn closed(&mut self, _: &Peer, why: Closed) {
        self.close(why);
    }
}

/// Calls from the thread that asks.
impl Caller for Peer {
    fn call(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        timeout: Duration,
        cancel_after: Option<Duration>,
        is_silent: bool,
    ) -> Result<Called, Refusal> {
        let (done, outcome) = mpsc::channel();
        // `then` runs on the service's thread, so notifications before the answer are kept before it.
        let called = self
            .call(method, params)
            .timeout(timeout)
            .then(move |end| {
                // Received below, unless the call was given up.
                drop(done.send(end));
            })
            .wait();
        let call = called.map_err(|refused| refused.error)?;
        if let Some(span) = cancel_after {
            if let Ok(outcome) = outcome.recv_timeout(span) {
                return Ok(Called::Ended(outcome));
            }
            if is_silent {
                self.cancel(call);
                return Ok(Called::GivenUp);
            }
            // Fails if the answer has come in the meantime, or if the dialect has no cancel. The
            // answer is awaited below in any case.
            let _ = self.ask_cancel(call);
        }
        let outcome = outcome.recv();
        Ok(Called::Ended(outcome.unwrap_or(OwnedOutcome::Aborted)))
    }

    fn calls(&self, items: &[Item<'_>], timeout: Duration) -> Result<Sides, Refusal> {
        side_by_side(items, |item, then| {
            let called = self
                .call(&item.method, item.params)
                .timeout(timeout)
                .then(then)
                .wait();
            called.map(drop).map_err(|refused| refused.error)
        })
    }

    fn notify(&self, method: &str, params: Option<Json<'_>>) -> Result<(), Refusal> {
        Ok(Peer::notify(self, method, params).wait()?)
    }

    fn batch(&self, items: &[Item<'_>], timeout: Duration) -> Result<Vec<OwnedOutcome>, Refusal> {
        let sent = self
            .batch(|batch| fill(batch, items))
            .timeout(timeout)
            .wait();
        Ok(outcomes_of(sent?))
    }

    fn subscribe(
        &self,
        style: Style,
        params: Option<Json<'_>>,
        timeout: Duration,
    ) -> Result<Subscription<OwnedJson>, CallError> {
        Peer::subscribe(self, style, params).timeout(timeout).wait()
    }

    fn why_closed(&self) -> String {
        crate::caller::why(self.transport_error(), self.closed())
    }

    fn close(&self) {
        // So that what was sent last arrives. On a dead transport it fails at once.
        let _ = self.flush(FLUSH_TIMEOUT).wait();
        Peer::close(self, antiphon::CloseReason::Done);
        self.wait_closed(END_TIMEOUT).wait();
    }
}
