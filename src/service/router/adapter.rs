//! What a router has in adapters: handlers that take the whole request, checks, and functions of the program for
//! failures, reports and connections.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;
use core::mem;
use core::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Listener, Routes, Table, expect};
use crate::error_object::OwnedError;
use crate::event::Closed;
use crate::service::cx::Cx;
use crate::service::decision::{Decision, Deferred};
use crate::service::describe::MethodInfo;
use crate::service::errors::Failure;
use crate::service::handler::{Handler, described};
use crate::service::intercept::{Chain, Interceptor};
use crate::service::invoked::{Invoked, Served};
use crate::service::methods::Implementation;
use crate::service::registry::RegisterError;
use crate::service::served::{Answers, Method, ServiceMethods, function, raw, typed};
use crate::service::shell::{Adapter, Awaits, RoutedRequest, Shared};
use crate::service::typed::MethodHandler;
use crate::session::Report;
use crate::shared::{Arc, erased};

impl<S: 'static, K: Adapter> Routes<S, K> {
    /// Serves a method with a handler that takes the whole request: it decodes the params itself, and may
    /// answer later. Instead of a name it may have a description: without one, nobody can know what it takes,
    /// and the document of `rpc.discover` says `"x-params": "any"`.
    ///
    /// # Panics
    /// The name is blank, taken or reserved.
    #[track_caller]
    pub fn raw<H>(self, info: impl Into<MethodInfo>, handler: H) -> Self
    where
        H: Fn(&K::Call) -> Result<K::Answer, OwnedError> + Send + Sync + 'static,
    {
        expect(self.insert(info.into(), raw(handler)));
        self
    }

    /// Serves an extension, whose name begins with `rpc.`. It may replace `rpc.listMethods` and
    /// `rpc.discover`. If it fails with *method not found*, it declines: then later extensions of the
    /// same name are asked, then the built-in ones, then a method of that name.
    ///
    /// # Panics
    /// The name does not begin with `rpc.`, or the names do not fit the handler.
    #[track_caller]
    pub fn extension<A, W, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<K::Request, S, A, Output: Answers<K, W>> + Send + Sync,
    {
        let info = described::<K::Request, S, A, H>(MethodInfo::request(name, &[]), &names);
        let method = function(names, handler);
        let insert = |info| self.table.write().routes.insert_extension(info, method);
        expect(info.and_then(insert));
        self
    }

    /// Serves an extension with a handler that takes the whole request, as [`raw`](Self::raw) does.
    ///
    /// # Panics
    /// The name does not begin with `rpc.`.
    #[track_caller]
    pub fn raw_extension<H>(self, info: impl Into<MethodInfo>, handler: H) -> Self
    where
        H: Fn(&K::Call) -> Result<K::Answer, OwnedError> + Send + Sync + 'static,
    {
        let method = raw(handler);
        expect(
            self.table
                .write()
                .routes
                .insert_extension(info.into(), method),
        );
        self
    }

    /// Notes that the router has a hub.
    #[track_caller]
    pub(crate) fn only_hub(self) -> Self {
        let is_first = !mem::replace(&mut self.table.write().has_hub, true);
        expect(is_first.then_some(()).ok_or(RegisterError::SecondHub));
        self
    }

    /// Serves a method of a hub as an extension.
    #[track_caller]
    pub(crate) fn serve_extension<F>(self, info: MethodInfo, serve: F) -> Self
    where
        F: Fn(&K::Request, &mut K::Text) -> Served<'static, K> + Send + Sync + 'static,
    {
        let method =
            Method::of(move |on: Invoked<'_, S, K>, text: &mut K::Text| serve(on.call, text));
        let added = self.table.write().routes.insert_extension(info, method);
        expect(added);
        self
    }

    /// Serves the methods of a service as extensions, as [`extension`](Self::extension) does. Providers
    /// are asked in the order in which they were added; one that fails with *method not found* declines.
    ///
    /// # Panics
    /// A name does not begin with `rpc.`.
    #[track_caller]
    pub fn provider<W: 'static, X: ServiceMethods<S, K, W>>(
        self,
        service: Implementation<X>,
    ) -> Self {
        let info = service.methods().describe();
        let added = self
            .table
            .write()
            .routes
            .insert_provider(service, info, Method::all);
        expect(added);
        self
    }

    /// Lists only those methods for which `is_visible` returns true, in `rpc.listMethods` and
    /// `rpc.discover`. It does not decide who may call them. Methods that a [`check`](Self::check) refuses
    /// to the caller by their name are not listed, either.
    #[must_use]
    pub fn visible(
        self,
        is_visible: impl Fn(&K::Request, &MethodInfo) -> bool + Send + Sync + 'static,
    ) -> Self {
        let shows =
            move |_: &mut Cx, request: &K::Request, info: &MethodInfo| is_visible(request, info);
        self.intercept(Checks(
            |_: &mut Cx, _: &K::Request| Decision::Continue,
            shows,
        ))
    }

    /// Adds a check of every call, which may refuse it: for lack of permission, for example. When a caller
    /// asks for `rpc.listMethods` or `rpc.discover`, the check is also called once for each method, with the
    /// caller's request under the name of that method: what it refuses is not listed. (What
    /// [`check_async`](Self::check_async) refuses is listed, unless [`visible`](Self::visible) hides it.)
    #[must_use]
    pub fn check(
        self,
        check: impl Fn(&mut Cx, &K::Request) -> Result<(), OwnedError> + Send + Sync + 'static,
    ) -> Self {
        let check = Arc::new(check);
        let refuses = Arc::clone(&check);
        let asks = move |cx: &mut Cx, request: &K::Request| match check(cx, request) {
            Ok(()) => Decision::Continue,
            Err(error) => error.into(),
        };
        let shows = move |cx: &mut Cx, request: &K::Request, info: &MethodInfo| {
            refuses(cx, &request.renamed(info.name())).is_ok()
        };
        self.intercept(Checks(asks, shows))
    }

    /// Adds a check of every call that may wait: until a token was looked up, for example. `check` takes
    /// what it needs of the request and returns a future. The value of the future becomes an attribute of
    /// the call, which handlers take as `Extension`. While it is checked, a call counts
    /// as one that runs. Later requests go on; a notification waits until all calls before it have been
    /// checked, so set a [`handler_timeout`](Self::handler_timeout), which limits the check too.
    #[must_use]
    pub fn check_async<T, F>(self, check: impl Fn(&K::Request) -> F + Send + Sync + 'static) -> Self
    where
        T: Send + Sync + 'static,
        F: Future<Output = Result<T, OwnedError>> + Send + 'static,
    {
        let asks =
            move |_: &mut Cx, request: &K::Request| Decision::Defer(Deferred::new(check(request)));
        self.intercept(Checks(
            asks,
            |_: &mut Cx, _: &K::Request, _: &MethodInfo| true,
        ))
    }

    /// Limits the time of handlers that wait. One that takes longer is dropped and its request is
    /// answered *timeout*, with the dialect's code. Without this there is no limit.
    #[must_use]
    pub fn handler_timeout(self, handler_timeout: Duration) -> Self {
        self.table.write().handler_timeout = Some(handler_timeout);
        self
    }

    /// Answers failures with the error that `map` returns; if that is `None`, with the failure's
    /// own error. Interceptors see the failure and not that error. The error is sent unchanged, so it
    /// must have nothing that only this side may know.
    #[must_use]
    pub fn map_failures(
        self,
        map: impl Fn(&Failure, &K::Request) -> Option<OwnedError> + Send + Sync + 'static,
    ) -> Self {
        self.set(|table| table.map_failures.replace(erased(Box::new(map))))
    }

    /// Calls `told` with each report: something went wrong of which the peer was told nothing, or only a
    /// part. For logs and metrics. Without this, reports are ignored.
    #[must_use]
    pub fn on_report(self, told: impl Fn(&K::Peer, Report) + Send + Sync + 'static) -> Self {
        self.set(|table| table.on_report.replace(erased(Box::new(told))))
    }

    /// Calls `told` for every connection, before any message of its peer is handled.
    #[must_use]
    pub fn on_opened(self, told: impl Fn(&K::Peer) + Send + Sync + 'static) -> Self {
        let told = move |peer: &K::Peer, ()| told(peer);
        self.set(|table| table.on_opened.replace(erased(Box::new(told))))
    }

    /// Calls `told` at the end of every connection.
    #[must_use]
    pub fn on_closed(self, told: impl Fn(&K::Peer, Closed) + Send + Sync + 'static) -> Self {
        self.set(|table| table.on_closed.replace(erased(Box::new(told))))
    }

    fn set<B>(self, set: impl FnOnce(&mut Table<S, K>) -> B) -> Self {
        // The function that was set before is dropped without the lock.
        let before = set(&mut self.table.write());
        drop(before);
        self
    }

    /// Makes a clone of the router for every connection of a server: the argument of its `start`.
    pub fn into_make_service<A: ?Sized>(self) -> impl Fn(&A) -> Self + Clone + 'static
    where
        Self: Clone,
    {
        move |_: &A| self.clone()
    }

    /// Passes a report to the function of [`on_report`](Self::on_report).
    pub fn report(&self, peer: &K::Peer, report: Report) {
        self.tell(|table| table.on_report.clone(), peer, report);
    }

    /// Tells the interceptors of a new connection, and the function of [`on_opened`](Self::on_opened). If the
    /// connection is one of several exchanges of one connection, interceptors are told of that one, at its first
    /// exchange. If each exchange has a router of its own, its interceptors are told of the end at the next exchange.
    pub fn opened(&self, peer: &K::Peer) {
        let chain = self.table.read().routes.everywhere();
        if let Some(chain) = chain {
            let connection = K::connection(peer);
            let mut attributes = K::attributes(peer);
            let known = attributes.get_mut::<Vec<Seen<K>>>();
            let is_known =
                known.is_some_and(|all| all.iter().any(|seen| seen.chain.is_clone_of(&chain)));
            if !is_known {
                let all = attributes.remove::<Vec<Seen<K>>>();
                // Each exchange may have a router of its own. Those of earlier ones are gone.
                let (over, mut all): (Vec<_>, Vec<_>) = (all.into_iter().flatten())
                    .partition(|seen: &Seen<K>| seen.chain.is_unshared());
                all.push(Seen {
                    chain: chain.clone(),
                    connection,
                });
                attributes.insert(all);
                // The program's code runs without the lock.
                drop(attributes);
                over.into_iter().for_each(|mut seen| seen.end(Some(peer)));
                chain.opened(connection);
            }
        }
        self.tell(|table| table.on_opened.clone(), peer, ());
    }

    /// Tells the interceptors that a batch has arrived.
    pub fn batch(&self, peer: &K::Peer, items: usize) {
        let chain = self.table.read().routes.everywhere();
        chain.inspect(|chain| chain.batch_received(K::connection(peer), items));
    }

    /// Tells the function of [`on_closed`](Self::on_closed) of the end of a connection, and then the
    /// interceptors that were told of its beginning.
    pub fn closed(&self, peer: &K::Peer, why: Closed) {
        self.tell(|table| table.on_closed.clone(), peer, why);
        // Those of several exchanges are told at the end of their connection.
        if !K::shares_connection(peer) {
            let seen = K::attributes(peer).remove::<Vec<Seen<K>>>();
            let seen = seen.into_iter().flatten();
            seen.for_each(|mut seen| seen.end(Some(peer)));
        }
    }

    fn tell<A>(
        &self,
        pick: impl FnOnce(&Table<S, K>) -> Option<Listener<K::Peer, A>>,
        peer: &K::Peer,
        what: A,
    ) {
        // The function runs without the router's lock, so that it may register methods.
        let listener = pick(&self.table.read());
        if let Some(listener) = listener {
            listener(peer, what);
        }
    }

    /// Answers a request. Only one router may serve a request: if a second one serves it, the attributes
    /// that the second one's interceptors add are lost.
    ///
    /// # Errors
    /// The error that is sent.
    pub async fn serve(&self, request: &K::Request) -> Result<K::Answer, OwnedError> {
        match self.outcome(request).await {
            Some(Ok(text)) => Ok(K::answer(Some(text))),
            Some(Err(failure)) => {
                let map = self.table.read().map_failures.clone();
                match map.and_then(|map| map(&failure, request)) {
                    None => request.failed(failure),
                    Some(mapped) => {
                        request.report(failure);
                        Err(mapped)
                    }
                }
            }
            None => Ok(K::answer(None)),
        }
    }

    /// Serves a notification, and reports its errors, because it is not answered.
    pub async fn handle(&self, notification: K::Notification) {
        let request = K::of_notification(notification);
        if let Some(Err(failure)) = self.outcome(&request).await {
            request.report(failure);
        }
    }
}

