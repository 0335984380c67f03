//! The router: methods by name, whatever runs their handlers.
//!
//! ```text
//! router (registration) · typed · adapter, subscriptions (what only adapters have) · local (what is without one)
//!    └── run: the way of a call ── served: handlers ── routing_table: names, groups, extensions
//!                 └── shell: what the router awaits, and who awaits it
//! ```

mod adapter;
mod asking;
mod local;
mod run;
mod subscriptions;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::describe::MethodInfo;
use super::errors::Failure;
use super::extensions::Discovery;
use super::handler::{Handler, described, names_of};
use super::intercept::{Chain, Interceptor};
use super::local::Local;
use super::methods::{Implementation, ResultText};
use super::prefix::Prefix;
use super::registry::{Naming, RegisterError, ReservedNames};
use super::routing_table::RoutingTable;
use super::served::{Answers, Method, ServiceMethods, function};
use super::shell::{Shared, Shell};
use crate::config::UnknownParams;
use crate::error_object::OwnedError;
use crate::event::Closed;
use crate::json::{EncodeError, Json};
use crate::session::Report;
use crate::shared::Arc;

/// A router without a runtime and without threads, for microcontrollers and loops of your own: it serves the
/// requests and notifications of a [`Connection`](crate::Connection), and never waits. Its handlers and
/// interceptors must not add or remove methods of it: that panics.
///
/// ```
/// use antiphon::service::LocalRouter;
/// use antiphon::{Config, Connection, Event, Input, OwnedError, State};
///
/// let mut router = LocalRouter::with_state(10.0)
///     .method("add", ["a", "b"], |a: f64, b: f64| Ok::<_, OwnedError>(a + b))
///     .method("scale", ["x"], |x: f64, State(factor): State<f64>| Ok::<_, OwnedError>(x * factor));
///
/// let mut conn: Connection = Connection::new(Config::new());
/// let mut input = Input::stream(
///     b"{\"jsonrpc\":\"2.0\",\"method\":\"add\",\"params\":{\"b\":5,\"a\":10},\"id\":1}\n",
/// );
/// while let Some(event) = conn.poll_event(&mut input) {
///     match event {
///         Event::Request(request) => drop(router.respond(&mut conn, request)),
///         Event::Notification(notification) => drop(router.handle(&conn, &notification)),
///         _ => {}
///     }
/// }
/// assert_eq!(conn.poll_transmit(), Some(&b"{\"jsonrpc\":\"2.0\",\"result\":15.0,\"id\":1}\n"[..]));
/// ```
pub type LocalRouter<S = ()> = Routes<S, Local>;

/// Serves methods by name. Methods can be registered, replaced and removed while it serves; the change counts
/// for later requests. In an adapter, clones are the same router.
///
/// `S` is the state that handlers may take. `K` is what brings the calls and awaits the handlers: the `Router`
/// of an adapter sets it, and [`LocalRouter`] is the one without an adapter.
pub struct Routes<S, K: Shell> {
    table: K::Cell<Table<S, K>>,
    /// In an `Arc` of its own, for handlers that outlive their router.
    state: Arc<S>,
    own: K::Own<S>,
}

/// The methods, and what is set for all of them.
pub struct Table<S, K: Shell> {
    routes: RoutingTable<Method<S, K>, K::Request>,
    /// Whether the methods of a hub are among them.
    has_hub: bool,
    handler_timeout: Option<Duration>,
    map_failures: Option<MapFailures<K::Request>>,
    on_report: Option<Listener<K::Peer, Report>>,
    on_opened: Option<Listener<K::Peer, ()>>,
    on_closed: Option<Listener<K::Peer, Closed>>,
}

/// A function that replaces the error with which a failure is answered.
type MapFailures<R> = Arc<dyn Fn(&Failure, &R) -> Option<OwnedError> + Send + Sync>;

/// A function that is called when something has happened on a connection.
type Listener<P, A> = Arc<dyn Fn(&P, A) + Send + Sync>;

/// The description of a method, and the interceptors of its group.
type Listed<R> = (MethodInfo, Option<Chain<R>>);

impl<S, K: Shell> Clone for Routes<S, K>
where
    K::Cell<Table<S, K>>: Clone,
    K::Own<S>: Clone,
{
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            state: Arc::clone(&self.state),
            own: self.own.clone(),
        }
    }
}

impl<K: Shell> Routes<(), K> {
    /// Makes a router without methods, whose handlers take no state.
    pub fn new() -> Self {
        Self::with_state(())
    }
}

