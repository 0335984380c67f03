//! Methods that are described by types, and their handlers.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use antiphon::service::{Failure, MethodInfo};
use antiphon::{FromCall, Json, Method, OwnedError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::serving::{Serve, Served, Tasks, written};
use super::{Routes, expect};
use crate::peer::Peer;
use crate::serve::cancellation::Cancellation;
use crate::serve::request::Request;

/// The context of a handler of a [`Method`], besides its params: the router's state, the peer, and
/// all other arguments that handlers can have.
pub struct RequestContext<S = ()> {
    request: Request,
    state: S,
}

impl<S> RequestContext<S> {
    /// The router's state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The other side of the connection.
    pub fn peer(&self) -> Peer {
        self.request.peer()
    }

    /// A future that is ready when the peer has cancelled the request, or the connection has ended.
    pub fn cancellation(&self) -> Cancellation {
        self.request.cancellation()
    }

    /// Whether the peer has cancelled the request, or the connection has ended. The handler's future is
    /// dropped then, so this is for work that runs elsewhere; [`on_pool`](Self::on_pool) gives its work a
    /// [`Cancellation`] to ask.
    pub fn is_cancelled(&self) -> bool {
        self.request.is_cancelled()
    }

    /// Runs `work` on a thread of the connection's [`Pool`](crate::Pool), as [`Request::on_pool`] does.
    ///
    /// ```
    /// use antiphon::{Method, OwnedError};
    /// use antiphon_shell::Router;
    ///
    /// enum Sum {}
    ///
    /// impl Method for Sum {
    ///     const NAME: &str = "sum";
    ///     type Params = (u64,);
    ///     type Result = u64;
    ///     type Error = OwnedError;
    /// }
    ///
    /// let router = Router::new().on::<Sum>(|(most,), context| async move {
    ///     let sum = context.on_pool(move |cancellation| {
    ///         (0..most).take_while(|n| n % 1000 > 0 || !cancellation.is_cancelled()).sum()
    ///     });
    ///     sum.await
    /// });
    /// # let _: Router = router;
    /// ```
    ///
    /// # Errors
    /// The dialect's error *busy*, if too much work waits for a thread.
    pub async fn on_pool<T: Send + 'static>(
        &self,
        work: impl FnOnce(Cancellation) -> T + Send + 'static,
    ) -> Result<T, OwnedError> {
        self.request.on_pool(work).await
    }

    /// Returns a future of the result of `work`, which runs to its end even if nobody waits for the answer
    /// any more: see [`RunToEnd`](crate::RunToEnd).
    pub fn run_to_end<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = T> + Send + 'static + use<T, F, S>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.request.run_to_end(work)
    }

    /// Makes a value that functions with other arguments take, such as [`Progress`](crate::Progress).
    ///
    /// # Errors
    /// The value cannot be made from this request. The handler may return the error.
    pub fn extract<X: FromCall<Request, S>>(&self) -> Result<X, OwnedError> {
        X::from_call(&self.request, &self.state)
    }
}

impl<S> fmt::Debug for RequestContext<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestContext")
            .field(&self.request.method())
            .finish_non_exhaustive()
    }
}

/// A function that serves a [`Method`]: it takes its params and a [`RequestContext`], and returns a
/// future of its result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not serve the method `{M}`",
    label = "it takes the method's params and a `RequestContext`, and returns a future of its result that is `Send`"
)]
pub trait MethodHandler<M: Method, S>:
    Fn(M::Params, RequestContext<S>) -> <Self as MethodHandler<M, S>>::Answer + Send + Sync + 'static
{
    /// The future that the function returns.
    type Answer: Future<Output = Result<M::Result, M::Error>> + Send + 'static;
}

impl<M, S, F, A> MethodHandler<M, S> for F
where
    M: Method,
    F: Fn(M::Params, RequestContext<S>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<M::Result, M::Error>> + Send + 'static,
{
    type Answer = A;
}

impl<S: Clone + Send + Sync + 'static> Routes<S, Tasks> {
    /// Serves a method that is described by a type.
    ///
    /// ```
    /// use antiphon::Method;
    /// use antiphon_shell::Router;
    ///
    /// enum Add {}
    ///
    /// impl Method for Add {
    ///     const NAME: &str = "add";
    ///     type Params = (f64, f64);
    ///     type Result = f64;
    ///     type Error = antiphon::OwnedError;
    /// }
    ///
    /// let router = Router::new().on::<Add>(|(a, b), _| async move { Ok(a + b) });
    /// # let _: Router = router;
    /// ```
    ///
    /// # Panics
    /// The name is blank, taken or reserved.
    #[track_caller]
    pub fn on<M>(self, handler: impl MethodHandler<M, S>) -> Self
    where
        M: Method<Params: DeserializeOwned, Result: Serialize, Error: Into<OwnedError>> + 'static,
    {
        self.typed::<M>(MethodInfo::request(M::NAME, &[]), handler)
    }

    /// Serves a notification that is described by a type.
    ///
    /// # Panics
    /// See [`on`](Self::on).
    #[track_caller]
    pub fn on_notification<M>(self, handler: impl MethodHandler<M, S>) -> Self
    where
        M: Method<Params: DeserializeOwned, Result: Serialize, Error: Into<OwnedError>> + 'static,
    {
        self.typed::<M>(MethodInfo::notification(M::NAME, &[]), handler)
    }

    #[track_caller]
    fn typed<M>(self, info: MethodInfo, handler: impl MethodHandler<M, S>) -> Self
    where
        M: Method<Params: DeserializeOwned, Result: Serialize, Error: Into<OwnedError>> + 'static,
    {
        let serve = Typed(handler, PhantomData::<fn() -> M>);
        let info = info.with_params_of::<M::Params>();
        expect(self.insert(info, Arc::new(serve)));
        self
    }
}

struct Typed<H, M>(H, PhantomData<fn() -> M>);

impl<S, M, H> Serve<S> for Typed<H, M>
where
    S: Clone,
    M: Method<Params: DeserializeOwned, Result: Serialize, Error: Into<OwnedError>>,
    H: MethodHandler<M, S>,
{
    fn serve<'c>(&'c self, _: usize, request: &'c Request, state: &'c Arc<S>) -> Served<'c> {
        let params = request.raw_params().unwrap_or(Json::NULL);
        match params.decode() {
            Ok(params) => {
                let (request, state) = (request.clone(), S::clone(state));
                let answer = (self.0)(params, RequestContext { request, state });
                Served::Later(Box::pin(async { written(answer.await) }))
            }
            Err(error) => Served::Done(Some(Err(Failure::Params(error)))),
        }
    }
}
