//! The way of a call through a router without a runtime.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::mem;

use super::{LocalRouter, Served};
use crate::config::{Config, Settings, UnknownParams};
use crate::connection::{Connection, SendError};
use crate::encode::Encoded;
use crate::error_object::ErrorObject;
use crate::error_profile::Failures;
use crate::event::{NotificationRef, Origin, RequestRef};
use crate::id::Id;
use crate::json::{Json, Kept, OwnedJson};
use crate::service::args::Given;
use crate::service::cx::{AnyRequest, Cx};
use crate::service::describe::MethodInfo;
use crate::service::errors::{Failure, unknown_method};
use crate::service::intercept::{Reply, left_group};
use crate::service::local::{Clock, LocalRequest};
use crate::service::methods::ResultText;
use crate::service::routing_table::{Found, Route};
use crate::time::Instant;

impl<S: 'static> LocalRouter<S> {
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
        let config = conn.config();
        let RequestRef { method, params, .. } = &request;
        let found = self.find(method, config);
        let mut served = match self.table.chain(&found) {
            None => self.call(
                found,
                method,
                self.given(*params, config),
                None,
                &mut result,
            ),
            Some(_) => {
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
        let (found, mut result) = (self.find(method, conn.config()), Vec::new());
        match self.table.chain(&found) {
            None => {
                let given = self.given(*params, conn.config());
                self.call(found, method, given, None, &mut result)
            }
            Some(_) => {
                let (call, origin) = ((&**method, *params, None), notification.origin);
                self.intercepted(&numbered(conn), conn.now(), call, origin, &mut result)
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
        let mut found = self.find(request.method(), config);
        let mut chain = self.table.chain(&found).cloned().unwrap_or_default();
        let mut cx = Cx::new(request.now(), found.is_some());
        let mut asked = 0;
        let mut answer = chain.request(&mut asked, &mut cx, &request);
        // Those of the group of the method, which an interceptor may have replaced.
        if answer.is_none() {
            found = self.found(found, &cx, config);
            if chain.enter(found.method.and_then(Route::group)) && chain.is_in_group() {
                answer = chain.request(&mut asked, &mut cx, &request);
                found = self.found(found, &cx, config);
                if answer.is_none() && !chain.enter(found.method.and_then(Route::group)) {
                    answer = Some(Err(left_group()));
                }
            }
        }
        let mut shown = None;
        if answer.is_none() && found.is_built_in {
            let listed = self.table.listed();
            let shows = listed.filter(|(info, group)| chain.shows(&mut cx, &request, info, *group));
            shown = Some(shows.map(|(info, _)| info).collect());
        }
        let outcome = answer.unwrap_or_else(|| {
            let method = cx.method().unwrap_or(request.method());
            let params = cx.params().or(request.params());
            let mut found = Some(found);
            let mut done = None;
            chain.scope(&cx, &request, &mut || {
                let Some(found) = found.take() else { return };
                let given = self.given(params, &request.config);
                let mut served = self.call(found, method, given, shown.take(), result);
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
        let unknown = UnknownParams::Reject;
        self.call(
            self.table.find(method, true),
            method,
            Given { params, unknown },
            None,
            result,
        )
    }

    fn given<'j>(&self, params: Option<Json<'j>>, config: &Config) -> Given<'j> {
        let unknown = config.dialect.unknown_params;
        Given { params, unknown }
    }

    fn find(&self, method: &str, config: &Config) -> Found<&Route<Served<S>, LocalRequest>> {
        self.table.find(method, config.dialect.system_extensions)
    }

    /// Finds what serves the method by which interceptors have replaced that of a call, if they have.
    fn found<'t>(
        &'t self,
        found: Found<&'t Route<Served<S>, LocalRequest>>,
        cx: &Cx,
        config: &Config,
    ) -> Found<&'t Route<Served<S>, LocalRequest>> {
        cx.method()
            .map_or(found, |method| self.find(method, config))
    }

    /// Runs what was found for a method. No interceptor sees the call.
    // Inlined into `respond`, it makes a request take 30 instructions of 1480 less
    // (`benches/instructions`). The compiler does not inline it itself, because `run` calls it too.
    #[inline(always)]
    fn call(
        &self,
        found: Found<&Route<Served<S>, LocalRequest>>,
        method: &str,
        mut given: Given<'_>,
        shown: Option<Vec<&MethodInfo>>,
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        let discovery = self.table.discovery();
        if let Some(discovery) = discovery.filter(|_| found.is_built_in) {
            let shown = shown.unwrap_or_else(|| self.table.infos().collect());
            return discovery.write(method, given.params, shown.into_iter(), result);
        }
        let Some(route) = found.method else {
            return Err(unknown_method());
        };
        let start = result.len();
        let said = route.unknown_params.or(found.unknown_params);
        given.unknown = said.unwrap_or(given.unknown);
        let Served { run, place } = &route.handler;
        let done = run(*place, given, &self.state, result);
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
