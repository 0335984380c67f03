//! The handlers of a router: functions or whole services, which answer at once or later.

use alloc::boxed::Box;
use core::future::Future;
use core::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::GivenParams;
use super::describe::{MethodInfo, ParamInfo, ServiceInfo, StreamRole};
use super::errors::Failure;
use super::handler::{Handler, IntoResult, marker};
use super::invoked::{Invoked, Served};
use super::methods::{AsyncMethods, Methods, write_result};
use super::shell::{Adapter, Awaits, RoutedRequest, Shell};
use super::subscriptions::{subscribed, unsubscribed};
use super::typed::MethodHandler;
use crate::error_object::OwnedError;
use crate::json::Json;
use crate::shared::{Arc, erased};

impl<K: Awaits> Served<'_, K> {
    /// A handler that returns a future of its result.
    fn of_future(output: impl Future<Output: IntoResult> + Send + 'static) -> Self {
        Self::Later(Box::pin(async { written::<K>(output.await) }))
    }
}

/// Writes the result of a handler that has waited.
///
/// # Errors
/// As [`write_result`].
pub fn written<K: Awaits>(output: impl IntoResult) -> Result<K::Text, Failure> {
    let mut text = K::Text::default();
    write_result(output, text.as_mut())?;
    Ok(text)
}

/// The return type of a handler: a result, or on tasks a future of one. The compiler infers `W`, the way in
/// which it answers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an answer",
    label = "return `Result<T, E>` with `T: Serialize` and `E: Into<OwnedError>`, or `()`",
    note = "on tasks a handler may be an `async fn`, whose future is `Send`; elsewhere it returns at once"
)]
pub trait Answers<K: Shell, W> {
    /// Writes the result to `text`, or returns the future that makes it.
    fn answer(self, call: &K::Call, text: &mut K::Text) -> Served<'static, K>;
}

impl<K: Shell, O: IntoResult> Answers<K, marker::AtOnce> for O {
    fn answer(self, _: &K::Call, text: &mut K::Text) -> Served<'static, K> {
        Served::Done(write_result(self, text.as_mut()))
    }
}

impl<K, O> Answers<K, marker::Awaited> for O
where
    K: Awaits,
    O: Future<Output: IntoResult> + Send + 'static,
{
    fn answer(self, _: &K::Call, _: &mut K::Text) -> Served<'static, K> {
        Served::of_future(self)
    }
}

/// A result that no handler may return, at once or later: a flow that is only a part of it would belong to no request. It
/// leaves the compiler two ways in which the handler answers, so the handler does not compile.
pub trait ReturnedAlone<K> {}

impl<K: Shell, O: ReturnedAlone<K>> Answers<K, marker::ReturnTheFlowItself> for O {
    fn answer(self, _: &K::Call, _: &mut K::Text) -> Served<'static, K> {
        Served::Deferred
    }
}

impl<K, O> Answers<K, (marker::Awaited, marker::ReturnTheFlowItself)> for O
where
    K: Awaits,
    O: Future<Output: ReturnedAlone<K>>,
{
    fn answer(self, _: &K::Call, _: &mut K::Text) -> Served<'static, K> {
        Served::Deferred
    }
}

/// A function or a service that serves methods, with its type erased.
trait Serve<S, K: Shell>: Send + Sync {
    /// Calls the method at an index of a service; the index is 0 for a function.
    fn serve<'c>(
        &'c self,
        place: usize,
        on: Invoked<'c, S, K>,
        text: &mut K::Text,
    ) -> Served<'c, K>;
}

/// Makes a handler of a function, whatever its arguments and its result are.
pub(super) fn function<S, K, A, W, H>(
    names: impl AsRef<[&'static str]> + Send + Sync + 'static,
    handler: H,
) -> Method<S, K>
where
    S: 'static,
    K: Shell,
    H: Handler<K::Call, S, A, Output: Answers<K, W>> + Send + Sync,
{
    Method::of(calling(names, handler))
}

/// Makes a function that reads the arguments of another one, and calls it.
pub(super) fn calling<S, K, A, W, H>(
    names: impl AsRef<[&'static str]> + Send + Sync + 'static,
    handler: H,
) -> impl Fn(Invoked<'_, S, K>, &mut K::Text) -> Served<'static, K> + Send + Sync + 'static
where
    S: 'static,
    K: Shell,
    H: Handler<K::Call, S, A, Output: Answers<K, W>> + Send + Sync,
{
    move |on: Invoked<'_, S, K>, text: &mut K::Text| {
        let (names, Invoked { given, call, state }) = (names.as_ref(), on);
        let ran = match H::IS_WHOLE {
            true => handler.call(given.params, names, call, state),
            false => {
                let known = given.known(names.iter().copied());
                handler.call(known.json(), names, call, state)
            }
        };
        match ran {
            Ok(output) => output.answer(call, text),
            Err(failure) => Served::Done(Err(failure)),
        }
    }
}

/// Makes a handler of a function that takes the request itself.
pub(super) fn raw<S: 'static, K: Adapter>(
    handler: impl Fn(&K::Call) -> Result<K::Answer, OwnedError> + Send + Sync + 'static,
) -> Method<S, K> {
    Method::of(move |on: Invoked<'_, S, K>, text: &mut K::Text| {
        match handler(on.call).map(K::outcome) {
            Ok(Some(outcome)) => Served::Done(outcome.map(|made| *text = made)),
            Ok(None) => Served::Deferred,
            Err(error) => Served::Done(Err(error.into())),
        }
    })
}

