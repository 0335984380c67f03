//! A router that serves a connection without a runtime and without threads.

mod serving;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::args::Given;
use super::attributes::Attributes;
use super::describe::{MethodInfo, ParamInfo};
use super::errors::Failure;
use super::extensions::Discovery;
use super::handler::{Handler, IntoResult, described, names_of};
use super::intercept::Interceptor;
use super::local::LocalRequest;
use super::methods::{Implementation, Methods, ResultText, write_result};
use super::prefix::Prefix;
use super::registry::{RegisterError, ReservedNames};
use super::routing_table::RoutingTable;
use crate::config::{Settings, UnknownParams};
use crate::connection::Connection;
use crate::json::Json;
use crate::time::Instant;

/// Serves requests and notifications of a [`Connection`], without waiting and without a runtime.
/// For microcontrollers and loops of your own; adapters have a router for tasks and threads.
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
pub struct LocalRouter<S = ()> {
    table: RoutingTable<Served<S>, LocalRequest>,
    state: S,
    /// The attributes that interceptors keep for each connection, by the connection's number.
    of_connections: BTreeMap<u32, Attributes>,
    /// The attributes that interceptors keep for all connections.
    of_router: Attributes,
    clock: Option<fn() -> Instant>,
    /// The result of the last request, whose memory the next one uses.
    result: ResultText,
}

/// The code that serves a method: it writes the result, or returns a failure.
struct Served<S> {
    run: Arc<Run<S>>,
    /// The index of the method in its service.
    place: usize,
}

