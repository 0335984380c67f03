//! Functions that refuse calls, or hide methods.

use std::future::Future;

use antiphon::OwnedError;
use antiphon::service::{Cx, Decision, Deferred, Interceptor, MethodInfo};

use crate::serve::request::Request;

/// An interceptor that refuses the calls for which the function returns an error.
pub(super) struct Refusing<F>(pub(super) F);

impl<F> Interceptor<Request> for Refusing<F>
where
    F: Fn(&mut Cx, &Request) -> Result<(), OwnedError> + Send + Sync + 'static,
{
    fn request(&self, cx: &mut Cx, request: &Request) -> Decision {
        match (self.0)(cx, request) {
            Ok(()) => Decision::Continue,
            Err(error) => error.into(),
        }
    }

    fn shows(&self, cx: &mut Cx, request: &Request, info: &MethodInfo) -> bool {
        (self.0)(cx, &request.renamed(info.name())).is_ok()
    }
}

/// An interceptor that waits for the future which the function makes of each call. An error of the future
/// refuses the call; its value becomes an attribute of the call.
pub(super) struct RefusingLater<F>(pub(super) F);

impl<C, T, F> Interceptor<Request> for RefusingLater<C>
where
    C: Fn(&Request) -> F + Send + Sync + 'static,
    T: Send + Sync + 'static,
    F: Future<Output = Result<T, OwnedError>> + Send + 'static,
{
    fn request(&self, _: &mut Cx, request: &Request) -> Decision {
        Decision::Defer(Deferred::new((self.0)(request)))
    }
}

/// An interceptor that hides the methods for which the function returns false.
pub(super) struct Showing<F>(pub(super) F);

impl<F> Interceptor<Request> for Showing<F>
where
    F: Fn(&Request, &MethodInfo) -> bool + Send + Sync + 'static,
{
    fn shows(&self, _: &mut Cx, request: &Request, info: &MethodInfo) -> bool {
        (self.0)(request, info)
    }
}
