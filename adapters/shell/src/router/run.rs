//! The way of a request through a router.

use std::future::{Future, poll_fn};
use std::mem::take;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use antiphon::service::{
    Asked, Chain, Cx, Failure, MethodInfo, Reply, ResultText, Route, left_group,
};
use antiphon::session::Report;
use antiphon::{Closed, OwnedError};

use super::Routes;
use super::serving::{Method, OnThreads, Served, Tasks};
use crate::context::Context;
use crate::guard::Contained;
use crate::peer::Peer;
use crate::serve::answer::Answer;
use crate::serve::notification::Notification;
use crate::serve::request::Request;
use crate::serve::service::Service;
use crate::session::Session;
use crate::text::Text;

impl<S: Send + Sync + 'static, M: 'static> Routes<S, M> {
    /// Answers a request. Only one router may serve a request: if a second one serves it, the attributes
    /// that the second one's interceptors add are lost.
    pub async fn serve(&self, request: &Request) -> Result<Answer, OwnedError> {
        match self.outcome(request).await {
            Some(Ok(text)) => Ok(Answer(Some(Ok(text)))),
            Some(Err(failure)) => {
                let map = self.read().map_failures.clone();
                match map.and_then(|map| map(&failure, request)) {
                    None => request.failed(failure),
                    Some(mapped) => {
                        request.report(failure);
                        Err(mapped)
                    }
                }
            }
            None => Ok(Answer::deferred()),
        }
    }

    /// Returns the outcome of a request or a notification. `None` if it is answered later.
    async fn outcome(&self, request: &Request) -> Option<Result<Text, Failure>> {
        let method = request.method();
        let (found, chain) = self.find(request, method);
        match chain {
            None => self.run(request, method, found, None).await,
            // Boxed, because it would otherwise make the future of every request larger than 1 KiB, above
            // which allocating takes longer: 5 % of the instructions of a call in a batch.
            Some(chain) => Box::pin(self.intercepted(request, found, chain)).await,
        }
    }

    /// Serves a request with interceptors.
    async fn intercepted(
        &self,
        request: &Request,
        mut found: Found<S>,
        chain: Chain<Request>,
    ) -> Option<Result<Text, Failure>> {
        let mut asking = Asking {
            chain,
            request,
            asked: 0,
            cx: Some(request.context(found.routes.is_some())),
        };
        let mut answer = asking.ask(found.handler_timeout).await;
        // Those of the group of the method, which an interceptor may have replaced.
        if answer.is_none() {
            found = self.found(found, request, &asking);
            if asking.chain.enter(found.group()) && asking.chain.is_in_group() {
                answer = asking.ask(found.handler_timeout).await;
                found = self.found(found, request, &asking);
                if answer.is_none() && !asking.chain.enter(found.group()) {
                    answer = Some(Err(left_group()));
                }
            }
        }
        let (asked, cx, chain) = asking.end();
        let (mut cx, chain) = (cx?, &chain);
        if answer.is_none() && found.routes.is_built_in {
            let (_, listed) = self.description();
            let shown = listed
                .into_iter()
                .filter(|(info, group)| chain.shows(&mut cx, request, info, group.as_ref()));
            found.shown = Some(shown.map(|(info, _)| info).collect());
        }
        let cx = request.keep(cx);
        let mut waiting = Waiting {
            chain,
            request,
            asked,
            cx,
        };
        let around = Some((chain, cx));
        let method = cx.method().unwrap_or(request.method());
        let served = match answer {
            Some(answer) => Some(answer.map(Text::of_json)),
            None => self.run(request, method, found, around).await,
        };
        let duration = request.now().saturating_since(cx.began());
        let outcome = served.map(|served| served.map(Text::into_json));
        let mut reply = Reply::new(outcome, duration);
        let seen_by = waiting.asked;
        chain.response(&mut waiting.asked, cx, request, &mut reply);
        let outcome = reply.into_outcome();
        if outcome.is_none() {
            tell_later(request, chain.clone(), seen_by);
        }
        outcome.map(|outcome| outcome.map(Text::of_json))
    }

