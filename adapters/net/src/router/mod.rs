//! Serves methods by name: functions, and services of whole traits.

mod check;
mod described;
mod extensions;
mod extract;
mod limit;
mod run;
mod serving;
#[cfg(feature = "tracing")]
mod spans;
mod told;
mod typed;

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use antiphon::service::{
    Chain, Cx, Discovery, Failure, Handler, Implementation, Interceptor, MethodInfo, Naming,
    RegisterError, Registry, described,
};
use antiphon::session::Report;
use antiphon::{Closed, OwnedError, UnknownParams};

use crate::answer::Answer;
use crate::peer::Peer;
use crate::request::Request;
use check::{Refusing, RefusingLater};
pub use extract::Extension;
pub use limit::{CostLimit, RateLimit};
pub use serving::{Answering, Answers, OnThreads, ServiceMethods, Starting, Tasks, marker};
use serving::{Serve, Whole};
#[cfg(feature = "tracing")]
pub use spans::{TracingSpans, trace_report};
pub use typed::{MethodHandler, RequestContext};

/// Serves methods by name, on tasks.
///
/// ```
/// use antiphon::{Internal, OwnedError, Params, State};
/// use antiphon_net::{Peer, Router};
///
/// async fn divide(a: f64, b: f64) -> Result<f64, OwnedError> {
///     match b {
///         0.0 => Err(OwnedError::new(-32602, "Division by zero")),
///         _ => Ok(a / b),
///     }
/// }
///
/// #[derive(serde::Deserialize)]
/// struct Move { x: i32, y: i32 }
///
/// let router = Router::with_state(100)
///     .method("add", ["a", "b"], |a: f64, b: f64| Ok::<_, OwnedError>(a + b))
///     .method("divide", ["a", "b"], divide)
///     .method("move", [], async |Params(to): Params<Move>, State(width): State<i32>, peer: Peer| {
///         peer.try_notify("moved", &[to.x, to.y]).internal()?;
///         Ok::<_, OwnedError>(to.x < width)
///     })
///     .notification("log", ["line"], |line: String| drop(line));
/// ```
pub type Router<S = ()> = Routes<S, Tasks>;

/// Serves methods by name. Clones are the same router. Methods can be registered, replaced and removed
/// while it serves; the change counts for later requests.
///
/// `S` is the state that handlers may take. `M` is [`Tasks`] or [`OnThreads`], on which the
/// handlers run; the `Router` of an adapter sets it.
pub struct Routes<S, M> {
    shared: Arc<Shared<S>>,
    runs: PhantomData<fn() -> M>,
}

struct Shared<S> {
    table: RwLock<Table<S>>,
    /// In an `Arc` of its own, for handlers that outlive their router.
    state: Arc<S>,
}

struct Table<S> {
    methods: Registry<Route<S>>,
    /// The extensions' names and handlers, of each provider.
    providers: Vec<Registry<Route<S>>>,
    naming: Naming,
    unknown_params: Option<UnknownParams>,
    /// `None` if names that begin with `rpc.` are ordinary names.
    discovery: Option<Discovery>,
    /// Whether the program has asked for the built-in extensions, so that they are on in every dialect.
    is_asked: bool,
    is_visible: Option<IsVisible>,
    chain: Option<Chain<Request>>,
    handler_timeout: Option<Duration>,
    map_failures: Option<MapFailures>,
    on_report: Option<Told<Report>>,
    on_opened: Option<Told<()>>,
    on_closed: Option<Told<Closed>>,
}

/// A function that replaces the error with which a failure is answered.
type MapFailures = Arc<dyn Fn(&Failure, &Request) -> Option<OwnedError> + Send + Sync>;

/// A function that is called when something has happened on a connection.
type Told<A> = Arc<dyn Fn(&Peer, A) + Send + Sync>;

/// A function that decides whether a caller may know of a method.
type IsVisible = Arc<dyn Fn(&Request, &MethodInfo) -> bool + Send + Sync>;

/// The handler of a method: a service, and the index of the method in it.
struct Route<S> {
    serve: Arc<dyn Serve<S>>,
    place: usize,
    is_notification: bool,
    unknown_params: Option<UnknownParams>,
}

impl<S> Clone for Route<S> {
    fn clone(&self) -> Self {
        Self {
            serve: Arc::clone(&self.serve),
            ..*self
        }
    }
}

impl<S, M> Clone for Routes<S, M> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            runs: PhantomData,
        }
    }
}

impl<M: 'static> Routes<(), M> {
    /// Makes a router without methods, whose handlers take no state.
    pub fn new() -> Self {
        Self::with_state(())
    }
}

