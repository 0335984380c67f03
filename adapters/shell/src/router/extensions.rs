//! Methods whose names begin with `rpc.`.

use antiphon::service::{Handler, Implementation, MethodInfo, ReservedNames, described};

use super::serving::{Answers, Method, ServiceMethods, function};
use super::{Routes, expect};
use crate::serve::request::Request;

impl<S: Send + Sync + 'static, M: 'static> Routes<S, M> {
    /// Serves an extension, whose name begins with `rpc.`. It may replace `rpc.listMethods` and
    /// `rpc.discover`. If it fails with *method not found*, it declines: then later extensions of the
    /// same name are asked, then the built-in ones, then a method of that name.
    ///
    /// # Panics
    /// The name does not begin with `rpc.`, or the names do not fit the handler.
    #[track_caller]
    pub fn extension<A, K, const N: usize, H>(
        self,
        name: &'static str,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<Request, S, A, Output: Answers<M, K>> + Send + Sync,
    {
        let info = described::<Request, S, A, H>(MethodInfo::request(name, &[]), &names);
        let method = Method::only(function(&names, handler));
        expect(info.and_then(|info| self.write().routes.insert_extension(info, method)));
        self
    }

    /// Serves the methods of a service as extensions, as [`extension`](Self::extension) does. Providers
    /// are asked in the order in which they were added; one that fails with *method not found* declines.
    ///
    /// ```
    /// use antiphon::{ErrorObject, OwnedError};
    /// use antiphon_tokio::{Router, service};
    ///
    /// #[service]
    /// trait About {
    ///     async fn describe(&self, method: String) -> Result<String, OwnedError>;
    /// }
    ///
    /// struct Texts;
    ///
    /// impl About for Texts {
    ///     async fn describe(&self, method: String) -> Result<String, OwnedError> {
    ///         match method.as_str() {
    ///             "add" => Ok("Adds two numbers.".into()),
    ///             _ => Err(ErrorObject::method_not_found().into()),
    ///         }
    ///     }
    /// }
    ///
    /// let router = Router::new().provider(Texts.into_service().prefix("rpc"));
    /// # let _: Router = router;
    /// ```
    ///
    /// # Panics
    /// A name does not begin with `rpc.`.
    #[track_caller]
    pub fn provider<K: 'static, X: ServiceMethods<S, M, K>>(
        self,
        service: Implementation<X>,
    ) -> Self {
        let info = service.methods().describe();
        let mut table = self.write();
        let added = table.routes.insert_provider(service, info, Method::all);
        drop(table);
        expect(added);
        self
    }

    /// Sets whether methods may have names that begin with `rpc.` while extensions are served. An extension
    /// of the same name answers first. Default [`ReservedNames::Deny`].
    #[must_use]
    pub fn reserved_names(self, reserved: ReservedNames) -> Self {
        self.write().routes.set_reserved_names(reserved);
        self
    }

    /// Serves no extensions: names that begin with `rpc.` are ordinary names from now on. To switch only
    /// one of the built-in ones off, see [`Discovery::without`](antiphon::service::Discovery::without).
    #[must_use]
    pub fn without_extensions(self) -> Self {
        self.write().routes.set_discovery(None);
        self
    }
}
