//! Registers functions with the descriptions of their methods.

use antiphon::service::{Handler, MethodInfo, names_of};

use super::serving::Answers;
use super::{Routes, expect};
use crate::request::Request;

impl<S: Send + Sync + 'static, M: 'static> Routes<S, M> {
    /// Serves a method or a notification that `info` describes: its name, the names of its parameters, and,
    /// as `#[service]` gives them, its documentation and the types of its parameters and its result.
    ///
    /// ```
    /// use antiphon::{OwnedError, method_info};
    /// use antiphon_net::Router;
    /// let about = method_info!("add"("a": f64, "b": f64) -> f64).with_doc("Adds two numbers.");
    /// let router = Router::new().method_with(about, |a: f64, b: f64| Ok::<_, OwnedError>(a + b));
    /// # let _: Router = router;
    /// ```
    ///
    /// # Panics
    /// As [`method`](Self::method), or the handler takes other parameters.
    #[track_caller]
    pub fn method_with<A, K, H>(self, info: MethodInfo, handler: H) -> Self
    where
        H: Handler<Request, S, A, Output: Answers<M, K>> + Send + Sync,
    {
        let names = names_of::<Request, S, A, H>(&info);
        expect(self.try_method(info, &names, handler));
        self
    }
}
