//! Handlers of methods that are described by types.

use core::future::Future;

use super::shell::Awaits;
use crate::method::Method;

/// A function that serves a [`Method`]: it takes its params and a context, and returns a future of its result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not serve the method `{M}`",
    label = "it takes the method's params and a `RequestContext`, and returns a future of its result that is `Send`"
)]
pub trait MethodHandler<M: Method, S, K: Awaits>:
    Fn(M::Params, K::Context<S>) -> <Self as MethodHandler<M, S, K>>::Answer + Send + Sync + 'static
{
    /// The future that the function returns.
    type Answer: Future<Output = Result<M::Result, M::Error>> + Send + 'static;
}

impl<M, S, K, F, A> MethodHandler<M, S, K> for F
where
    M: Method,
    K: Awaits,
    F: Fn(M::Params, K::Context<S>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<M::Result, M::Error>> + Send + 'static,
{
    type Answer = A;
}
