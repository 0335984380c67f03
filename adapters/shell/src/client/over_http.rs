//! Calls over HTTP: calls, notifications and batches, each in one request. Everything that waits
//! has a deadline, unless its timeout is `None`. A sender of the program's own is never closed by
//! the client.

use std::borrow::Cow;
use std::io;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use antiphon::service::Chain;
use antiphon::{Collector, Config, Instant, OwnedOutcome, Retry, SendError};

use super::http_caller::{HttpCaller, Started};
use super::listening::deadline;
use crate::call::batch::Entries;
use crate::call::call_error::CallError;
use crate::call::call_request::CallRequest;
use crate::call::intercepted::Interception;
use crate::call::pending::{PendingBatch, PendingCall};
use crate::call::route::CallEvents;
use crate::call::transmit::{Sending, Transmit};
use crate::client::config::ClientConfig;
use crate::http::error::HttpError;
use crate::http::send::HttpSend;
use crate::http::url::HttpUrl;
use crate::lock::Lock;
use crate::outgoing::OutgoingCall;
use crate::runtime::{SharedRuntime, until};
use crate::text::Text;
use crate::wait::Wait;

/// Sends calls to one server over HTTP.
pub(crate) struct OverHttp {
    caller: HttpCaller,
    interceptors: Option<Chain<OutgoingCall>>,
    retry: Option<Retry>,
    call_timeout: Option<Duration>,
    /// `None` after the client was closed.
    send: Lock<Option<Arc<dyn HttpSend>>>,
    runtime: SharedRuntime,
}

impl OverHttp {
    pub(crate) fn new(
        url: HttpUrl,
        options: &ClientConfig,
        send: impl HttpSend,
        runtime: SharedRuntime,
    ) -> Self {
        let mut interceptors = options.connection.interceptors.clone();
        if let Some(auth) = options.auth.clone() {
            interceptors.get_or_insert_default().push(auth);
        }
        Self {
            caller: HttpCaller::new(url, options),
            interceptors,
            call_timeout: options.connection.call_timeout,
            retry: options.connection.retry.clone(),
            send: Lock::new(Some(Arc::new(send))),
            runtime,
        }
    }

    /// The configuration of its exchanges.
    pub(crate) fn config(&self) -> &Config {
        self.caller.config()
    }

    /// Refuses later calls as [`HttpError::Closed`]. Running calls finish, then the client's own connections
    /// close.
    pub(crate) fn close(&self) {
        let send = self.send.lock().take();
        drop(send);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.send.lock().is_none()
    }

    async fn call_once(&self, mut call: CallRequest<'_>) -> Result<OwnedOutcome, CallError> {
        let events = call.events.as_deref();
        if events.is_some_and(CallEvents::follow_answer) || !call.flows.is_empty() {
            // Nothing comes after the answer, which ends the exchange.
            return Err(SendError::NoPush.into());
        }
        let (caller, timeout) = (&self.caller, call.timeout);
        if call.events.is_some() {
            let (headers, advice) = (mem::take(&mut call.headers), call.advice.take());
            let mut started = caller.listen(call, &self.runtime).await?;
            started.advice = advice;
            started.add_headers(&headers);
            self.exchange(&mut started, timeout).await?;
            return started.end().await;
        }
        let params = call.params?;
        let (id, mut started) = caller.call(call.id.as_ref(), &call.method, params.all())?;
        started.advice = call.advice;
        started.add_headers(&call.headers);
        let mut outcomes = self.exchange(&mut started, timeout).await?;
        caller.keep(started);
        // The request had only this call. Without an outcome the reply has not answered it.
        outcomes.take(id).ok_or(CallError::Missing)
    }

    async fn notify_once(&self, call: CallRequest<'_>) -> Result<(), CallError> {
        let (params, caller) = (call.params?, &self.caller);
        let mut started = caller.notify(&call.method, params.all())?;
        started.add_headers(&call.headers);
        self.exchange(&mut started, call.timeout).await?;
        Ok(())
    }

    /// Sends a request, follows redirects, and returns the outcomes in the reply.
    async fn exchange(
        &self,
        started: &mut Started,
        timeout: Option<Duration>,
    ) -> Result<Collector, CallError> {
        let send = self.send.lock().clone();
        let send = send.ok_or(CallError::Http(HttpError::Closed))?;
        let runtime = &*self.runtime;
        let mut due = timeout.map_or(Instant::FAR_FUTURE, |span| runtime.now() + span);
        let (at, session) = (due, started.session());
        let ended = {
            let mut exchanged = pin!(async {
                loop {
                    let left = at.saturating_since(runtime.now());
                    started.request.timeout = timeout.map(|_| left);
                    let response = send.send(&started.request).await?;
                    // `None` is a redirect: `started.request` now has the new URL, and is sent again.
                    if let Some(outcomes) = started.receive(response).await? {
                        return Ok(outcomes);
                    }
                }
            });
            loop {
                let ended = until(runtime, due, exchanged.as_mut()).await;
                // Events of the call may have moved its deadline.
                match session.as_deref().and_then(deadline) {
                    Some(later) if ended.is_none() => due = later,
                    _ => break ended,
                }
            }
        };
        match ended {
            Some(exchanged) => exchanged.map_err(CallError::of_http),
            None if started.is_unsent() => {
                let why = "there was no connection in time";
                let error = io::Error::new(io::ErrorKind::TimedOut, why);
                Err(CallError::Http(HttpError::Unsent(error)))
            }
            None => Err(CallError::TimedOut),
        }
    }
}

impl Transmit for OverHttp {
    fn runtime(&self) -> &SharedRuntime {
        &self.runtime
    }

    fn interception(&self) -> Option<Interception<'_>> {
        let server = self.caller.server();
        Interception::of_client(self.interceptors.as_ref(), &self.runtime, Some(server))
    }

    fn call_timeout(&self) -> Option<Duration> {
        self.call_timeout
    }

    fn retry(&self) -> Option<&Retry> {
        self.retry.as_ref()
    }

    fn reconnects(&self) -> bool {
        true
    }

    fn send<'c>(&'c self, call: CallRequest<'c>) -> Sending<'c, PendingCall, OwnedOutcome> {
        Sending::Other(Box::pin(self.call_once(call)))
    }

    fn send_batch(
        &self,
        mut batch: Entries,
        timeout: Option<Duration>,
    ) -> Sending<'_, PendingBatch, Collector> {
        Sending::Other(Box::pin(async move {
            let mut started = self.caller.batch(&batch)?;
            started.add_headers(&batch.take_headers());
            self.exchange(&mut started, timeout).await
        }))
    }

    fn notify<'c>(
        &'c self,
        method: Cow<'c, str>,
        params: Result<Text, SendError>,
    ) -> Wait<'c, Result<(), CallError>> {
        let mut call = CallRequest::new(method, params, self.call_timeout);
        Wait::on(async move {
            let Some(interception) = self.interception() else {
                return self.notify_once(call).await;
            };
            let shown = interception.notification(&mut call);
            match shown.decided(&mut call).await {
                Ok(intercepted) => {
                    let sent = self.notify_once(call).await;
                    intercepted.end_notification(sent.is_ok());
                    sent
                }
                Err(Err(error)) => Err(error),
                // An interceptor has answered in place of the server, so nothing is sent; and a
                // notification has no use for an outcome.
                Err(Ok(_)) => Ok(()),
            }
        })
    }
}