impl<M: 'static> Default for Routes<(), M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Send + Sync + 'static, M: 'static> Routes<S, M> {
    /// Makes a router without methods, whose handlers may take `state` as
    /// [`State`](antiphon::State): an `Arc`, or another value that is cheap to clone.
    pub fn with_state(state: S) -> Self {
        let table = Table {
            methods: Registry::new(),
            providers: Vec::new(),
            naming: Naming::Simple,
            unknown_params: None,
            discovery: Some(Discovery::default()),
            is_asked: false,
            is_visible: None,
            chain: None,
            handler_timeout: None,
            map_failures: None,
            on_report: None,
            on_opened: None,
            on_closed: None,
        };
        Self {
            shared: Arc::new(Shared {
                table: RwLock::new(table),
                state: Arc::new(state),
            }),
            runs: PhantomData,
        }
    }

    /// Serves a method. `names` are the names of its parameters in their order; other arguments of
    /// the handler have none. Params are accepted by name and by position.
    ///
    /// # Panics
    /// The name is blank, taken or reserved, or the names do not fit the handler:
    /// [`try_method`](Self::try_method) returns why.
    #[track_caller]
    pub fn method<A, K, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<Request, S, A, Output: Answers<M, K>> + Send + Sync,
    {
        expect(self.try_method(MethodInfo::request(name, &[]), &names, handler));
        self
    }

    /// Serves a notification. A request with its name is answered `null`.
    ///
    /// # Panics
    /// See [`method`](Self::method).
    #[track_caller]
    pub fn notification<A, K, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<Request, S, A, Output: Answers<M, K>> + Send + Sync,
    {
        expect(self.try_method(MethodInfo::notification(name, &[]), &names, handler));
        self
    }

    /// Serves a method with a handler that takes the whole request: it decodes the params itself, and may
    /// answer later. Instead of a name it may have a description: without one, nobody can know what it takes,
    /// and the document of `rpc.discover` says `"x-params": "any"`.
    ///
    /// ```
    /// use antiphon::service::MethodInfo;
    /// use antiphon_net::{Answer, Router};
    /// # #[derive(serde::Deserialize)]
    /// # struct Move {}
    /// let router = Router::new()
    ///     .raw("echo", |request| Ok(Answer::new(request.raw_params())))
    ///     .raw(MethodInfo::from("move").with_params_of::<Move>(), |_| Ok(Answer::new(&1)));
    /// # let _: Router = router;
    /// ```
    ///
    /// # Panics
    /// The name is blank, taken or reserved.
    #[track_caller]
    pub fn raw<H>(self, info: impl Into<MethodInfo>, handler: H) -> Self
    where
        H: Fn(&Request) -> Result<Answer, OwnedError> + Send + Sync + 'static,
    {
        let info = info.into();
        let route = Route {
            serve: Arc::new(serving::Raw(handler)),
            place: 0,
            is_notification: info.is_notification(),
            unknown_params: None,
        };
        expect(self.insert(info, route));
        self
    }

    /// Serves a method or a notification that `info` describes. `names` are the names of the handler's
    /// parameters.
    ///
    /// # Errors
    /// The name is blank, taken or reserved, or the names do not fit the handler.
    pub fn try_method<A, K, H>(
        &self,
        info: MethodInfo,
        names: &[&'static str],
        handler: H,
    ) -> Result<(), RegisterError>
    where
        H: Handler<Request, S, A, Output: Answers<M, K>> + Send + Sync,
    {
        let info = described::<Request, S, A, H>(info, names)?;
        let route = Route::of(&info, serving::function(names, handler));
        self.insert(info, route)
    }

    /// Serves a method or a notification, and replaces the one that has its name, if there is one.
    ///
    /// # Errors
    /// As [`try_method`](Self::try_method), but the name may be taken.
    pub fn replace<A, K, H>(
        &self,
        info: MethodInfo,
        names: &[&'static str],
        handler: H,
    ) -> Result<(), RegisterError>
    where
        H: Handler<Request, S, A, Output: Answers<M, K>> + Send + Sync,
    {
        let info = described::<Request, S, A, H>(info, names)?;
        let route = Route::of(&info, serving::function(names, handler));
        // The replaced handler is dropped without the lock.
        let before = self.write().methods.replace(info, route)?;
        drop(before);
        Ok(())
    }

    /// Removes a method. Running calls go on. Returns false if there was none of that name.
    pub fn remove(&self, name: &str) -> bool {
        // The removed handler is dropped without the lock.
        let before = self.write().methods.remove(name);
        before.is_some()
    }

    /// Whether a method or a notification is registered under a name.
    pub fn serves(&self, name: &str) -> bool {
        self.read().methods.get(name).is_some()
    }

    /// Serves all methods of a service, which `into_service` of a trait with `#[service]` returns.
    ///
    /// # Panics
    /// A name is taken; the message has the name. Then give the service a
    /// [`prefix`](Implementation::prefix).
    #[track_caller]
    pub fn service<K: 'static, X: ServiceMethods<S, M, K>>(
        self,
        service: Implementation<X>,
    ) -> Self {
        expect(self.try_service(service));
        self
    }

    /// Serves all methods of a service.
    ///
    /// # Errors
    /// A name is taken, blank or reserved. None of the service's methods is registered then.
    pub fn try_service<K: 'static, X: ServiceMethods<S, M, K>>(
        &self,
        service: Implementation<X>,
    ) -> Result<(), RegisterError> {
        let mut table = self.write();
        let routes = Route::of_service(service, &table.naming)?;
        table.methods.insert_all(routes)
    }

    /// Sets how the method names of services that are registered from now on are made. Services with a
    /// prefix of their own are not affected. The default is the bare names.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        self.write().naming = naming;
        self
    }

    /// Sets what happens to params by names that a method does not have; a service and a method may say
    /// otherwise. The default is what the configuration of the connection says: −32602, but in the dialects
    /// LSP and MCP they are ignored.
    #[must_use]
    pub fn unknown_params(self, unknown_params: UnknownParams) -> Self {
        self.write().unknown_params = Some(unknown_params);
        self
    }

    /// Sets the server's name and version, for `rpc.discover`.
    #[must_use]
    pub fn describe(self, title: &'static str, version: &'static str) -> Self {
        self.discovery(Discovery::new(title, version))
    }

    /// Sets the answers to `rpc.listMethods` and `rpc.discover`. Without this and
    /// [`describe`](Self::describe) both are on, except in dialects that have no
    /// [`system_extensions`](antiphon::Dialect::system_extensions): LSP, MCP and ACP.
    #[must_use]
    pub fn discovery(self, discovery: Discovery) -> Self {
        let mut table = self.write();
        table.is_asked = true;
        let before = table.discovery.replace(discovery);
        drop(table);
        drop(before);
        self
    }

    /// Lists only those methods for which `is_visible` returns true, in `rpc.listMethods` and
    /// `rpc.discover`. It does not decide who may call them. Methods that a [`check`](Self::check) refuses
    /// to the caller by their name are not listed, either.
    #[must_use]
    pub fn visible(
        self,
        is_visible: impl Fn(&Request, &MethodInfo) -> bool + Send + Sync + 'static,
    ) -> Self {
        let before = self.write().is_visible.replace(Arc::new(is_visible));
        drop(before);
        self
    }

    /// Adds an interceptor, after those that were added before. It sees requests, notifications,
    /// entries of batches, extensions, and calls of unknown methods.
    #[must_use]
    pub fn intercept(self, interceptor: impl Interceptor<Request>) -> Self {
        self.write().chain.get_or_insert_default().push(interceptor);
        self
    }

    /// Adds a check of every call, which may refuse it: for lack of permission, for example. When a caller
    /// asks for `rpc.listMethods` or `rpc.discover`, the check is also called once for each method, with the
    /// caller's request under the name of that method: what it refuses is not listed. (What
    /// [`check_async`](Self::check_async) refuses is listed, unless [`visible`](Self::visible) hides it.)
    #[must_use]
    pub fn check(
        self,
        check: impl Fn(&mut Cx, &Request) -> Result<(), OwnedError> + Send + Sync + 'static,
    ) -> Self {
        self.intercept(Refusing(check))
    }

    /// Adds a check of every call that may wait: until a token was looked up, for example. `check` takes
    /// what it needs of the request and returns a future. The value of the future becomes an attribute of
    /// the call, which handlers take as [`Extension`](crate::Extension). While it is checked, a call counts
    /// as one that runs. Later requests go on; a notification waits until all calls before it have been
    /// checked, so set a [`handler_timeout`](Self::handler_timeout), which limits the check too.
    ///
    /// ```
    /// use antiphon::OwnedError;
    /// use antiphon_net::{Extension, Router};
    ///
    /// #[derive(Clone)]
    /// struct User(String);
    ///
    /// let router = Router::new()
    ///     .check_async(|request| {
    ///         let token = request.peer().context().headers.get("authorization").map(String::from);
    ///         async move {
    ///             // Look the token up here.
    ///             token.map(User).ok_or(OwnedError::new(1001, "Unauthorized"))
    ///         }
    ///     })
    ///     .method("whoami", [], |Extension(user): Extension<User>| Ok::<_, OwnedError>(user.0));
    /// # let _: Router = router;
    /// ```
    #[must_use]
    pub fn check_async<T, F>(self, check: impl Fn(&Request) -> F + Send + Sync + 'static) -> Self
    where
        T: Send + Sync + 'static,
        F: Future<Output = Result<T, OwnedError>> + Send + 'static,
    {
        self.intercept(RefusingLater(check))
    }

    /// Limits the time of handlers that wait. One that takes longer is dropped and its request is
    /// answered *timeout*, with the dialect's code. Without this there is no limit.
    #[must_use]
    pub fn handler_timeout(self, handler_timeout: Duration) -> Self {
        self.write().handler_timeout = Some(handler_timeout);
        self
    }

    /// Answers failures with the error that `map` returns; if that is `None`, with the failure's
    /// own error. Interceptors see the failure and not that error. The error is sent unchanged, so it
    /// must have nothing that only this side may know.
    #[must_use]
    pub fn map_failures(
        self,
        map: impl Fn(&Failure, &Request) -> Option<OwnedError> + Send + Sync + 'static,
    ) -> Self {
        let before = self.write().map_failures.replace(Arc::new(map));
        drop(before);
        self
    }

    /// Calls `told` with each report: something went wrong of which the peer was told nothing, or only a
    /// part. For logs and metrics. Without this, reports are ignored.
    #[must_use]
    pub fn on_report(self, told: impl Fn(&Peer, Report) + Send + Sync + 'static) -> Self {
        let before = self.write().on_report.replace(Arc::new(told));
        drop(before);
        self
    }

    /// Calls `told` for every connection, before any message of its peer is handled.
    #[must_use]
    pub fn on_opened(self, told: impl Fn(&Peer) + Send + Sync + 'static) -> Self {
        let before = self
            .write()
            .on_opened
            .replace(Arc::new(move |peer, ()| told(peer)));
        drop(before);
        self
    }

    /// Calls `told` at the end of every connection.
    #[must_use]
    pub fn on_closed(self, told: impl Fn(&Peer, Closed) + Send + Sync + 'static) -> Self {
        let before = self.write().on_closed.replace(Arc::new(told));
        drop(before);
        self
    }

    /// The OpenRPC document of all methods.
    ///
    /// # Errors
    /// A schema has no JSON form.
    pub fn document(&self) -> Result<String, antiphon::EncodeError> {
        let (discovery, infos) = self.description();
        discovery.document(infos.iter())
    }

    /// Returns the descriptions of the server and of its methods. It is a copy, because making schemas runs
    /// code of the program, which must not run under the lock.
    fn description(&self) -> (Discovery, Vec<MethodInfo>) {
        let table = self.read();
        let discovery = table.discovery.clone().unwrap_or_default();
        (discovery, table.methods.infos().cloned().collect())
    }

    fn insert(&self, info: MethodInfo, route: Route<S>) -> Result<(), RegisterError> {
        self.write().methods.insert(info, route)
    }

    fn read(&self) -> RwLockReadGuard<'_, Table<S>> {
        let table = self.shared.table.read();
        table.unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table<S>> {
        // A change is made completely or not at all, even if code has panicked.
        let table = self.shared.table.write();
        table.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a method has the name of an extension.
fn is_reserved(method: &str) -> bool {
    method.starts_with("rpc.")
}

#[track_caller]
fn expect(registered: Result<(), RegisterError>) {
    if let Err(error) = registered {
        panic!("{error}");
    }
}

impl<S: Send + Sync + 'static> Route<S> {
    /// The methods of a service, under the names that `naming` gives them.
    fn of_service<M: 'static, K: 'static, X: ServiceMethods<S, M, K>>(
        service: Implementation<X>,
        naming: &Naming,
    ) -> Result<Vec<(MethodInfo, Self)>, RegisterError> {
        let describe = service.describe();
        let (methods, prefix) = service.into_parts();
        let named = methods.describe().named(prefix, naming)?.into_iter();
        let serve: Arc<dyn Serve<S>> = Arc::new(Whole::<X, M, K>(Arc::new(methods), PhantomData));
        let routes = named.enumerate().map(|(place, info)| {
            let info = describe(info);
            let route = Route::of(&info, Arc::clone(&serve));
            (info, Route { place, ..route })
        });
        Ok(routes.collect())
    }
}

impl<S> Route<S> {
    fn of(info: &MethodInfo, serve: Arc<dyn Serve<S>>) -> Self {
        Self {
            serve,
            place: 0,
            is_notification: info.is_notification(),
            unknown_params: info.unknown_params(),
        }
    }
}

impl<S: Send + Sync + 'static, M: 'static> fmt::Debug for Routes<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.read();
        f.debug_set()
            .entries(table.methods.infos().map(MethodInfo::name))
            .finish()
    }
}