impl<K: Shell> Default for Routes<(), K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: 'static, K: Shell> Routes<S, K> {
    /// Makes a router without methods, whose handlers may take `state` as [`State`](crate::State): an `Arc`, or
    /// another value that is cheap to clone.
    pub fn with_state(state: S) -> Self {
        Self {
            table: K::Cell::new(Table {
                routes: RoutingTable::new(),
                has_hub: false,
                handler_timeout: None,
                map_failures: None,
                on_report: None,
                on_opened: None,
                on_closed: None,
            }),
            state: Arc::new(state),
            own: K::Own::<S>::default(),
        }
    }

    /// Serves a method. `names` are the names of its parameters in their order; other arguments of
    /// the handler have none. Params are accepted by name and by position.
    ///
    /// # Panics
    /// The name is blank, taken or reserved, or the names do not fit the handler:
    /// [`try_method`](Self::try_method) returns why.
    #[track_caller]
    pub fn method<A, W, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<K::Call, S, A, Output: Answers<K, W>> + Send + Sync,
    {
        expect(self.try_method(MethodInfo::request(name, &[]), names, handler));
        self
    }

    /// Serves a notification. A request with its name is answered `null`.
    ///
    /// # Panics
    /// See [`method`](Self::method).
    #[track_caller]
    pub fn notification<A, W, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<K::Call, S, A, Output: Answers<K, W>> + Send + Sync,
    {
        expect(self.try_method(MethodInfo::notification(name, &[]), names, handler));
        self
    }

    /// Serves a method or a notification that `info` describes: its name, the names of its parameters, and,
    /// as `#[service]` gives them, its documentation and the types of its parameters and its result.
    ///
    /// ```
    /// use antiphon::service::LocalRouter;
    /// use antiphon::{OwnedError, method_info};
    /// let about = method_info!("add"("a": f64, "b": f64) -> f64).with_doc("Adds two numbers.");
    /// let router = LocalRouter::new().method_with(about, |a: f64, b: f64| Ok::<_, OwnedError>(a + b));
    /// # let _: LocalRouter = router;
    /// ```
    ///
    /// # Panics
    /// As [`method`](Self::method), or the handler takes other parameters.
    #[track_caller]
    pub fn method_with<A, W, H>(self, info: MethodInfo, handler: H) -> Self
    where
        H: Handler<K::Call, S, A, Output: Answers<K, W>> + Send + Sync,
    {
        let names = names_of::<K::Call, S, A, H>(&info);
        expect(self.try_method(info, names, handler));
        self
    }

    /// Serves a method or a notification that `info` describes. `names` are the names of the handler's
    /// parameters.
    ///
    /// # Errors
    /// The name is blank, taken or reserved, or the names do not fit the handler.
    pub fn try_method<A, W, H>(
        &self,
        info: MethodInfo,
        names: impl AsRef<[&'static str]> + Send + Sync + 'static,
        handler: H,
    ) -> Result<(), RegisterError>
    where
        H: Handler<K::Call, S, A, Output: Answers<K, W>> + Send + Sync,
    {
        let info = described::<K::Call, S, A, H>(info, names.as_ref())?;
        self.insert(info, function(names, handler))
    }

    /// Serves a method or a notification, and replaces the one that has its name, if there is one.
    ///
    /// # Errors
    /// As [`try_method`](Self::try_method), but the name may be taken.
    pub fn replace<A, W, H>(
        &self,
        info: MethodInfo,
        names: impl AsRef<[&'static str]> + Send + Sync + 'static,
        handler: H,
    ) -> Result<(), RegisterError>
    where
        H: Handler<K::Call, S, A, Output: Answers<K, W>> + Send + Sync,
    {
        let info = described::<K::Call, S, A, H>(info, names.as_ref())?;
        let method = function(names, handler);
        // The replaced handler is dropped without the lock.
        let before = self.table.write().routes.replace(info, method)?;
        drop(before);
        Ok(())
    }

    /// Removes a method. Running calls go on. Returns false if there was none of that name.
    pub fn remove(&self, name: &str) -> bool {
        // The removed handler is dropped without the lock.
        let before = self.table.write().routes.remove(name);
        before.is_some()
    }

    /// Whether a method or a notification is registered under a name.
    pub fn serves(&self, name: &str) -> bool {
        self.table.read().routes.serves(name)
    }

    /// Serves all methods of a service, which `into_service` of a trait with `#[service]` returns.
    ///
    /// # Panics
    /// A name is taken; the message has the name. Then give the service a
    /// [`prefix`](Implementation::prefix).
    #[track_caller]
    pub fn service<W: 'static, X: ServiceMethods<S, K, W>>(
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
    pub fn try_service<W: 'static, X: ServiceMethods<S, K, W>>(
        &self,
        service: Implementation<X>,
    ) -> Result<(), RegisterError> {
        let info = service.methods().describe();
        let mut table = self.table.write();
        table.routes.insert_service(service, info, Method::all)
    }

    /// Serves the methods of another router under a prefix, with its state and its interceptors. These see only
    /// calls of these methods, after the interceptors of this router. An empty prefix leaves the names as they
    /// are. What is added to the other router later has no effect here; its timeout, its description, and its
    /// functions for failures, reports and connections have none, either.
    ///
    /// ```
    /// use antiphon::OwnedError;
    /// use antiphon::service::{Bucket, LocalRateLimit, Prefix, LocalRouter};
    ///
    /// let admin = LocalRouter::new()
    ///     .intercept(LocalRateLimit::per_connection(Bucket::per_second(1, 5)))
    ///     .method("stop", [], || Ok::<_, OwnedError>("stopped"));
    /// let router = LocalRouter::new()
    ///     .method("add", ["a", "b"], |a: f64, b: f64| Ok::<_, OwnedError>(a + b))
    ///     .nest(Prefix::separated("admin", "/"), admin); // admin/stop
    /// # let _: LocalRouter = router;
    /// ```
    ///
    /// # Panics
    /// A name is taken, or the other router has extensions.
    #[track_caller]
    #[must_use]
    pub fn nest<T>(mut self, prefix: impl Into<Prefix>, router: Routes<T, K>) -> Self
    where
        T: Send + Sync + 'static,
    {
        K::intercepts(&mut self.own);
        // Handlers of both are dropped without the locks, and the locks are never held together.
        let nested = |method: &Method<T, K>| method.nested(&router.state);
        let nested = router.table.read().routes.nested(&prefix.into(), nested);
        let insert = |nested| self.table.write().routes.insert_nested(nested);
        expect(nested.and_then(insert));
        self
    }

    /// Sets whether methods may have names that begin with `rpc.` while extensions are served. An extension
    /// of the same name answers first. Default [`ReservedNames::Deny`].
    #[must_use]
    pub fn reserved_names(self, reserved: ReservedNames) -> Self {
        self.table.write().routes.set_reserved_names(reserved);
        self
    }

    /// Sets how the method names of services that are registered from now on are made. Services with a
    /// prefix of their own are not affected. The default is the bare names.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        self.table.write().routes.naming = naming;
        self
    }

    /// Sets what happens to params by names that a method does not have; a service and a method may say
    /// otherwise. The default is what the configuration of the connection says: −32602, but in the dialects
    /// LSP and MCP they are ignored.
    #[must_use]
    pub fn unknown_params(self, unknown_params: UnknownParams) -> Self {
        self.table.write().routes.unknown_params = Some(unknown_params);
        self
    }

    /// Sets the server's name and version, for `rpc.discover`.
    #[must_use]
    pub fn describe(self, title: &'static str, version: &'static str) -> Self {
        self.discovery(Discovery::new(title, version))
    }

    /// Sets the answers to `rpc.listMethods` and `rpc.discover`. Without this and
    /// [`describe`](Self::describe) both are on, except in dialects that have no
    /// [`system_extensions`](crate::Dialect::system_extensions): LSP, MCP and ACP. `None` is
    /// [`without_extensions`](Self::without_extensions).
    #[must_use]
    pub fn discovery(self, discovery: impl Into<Option<Discovery>>) -> Self {
        self.table.write().routes.set_discovery(discovery.into());
        self
    }

    /// Serves no extensions: names that begin with `rpc.` are ordinary names from now on. To switch only
    /// one of the built-in ones off, see [`Discovery::without`].
    #[must_use]
    pub fn without_extensions(self) -> Self {
        self.discovery(None)
    }

    /// Adds an interceptor, after those that were added before. It sees requests, notifications,
    /// entries of batches, extensions, and calls of unknown methods.
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor<K::Request>) -> Self {
        K::intercepts(&mut self.own);
        self.table.write().routes.intercept(interceptor);
        self
    }

    /// The OpenRPC document of all methods.
    ///
    /// # Errors
    /// A schema has no JSON form.
    pub fn document(&self) -> Result<String, EncodeError> {
        let (discovery, infos) = self.description();
        discovery.document(infos.iter().map(|(info, _)| info))
    }

    /// Returns the descriptions of the server and of its methods, each with the interceptors of its group. It is
    /// a copy, because making schemas runs code of the program, which must not run under the lock.
    fn description(&self) -> (Discovery, Vec<Listed<K::Request>>) {
        let table = self.table.read();
        let discovery = table.routes.discovery.clone().unwrap_or_default();
        let listed = table.routes.listed();
        let listed = listed.map(|(info, group)| (info.clone(), group.cloned()));
        (discovery, listed.collect())
    }

    /// Describes the methods that interceptors show, or all if there are no interceptors.
    fn discover(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        shown: Option<Vec<MethodInfo>>,
        text: &mut ResultText,
    ) -> Result<(), Failure> {
        let (discovery, listed) = self.description();
        let infos = shown.unwrap_or_else(|| listed.into_iter().map(|(info, _)| info).collect());
        discovery.write(method, params, infos.iter(), text)
    }

    fn insert(&self, info: MethodInfo, method: Method<S, K>) -> Result<(), RegisterError> {
        self.table.write().routes.insert(info, method)
    }
}

#[track_caller]
fn expect(registered: Result<(), RegisterError>) {
    if let Err(error) = registered {
        panic!("{error}");
    }
}

impl<S, K: Shell> fmt::Debug for Routes<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.read().routes.fmt(f)
    }
}

#[cfg(test)]
mod tests;
