//! What an interceptor decides, at once or later.

use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::cx::Cx;
use super::errors::Failure;
use super::methods::ResultText;
use crate::error_object::OwnedError;
use crate::json::OwnedJson;

/// The decision of an interceptor about a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum Decision {
    /// The call goes on: to the next interceptor, then to the handler or the peer.
    Continue,
    /// This is the answer. The interceptors after this one, and the handler or the peer, are not
    /// called. A notification gets no answer.
    Answer(Result<OwnedJson, OwnedError>),
    /// The interceptor itself has failed. A request is answered *internal error*, and the cause is
    /// reported on this side; a call of ours is not sent, and ends with the cause.
    Fail(Box<dyn core::error::Error + Send + Sync>),
    /// The interceptor decides later, by this future. An adapter's router waits for it (a
    /// [`LocalRouter`](super::LocalRouter) cannot, and the call fails), and a call of ours waits
    /// until its deadline; the interceptors after this one are called afterwards. If the call is
    /// cancelled or its connection ends meanwhile, the future is dropped. A call that cannot wait,
    /// such as `try_notify`, fails.
    Defer(Deferred),
}

/// A decision that has to be awaited.
pub struct Deferred(Pin<Box<dyn Future<Output = Resolve> + Send>>);

/// Makes a decision that was awaited.
pub type Resolve = Box<dyn FnOnce(&mut Cx) -> Decision + Send>;

impl Deferred {
    /// Decides by the result of `future`: with `Ok` the call goes on, and the value is added to its
    /// [attributes](Cx::attributes); with an error the call is answered with it.
    pub fn new<T: Send + Sync + 'static>(
        future: impl Future<Output = Result<T, OwnedError>> + Send + 'static,
    ) -> Self {
        Self::deciding(async {
            let found = future.await;
            |cx: &mut Cx| match found {
                Ok(found) => {
                    cx.attributes_mut().insert(found);
                    Decision::Continue
                }
                Err(error) => error.into(),
            }
        })
    }

    /// Decides by calling the function that `future` returns.
    pub(super) fn deciding<R: FnOnce(&mut Cx) -> Decision + Send + 'static>(
        future: impl Future<Output = R> + Send + 'static,
    ) -> Self {
        Self(Box::pin(async {
            let resolve: Resolve = Box::new(future.await);
            resolve
        }))
    }
}

/// The output is the function that makes the decision.
impl Future for Deferred {
    type Output = Resolve;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(task)
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deferred")
    }
}

/// Returns the failure of a call that would have to wait where nothing can.
pub(super) fn cannot_wait() -> Failure {
    Failure::Interceptor(Box::new(CannotWait))
}

/// A type and no text, because what prints texts takes 3 KB of flash.
#[derive(Debug)]
struct CannotWait;

impl fmt::Display for CannotWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an interceptor decides later, where nothing can wait for it")
    }
}

impl core::error::Error for CannotWait {}

/// The result of calling the interceptors.
#[derive(Debug)]
pub enum Asked {
    /// All of them let the call pass.
    Passed,
    /// One has answered.
    Answered(Result<ResultText, Failure>),
    /// One decides later: [`Chain::decide`](super::Chain::decide) takes its decision, and calls the
    /// interceptors after it.
    Deferred(Deferred),
}

/// The call is refused: the error is its answer.
impl From<OwnedError> for Decision {
    fn from(error: OwnedError) -> Self {
        Self::Answer(Err(error))
    }
}
