//! The shell of a router without an adapter, calls as its interceptors see them, and an interceptor that
//! limits the rate of calls.

use alloc::vec::Vec;
use core::cell::{RefCell, RefMut};
use core::fmt;

use super::attributes::Attributes;
use super::conventions;
use super::cx::{AnyRequest, Cx};
use super::decision::Decision;
use super::intercept::Interceptor;
use super::limit::Bucket;
use crate::config::Config;
use crate::event::Origin;
use crate::id::OwnedId;
use crate::json::{Json, Kept, OwnedJson};
use crate::shared::Arc;
use crate::time::Instant;

/// The shell of a router without an adapter: it serves a connection at once, and never waits.
#[derive(Debug)]
pub enum Local {}

/// A request or a notification, as interceptors of a router without an adapter see it.
pub struct LocalRequest {
    pub(super) method: Kept<40>,
    pub(super) params: Option<OwnedJson>,
    /// `None` for a notification.
    pub(super) id: Option<OwnedId>,
    pub(super) origin: Origin,
    pub(super) config: Config,
    /// The connection's time, which does not change while the call is served.
    pub(super) at: Instant,
    pub(super) clock: Option<fn() -> Instant>,
    pub(super) of_connection: RefCell<Attributes>,
    pub(super) of_router: RefCell<Attributes>,
}

impl LocalRequest {
    /// Where the call was in the input: how many bytes it has, and whether it is in a batch.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The configuration of the connection.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The attributes that interceptors keep for later calls of the same connection.
    ///
    /// # Panics
    /// The attributes are borrowed already.
    pub fn connection_attributes(&self) -> RefMut<'_, Attributes> {
        self.of_connection.borrow_mut()
    }

    /// The attributes that interceptors keep for later calls of all connections of the router.
    ///
    /// # Panics
    /// The attributes are borrowed already.
    pub fn router_attributes(&self) -> RefMut<'_, Attributes> {
        self.of_router.borrow_mut()
    }
}

impl AnyRequest for LocalRequest {
    fn method(&self) -> &str {
        self.method.as_str()
    }

    fn params(&self) -> Option<Json<'_>> {
        self.params.as_ref().map(OwnedJson::as_json)
    }

    fn id(&self) -> Option<OwnedId> {
        self.id.clone()
    }

    fn is_notification(&self) -> bool {
        self.id.is_none()
    }

    fn connection(&self) -> u32 {
        self.config.connection
    }

    fn version(&self) -> Option<&'static str> {
        conventions::protocol_version(self.config.dialect.version)
    }

    fn now(&self) -> Instant {
        self.clock.map_or(self.at, |now| now())
    }
}

impl fmt::Debug for LocalRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalRequest")
            .field(&self.method.as_str())
            .finish()
    }
}

/// An interceptor of a [`LocalRouter`](super::LocalRouter) that refuses calls beyond a rate. They are
/// answered *rate limit exceeded*, with the code that the dialect has for it. Notifications beyond the
/// rate are not served.
///
/// ```
/// use antiphon::service::{Bucket, LocalRateLimit, LocalRouter};
/// let router = LocalRouter::new()
///     .intercept(LocalRateLimit::per_connection(Bucket::per_second(100, 20)))
///     .intercept(LocalRateLimit::per_router(Bucket::per_second(1000, 100)));
/// # let _: LocalRouter = router;
/// ```
#[derive(Debug)]
pub struct LocalRateLimit {
    /// A full bucket, to be copied. Its address also distinguishes the buckets of this limit from
    /// those of other limits.
    full: Arc<Bucket>,
    /// Whether all connections of the router share one bucket.
    is_shared: bool,
}

/// The bucket of a limit, for one connection or for all, stored in attributes.
struct Filled {
    limit: Arc<Bucket>,
    bucket: Bucket,
}

impl LocalRateLimit {
    /// Limits each connection by a bucket of its own, which begins as a copy of `full`.
    pub fn per_connection(full: Bucket) -> Self {
        Self {
            full: Arc::new(full),
            is_shared: false,
        }
    }

    /// Limits all connections of a router together by one bucket, which begins as `full`.
    pub fn per_router(full: Bucket) -> Self {
        Self {
            full: Arc::new(full),
            is_shared: true,
        }
    }

    /// Takes a token from this limit's bucket among these attributes. Returns false if the bucket
    /// has none.
    fn take(&self, attributes: &mut Attributes, now: Instant) -> bool {
        let mut all: Vec<Filled> = attributes.remove().unwrap_or_default();
        let known = all
            .iter_mut()
            .find(|one| Arc::ptr_eq(&one.limit, &self.full));
        let passes = match known {
            Some(known) => known.bucket.take(now),
            None => {
                let (limit, mut bucket) = (Arc::clone(&self.full), Bucket::clone(&self.full));
                let passes = bucket.take(now);
                all.push(Filled { limit, bucket });
                passes
            }
        };
        attributes.insert(all);
        passes
    }
}

impl Interceptor<LocalRequest> for LocalRateLimit {
    fn request(&self, cx: &mut Cx, request: &LocalRequest) -> Decision {
        let mut attributes = match self.is_shared {
            true => request.router_attributes(),
            false => request.connection_attributes(),
        };
        match self.take(&mut attributes, cx.began()) {
            true => Decision::Continue,
            false => {
                let profile = request.config.dialect.error_profile;
                profile.rate_limited().into_owned().into()
            }
        }
    }
}
