//! A router that serves a connection without a runtime and without threads.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::{fmt, mem};

use super::args::Given;
use super::attributes::Attributes;
use super::cx::{AnyRequest, Cx};
use super::describe::{MethodInfo, ParamInfo};
use super::errors::{Failure, unknown_method};
use super::extensions::Discovery;
use super::handler::{Handler, IntoResult, described, names_of};
use super::intercept::{Chain, Interceptor, Reply};
use super::local::{Clock, LocalRequest};
use super::methods::{Implementation, Methods, ResultText, write_result};
use super::registry::{Naming, RegisterError, Registry, ReservedNames};
use crate::config::{Config, Settings, UnknownParams};
use crate::connection::{Connection, SendError};
use crate::encode::Encoded;
use crate::error_object::ErrorObject;
use crate::error_profile::Failures;
use crate::event::{NotificationRef, Origin, RequestRef};
use crate::id::Id;
use crate::json::{Json, Kept, OwnedJson};
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
    registry: Registry<Served<S>>,
    state: S,
    discovery: Option<Discovery>,
    /// Whether the program has asked for the built-in methods, so that they are on in every dialect.
    is_asked: bool,
    chain: Option<Chain<LocalRequest>>,
    /// The attributes that interceptors keep for each connection, by the connection's number.
    of_connections: BTreeMap<u32, Attributes>,
    /// The attributes that interceptors keep for all connections.
    of_router: Attributes,
    clock: Option<fn() -> Instant>,
    unknown_params: Option<UnknownParams>,
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
            registry: Registry::new(),
            state,
            discovery: Some(Discovery::default()),
            is_asked: false,
            chain: None,
            of_connections: BTreeMap::new(),
            of_router: Attributes::new(),
            clock: None,
            unknown_params: None,
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
        self.registry.insert(info, served)?;
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
        let describe = service.describe();
        let (methods, prefix) = service.into_parts();
        let named = methods.info().named(prefix, &Naming::Simple)?;
        let run: Arc<Run<S>> = Arc::new(
            move |place, given: Given<'_>, state: &S, result: &mut ResultText| {
                let info = methods.info().methods.get(place);
                let params = info.map_or(&[][..], MethodInfo::params).iter();
                given.known(params.map(ParamInfo::name), |params| {
                    methods.call(place, params, &(), state, result)
                })
            },
        );
        let served = named.into_iter().enumerate().map(|(place, info)| {
            let run = Arc::clone(&run);
            (describe(info), Served { run, place })
        });
        self.registry.insert_all(served.collect())?;
        Ok(self)
    }

    /// Sets the answers to `rpc.discover` and `rpc.listMethods`; `None` switches both off, and lets
    /// methods have names that begin with `rpc.`. Without this both are on, except in dialects that
    /// have no [`system_extensions`](crate::Dialect::system_extensions).
    #[must_use]
    pub fn discovery(mut self, discovery: impl Into<Option<Discovery>>) -> Self {
        self.discovery = discovery.into();
        self.is_asked = true;
        self.registry.take_reserved(self.discovery.is_none());
        self
    }

    /// Sets whether methods may have names that begin with `rpc.` while `rpc.discover` and
    /// `rpc.listMethods` are on. These two still answer before a method of their name. Default
    /// [`ReservedNames::Deny`].
    #[must_use]
    pub fn reserved_names(mut self, reserved: ReservedNames) -> Self {
        let takes = reserved == ReservedNames::Allow || self.discovery.is_none();
        self.registry.take_reserved(takes);
        self
    }

    /// Adds an interceptor after the others. It sees every call: requests, notifications, entries of
    /// batches, extensions and calls of unknown methods. A router with interceptors makes a copy of each
    /// call. If an interceptor would [decide later](super::Decision::Defer), the call is answered *internal
    /// error*, because this router cannot wait.
    ///
    /// The time of a call is the latest that its connection was [given](Connection::handle_timeout),
    /// unless the router has a [clock](Self::clock). What interceptors store for a connection is kept
    /// under the connection's number, [`Config::connection`], until [`closed`](Self::closed).
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
        self.chain.get_or_insert_default().push(interceptor);
        self
    }

    /// Sets what happens to params by names that a method does not have; a method may say otherwise.
    /// The default is what the configuration of the connection says.
    #[must_use]
    pub fn unknown_params(mut self, unknown_params: UnknownParams) -> Self {
        self.unknown_params = Some(unknown_params);
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
        if let Some(chain) = &self.chain {
            chain.opened(conn.number());
        }
    }

    /// Reports to the interceptors that a connection has ended, and drops what they have stored for it. To
    /// be called for each connection; otherwise what they store remains.
    pub fn closed<T, C: Settings>(&mut self, conn: &Connection<T, C>) {
        let connection = conn.number();
        if let Some(chain) = &self.chain {
            chain.closed(connection);
        }
        let left = self.of_connections.remove(&connection);
        drop(left);
    }

    /// Runs the handler of a request, and answers the request. Without interceptors neither the router
    /// nor the connection allocates for it, once both have answered a request of this size.
    ///
    /// # Errors
    /// Why the answer is not the handler's result, for logs. The peer was sent [`Failure::as_error`].
    pub fn respond<T, C: Settings>(
        &mut self,
        conn: &mut Connection<T, C>,
        request: RequestRef<'_>,
    ) -> Result<(), Failure> {
        let mut result = mem::take(&mut self.result);
        result.clear();
        let mut served = match &self.chain {
            None => {
                let is_on = conn.config().dialect.system_extensions;
                let given = self.given(request.params, conn.config());
                self.find_and_run(&request.method, given, is_on, None, &mut result)
            }
            Some(_) => {
                let RequestRef { method, params, .. } = &request;
                let call = (&**method, *params, Some(request.id));
                let config = numbered(conn);
                self.intercepted(&config, conn.now(), call, request.origin, &mut result)
            }
        };
        if let Err(failure) = &mut served {
            name_unknown(conn.config(), &request.method, failure);
        }
        let sent = match &served {
            Ok(()) => conn.respond(request.token, Encoded::part(&result, 0..result.len())),
            Err(failure) => {
                let failures = conn.config().dialect.failures;
                match failures == Failures::new() {
                    true => conn.respond_err(request.token, &failure.as_error()),
                    false => conn.respond_err(request.token, &failure.told(failures).as_error()),
                }
            }
        };
        self.result = result;
        if let Err(rejected) = sent {
            // This fails only if the request is not open any more or the connection is closed, so
            // that no answer is needed, or if `max_outbox_bytes` is too small for any answer.
            let instead = match &served {
                // Its data are too large.
                Err(failure) if rejected.error == SendError::TooLarge => {
                    failure.as_error().without_data()
                }
                _ => conn.config().dialect.failures.error(),
            };
            let _ = conn.respond_err(rejected.value, &instead);
            served = Err(Failure::Send(rejected.error));
        }
        served
    }

    /// Serves a notification. It is never answered, not even if it is unknown.
    ///
    /// # Errors
    /// Why it was not served, for logs.
    pub fn handle<T, C: Settings>(
        &mut self,
        conn: &Connection<T, C>,
        notification: &NotificationRef<'_>,
    ) -> Result<(), Failure> {
        let NotificationRef { method, params, .. } = notification;
        match &self.chain {
            None => {
                let is_on = conn.config().dialect.system_extensions;
                let given = self.given(*params, conn.config());
                self.find_and_run(method, given, is_on, None, &mut Vec::new())
            }
            Some(_) => {
                let (call, mut result) = ((&**method, *params, None), Vec::new());
                self.intercepted(
                    &numbered(conn),
                    conn.now(),
                    call,
                    notification.origin,
                    &mut result,
                )
            }
        }
    }

    /// Serves a call, given as its method, its params, and its id if it is a request, and lets the
    /// interceptors see it. Not inlined, so that it does not slow down routers without interceptors.
    #[cold]
    #[inline(never)]
    fn intercepted(
        &mut self,
        config: &Config,
        now: Instant,
        (method, params, id): (&str, Option<Json<'_>>, Option<Id<'_>>),
        origin: Origin,
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        let of_connection = self.of_connections.remove(&config.connection);
        let request = LocalRequest {
            method: Kept::new([method]),
            params: params.map(Json::to_owned_json),
            id: id.map(Id::into_owned),
            origin,
            config: *config,
            clock: self.clock.map_or(Clock::At(now), Clock::Running),
            of_connection: RefCell::new(of_connection.unwrap_or_default()),
            of_router: RefCell::new(mem::take(&mut self.of_router)),
        };
        let chain = self.chain.clone().unwrap_or_default();
        let is_on = config.dialect.system_extensions;
        let is_extension = self.built_in(request.method(), is_on).is_some();
        let is_registered = is_extension || self.registry.get(request.method()).is_some();
        let mut cx = Cx::new(request.now(), is_registered);
        let mut asked = 0;
        let answer = chain.request(&mut asked, &mut cx, &request);
        let mut shown = None;
        if answer.is_none() && is_extension {
            let infos = self.registry.infos();
            shown = Some(
                infos
                    .filter(|info| chain.shows(&mut cx, &request, info))
                    .collect(),
            );
        }
        let outcome = answer.unwrap_or_else(|| {
            let method = cx.method().unwrap_or(request.method());
            let params = cx.params().or(request.params());
            let mut done = None;
            chain.scope(&cx, &request, &mut || {
                let shown = shown.take();
                let given = self.given(params, &request.config);
                let mut served = self.find_and_run(method, given, is_on, shown, result);
                if let Err(failure) = &mut served {
                    name_unknown(&request.config, request.method(), failure);
                }
                done = Some(served.map(|()| mem::take(result)));
            });
            let not_run = "an interceptor's scope has not called its step";
            done.unwrap_or_else(|| Err(Failure::Interceptor(not_run.into())))
        });
        let duration = request.now().saturating_since(cx.began());
        let mut reply = Reply::new(Some(outcome), duration);
        chain.response(&mut asked, &cx, &request, &mut reply);
        self.of_router = request.of_router.into_inner();
        let left = request.of_connection.into_inner();
        if !left.is_empty() {
            let connection = request.config.connection;
            self.of_connections.insert(connection, left);
        }
        // There always is an outcome, because no handler of this router answers later.
        let outcome = reply
            .into_outcome()
            .unwrap_or_else(|| Err(unknown_method()));
        outcome.map(|text| *result = text)
    }

    /// Runs a method, and appends its result to `result`. No interceptor sees the call.
    ///
    /// # Errors
    /// Why there is no result; [`Failure::as_error`] is the error for the peer.
    pub fn run(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        let unknown = self.unknown_params.unwrap_or(UnknownParams::Reject);
        self.find_and_run(method, Given { params, unknown }, true, None, result)
    }

    fn given<'j>(&self, params: Option<Json<'j>>, config: &Config) -> Given<'j> {
        let unknown = self.unknown_params;
        let unknown = unknown.unwrap_or(config.dialect.unknown_params);
        Given { params, unknown }
    }

    /// The discovery, if it answers this method. `is_on` says whether the dialect has extensions.
    fn built_in(&self, method: &str, is_on: bool) -> Option<&Discovery> {
        let discovery = self.discovery.as_ref()?;
        ((is_on || self.is_asked) && discovery.answers(method)).then_some(discovery)
    }

    // Inlined into `respond`, it makes a request take 30 instructions of 1480 less
    // (`benches/instructions`). The compiler does not inline it itself, because `run` calls it too.
    #[inline(always)]
    fn find_and_run(
        &self,
        method: &str,
        mut given: Given<'_>,
        is_on: bool,
        shown: Option<Vec<&MethodInfo>>,
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        let own = self.registry.entry(method);
        if let Some((info, served)) = own.filter(|_| !self.is_covered(method, is_on)) {
            let start = result.len();
            given.unknown = info.unknown_params().unwrap_or(given.unknown);
            let done = (served.run)(served.place, given, &self.state, result);
            if done.is_ok() && info.is_notification() {
                // A request for a notification's method is answered `null`.
                result.truncate(start);
                result.extend_from_slice(b"null");
            }
            return done;
        }
        let Some(discovery) = self.built_in(method, is_on) else {
            return Err(unknown_method());
        };
        let shown = shown.unwrap_or_else(|| self.registry.infos().collect());
        discovery.write(method, given.params, shown.into_iter(), result)
    }

    /// Whether a built-in method answers before the program's method of the same name.
    fn is_covered(&self, method: &str, is_on: bool) -> bool {
        method.starts_with("rpc.") && self.built_in(method, is_on).is_some()
    }
}

/// Adds the name of an unknown method to the error for it, if the dialect has `echo_method_names`.
#[cold]
fn name_unknown(config: &Config, method: &str, failure: &mut Failure) {
    if let (Failure::UnknownMethod(error), true) = (failure, config.dialect.echo_method_names) {
        let name = OwnedJson::of_str(method);
        let named = ErrorObject::method_not_found().with_data(name.as_json());
        *error = named.into_owned();
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
        let names = self.registry.infos().map(MethodInfo::name);
        f.debug_set().entries(names).finish()
    }
}

/// Returns the configuration of a connection with the connection's number.
fn numbered<T, C: Settings>(conn: &Connection<T, C>) -> Config {
    let mut config = *conn.config();
    config.connection = conn.number();
    config
}

#[cfg(test)]
mod tests;
