//! The way of a call through a router. The router starts nothing: the shell awaits what this hands out.

use alloc::vec::Vec;
use core::future::poll_fn;
use core::time::Duration;

use super::Routes;
use super::asking::Asking;
use crate::service::cx::{AnyRequest, Cx};
use crate::service::decision::{Asked, Decision};
use crate::service::describe::MethodInfo;
use crate::service::errors::Failure;
use crate::service::intercept::{Chain, Reply};
use crate::service::invoked::{Invoked, Served};
use crate::service::routing_table::{Found, Route};
use crate::service::served::Method;
use crate::service::shell::{Adapter, Later, RoutedRequest, Shared, Shell};

/// What the table has for a method.
type Entry<S, K> = Route<Method<S, K>, <K as Shell>::Request>;

impl<S: 'static, K: Adapter> Routes<S, K> {
    /// Returns the outcome of a request or a notification. `None` if it is answered later.
    pub(super) async fn outcome(&self, request: &K::Request) -> Option<Result<K::Text, Failure>> {
        let (found, chain, timeout) = {
            let table = self.table.read();
            let found = table
                .routes
                .find(request.method(), request.has_extensions());
            let chain = table.routes.chain(&found).cloned();
            (found.cloned(), chain, table.handler_timeout)
        };
        let Some(chain) = chain else {
            return self.run_found(request, found, None, None, timeout).await;
        };
        let (asked, shown, asking) = {
            let mut guarded = Guarded::<S, K>(Some(Asking::new(request, chain, found)));
            let asking = guarded.0.as_mut()?;
            let find = |method: &str| {
                let table = self.table.read();
                table.routes.find(method, request.has_extensions()).cloned()
            };
            let mut asked = asking.ask(Decision::Continue, find);
            while let Asked::Deferred(deferred) = asked {
                asked = match request.decision(deferred, timeout).await {
                    Ok(resolve) => {
                        let decision = resolve(&mut asking.cx);
                        asking.ask(decision, find)
                    }
                    Err(failure) => Asked::Answered(Err(failure)),
                };
            }
            let shown = asking.shown(&asked, || self.description().1);
            (asked, shown, guarded.0.take()?)
        };
        let (chain, seen_by, found) = (asking.chain, asking.asked, asking.found);
        let cx = request.keep(asking.cx);
        let mut waiting = Waiting::<K> {
            chain: &chain,
            request,
            asked: seen_by,
            cx,
        };
        let outcome = match asked {
            Asked::Answered(answer) => Some(answer),
            _ => {
                let ran = self.run_found(request, found, shown, Some((&chain, cx)), timeout);
                ran.await.map(|ran| ran.map(Into::into))
            }
        };
        let duration = request.now().saturating_since(cx.began());
        let mut reply = Reply::new(outcome, duration);
        chain.response(&mut waiting.asked, cx, request, &mut reply);
        let outcome = reply.into_outcome();
        if outcome.is_none() {
            let chain = chain.clone();
            request.when_answered(move |request, cx, end| {
                chain.answered(seen_by, cx, request, end);
            });
        }
        outcome.map(|outcome| outcome.map(K::Text::from))
    }

    /// Runs the handler of a request. Returns `None` if it is answered later.
    async fn run_found(
        &self,
        request: &K::Request,
        found: Found<Entry<S, K>>,
        shown: Option<Vec<MethodInfo>>,
        around: Around<'_, K::Request>,
        timeout: Option<Duration>,
    ) -> Option<Result<K::Text, Failure>> {
        let mut extensions = found.extensions.iter();
        loop {
            let extension = extensions.next();
            if extension.is_none() && found.is_built_in {
                let replaced = around.and_then(|(_, cx)| cx.method());
                let method = replaced.unwrap_or(request.method());
                let (params, mut text) = (request.given().params, K::Text::default());
                let done = self.discover(method, params, shown, text.as_mut());
                return Some(done.map(|()| text));
            }
            let Some(route) = extension.or(found.method.as_ref()) else {
                return Some(Err(Failure::UnknownMethod(request.unknown())));
            };
            let mut given = request.given();
            let said = route.unknown_params.or(found.unknown_params);
            given.unknown = said.unwrap_or(given.unknown);
            let (mut text, call, state) = (K::Text::default(), request, &self.state);
            let on = Invoked { given, call, state };
            let begin = || route.handler.serve(on, &mut text);
            let served = within(around, request, begin);
            let done = match served.unwrap_or_else(|failure| Served::Done(Err(failure))) {
                Served::Done(done) => Some(done.map(|()| text)),
                Served::Later(later) => {
                    drop(text);
                    Some(wait::<K>(later, request, around, timeout).await)
                }
                Served::Deferred => None,
            };
            match done {
                Some(Ok(mut text)) if route.is_notification => {
                    text.as_mut().clear();
                    text.as_mut().extend_from_slice(b"null");
                    return Some(Ok(text));
                }
                Some(Err(failure)) if extension.is_some() && failure.declines() => {}
                done => return done,
            }
        }
    }
}

