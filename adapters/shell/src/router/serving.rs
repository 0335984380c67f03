//! The handlers of a router: functions or whole services, which answer at once or later.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use antiphon::service::{
    AsyncMethods, Failure, Handler, IntoResult, MethodInfo, Methods, ParamInfo, ServiceInfo,
    write_result,
};
use antiphon::{Json, OwnedError, OwnedJson, SendError};

use crate::debug_fields;
use crate::serve::answer::Answer;
use crate::serve::finish::RunToEnd;
use crate::serve::request::Request;
use crate::text::Text;

/// Handlers may wait: they run on tasks.
#[derive(Debug)]
pub enum Tasks {}

/// Handlers answer at once: they run on threads.
#[derive(Debug)]
pub enum OnThreads {}

/// The ways in which a handler answers; the compiler infers which one is used.
pub mod marker {
    /// A handler that returns the answer.
    #[derive(Debug)]
    pub enum AtOnce {}
    /// A handler that returns a future of the answer.
    #[derive(Debug)]
    pub enum Awaited {}
    /// A handler that returns a [`RunToEnd`](crate::RunToEnd).
    #[derive(Debug)]
    pub enum ToEnd {}
}

/// A result, or the future that makes it.
pub(super) enum Served<'c> {
    /// `None` if the handler takes the request itself and answers later.
    Done(Option<Result<Text, Failure>>),
    Later(Pin<Box<dyn Future<Output = Result<Text, Failure>> + Send + 'c>>),
}

/// The return type of a handler: a result, or on tasks a future of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an answer",
    label = "return `Result<T, E>` with `T: Serialize` and `E: Into<OwnedError>`, or `()`",
    note = "on tasks a handler may be an `async fn`, whose future is `Send`; on threads it returns at once"
)]
pub trait Answers<M, K> {
    /// Converts it.
    fn answer(self, request: &Request) -> Answering;
}

/// An answer, or the future that makes it.
pub struct Answering(Served<'static>);

debug_fields!(impl[] Answering as "Answering" {});

pub(super) fn written(output: impl IntoResult) -> Result<Text, Failure> {
    let mut text = Text::new();
    write_result(output, text.buffer())?;
    Ok(text)
}

impl<M, O: IntoResult> Answers<M, marker::AtOnce> for O {
    fn answer(self, _: &Request) -> Answering {
        Answering(Served::Done(Some(written(self))))
    }
}

impl<O: Future<Output: IntoResult> + Send + 'static> Answers<Tasks, marker::Awaited> for O {
    fn answer(self, _: &Request) -> Answering {
        Answering(Served::Later(Box::pin(async { written(self.await) })))
    }
}

impl<F: Future<Output: IntoResult> + Send + 'static> Answers<Tasks, marker::ToEnd> for RunToEnd<F> {
    fn answer(self, request: &Request) -> Answering {
        let work = request.run_to_end(async { written(self.0.await) });
        Answering(Served::Later(Box::pin(work)))
    }
}

/// A function or a service that serves methods, with its type erased.
pub(super) trait Serve<S>: Send + Sync {
    fn serve<'c>(&'c self, method: usize, request: &'c Request, state: &'c Arc<S>) -> Served<'c>;
}

/// A function, and the names of its parameters.
pub(super) struct Function<F> {
    pub(super) names: Box<[&'static str]>,
    pub(super) run: F,
}

/// The params of a request that a method takes one by one.
enum Parameters<'r> {
    All(Option<Json<'r>>),
    /// The params without the member by which the peer asks for progress, and without those by unknown
    /// names, if they are ignored.
    Rest(OwnedJson),
}

impl<'r> Parameters<'r> {
    fn of<'n>(request: &'r Request, names: impl Iterator<Item = &'n str> + Clone) -> Self {
        let params = request.raw_params();
        let rest = params.and_then(|params| request.progress_style()?.without_token(params));
        let given = rest.as_ref().map(OwnedJson::as_json).or(params);
        let known = request.unknown_params().without_unknown(given, names);
        known.or(rest).map_or(Self::All(params), Self::Rest)
    }

    /// The params of the method at an index of a service.
    fn of_method(request: &'r Request, info: &ServiceInfo, method: usize) -> Self {
        let info = info.methods.get(method);
        let params = info.map_or(&[][..], MethodInfo::params);
        Self::of(request, params.iter().map(ParamInfo::name))
    }

    fn json(&self) -> Option<Json<'_>> {
        match self {
            Self::All(params) => *params,
            Self::Rest(rest) => Some(rest.as_json()),
        }
    }
}

/// Makes a handler of a function, whatever its arguments and its result are.
pub(super) fn function<S, M, A, K, H>(names: &[&'static str], handler: H) -> Arc<dyn Serve<S>>
where
    S: Send + Sync + 'static,
    H: Handler<Request, S, A, Output: Answers<M, K>> + Send + Sync,
{
    Arc::new(Function {
        names: names.into(),
        run: move |params: Option<Json<'_>>,
                   names: &[&'static str],
                   request: &Request,
                   state: &S| {
            let given = match H::IS_WHOLE {
                true => Parameters::All(params),
                false => Parameters::of(request, names.iter().copied()),
            };
            match handler.call(given.json(), names, request, state) {
                Ok(output) => output.answer(request).0,
                Err(failure) => Served::Done(Some(Err(failure))),
            }
        },
    })
}

impl<S, F> Serve<S> for Function<F>
where
    F: Fn(Option<Json<'_>>, &[&'static str], &Request, &S) -> Served<'static> + Send + Sync,
{
    fn serve<'c>(&'c self, _: usize, request: &'c Request, state: &'c Arc<S>) -> Served<'c> {
        (self.run)(request.raw_params(), &self.names, request, state)
    }
}

