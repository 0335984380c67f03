//! What a router has without an adapter: it serves a connection, and never waits.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::mem::take;

use super::LocalRouter;
use super::asking::Asking;
use super::run::within;
use crate::config::{Config, Settings, UnknownParams};
use crate::connection::{Connection, SendError};
use crate::encode::Encoded;
use crate::error_object::ErrorObject;
use crate::error_profile::Failures;
use crate::event::{NotificationRef, Origin, RequestRef};
use crate::id::Id;
use crate::json::{Json, Kept, OwnedJson};
use crate::service::args::GivenParams;
use crate::service::attributes::Attributes;
use crate::service::cx::AnyRequest;
use crate::service::decision::{Asked, Decision, cannot_wait};
use crate::service::describe::MethodInfo;
use crate::service::errors::{Failure, unknown_method};
use crate::service::intercept::Reply;
use crate::service::invoked::{Invoked, Served};
use crate::service::local::{Local, LocalRequest};
use crate::service::methods::ResultText;
use crate::service::routing_table::{Found, Route};
use crate::service::served::Method;
use crate::service::shell::{Shared, Shell};
use crate::time::Instant;

/// A call: its method, its params, and its id if it is a request.
type Parts<'r> = (&'r str, Option<Json<'r>>, Option<Id<'r>>);

/// Serves a call, and lets the interceptors see it.
type Intercepted<S> = fn(
    &mut LocalRouter<S>,
    &Config,
    Instant,
    Parts<'_>,
    Origin,
    &mut ResultText,
) -> Result<(), Failure>;

/// What a router without an adapter remembers.
pub struct LocalState<S> {
    /// The attributes that interceptors keep for each connection, by the connection's number.
    of_connections: BTreeMap<u32, Attributes>,
    /// The attributes that interceptors keep for all connections.
    of_router: Attributes,
    clock: Option<fn() -> Instant>,
    /// Set with the first interceptor, so that programs without interceptors have nothing of them: 8 KB of flash
    /// (`tests/embedded/flash.py`).
    intercepted: Option<Intercepted<S>>,
    /// The result of the last request, whose memory the next one uses.
    result: ResultText,
}

impl<S> Default for LocalState<S> {
    fn default() -> Self {
        Self {
            of_connections: BTreeMap::new(),
            of_router: Attributes::default(),
            clock: None,
            intercepted: None,
            result: Vec::new(),
        }
    }
}

impl Shell for Local {
    type Request = LocalRequest;
    type Call = ();
    type Peer = ();
    type Text = ResultText;
    type Cell<T> = RefCell<T>;
    type Own<S> = LocalState<S>;

    fn intercepts<S: 'static>(own: &mut LocalState<S>) {
        own.intercepted = Some(LocalRouter::intercepted);
    }
}