/// Makes a handler of a function that serves a method described by a type.
pub(super) fn typed<S, K, M>(handler: impl MethodHandler<M, S, K>) -> Method<S, K>
where
    S: Clone + 'static,
    K: Awaits,
    M: crate::Method<Params: DeserializeOwned, Result: Serialize, Error: Into<OwnedError>>,
{
    Method::of(move |on: Invoked<'_, S, K>, _: &mut K::Text| {
        match on.given.params.unwrap_or(Json::NULL).decode() {
            Ok(params) => {
                let context = K::context(on.call.clone(), S::clone(on.state));
                Served::of_future(handler(params, context))
            }
            Err(error) => Served::Done(Err(Failure::Params(error))),
        }
    })
}

/// A function.
impl<S, K, F> Serve<S, K> for F
where
    K: Shell,
    F: Fn(Invoked<'_, S, K>, &mut K::Text) -> Served<'static, K> + Send + Sync,
{
    fn serve<'c>(&'c self, _: usize, on: Invoked<'c, S, K>, text: &mut K::Text) -> Served<'c, K> {
        self(on, text)
    }
}

/// A service that a router accepts: `#[service]` implements it for a trait. For tasks its methods
/// may be `async fn`s or plain functions, elsewhere plain functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot serve here",
    label = "on tasks a service has `async fn`s or plain ones, elsewhere plain ones; what it takes by `#[rpc(context)]` implements `FromCall`"
)]
pub trait ServiceMethods<S, K: Shell, W>: Send + Sync + 'static {
    /// Describes the methods.
    fn describe(&self) -> &'static ServiceInfo;

    /// Calls a method.
    fn start<'c>(
        methods: &'c Arc<Self>,
        method: usize,
        on: Invoked<'c, S, K>,
        text: &mut K::Text,
    ) -> Served<'c, K>;
}

impl<S, K: Shell, X: Methods<K::Call, S>> ServiceMethods<S, K, marker::AtOnce> for X {
    fn describe(&self) -> &'static ServiceInfo {
        self.info()
    }

    fn start<'c>(
        methods: &'c Arc<Self>,
        method: usize,
        on: Invoked<'c, S, K>,
        text: &mut K::Text,
    ) -> Served<'c, K> {
        let known = on.given.known(names_of(methods.info(), method));
        Served::Done(methods.call(method, known.json(), on.call, on.state, text.as_mut()))
    }
}

impl<S, K, X> ServiceMethods<S, K, marker::Awaited> for X
where
    S: Send + Sync + 'static,
    K: Awaits,
    X: AsyncMethods<K::Call, S>,
{
    fn describe(&self) -> &'static ServiceInfo {
        self.info()
    }

    fn start<'c>(
        methods: &'c Arc<Self>,
        method: usize,
        on: Invoked<'c, S, K>,
        text: &mut K::Text,
    ) -> Served<'c, K> {
        let infos = methods.info().methods;
        match infos.get(method).and_then(MethodInfo::stream) {
            Some(StreamRole::Ends(style)) => return unsubscribed(&on, style, text),
            Some(begins) => {
                let opened = match begins {
                    StreamRole::Begins(style) => K::subscribe(on.call, style),
                    _ => K::open_flow(on.call),
                };
                return subscribed::<K>(opened, text, |call| {
                    Served::Later(Box::pin(begun(methods, method, call, &on)))
                });
            }
            None => {}
        }
        let Invoked { given, call, state } = on;
        if !infos.get(method).is_some_and(MethodInfo::runs_to_end) {
            return Served::Later(Box::pin(called::<S, K, X>(
                methods, method, given, call, state,
            )));
        }
        let on: Invoked<'_, _, K> = Invoked { given, call, state };
        let work = begun(methods, method, call, &on);
        Served::Later(Box::pin(K::run_to_end(call, work)))
    }
}

