//! A router that serves a connection without a runtime and without threads.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::describe::MethodInfo;
use super::errors::{Failure, unknown_method};
use super::extensions::Discovery;
use super::handler::{Handler, IntoResult};
use super::methods::{Implementation, Methods, ResultText, write_result};
use super::registry::{Naming, RegisterError, Registry};
use crate::connection::Connection;
use crate::encode::Encoded;
use crate::error_object::ErrorObject;
use crate::event::{NotificationRef, RequestRef};
use crate::json::Json;

/// Serves requests and notifications of a [`Connection`], at once and without a runtime. For
/// microcontrollers and loops of your own; adapters have a router for tasks and threads.
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
///         Event::Notification(notification) => drop(router.handle(&notification)),
///         _ => {}
///     }
/// }
/// assert_eq!(conn.poll_transmit(), Some(&b"{\"jsonrpc\":\"2.0\",\"result\":15.0,\"id\":1}\n"[..]));
/// ```
pub struct LocalRouter<S = ()> {
    registry: Registry<Served<S>>,
    state: S,
    discovery: Option<Discovery>,
    /// The buffer of the last result, which is used again.
    result: ResultText,
}

/// The code that serves a method: it writes the result, or returns a failure.
struct Served<S> {
    run: Arc<Run<S>>,
    /// The index of the method in its service.
    place: usize,
}

type Run<S> =
    dyn Fn(usize, Option<Json<'_>>, &S, &mut ResultText) -> Result<(), Failure> + Send + Sync;

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

    /// Serves a method or a notification that is described.
    ///
    /// # Errors
    /// The name or the names of its parameters cannot be used.
    pub fn try_method<M, const N: usize, H>(
        mut self,
        info: MethodInfo,
        names: [&'static str; N],
        handler: H,
    ) -> Result<Self, RegisterError>
    where
        H: Handler<(), S, M, Output: IntoResult> + Send + Sync,
    {
        let info = super::handler::described::<(), S, M, H>(info, &names)?;
        let served = Served {
            run: Arc::new(move |_, params, state: &S, result: &mut ResultText| {
                let output = handler.call(params, &names, &(), state)?;
                write_result(output, result)
            }),
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
        let (methods, prefix) = service.into_parts();
        let named = methods.info().named(prefix, &Naming::Simple)?;
        let run: Arc<Run<S>> =
            Arc::new(move |place, params, state: &S, result: &mut ResultText| {
                methods.call(place, params, &(), state, result)
            });
        let served = named.into_iter().enumerate().map(|(place, info)| {
            let run = Arc::clone(&run);
            (info, Served { run, place })
        });
        self.registry.insert_all(served.collect())?;
        Ok(self)
    }

    /// Sets the answers to `rpc.discover` and `rpc.listMethods`, or switches both off.
    #[must_use]
    pub fn discovery(mut self, discovery: impl Into<Option<Discovery>>) -> Self {
        self.discovery = discovery.into();
        self.registry.take_reserved(self.discovery.is_none());
        self
    }

    /// Answers a request, at once. Neither the router nor the connection allocates memory, once
    /// each has handled an answer of that size.
    ///
    /// # Errors
    /// The reason why the answer is an error, for logs. The peer was sent the error without the
    /// cause.
    pub fn respond<T>(
        &mut self,
        conn: &mut Connection<T>,
        request: RequestRef<'_>,
    ) -> Result<(), Failure> {
        let mut result = core::mem::take(&mut self.result);
        result.clear();
        let mut served = self.run(&request.method, request.params, &mut result);
        let sent = match &served {
            Ok(()) => conn.respond(request.token, Encoded::part(&result, 0..result.len())),
            Err(failure) => conn.respond_err(request.token, &failure.as_error()),
        };
        self.result = result;
        if let Err(rejected) = sent {
            // This fails only if the connection is closed; then no answer is needed.
            let _ = conn.respond_err(rejected.value, &ErrorObject::internal_error());
            served = Err(Failure::Send(rejected.error));
        }
        served
    }

    /// Serves a notification. It is never answered, not even if it is unknown.
    ///
    /// # Errors
    /// Why it was not handled, for logs.
    pub fn handle(&self, notification: &NotificationRef<'_>) -> Result<(), Failure> {
        self.run(&notification.method, notification.params, &mut Vec::new())
    }

    /// Appends the result of a method to `result`, or returns a failure.
    ///
    /// # Errors
    /// Why there is no result; [`Failure::as_error`] is the error for the peer.
    pub fn run(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        if let Some((info, served)) = self.registry.entry(method) {
            let start = result.len();
            let done = (served.run)(served.place, params, &self.state, result);
            if done.is_ok() && info.is_notification() {
                // A request for a notification's method is answered `null`.
                result.truncate(start);
                result.extend_from_slice(b"null");
            }
            return done;
        }
        match &self.discovery {
            Some(discovery) => discovery.write(method, params, self.registry.infos(), result),
            None => Err(unknown_method()),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::LocalRouter;
    use crate::service::Failure;
    use crate::{Config, Connection, Event, Input, OwnedError};

    // SRV-26 SRV-34
    #[test]
    fn an_answer_that_cannot_be_sent_is_an_internal_error() {
        let mut router =
            LocalRouter::new().method("long", [], || Ok::<_, OwnedError>("x".repeat(5000)));
        let mut conn: Connection = Connection::new(Config::new().max_outbox_bytes(4096));
        let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"method\":\"long\",\"id\":1}\n");
        let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
            panic!("it is a request");
        };
        assert!(matches!(
            router.respond(&mut conn, request),
            Err(Failure::Send(_))
        ));
        let sent = String::from_utf8(conn.poll_transmit().unwrap().to_vec()).unwrap();
        assert!(
            sent.contains("-32603") && sent.ends_with("\"id\":1}\n"),
            "{sent}"
        );
        assert_eq!(conn.requests_open(), 0);
    }
}
