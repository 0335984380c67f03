//! How many calls per second are served.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use antiphon::service::{Bucket, Cx, Decision, Interceptor};

use crate::request::Request;

/// An interceptor that refuses calls beyond a rate: *rate limit exceeded*, with the dialect's code
/// for a busy server. Notifications beyond the rate are not handled, but reported.
///
/// ```
/// use antiphon_net::{RateLimit, Router};
/// let router = Router::new()
///     .intercept(RateLimit::per_connection(100, 20))
///     .intercept(RateLimit::per_server(10_000, 1000));
/// # let _: Router = router;
/// ```
#[derive(Debug)]
pub struct RateLimit {
    /// Distinguishes its buckets from those of others.
    number: u64,
    full: Bucket,
    /// The bucket of all connections; `None` if each has its own.
    shared: Option<Mutex<Bucket>>,
}

impl RateLimit {
    /// Lets `rate` calls a second of all connections together pass, and `burst` at once after a pause.
    pub fn per_server(rate: u32, burst: u32) -> Self {
        let full = Bucket::per_second(rate, burst);
        Self {
            number: next_number(),
            shared: Some(Mutex::new(full.clone())),
            full,
        }
    }

    /// Allows `rate` calls per second of each connection, and `burst` at once after a pause. Over
    /// HTTP each request is a connection of its own, so use [`per_server`](Self::per_server) there.
    pub fn per_connection(rate: u32, burst: u32) -> Self {
        Self {
            number: next_number(),
            full: Bucket::per_second(rate, burst),
            shared: None,
        }
    }
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The bucket of a connection. Each limit has its own.
struct Own {
    limit: u64,
    bucket: Bucket,
}

impl Interceptor<Request> for RateLimit {
    fn request(&self, cx: &mut Cx, request: &Request) -> Decision {
        let passes = match &self.shared {
            Some(shared) => {
                let mut bucket = shared.lock().unwrap_or_else(PoisonError::into_inner);
                bucket.take(cx.began())
            }
            None => {
                let limit = self.number;
                let mut attributes = request.connection_attributes();
                if attributes.get::<Vec<Own>>().is_none() {
                    attributes.insert(Vec::<Own>::new());
                }
                let all = attributes.get_mut::<Vec<Own>>();
                all.is_some_and(|all| {
                    let known = all.iter().position(|own| own.limit == limit);
                    let place = known.unwrap_or_else(|| {
                        let bucket = self.full.clone();
                        all.push(Own { limit, bucket });
                        all.len() - 1
                    });
                    all.get_mut(place)
                        .is_some_and(|own| own.bucket.take(cx.began()))
                })
            }
        };
        match passes {
            true => Decision::Continue,
            false => request.error_profile().rate_limited().into_owned().into(),
        }
    }
}
