//! What a handler of a method that is described by a type gets besides the params.

use std::fmt;
use std::future::Future;

use antiphon::{FromCall, OwnedError};

use crate::peer::Peer;
use crate::serve::cancellation::Cancellation;
use crate::serve::request::Request;

/// The context of a handler of a [`Method`](antiphon::Method), besides its params: the router's state, the peer, and
/// all other arguments that handlers can have.
pub struct RequestContext<S = ()> {
    pub(super) request: Request,
    pub(super) state: S,
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
