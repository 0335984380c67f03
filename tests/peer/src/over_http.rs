//! Calls over HTTP, from threads and from tasks: each an exchange of its own.
//!
//! Rule: a failure of one exchange is reported for that exchange only.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use antiphon::{Json, OwnedJson, OwnedOutcome, Style};
use antiphon_net::http::HttpError;
use antiphon_net::{CallError, Client, SharedRuntime, Subscription, until};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::caller::{Called, Caller, Refusal, Sides, fill, outcomes_of};
use crate::items::Item;
use crate::on_tasks::Executor;

/// Calls from the threads that ask.
#[derive(Debug)]
pub struct HttpThreads(pub Client);

/// Calls from a thread that runs the futures itself.
#[derive(Debug)]
pub struct HttpTasks {
    /// The client.
    pub client: Client,
    /// Its runtime.
    pub runtime: SharedRuntime,
    /// What runs that.
    pub executor: Executor,
}

impl Caller for HttpThreads {
    fn call(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        timeout: Duration,
        cancel_after: Option<Duration>,
        _: bool,
    ) -> Result<Called, Refusal> {
        // A call is cancelled by a shorter timeout.
        let patience = cancel_after.map_or(timeout, |span| span.min(timeout));
        let is_given_up = patience < timeout;
        let call = self.0.call(method, params).timeout(patience).raw();
        match called(call.wait())? {
            Called::Ended(OwnedOutcome::TimedOut) if is_given_up => Ok(Called::GivenUp),
            called => Ok(called),
        }
    }

    fn calls(&self, items: &[Item<'_>], timeout: Duration) -> Result<Sides, Refusal> {
        let (done, ends) = mpsc::channel();
        let mut sides = Sides::new(items.len());
        thread::scope(|scope| {
            for (place, item) in items.iter().enumerate() {
                let done = done.clone();
                scope.spawn(move || {
                    let ended = self
                        .0
                        .call(&item.method, item.params)
                        .timeout(timeout)
                        .raw()
                        .wait();
                    // Received below, unless another was refused.
                    drop(done.send((place, called(ended))));
                });
            }
            drop(done);
            for (place, end) in ends {
                sides.put(place, end?);
            }
            Ok(sides)
        })
    }

    fn notify(&self, method: &str, params: Option<Json<'_>>) -> Result<(), Refusal> {
        self.0.notify(method, params).wait().map_err(refusal)
    }

    fn batch(&self, items: &[Item<'_>], timeout: Duration) -> Result<Vec<OwnedOutcome>, Refusal> {
        let sent = self.0.batch(|batch| fill(batch, items)).timeout(timeout);
        batched(sent.wait().map(outcomes_of), items)
    }

    fn subscribe(
        &self,
        style: Style,
        params: Option<Json<'_>>,
        timeout: Duration,
    ) -> Result<Subscription<OwnedJson>, CallError> {
        self.0.subscribe(style, params).timeout(timeout).wait()
    }

    fn why_closed(&self) -> String {
        HttpError::Closed.to_string()
    }

    fn close(&self) {
        self.0.close();
    }
}

impl Caller for HttpTasks {
    fn call(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        timeout: Duration,
        cancel_after: Option<Duration>,
        _: bool,
    ) -> Result<Called, Refusal> {
        let call = self.client.call(method, params).timeout(timeout).raw();
        self.executor.block_on(async {
            let Some(span) = cancel_after else {
                return called(call.await);
            };
            // A call is cancelled by dropping it.
            let until_at = self.runtime.now() + span;
            match until(&*self.runtime, until_at, call).await {
                Some(ended) => called(ended),
                None => Ok(Called::GivenUp),
            }
        })
    }

    fn calls(&self, items: &[Item<'_>], timeout: Duration) -> Result<Sides, Refusal> {
        let mut sides = Sides::new(items.len());
        let mut open = FuturesUnordered::new();
        for (place, item) in items.iter().enumerate() {
            let call = self
                .client
                .call(&item.method, item.params)
                .timeout(timeout)
                .raw();
            open.push(async move { (place, called(call.await)) });
        }
        self.executor.block_on(async {
            while let Some((place, end)) = open.next().await {
                sides.put(place, end?);
            }
            Ok(sides)
        })
    }

    fn notify(&self, method: &str, params: Option<Json<'_>>) -> Result<(), Refusal> {
        let notified = self.client.notify(method, params);
        self.executor.block_on(notified).map_err(refusal)
    }

    fn batch(&self, items: &[Item<'_>], timeout: Duration) -> Result<Vec<OwnedOutcome>, Refusal> {
        let sent = self
            .client
            .batch(|batch| fill(batch, items))
            .timeout(timeout);
        batched(self.executor.block_on(sent).map(outcomes_of), items)
    }

    fn subscribe(
        &self,
        style: Style,
        params: Option<Json<'_>>,
        timeout: Duration,
    ) -> Result<Subscription<OwnedJson>, CallError> {
        self.client.subscribe(style, params).timeout(timeout).wait()
    }

    fn why_closed(&self) -> String {
        HttpError::Closed.to_string()
    }

    fn close(&self) {
        self.client.close();
    }
}

pub(crate) fn called(ended: Result<OwnedJson, CallError>) -> Result<Called, Refusal> {
    Ok(Called::Ended(match ended {
        Ok(result) => OwnedOutcome::Ok(result),
        Err(CallError::Remote(error)) => OwnedOutcome::Err(error),
        Err(CallError::Invalid(invalid)) => OwnedOutcome::Invalid(invalid),
        Err(CallError::Missing) => OwnedOutcome::Missing,
        Err(CallError::TimedOut) => OwnedOutcome::TimedOut,
        Err(CallError::Rejected(error)) => return Err(error.into()),
        Err(error) => return Ok(Called::Failed(error.to_string())),
    }))
}

fn refusal(error: CallError) -> Refusal {
    match error {
        CallError::Rejected(error) => error.into(),
        error => Refusal::Failed(error.to_string()),
    }
}

/// The outcomes of a batch. If the exchange timed out, each call did.
fn batched(
    ended: Result<Vec<OwnedOutcome>, CallError>,
    items: &[Item<'_>],
) -> Result<Vec<OwnedOutcome>, Refusal> {
    match ended {
        Ok(outcomes) => Ok(outcomes),
        Err(CallError::TimedOut) => {
            let calls = items.iter().filter(|item| !item.is_notification);
            Ok(calls.map(|_| OwnedOutcome::TimedOut).collect())
        }
        Err(error) => Err(refusal(error)),
    }
}