/// A handler that takes the request itself.
pub(super) struct Raw<F>(pub(super) F);

impl<S, F> Serve<S> for Raw<F>
where
    F: Fn(&Request) -> Result<Answer, OwnedError> + Send + Sync,
{
    fn serve<'c>(&'c self, _: usize, request: &'c Request, _: &'c Arc<S>) -> Served<'c> {
        Served::Done(match (self.0)(request) {
            Ok(Answer(Some(Ok(text)))) => Some(Ok(text)),
            Ok(Answer(Some(Err(SendError::Encode(error))))) => Some(Err(Failure::Encode(error))),
            Ok(Answer(Some(Err(error)))) => Some(Err(Failure::Send(error))),
            Ok(Answer(None)) => None,
            Err(error) => Some(Err(error.into())),
        })
    }
}

/// A service that a router accepts: `#[service]` implements it for a trait. For tasks its methods
/// may be `async fn`s or plain functions, for threads plain functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot serve here",
    label = "on tasks a service has `async fn`s or plain ones, on threads plain ones; what it takes by `#[rpc(context)]` implements `FromCall`"
)]
pub trait ServiceMethods<S, M, K>: Send + Sync + 'static {
    /// What is described of the service.
    fn describe(&self) -> &'static ServiceInfo;
    /// Begins the method with this index in the description.
    fn start<'c>(
        self: &'c Arc<Self>,
        method: usize,
        request: &'c Request,
        state: &'c Arc<S>,
    ) -> Starting<'c>;
}

/// A method that has been started: its result, or the future that makes it.
pub struct Starting<'c>(Served<'c>);

debug_fields!(impl[] Starting<'_> as "Starting" {});

impl<S, M, X: Methods<Request, S>> ServiceMethods<S, M, marker::AtOnce> for X {
    fn describe(&self) -> &'static ServiceInfo {
        self.info()
    }

    fn start<'c>(
        self: &'c Arc<Self>,
        method: usize,
        request: &'c Request,
        state: &'c Arc<S>,
    ) -> Starting<'c> {
        let mut text = Text::new();
        let params = Parameters::of_method(request, self.info(), method);
        let done = self.call(method, params.json(), request, state, text.buffer());
        Starting(Served::Done(Some(done.map(|()| text))))
    }
}

impl<S, X> ServiceMethods<S, Tasks, marker::Awaited> for X
where
    S: Send + Sync + 'static,
    X: AsyncMethods<Request, S>,
{
    fn describe(&self) -> &'static ServiceInfo {
        self.info()
    }

    fn start<'c>(
        self: &'c Arc<Self>,
        method: usize,
        request: &'c Request,
        state: &'c Arc<S>,
    ) -> Starting<'c> {
        let methods = self.info().methods;
        if !methods.get(method).is_some_and(MethodInfo::runs_to_end) {
            let run = called(&**self, method, request, &**state);
            return Starting(Served::Later(Box::pin(run)));
        }
        let (own, state) = (Arc::clone(self), Arc::clone(state));
        let seen = request.clone();
        let work = async move { called(&*own, method, &seen, &*state).await };
        Starting(Served::Later(Box::pin(request.run_to_end(work))))
    }
}

/// Calls a method of a service, and writes its result.
async fn called<S: Sync, X: AsyncMethods<Request, S>>(
    methods: &X,
    method: usize,
    request: &Request,
    state: &S,
) -> Result<Text, Failure> {
    let mut text = Text::new();
    let params = Parameters::of_method(request, methods.info(), method);
    methods
        .call(method, params.json(), request, state, text.buffer())
        .await?;
    Ok(text)
}

/// A service, and the types by which the compiler knows how it answers.
struct Whole<X, M, K>(Arc<X>, PhantomData<fn() -> (M, K)>);

impl<S, M, K, X: ServiceMethods<S, M, K>> Serve<S> for Whole<X, M, K> {
    fn serve<'c>(&'c self, method: usize, request: &'c Request, state: &'c Arc<S>) -> Served<'c> {
        self.0.start(method, request, state).0
    }
}

/// The handler of a method: a service, and the index of the method in it.
pub(super) struct Method<S> {
    pub(super) serve: Arc<dyn Serve<S>>,
    pub(super) place: usize,
}

impl<S> Clone for Method<S> {
    fn clone(&self) -> Self {
        Self {
            serve: Arc::clone(&self.serve),
            ..*self
        }
    }
}

impl<S> Method<S> {
    /// The method of a handler that serves only one.
    pub(super) fn only(serve: Arc<dyn Serve<S>>) -> Self {
        Self { serve, place: 0 }
    }

    /// Returns a function that makes the methods of a service by their index.
    pub(super) fn all<M: 'static, K: 'static, X>(service: X) -> impl Fn(usize) -> Self
    where
        X: ServiceMethods<S, M, K>,
    {
        let serve: Arc<dyn Serve<S>> = Arc::new(Whole::<X, M, K>(Arc::new(service), PhantomData));
        move |place| Self {
            serve: Arc::clone(&serve),
            place,
        }
    }
}

/// A method of a nested router, which has a state of its own.
pub(super) struct Nested<T> {
    pub(super) inner: Method<T>,
    pub(super) state: Arc<T>,
}

impl<S, T: Send + Sync> Serve<S> for Nested<T> {
    fn serve<'c>(&'c self, _: usize, request: &'c Request, _: &'c Arc<S>) -> Served<'c> {
        let Method { serve, place } = &self.inner;
        serve.serve(*place, request, &self.state)
    }
}