impl<S: 'static> LocalRouter<S> {
    /// Runs the handler of a request, and answers the request. Without interceptors neither the router
    /// nor the connection allocates for it, once both have answered a request of this size.
    ///
    /// A router with interceptors makes a copy of each call. If an interceptor would
    /// [decide later](crate::service::Decision::Defer), the call is answered *internal error*, because this
    /// router cannot wait. What interceptors store for a connection is kept under the connection's number,
    /// [`Config::connection`], until [`closed`](Self::closed).
    ///
    /// # Errors
    /// Why the answer is not the handler's result, for logs. The peer was sent [`Failure::as_error`].
    pub fn respond<T, C: Settings>(
        &mut self,
        conn: &mut Connection<T, C>,
        request: RequestRef<'_>,
    ) -> Result<(), Failure> {
        let mut result = take(&mut self.own.result);
        result.clear();
        let RequestRef { method, params, .. } = &request;
        let called = self.called(method, *params, conn.config(), &mut result);
        let mut served = called.unwrap_or_else(|| {
            let call = (&**method, *params, Some(request.id));
            self.show(conn, call, request.origin, &mut result)
        });
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
        self.own.result = result;
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
        let mut result = Vec::new();
        let called = self.called(method, *params, conn.config(), &mut result);
        called.unwrap_or_else(|| {
            let call = (&**method, *params, None);
            self.show(conn, call, notification.origin, &mut result)
        })
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
        let given = GivenParams::new(params, UnknownParams::Reject);
        let table = self.table.read();
        self.call(table.routes.find(method, true), method, given, None, result)
    }

    /// Sets the clock by which interceptors measure how long a call takes. Without it every duration is zero,
    /// because the connection's time does not change while a call is served.
    #[must_use]
    pub fn clock(mut self, now: fn() -> Instant) -> Self {
        self.own.clock = Some(now);
        self
    }

    /// Reports a new connection to the interceptors. To be called before anything from its peer is
    /// served.
    pub fn opened<T, C: Settings>(&self, conn: &Connection<T, C>) {
        let chain = self.table.read().routes.everywhere();
        chain.inspect(|chain| chain.opened(conn.number()));
    }

    /// Reports to the interceptors that a connection has ended, and drops what they have stored for it. To
    /// be called for each connection; otherwise what they store remains.
    pub fn closed<T, C: Settings>(&mut self, conn: &Connection<T, C>) {
        let chain = self.table.read().routes.everywhere();
        chain.inspect(|chain| chain.closed(conn.number(), |closed| closed()));
        self.own.of_connections.remove(&conn.number());
    }

    /// Calls a method that no interceptor sees. Returns `None` if there are interceptors.
    fn called(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        config: &Config,
        result: &mut ResultText,
    ) -> Option<Result<(), Failure>> {
        let table = self.table.read();
        let found = table.routes.find(method, config.dialect.system_extensions);
        if table.routes.chain(&found).is_some() {
            return None;
        }
        let given = GivenParams::new(params, config.dialect.unknown_params);
        Some(self.call(found, method, given, None, result))
    }

    /// Serves a call that interceptors see.
    fn show<T, C: Settings>(
        &mut self,
        conn: &Connection<T, C>,
        call: Parts<'_>,
        origin: Origin,
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        // It was set with the interceptors.
        let intercepted = self.own.intercepted.ok_or_else(cannot_wait)?;
        intercepted(self, &numbered(conn), conn.now(), call, origin, result)
    }

    /// Serves a call, and lets the interceptors see it. Not inlined, so that it does not slow down routers without
    /// interceptors.
    #[cold]
    #[inline(never)]
    fn intercepted(
        &mut self,
        config: &Config,
        now: Instant,
        (method, params, id): Parts<'_>,
        origin: Origin,
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        let own = &mut self.own;
        let of_connection = own.of_connections.remove(&config.connection);
        let request = LocalRequest {
            method: Kept::new([method]),
            params: params.map(Json::to_owned_json),
            id: id.map(Id::into_owned),
            origin,
            config: *config,
            at: now,
            clock: own.clock,
            of_connection: of_connection.unwrap_or_default().into(),
            of_router: take(&mut own.of_router).into(),
        };
        let outcome = self.asked(&request, result);
        self.own.of_router = request.of_router.into_inner();
        let left = request.of_connection.into_inner();
        if !left.is_empty() {
            self.own.of_connections.insert(config.connection, left);
        }
        outcome.map(|text| *result = text)
    }

    /// Asks the interceptors, and calls the method if they let the call pass.
    fn asked(
        &self,
        request: &LocalRequest,
        result: &mut ResultText,
    ) -> Result<ResultText, Failure> {
        let (table, dialect) = (self.table.read(), &request.config.dialect);
        let find = |method: &str| table.routes.find(method, dialect.system_extensions);
        let found = find(request.method());
        let chain = table.routes.chain(&found).cloned().unwrap_or_default();
        let mut asking = Asking::new(request, chain, found);
        let asked = asking.ask(Decision::Continue, find);
        let shown = asking.shown(&asked, || self.description().1);
        let Asking {
            chain, cx, found, ..
        } = asking;
        let outcome = match asked {
            Asked::Answered(answer) => answer,
            Asked::Deferred(_) => Err(cannot_wait()),
            Asked::Passed => {
                let method = cx.method().unwrap_or(request.method());
                let params = cx.params().or(request.params());
                let given = GivenParams::new(params, dialect.unknown_params);
                let step = || {
                    let mut served = self.call(found, method, given, shown, result);
                    if let Err(failure) = &mut served {
                        name_unknown(&request.config, request.method(), failure);
                    }
                    served.map(|()| take(result))
                };
                within(Some((&chain, &cx)), request, step).and_then(|served| served)
            }
        };
        let duration = request.now().saturating_since(cx.began());
        let mut reply = Reply::new(Some(outcome), duration);
        chain.response(&mut asking.asked, &cx, request, &mut reply);
        // There always is an outcome, because no handler of this router answers later.
        let outcome = reply.into_outcome();
        outcome.unwrap_or_else(|| Err(cannot_wait()))
    }

    /// Runs what was found for a method. No interceptor sees the call.
    // Inlined into `respond`, it makes a request take 30 instructions of 1480 less
    // (`benches/instructions`). The compiler does not inline it itself, because `run` calls it too.
    #[inline(always)]
    fn call(
        &self,
        found: Found<&Route<Method<S, Local>, LocalRequest>>,
        method: &str,
        mut given: GivenParams<'_>,
        shown: Option<Vec<MethodInfo>>,
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        if found.is_built_in {
            return self.discover(method, given.params, shown, result);
        }
        let Some(route) = found.method else {
            return Err(unknown_method());
        };
        let start = result.len();
        let said = route.unknown_params.or(found.unknown_params);
        given.unknown = said.unwrap_or(given.unknown);
        let (call, state) = (&(), &self.state);
        let done = match route.handler.serve(Invoked { given, call, state }, result) {
            Served::Done(done) => done,
            Served::Later(_) | Served::Deferred => Err(cannot_wait()),
        };
        if done.is_ok() && route.is_notification {
            // A request for a notification's method is answered `null`.
            result.truncate(start);
            result.extend_from_slice(b"null");
        }
        done
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

/// Returns the configuration of a connection with the connection's number.
fn numbered<T, C: Settings>(conn: &Connection<T, C>) -> Config {
    let mut config = *conn.config();
    config.connection = conn.number();
    config
}