/// An interceptor of two functions: one decides about a call, the other whether a method is shown.
struct Checks<A, S>(A, S);

impl<R, A, S> Interceptor<R> for Checks<A, S>
where
    A: Fn(&mut Cx, &R) -> Decision + Send + Sync + 'static,
    S: Fn(&mut Cx, &R, &MethodInfo) -> bool + Send + Sync + 'static,
{
    fn request(&self, cx: &mut Cx, request: &R) -> Decision {
        (self.0)(cx, request)
    }

    fn shows(&self, cx: &mut Cx, request: &R, info: &MethodInfo) -> bool {
        (self.1)(cx, request, info)
    }
}

/// The interceptors that have seen a connection begin. When it is dropped, they are told of the end.
struct Seen<K: Adapter> {
    chain: Chain<K::Request>,
    connection: u32,
}

impl<K: Adapter> Seen<K> {
    /// Tells the interceptors of the end, once.
    fn end(&mut self, peer: Option<&K::Peer>) {
        let chain = mem::take(&mut self.chain);
        chain.closed(self.connection, |closed| K::contained(peer, closed));
    }
}

impl<K: Adapter> Drop for Seen<K> {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl<S: Clone + 'static, K: Awaits> Routes<S, K> {
    /// Serves a method that is described by a type. The handler takes its params and a context, and returns a
    /// future of its result.
    ///
    /// # Panics
    /// The name is blank, taken or reserved.
    #[track_caller]
    pub fn on<M>(self, handler: impl MethodHandler<M, S, K>) -> Self
    where
        M: crate::Method<Params: DeserializeOwned, Result: Serialize, Error: Into<OwnedError>>
            + 'static,
    {
        self.typed::<M>(MethodInfo::request(M::NAME, &[]), handler)
    }

    /// Serves a notification that is described by a type.
    ///
    /// # Panics
    /// See [`on`](Self::on).
    #[track_caller]
    pub fn on_notification<M>(self, handler: impl MethodHandler<M, S, K>) -> Self
    where
        M: crate::Method<Params: DeserializeOwned, Result: Serialize, Error: Into<OwnedError>>
            + 'static,
    {
        self.typed::<M>(MethodInfo::notification(M::NAME, &[]), handler)
    }

    #[track_caller]
    fn typed<M>(self, info: MethodInfo, handler: impl MethodHandler<M, S, K>) -> Self
    where
        M: crate::Method<Params: DeserializeOwned, Result: Serialize, Error: Into<OwnedError>>
            + 'static,
    {
        expect(self.insert(info.with_params_of::<M::Params>(), typed(handler)));
        self
    }
}