/// Runs the method at an index of a service; the index is 0 for a single method.
type Run<S> = dyn Fn(usize, Given<'_>, &S, &mut ResultText) -> Result<(), Failure> + Send + Sync;

impl LocalRouter {
    /// Makes a router without methods and without state.
    pub fn new() -> Self {
        Self::with_state(())
    }
}

impl Default for LocalRouter {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: 'static> LocalRouter<S> {
    /// Makes a router without methods, whose handlers may take `state` as
    /// [`State`](crate::State).
    pub fn with_state(state: S) -> Self {
        Self {
            table: RoutingTable::new(),
            state,
            of_connections: BTreeMap::new(),
            of_router: Attributes::new(),
            clock: None,
            result: Vec::new(),
        }
    }

    /// Serves a method. `names` are those of its parameters, in their order.
    ///
    /// # Panics
    /// The name or the names cannot be used: [`try_method`](Self::try_method) returns why.
    #[track_caller]
    pub fn method<M, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<(), S, M, Output: IntoResult> + Send + Sync,
    {
        expect(self.try_method(MethodInfo::request(name, &[]), names, handler))
    }

    /// Serves a notification.
    ///
    /// # Panics
    /// See [`method`](Self::method).
    #[track_caller]
    pub fn notification<M, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<(), S, M, Output: IntoResult> + Send + Sync,
    {
        expect(self.try_method(MethodInfo::notification(name, &[]), names, handler))
    }

    /// Serves the method or notification that `info` describes. Its parameters have their names from `info`.
    ///
    /// ```
    /// use antiphon::service::LocalRouter;
    /// use antiphon::{OwnedError, method_info};
    /// let add = |a: f64, b: f64| Ok::<_, OwnedError>(a + b);
    /// let about = method_info!("add"("a": f64, "b": f64) -> f64).with_doc("Adds two numbers.");
    /// let router = LocalRouter::new().method_with(about, add);
    /// # let _: LocalRouter = router;
    /// ```
    ///
    /// # Panics
    /// The name cannot be used, or the handler takes other parameters.
    #[track_caller]
    pub fn method_with<M, H>(self, info: MethodInfo, handler: H) -> Self
    where
        H: Handler<(), S, M, Output: IntoResult> + Send + Sync,
    {
        let names = names_of::<(), S, M, H>(&info);
        expect(self.insert(info, names, handler))
    }

    /// Serves a method or a notification that is described.
    ///
    /// # Errors
    /// The name or the names of its parameters cannot be used.
    pub fn try_method<M, const N: usize, H>(
        self,
        info: MethodInfo,
        names: [&'static str; N],
        handler: H,
    ) -> Result<Self, RegisterError>
    where
        H: Handler<(), S, M, Output: IntoResult> + Send + Sync,
    {
        self.insert(info, names, handler)
    }

    fn insert<M, H>(
        mut self,
        info: MethodInfo,
        names: impl AsRef<[&'static str]> + Send + Sync + 'static,
        handler: H,
    ) -> Result<Self, RegisterError>
    where
        H: Handler<(), S, M, Output: IntoResult> + Send + Sync,
    {
        let info = described::<(), S, M, H>(info, names.as_ref())?;
        let served = Served {
            run: Arc::new(
                move |_, given: Given<'_>, state: &S, result: &mut ResultText| {
                    let names = names.as_ref();
                    let call = |params: Option<Json<'_>>| handler.call(params, names, &(), state);
                    let output = match H::IS_WHOLE {
                        true => call(given.params)?,
                        false => given.known(names.iter().copied(), call)?,
                    };
                    write_result(output, result)
                },
            ),
            place: 0,
        };
        self.table.insert(info, served)?;
        Ok(self)
    }

    /// Serves all methods of a service: the value that `into_service` returns for a trait with
    /// `#[service]` whose methods are plain functions.
    ///
    /// # Panics
    /// A name is taken; the message has the name. Then give the service a
    /// [`prefix`](Implementation::prefix).
    #[track_caller]
    pub fn service<X: Methods<(), S>>(self, service: Implementation<X>) -> Self {
        expect(self.try_service(service))
    }

    /// Serves all methods of a service.
    ///
    /// # Errors
    /// A name is taken, blank or reserved.
    pub fn try_service<X: Methods<(), S>>(
        mut self,
        service: Implementation<X>,
    ) -> Result<Self, RegisterError> {
        let info = service.methods().info();
        self.table.insert_service(service, info, |methods| {
            let run: Arc<Run<S>> = Arc::new(
                move |place, given: Given<'_>, state: &S, result: &mut ResultText| {
                    let info = methods.info().methods.get(place);
                    let params = info.map_or(&[][..], MethodInfo::params).iter();
                    given.known(params.map(ParamInfo::name), |params| {
                        methods.call(place, params, &(), state, result)
                    })
                },
            );
            move |place| Served {
                run: Arc::clone(&run),
                place,
            }
        })?;
        Ok(self)
    }

    /// Serves the methods of another router under a prefix. Its state and its interceptors are only for these
    /// methods; this router's interceptors see the calls first. An empty prefix leaves the names as they are.
    ///
    /// ```
    /// use antiphon::OwnedError;
    /// use antiphon::service::{Bucket, LocalRateLimit, LocalRouter};
    /// let slow = LocalRouter::new()
    ///     .intercept(LocalRateLimit::per_router(Bucket::per_second(1, 1)))
    ///     .method("erase", [], || Ok::<_, OwnedError>("erased"));
    /// let router = LocalRouter::new().nest("flash", slow); // flash.erase
    /// # let _: LocalRouter = router;
    /// ```
    ///
    /// # Panics
    /// A name cannot be used.
    #[track_caller]
    #[must_use]
    pub fn nest<T>(mut self, prefix: impl Into<Prefix>, router: LocalRouter<T>) -> Self
    where
        T: Send + Sync + 'static,
    {
        let state = Arc::new(router.state);
        let nested = self.table.nest(prefix.into(), &router.table, |served| {
            let (run, place, state) = (Arc::clone(&served.run), served.place, Arc::clone(&state));
            Served {
                run: Arc::new(move |_, given: Given<'_>, _: &S, result: &mut ResultText| {
                    run(place, given, &state, result)
                }),
                place,
            }
        });
        expect(nested.map(|()| self))
    }

    /// Sets the answers to `rpc.discover` and `rpc.listMethods`; `None` switches both off, and lets
    /// methods have names that begin with `rpc.`. Without this both are on, except in dialects that
    /// have no [`system_extensions`](crate::Dialect::system_extensions).
    #[must_use]
    pub fn discovery(mut self, discovery: impl Into<Option<Discovery>>) -> Self {
        self.table.set_discovery(discovery.into());
        self
    }

    /// Sets whether methods may have names that begin with `rpc.` while `rpc.discover` and
    /// `rpc.listMethods` are on. These two still answer before a method of their name. Default
    /// [`ReservedNames::Deny`].
    #[must_use]
    pub fn reserved_names(mut self, reserved: ReservedNames) -> Self {
        self.table.set_reserved_names(reserved);
        self
    }

    /// Adds an interceptor after the others. It sees every call: requests, notifications, entries of
    /// batches, extensions and calls of unknown methods. A router with interceptors makes a copy of each
    /// call. If an interceptor would [decide later](super::Decision::Defer), the call is answered *internal
    /// error*, because this router cannot wait.
    ///
    /// The time of a call is the latest that its connection was [given](Connection::handle_timeout),
    /// unless the router has a [clock](Self::clock). What interceptors store for a connection is kept
    /// under the connection's number, [`Config::connection`](crate::Config::connection), until [`closed`](Self::closed).
    ///
    /// ```
    /// use antiphon::OwnedError;
    /// use antiphon::service::{AnyRequest, Cx, Decision, Interceptor, LocalRequest, LocalRouter};
    ///
    /// struct ReadOnly;
    ///
    /// impl Interceptor<LocalRequest> for ReadOnly {
    ///     fn request(&self, _: &mut Cx, request: &LocalRequest) -> Decision {
    ///         match request.method().starts_with("get") {
    ///             true => Decision::Continue,
    ///             false => OwnedError::new(1001, "Read only").into(),
    ///         }
    ///     }
    /// }
    ///
    /// let router = LocalRouter::new().intercept(ReadOnly);
    /// # let _: LocalRouter = router;
    /// ```
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor<LocalRequest>) -> Self {
        self.table.intercept(interceptor);
        self
    }

    /// Sets what happens to params by names that a method does not have; a method may say otherwise.
    /// The default is what the configuration of the connection says.
    #[must_use]
    pub fn unknown_params(mut self, unknown_params: UnknownParams) -> Self {
        self.table.set_unknown_params(unknown_params);
        self
    }

    /// Sets the clock by which interceptors measure how long a call takes. Without it every
    /// duration is zero, because the connection's time does not change while a call is served.
    #[must_use]
    pub fn clock(mut self, now: fn() -> Instant) -> Self {
        self.clock = Some(now);
        self
    }

    /// Reports a new connection to the interceptors. To be called before anything from its peer is
    /// served.
    pub fn opened<T, C: Settings>(&self, conn: &Connection<T, C>) {
        if let Some(chain) = self.table.everywhere() {
            chain.opened(conn.number());
        }
    }

    /// Reports to the interceptors that a connection has ended, and drops what they have stored for it. To
    /// be called for each connection; otherwise what they store remains.
    pub fn closed<T, C: Settings>(&mut self, conn: &Connection<T, C>) {
        let connection = conn.number();
        if let Some(chain) = self.table.everywhere() {
            chain.closed(connection);
        }
        let left = self.of_connections.remove(&connection);
        drop(left);
    }
}

/// Returns the router, or panics with the error's text.
#[track_caller]
fn expect<S>(registered: Result<LocalRouter<S>, RegisterError>) -> LocalRouter<S> {
    match registered {
        Ok(router) => router,
        Err(error) => panic!("{error}"),
    }
}

impl<S> fmt::Debug for LocalRouter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}

#[cfg(test)]
mod tests;
