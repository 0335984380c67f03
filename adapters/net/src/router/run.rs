//! The way of a request through a router.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use antiphon::service::{Asked, Chain, Cx, Failure, MethodInfo, Reply, ResultText};
use antiphon::session::Report;
use antiphon::{Closed, OwnedError, UnknownParams};

use super::serving::{OnThreads, Served, Tasks};
use super::{Route, Routes, is_reserved};
use crate::answer::Answer;
use crate::context::Context;
use crate::guard::Contained;
use crate::notification::Notification;
use crate::peer::Peer;
use crate::request::Request;
use crate::service::Service;
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
            Some(chain) => Box::pin(self.intercepted(request, found, &chain)).await,
        }
    }

    /// Serves a request with interceptors.
    async fn intercepted(
        &self,
        request: &Request,
        found: Found<S>,
        chain: &Chain<Request>,
    ) -> Option<Result<Text, Failure>> {
        let mut asking = Asking {
            chain,
            request,
            asked: 0,
            cx: Some(request.context(found.is_some())),
        };
        let answer = asking.ask(found.handler_timeout).await;
        let (asked, cx) = asking.end();
        let mut cx = cx?;
        let mut found = match cx.method() {
            Some(other) if answer.is_none() => self.find(request, other).0,
            _ => found,
        };
        if answer.is_none() && found.is_built_in {
            let (_, infos) = self.description();
            let shown = infos.into_iter();
            let shown = shown.filter(|info| chain.shows(&mut cx, request, info));
            found.shown = Some(shown.collect());
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
        let mut extensions = found.extensions.iter();
        loop {
            let extension = extensions.next();
            if extension.is_none() && found.is_built_in {
                return Some(self.discover(request, method, found.shown));
            }
            let Some(route) = extension.or(found.route.as_ref()) else {
                return Some(Err(Failure::UnknownMethod(request.unknown_method())));
            };
            request.set_unknown_params(route.unknown_params.or(found.unknown_params));
            let begin = || route.serve.serve(route.place, request, &self.shared.state);
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
        let mut found = Found {
            extensions: Vec::new(),
            route: table.methods.get(method).cloned(),
            is_built_in: false,
            shown: None,
            handler_timeout: table.handler_timeout,
            unknown_params: table.unknown_params,
        };
        if let (true, Some(discovery)) = (is_reserved(method), &table.discovery) {
            let providers = table.providers.iter();
            found.extensions = providers
                .filter_map(|all| all.get(method).cloned())
                .collect();
            let is_on = table.is_asked || request.has_extensions();
            found.is_built_in = is_on && discovery.answers(method);
        }
        (found, table.chain.clone())
    }

    /// Describes the methods that interceptors show, or all if there are no interceptors.
    fn discover(
        &self,
        request: &Request,
        method: &str,
        shown: Option<Vec<MethodInfo>>,
    ) -> Result<Text, Failure> {
        let (discovery, infos) = self.description();
        let infos = shown.unwrap_or(infos);
        let is_visible = self.read().is_visible.clone();
        let is_visible = |info: &&MethodInfo| match &is_visible {
            Some(is_visible) => is_visible(request, info),
            None => true,
        };
        let infos = infos.iter().filter(is_visible);
        let mut text = Text::new();
        discovery.write(method, request.raw_params(), infos, text.buffer())?;
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

/// The handlers of a method.
struct Found<S> {
    /// The extensions of its name, in the order in which they are asked.
    extensions: Vec<Route<S>>,
    /// The program's method.
    route: Option<Route<S>>,
    /// Whether the router itself answers the method if no extension does.
    is_built_in: bool,
    /// The methods that interceptors show to the caller, for a built-in extension.
    shown: Option<Vec<MethodInfo>>,
    /// The time limit of a handler that waits.
    handler_timeout: Option<Duration>,
    /// What the router says about params by unknown names.
    unknown_params: Option<UnknownParams>,
}

impl<S> Found<S> {
    fn is_some(&self) -> bool {
        self.route.is_some() || self.is_built_in || !self.extensions.is_empty()
    }
}

/// A call while its interceptors are asked. If one of them panics, or the call is cancelled while one
/// decides, those that have been asked are told that the call was given up.
struct Asking<'c> {
    chain: &'c Chain<Request>,
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

    fn end(mut self) -> (usize, Option<Contained<Cx, Session>>) {
        (self.asked, self.cx.take())
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(cx) = &self.cx {
            given_up(self.chain, self.asked, cx, self.request);
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
    /// [`start`](crate::Server::start).
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