    /// Runs the handler of a request. Returns `None` if it is answered later.
    async fn run(
        &self,
        request: &Request,
        method: &str,
        found: Found<S>,
        around: Option<(&Chain<Request>, &Cx)>,
    ) -> Option<Result<Text, Failure>> {
        let routes = &found.routes;
        let mut extensions = routes.extensions.iter();
        loop {
            let extension = extensions.next();
            if extension.is_none() && routes.is_built_in {
                return Some(self.discover(request, method, found.shown));
            }
            let Some(route) = extension.or(routes.method.as_ref()) else {
                return Some(Err(Failure::UnknownMethod(request.unknown_method())));
            };
            request.set_unknown_params(route.unknown_params.or(routes.unknown_params));
            let Method { serve, place } = &route.handler;
            let begin = || serve.serve(*place, request, &self.shared.state);
            let served = match around {
                None => begin(),
                Some((chain, cx)) => within(chain, cx, request, begin),
            };
            let done = match served {
                Served::Done(done) => done,
                Served::Later(later) => {
                    Some(wait(later, request, around, found.handler_timeout).await)
                }
            };
            match done {
                Some(Ok(_)) if route.is_notification => return Some(Ok(Text::null())),
                Some(Err(failure)) if extension.is_some() && failure.declines() => {}
                done => return done,
            }
        }
    }

    /// Finds the handler of a method, and the interceptors.
    fn find(&self, request: &Request, method: &str) -> (Found<S>, Option<Chain<Request>>) {
        let table = self.read();
        let routes = table.routes.find(method, request.has_extensions());
        let chain = table.routes.chain(&routes).cloned();
        let found = Found {
            routes: routes.cloned(),
            shown: None,
            handler_timeout: table.handler_timeout,
        };
        (found, chain)
    }

    /// Finds the handler of the method by which interceptors have replaced that of a call, if they have.
    fn found(&self, found: Found<S>, request: &Request, asking: &Asking<'_>) -> Found<S> {
        let replaced = asking.cx.as_ref().and_then(|cx| cx.method());
        replaced.map_or(found, |method| self.find(request, method).0)
    }

    /// Describes the methods that interceptors show, or all if there are no interceptors.
    fn discover(
        &self,
        request: &Request,
        method: &str,
        shown: Option<Vec<MethodInfo>>,
    ) -> Result<Text, Failure> {
        let (discovery, listed) = self.description();
        let infos = shown.unwrap_or_else(|| listed.into_iter().map(|(info, _)| info).collect());
        let mut text = Text::new();
        discovery.write(method, request.raw_params(), infos.iter(), text.buffer())?;
        Ok(text)
    }

    /// Serves a notification, and reports its errors, because it is not answered.
    pub async fn handle(&self, notification: Notification) {
        let (session, message) = notification.into_parts();
        let request = Request::of_notification(&session, message);
        if let Some(Err(failure)) = self.outcome(&request).await {
            request.report(failure);
        }
    }
}

/// What serves a call.
struct Found<S> {
    routes: antiphon::service::Found<Route<Method<S>, Request>>,
    /// The methods that interceptors show to the caller, for a built-in extension.
    shown: Option<Vec<MethodInfo>>,
    /// The time limit of a handler that waits.
    handler_timeout: Option<Duration>,
}

impl<S> Found<S> {
    fn group(&self) -> Option<&Chain<Request>> {
        self.routes.method.as_ref()?.group()
    }
}

/// A call while its interceptors are asked. If one of them panics, or the call is cancelled while one
/// decides, those that have been asked are told that the call was given up.
struct Asking<'c> {
    chain: Chain<Request>,
    request: &'c Request,
    /// How many interceptors have returned a decision.
    asked: usize,
    /// `None` after the asking has ended, with or without an answer.
    cx: Option<Contained<Cx, Session>>,
}

