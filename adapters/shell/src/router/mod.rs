//! Serves methods by name: functions, and services of whole traits.
//!
//! The table of methods, the arguments and the interceptors are those of [`antiphon::service`]; here handlers
//! are awaited, and answers sent.
//!
//! | file | has |
//! |---|---|
//! | `mod` | the router: methods, nested routers and interceptors are added to it |
//! | `run` | the way of a request through it |
//! | `serving` | handlers: functions and whole services, on tasks and on threads |
//! | `typed` | methods that a type describes |
//! | `extract` | arguments that are made from the request |
//! | `extensions` | methods whose names begin with `rpc.` |
//! | `connection_events` | what a connection tells besides its calls |
//! | `check` | refuses calls, and hides methods |
//! | `limit` | refuses calls that come too often, or cost too much |
//! | `spans` | spans of the crate `tracing` |
//!
//! ```text
//!   request ─▶ run ─▶ interceptors (check, limit, spans, …) ─▶ serving: the handler
//!                                                                   │
//!   answer  ◀──────── interceptors, in reverse  ◀───────────────────┘
//! ```

mod check;
mod connection_events;
mod extensions;
mod extract;
mod limit;
mod run;
mod serving;
#[cfg(feature = "tracing")]
mod spans;
mod typed;

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use antiphon::service::{
    Chain, Cx, Discovery, Failure, Handler, Implementation, Interceptor, MethodInfo, Naming,
    Prefix, RegisterError, RoutingTable, described, names_of,
};
use antiphon::session::Report;
use antiphon::{Closed, OwnedError, UnknownParams};

use crate::peer::Peer;
use crate::serve::answer::Answer;
use crate::serve::request::Request;
use check::{Refusing, RefusingLater, Showing};
pub use extract::Extension;
pub use limit::{CostLimit, RateLimit};
pub use serving::{Answering, Answers, OnThreads, ServiceMethods, Starting, Tasks, marker};
use serving::{Method, Nested, Raw, Serve, function};
#[cfg(feature = "tracing")]
pub use spans::{TracingSpans, trace_report};
pub use typed::{MethodHandler, RequestContext};

/// Serves methods by name, on tasks.
///
/// ```
/// use antiphon::{Internal, OwnedError, Params, State};
/// use antiphon_shell::{Peer, Router};
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

/// The methods, and what only a router of this crate can do.
struct Table<S> {
    routes: RoutingTable<Method<S>, Request>,
    handler_timeout: Option<Duration>,
    map_failures: Option<MapFailures>,
    on_report: Option<Listener<Report>>,
    on_opened: Option<Listener<()>>,
    on_closed: Option<Listener<Closed>>,
}

/// The description of a method, and the interceptors of its group.
type Listed = (MethodInfo, Option<Chain<Request>>);

/// A function that replaces the error with which a failure is answered.
type MapFailures = Arc<dyn Fn(&Failure, &Request) -> Option<OwnedError> + Send + Sync>;

