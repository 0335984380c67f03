//! Methods that return flows.

use antiphon::service::{Failure, Handler, ParamInfo, Routes};
use antiphon::{Json, OwnedError};
use futures_util::Stream;
use serde::Serialize;

use super::shell::On;
use crate::serve::request::Request;
use crate::streams::flow::Flow;

/// Serves flows by functions that return streams. The router implements it.
pub trait FlowRoutes<S>: Sized {
    /// Serves a method whose answer is the id of a flow. `names` are the names of the handler's parameters, and
    /// the handler returns a stream of results, which [`Flow::of`] makes a flow. A handler that may fail before is a
    /// [`method`](Routes::method) that returns a [`Flow`].
    ///
    /// A flow in a `Result` does not compile, also in that of an `async fn`: the compiler cannot infer `W`, the way in which
    /// the handler answers.
    ///
    /// ```compile_fail,E0283
    /// # use antiphon_shell::{Flow, OwnedError, Router};
    /// let flow = |n: u64| Ok::<Flow<u64>, OwnedError>(Flow::of(futures_util::stream::iter([Ok::<_, OwnedError>(n)])));
    /// let _: Router = Router::new().method("count", ["n"], flow);
    /// ```
    ///
    /// A connection on which flows are off, or that cannot carry them (HTTP, JSON-RPC 1.0), gets −32601, and one
    /// that has as many flows as it may is told that the server is busy.
    ///
    /// ```
    /// use antiphon::OwnedError;
    /// use antiphon_shell::{FlowRoutes, Router};
    /// use futures_util::stream::{self, StreamExt};
    ///
    /// let router = Router::new().flow("count", ["from"], |from: u64| {
    ///     stream::iter(from..).map(Ok::<_, OwnedError>)
    /// });
    /// # let _: Router = router;
    /// ```
    ///
    /// # Panics
    /// As [`Routes::method`].
    #[track_caller]
    fn flow<A, T, E, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<Request, S, A, Output: Stream<Item = Result<T, E>> + Send + 'static>
            + Send
            + Sync,
        T: Serialize + Send + 'static,
        E: Into<OwnedError> + 'static;
}

impl<S: 'static, const WAITS: bool> FlowRoutes<S> for Routes<S, On<WAITS>> {
    fn flow<A, T, E, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<Request, S, A, Output: Stream<Item = Result<T, E>> + Send + 'static>
            + Send
            + Sync,
        T: Serialize + Send + 'static,
        E: Into<OwnedError> + 'static,
    {
        self.method(name, names, Streaming(handler))
    }
}

/// A handler that returns a stream, as one that returns a flow.
struct Streaming<H>(H);

impl<S, A, T, E, H> Handler<Request, S, A> for Streaming<H>
where
    H: Handler<Request, S, A, Output: Stream<Item = Result<T, E>> + Send + 'static>,
    T: 'static,
    E: Into<OwnedError>,
{
    type Output = Flow<T>;
    const NAMES: usize = H::NAMES;
    const IS_WHOLE: bool = H::IS_WHOLE;

    fn describe(names: &[&'static str]) -> Vec<ParamInfo> {
        H::describe(names)
    }

    fn call(
        &self,
        params: Option<Json<'_>>,
        names: &[&'static str],
        request: &Request,
        state: &S,
    ) -> Result<Flow<T>, Failure> {
        self.0.call(params, names, request, state).map(Flow::of)
    }
}