/// A call while its interceptors are asked. If one of them panics, or the call is cancelled while one
/// decides, those that have been asked are told that the call was given up.
struct Guarded<'c, S, K: Adapter>(Option<Asking<'c, K::Request, Entry<S, K>>>);

impl<S, K: Adapter> Drop for Guarded<'_, S, K> {
    fn drop(&mut self) {
        if let Some(asking) = self.0.take() {
            drop(Waiting::<K> {
                chain: &asking.chain,
                request: asking.request,
                asked: asking.asked,
                cx: &asking.cx,
            });
            asking.request.contained(|| drop(asking.cx));
        }
    }
}

/// A call that interceptors have seen before it was handled. If it is dropped without an answer,
/// they see that it was given up.
struct Waiting<'c, K: Adapter> {
    chain: &'c Chain<K::Request>,
    request: &'c K::Request,
    /// How many interceptors are still to see the end of the call.
    asked: usize,
    cx: &'c Cx,
}

impl<K: Adapter> Drop for Waiting<'_, K> {
    fn drop(&mut self) {
        // Each by itself: one that panics keeps no other from hearing of it.
        let (chain, cx, request) = (self.chain, self.cx, self.request);
        for place in (0..self.asked).rev() {
            request.contained(|| chain.given_up_at(place, cx, request));
        }
    }
}

/// Waits for a handler, within its time limit.
async fn wait<K: Adapter>(
    mut later: Later<'_, K::Text>,
    request: &K::Request,
    around: Around<'_, K::Request>,
    handler_timeout: Option<Duration>,
) -> Result<K::Text, Failure> {
    let done = poll_fn(|task| {
        let polled = within(around, request, || later.as_mut().poll(task));
        polled.unwrap_or_else(|failure| Err(failure).into())
    });
    match handler_timeout {
        None => done.await,
        Some(span) => request.within(span, done).await.unwrap_or_else(Err),
    }
}

/// The interceptors of a call, if it has any, and its context.
type Around<'c, R> = Option<(&'c Chain<R>, &'c Cx)>;

/// Runs a step of a handler inside its interceptors.
///
/// # Errors
/// One of them has not run it.
pub(super) fn within<Q: 'static, R>(
    around: Around<'_, Q>,
    request: &Q,
    step: impl FnOnce() -> R,
) -> Result<R, Failure> {
    let Some((chain, cx)) = around else {
        return Ok(step());
    };
    let (mut step, mut done) = (Some(step), None);
    chain.scope(cx, request, &mut || {
        if let Some(step) = step.take() {
            done = Some(step());
        }
    });
    let not_run = "an interceptor's scope has not called its step";
    done.ok_or_else(|| Failure::Interceptor(not_run.into()))
}