/// A function that is called when something has happened on a connection.
type Listener<A> = Arc<dyn Fn(&Peer, A) + Send + Sync>;

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
            routes: RoutingTable::new(),
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
    /// use antiphon_shell::{Answer, Router};
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
        expect(self.insert(info.into(), Arc::new(Raw(handler))));
        self
    }

    /// Serves a method or a notification that `info` describes: its name, the names of its parameters, and,
    /// as `#[service]` gives them, its documentation and the types of its parameters and its result.
    ///
    /// ```
    /// use antiphon::{OwnedError, method_info};
    /// use antiphon_shell::Router;
    /// let about = method_info!("add"("a": f64, "b": f64) -> f64).with_doc("Adds two numbers.");
    /// let router = Router::new().method_with(about, |a: f64, b: f64| Ok::<_, OwnedError>(a + b));
    /// # let _: Router = router;
    /// ```
    ///
    /// # Panics
    /// As [`method`](Self::method), or the handler takes other parameters.
    #[track_caller]
    pub fn method_with<A, K, H>(self, info: MethodInfo, handler: H) -> Self
    where
        H: Handler<Request, S, A, Output: Answers<M, K>> + Send + Sync,
    {
        let names = names_of::<Request, S, A, H>(&info);
        expect(self.try_method(info, &names, handler));
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
        self.insert(info, function(names, handler))
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
        let method = Method::only(function(names, handler));
        // The replaced handler is dropped without the lock.
        let before = self.write().routes.replace(info, method)?;
        drop(before);
        Ok(())
    }

    /// Removes a method. Running calls go on. Returns false if there was none of that name.
    pub fn remove(&self, name: &str) -> bool {
        // The removed handler is dropped without the lock.
        let before = self.write().routes.remove(name);
        before.is_some()
    }

    /// Whether a method or a notification is registered under a name.
    pub fn serves(&self, name: &str) -> bool {
        self.read().routes.serves(name)
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
        let info = service.methods().describe();
        let mut table = self.write();
        table.routes.insert_service(service, info, Method::all)
    }

    /// Serves the methods of another router under a prefix, with its state and its interceptors. These see only
    /// calls of these methods, after the interceptors of this router. An empty prefix leaves the names as they
    /// are. What is added to the other router later has no effect here; its timeout, its description, and its
    /// functions for failures, reports and connections have none, either.
    ///
    /// ```
    /// use antiphon::OwnedError;
    /// use antiphon::service::Prefix;
    /// use antiphon_shell::{RateLimit, Router};
    ///
    /// let admin = Router::new()
    ///     .intercept(RateLimit::per_connection(1, 5))
    ///     .method("stop", [], || Ok::<_, OwnedError>("stopped"));
    /// let router = Router::new()
    ///     .method("add", ["a", "b"], |a: f64, b: f64| Ok::<_, OwnedError>(a + b))
    ///     .nest(Prefix::separated("admin", "/"), admin); // admin/stop
    /// ```
    ///
    /// # Panics
    /// A name is taken, or the other router has extensions.
    #[track_caller]
    #[must_use]
    pub fn nest<T>(self, prefix: impl Into<Prefix>, router: Routes<T, M>) -> Self
    where
        T: Send + Sync + 'static,
    {
        // Handlers of both are dropped without the locks, and the locks are never held together.
        let inner = router.read().routes.clone();
        let state = &router.shared.state;
        let nested = self.write().routes.nest(prefix.into(), &inner, |method| {
            let (inner, state) = (method.clone(), Arc::clone(state));
            Method::only(Arc::new(Nested { inner, state }))
        });
        expect(nested);
        self
    }

    /// Sets how the method names of services that are registered from now on are made. Services with a
    /// prefix of their own are not affected. The default is the bare names.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        self.write().routes.set_naming(naming);
        self
    }

    /// Sets what happens to params by names that a method does not have; a service and a method may say
    /// otherwise. The default is what the configuration of the connection says: −32602, but in the dialects
    /// LSP and MCP they are ignored.
    #[must_use]
    pub fn unknown_params(self, unknown_params: UnknownParams) -> Self {
        self.write().routes.set_unknown_params(unknown_params);
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
        self.write().routes.set_discovery(Some(discovery));
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
        self.intercept(Showing(is_visible))
    }

    /// Adds an interceptor, after those that were added before. It sees requests, notifications,
    /// entries of batches, extensions, and calls of unknown methods.
    #[must_use]
    pub fn intercept(self, interceptor: impl Interceptor<Request>) -> Self {
        self.write().routes.intercept(interceptor);
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
    /// use antiphon_shell::{Extension, Router};
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
        discovery.document(infos.iter().map(|(info, _)| info))
    }

    /// Returns the descriptions of the server and of its methods, each with the interceptors of its group. It is
    /// a copy, because making schemas runs code of the program, which must not run under the lock.
    fn description(&self) -> (Discovery, Vec<Listed>) {
        let table = self.read();
        let discovery = table.routes.discovery().cloned().unwrap_or_default();
        let listed = table.routes.listed();
        let listed = listed.map(|(info, group)| (info.clone(), group.cloned()));
        (discovery, listed.collect())
    }

    fn insert(&self, info: MethodInfo, serve: Arc<dyn Serve<S>>) -> Result<(), RegisterError> {
        self.write().routes.insert(info, Method::only(serve))
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

#[track_caller]
fn expect(registered: Result<(), RegisterError>) {
    if let Err(error) = registered {
        panic!("{error}");
    }
}

impl<S: Send + Sync + 'static, M: 'static> fmt::Debug for Routes<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().routes.fmt(f)
    }
}