/// Calls a method of a service, as a future that may outlive the call.
fn begun<S, K, X>(
    methods: &Arc<X>,
    method: usize,
    call: &K::Call,
    on: &Invoked<'_, S, K>,
) -> impl Future<Output = Result<K::Text, Failure>> + Send + use<S, K, X>
where
    S: Send + Sync + 'static,
    K: Awaits,
    X: AsyncMethods<K::Call, S>,
{
    let (methods, state) = (Arc::clone(methods), Arc::clone(on.state));
    let (call, unknown) = (call.clone(), on.given.unknown);
    async move {
        let given = GivenParams {
            unknown,
            ..call.given()
        };
        called::<S, K, X>(&methods, method, given, &call, &state).await
    }
}

/// Calls a method of a service, and writes its result.
async fn called<S: Sync, K: Awaits, X: AsyncMethods<K::Call, S>>(
    methods: &X,
    method: usize,
    given: GivenParams<'_>,
    call: &K::Call,
    state: &S,
) -> Result<K::Text, Failure> {
    let mut text = K::Text::default();
    let known = given.known(names_of(methods.info(), method));
    let params = known.json();
    methods
        .call(method, params, call, state, text.as_mut())
        .await?;
    Ok(text)
}

/// The names of the parameters of the method at an index of a service.
fn names_of(
    info: &ServiceInfo,
    method: usize,
) -> impl Iterator<Item = &'static str> + Clone + use<> {
    let params = info.methods.get(method).map_or(&[][..], MethodInfo::params);
    params.iter().map(ParamInfo::name)
}

/// A service, and the types by which the compiler knows how it answers.
struct Whole<X, W>(Arc<X>, PhantomData<fn() -> W>);

impl<S, K: Shell, W, X: ServiceMethods<S, K, W>> Serve<S, K> for Whole<X, W> {
    fn serve<'c>(
        &'c self,
        place: usize,
        on: Invoked<'c, S, K>,
        text: &mut K::Text,
    ) -> Served<'c, K> {
        X::start(&self.0, place, on, text)
    }
}

/// The handler of a method: a function, or a service and the index of the method in it.
pub(super) struct Method<S, K> {
    serve: Arc<dyn Serve<S, K>>,
    place: usize,
}

impl<S, K> Clone for Method<S, K> {
    fn clone(&self) -> Self {
        Self {
            serve: Arc::clone(&self.serve),
            ..*self
        }
    }
}

impl<S, K: Shell> Method<S, K> {
    /// The method of a function.
    pub(super) fn of<F>(run: F) -> Self
    where
        S: 'static,
        F: Fn(Invoked<'_, S, K>, &mut K::Text) -> Served<'static, K> + Send + Sync + 'static,
    {
        let serve: Box<dyn Serve<S, K>> = Box::new(run);
        Self {
            serve: erased(serve),
            place: 0,
        }
    }

    /// Returns a function that makes the methods of a service by their index.
    pub(super) fn all<W: 'static, X: ServiceMethods<S, K, W>>(
        service: X,
    ) -> impl Fn(usize) -> Self {
        let serve: Arc<dyn Serve<S, K>> =
            erased(Box::new(Whole(Arc::new(service), PhantomData::<fn() -> W>)));
        move |place| Self {
            serve: Arc::clone(&serve),
            place,
        }
    }

    /// The method in a router around its own, which has another state.
    pub(super) fn nested<T>(&self, state: &Arc<S>) -> Method<T, K>
    where
        S: Send + Sync + 'static,
    {
        let (inner, state) = (self.clone(), Arc::clone(state));
        let serve: Box<dyn Serve<T, K>> = Box::new(Nested { inner, state });
        Method {
            serve: erased(serve),
            place: 0,
        }
    }

    /// Calls the method.
    pub(super) fn serve<'c>(&'c self, on: Invoked<'c, S, K>, text: &mut K::Text) -> Served<'c, K> {
        self.serve.serve(self.place, on, text)
    }
}

/// A method of a nested router.
struct Nested<S, K> {
    inner: Method<S, K>,
    state: Arc<S>,
}

impl<S: Send + Sync, T, K: Shell> Serve<T, K> for Nested<S, K> {
    fn serve<'c>(&'c self, _: usize, on: Invoked<'c, T, K>, text: &mut K::Text) -> Served<'c, K> {
        let Invoked { given, call, .. } = on;
        let state = &self.state;
        self.inner.serve(Invoked { given, call, state }, text)
    }
}