impl Asking<'_> {
    /// Asks all interceptors, and waits for those that decide later, for `timeout` at most each. Returns
    /// the answer if one of them has answered.
    async fn ask(&mut self, timeout: Option<Duration>) -> Option<Result<ResultText, Failure>> {
        let cx = self.cx.as_mut()?;
        let mut came = self.chain.ask(&mut self.asked, cx, self.request);
        loop {
            let deferred = match came {
                Asked::Passed => return None,
                Asked::Answered(answer) => return Some(answer),
                Asked::Deferred(deferred) => self.request.postponed(deferred),
            };
            let resolve = match timeout {
                None => deferred.await,
                Some(timeout) => match self.request.within(timeout, deferred).await {
                    Some(resolve) => resolve,
                    None => return Some(Err(self.request.timed_out().into())),
                },
            };
            let decision = resolve(cx);
            came = self
                .chain
                .decide(decision, &mut self.asked, cx, self.request);
        }
    }

    fn end(mut self) -> (usize, Option<Contained<Cx, Session>>, Chain<Request>) {
        (self.asked, self.cx.take(), take(&mut self.chain))
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(cx) = &self.cx {
            given_up(&self.chain, self.asked, cx, self.request);
        }
    }
}

/// A call that interceptors have seen before it was handled. If it is dropped without an answer,
/// they see that it was given up.
struct Waiting<'c> {
    chain: &'c Chain<Request>,
    request: &'c Request,
    /// How many interceptors are still to see the end of the call.
    asked: usize,
    cx: &'c Cx,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        given_up(self.chain, self.asked, self.cx, self.request);
    }
}

/// Reports to the interceptors that the call was given up, each by itself: one that panics keeps no other
/// from hearing of it.
fn given_up(chain: &Chain<Request>, asked: usize, cx: &Cx, request: &Request) {
    for place in (0..asked).rev() {
        request.contained(|| chain.given_up_at(place, cx, request));
    }
}

/// Reports to interceptors the answer to a request whose handler has returned without one.
fn tell_later(request: &Request, chain: Chain<Request>, seen_by: usize) {
    request.when_answered(move |request, given| {
        if let Some(cx) = request.kept() {
            let duration = request.now().saturating_since(cx.began());
            chain.answered(seen_by, cx, request, &given.end(duration));
        }
    });
}

/// Waits for a handler, within its time limit.
async fn wait(
    mut later: Pin<Box<dyn Future<Output = Result<Text, Failure>> + Send + '_>>,
    request: &Request,
    around: Option<(&Chain<Request>, &Cx)>,
    handler_timeout: Option<Duration>,
) -> Result<Text, Failure> {
    let done = poll_fn(|task| match around {
        None => later.as_mut().poll(task),
        Some((chain, cx)) => within(chain, cx, request, || later.as_mut().poll(task)),
    });
    let Some(handler_timeout) = handler_timeout else {
        return done.await;
    };
    match request.within(handler_timeout, done).await {
        Some(done) => done,
        None => Err(request.timed_out().into()),
    }
}

/// Runs a step of a handler inside its interceptors.
fn within<R>(chain: &Chain<Request>, cx: &Cx, request: &Request, step: impl FnOnce() -> R) -> R {
    let (mut step, mut done) = (Some(step), None);
    chain.scope(cx, request, &mut || {
        if let Some(step) = step.take() {
            done = Some(step());
        }
    });
    match done {
        Some(done) => done,
        None => panic!("an interceptor's scope has not called its step"),
    }
}

impl<S: Send + Sync + 'static> Service for Routes<S, Tasks> {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        self.serve(request).await
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        self.handle(notification).await;
    }

    async fn opened(&self, peer: &Peer) {
        Self::opened(self, peer);
    }

    fn batch(&self, peer: &Peer, items: usize) {
        Self::batch(self, peer, items);
    }

    fn report(&self, peer: &Peer, report: Report) {
        Self::report(self, peer, report);
    }

    fn closed(&self, peer: &Peer, why: Closed) {
        Self::closed(self, peer, why);
    }
}

impl<S: Send + Sync + 'static> Routes<S, Tasks> {
    /// Makes a clone of the router for every connection of a server: the argument of
    /// its `start`.
    pub fn into_make_service(self) -> impl Fn(&Context) -> Self + Clone + Send + Sync + 'static {
        move |_| self.clone()
    }
}

impl<S: Send + Sync + 'static> Routes<S, OnThreads> {
    /// Makes a clone of the router for every connection of a server: the argument of `start`.
    pub fn into_make_service(self) -> impl FnMut(SocketAddr) -> Self + Send + 'static {
        move |_| self.clone()
    }
}
