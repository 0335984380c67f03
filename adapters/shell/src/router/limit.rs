//! How many calls a second are served, and what they may cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use antiphon::service::{
    Bucket, CallEnd, Cx, Decision, Failure, Interceptor, KeyedBuckets, Prices, Reply, RoutedRequest,
};
use antiphon::{Instant, address_key};

use crate::debug_fields;
use crate::lock::Lock;
use crate::serve::request::Request;

/// An interceptor that refuses calls beyond a rate: *rate limit exceeded*, with the code that the
/// dialect has for it. Notifications beyond the rate are not handled, but reported.
///
/// ```
/// use antiphon_shell::{RateLimit, Router};
/// let router = Router::new()
///     .intercept(RateLimit::per_connection(100, 20))
///     .intercept(RateLimit::per_server(10_000, 1000));
/// # let _: Router = router;
/// ```
#[derive(Debug)]
pub struct RateLimit {
    limit: Limit,
}

#[derive(Debug)]
enum Limit {
    Buckets(Buckets),
    Keyed(Arc<Keyed>),
}

/// The bucket of a call.
enum Place {
    Bucket(Arc<Lock<Bucket>>),
    Key(Arc<Keyed>, String),
}

impl Limit {
    /// The buckets by the address from which calls come.
    fn per_address(full: Bucket) -> Self {
        Self::per_key(full, |request| {
            let address = request.responder.session().context().peer_addr?;
            Some(address_key(address.ip()).to_string())
        })
    }

    fn per_key(
        full: Bucket,
        key: impl Fn(&Request) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::Keyed(Arc::new(Keyed {
            buckets: Lock::new(KeyedBuckets::new(full)),
            key: Box::new(key),
        }))
    }

    /// The bucket of a request; `None` if it has no key, and is not limited.
    fn of(&self, request: &Request) -> Option<Place> {
        match self {
            Self::Buckets(buckets) => Some(Place::Bucket(buckets.of(request))),
            Self::Keyed(keyed) => {
                let key = (keyed.key)(request)?;
                Some(Place::Key(Arc::clone(keyed), key))
            }
        }
    }
}

impl Place {
    /// Changes the bucket.
    fn with<T>(&self, now: Instant, run: impl FnOnce(&mut Bucket) -> T) -> T {
        match self {
            Self::Bucket(bucket) => run(&mut bucket.lock()),
            Self::Key(keyed, key) => run(keyed.buckets.lock().bucket(key, now)),
        }
    }
}

/// Buckets by the keys that a function returns.
struct Keyed {
    buckets: Lock<KeyedBuckets>,
    key: Box<KeyOf>,
}

type KeyOf = dyn Fn(&Request) -> Option<String> + Send + Sync;

debug_fields!(impl[] Keyed as "Keyed" { buckets });

impl RateLimit {
    /// Allows `rate` calls per second of all connections together, and bursts of `burst` calls after a pause.
    pub fn per_server(rate: u32, burst: u32) -> Self {
        let full = Bucket::per_second(rate.into(), burst.into());
        Self {
            limit: Limit::Buckets(Buckets::one(full)),
        }
    }

    /// Allows `rate` calls per second of each connection, and bursts of `burst` calls after a pause. The HTTP
    /// requests of one connection count together; behind a proxy they may be those of several clients. In a web
    /// framework, which has the connections, use [`per_server`](Self::per_server); the first call there is
    /// reported as [`Report::Failed`](antiphon::session::Report::Failed), and served.
    pub fn per_connection(rate: u32, burst: u32) -> Self {
        let full = Bucket::per_second(rate.into(), burst.into());
        Self {
            limit: Limit::Buckets(Buckets::many(full)),
        }
    }

    /// Allows `rate` calls per second from each address, and bursts of `burst` calls after a pause: from an IPv4
    /// address, or from the /64 network of an IPv6 one ([`address_key`]). Calls whose address is not known are not
    /// limited.
    pub fn per_address(rate: u32, burst: u32) -> Self {
        let full = Bucket::per_second(rate.into(), burst.into());
        Self {
            limit: Limit::per_address(full),
        }
    }

    /// Allows `rate` calls per second for each key, and bursts of `burst` calls after a pause: for each token of
    /// an API, for example, on any number of connections. A call without a key is not limited.
    /// [`KeyedBuckets`] says how many keys are known at a time.
    ///
    /// ```
    /// use antiphon::service::AnyRequest;
    /// use antiphon_shell::{RateLimit, Router};
    /// let token = |request: &antiphon_shell::Request| request.header("x-api-key").map(String::from);
    /// let router = Router::new().intercept(RateLimit::per_key(100, 20, token));
    /// # let _: Router = router;
    /// ```
    pub fn per_key(
        rate: u32,
        burst: u32,
        key: impl Fn(&Request) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let full = Bucket::per_second(rate.into(), burst.into());
        Self {
            limit: Limit::per_key(full, key),
        }
    }
}

impl Interceptor<Request> for RateLimit {
    fn request(&self, cx: &mut Cx, request: &Request) -> Decision {
        let (place, now) = (self.limit.of(request), cx.began());
        let passes = |place: Place| place.with(now, |bucket| bucket.take(now));
        match place.is_none_or(passes) {
            true => Decision::Continue,
            false => refusal(request),
        }
    }
}

/// An interceptor that refuses calls while a budget is used up. Bytes that come in, bytes of answers and the
/// time of handlers cost units of the budget, as [`Prices`] says; units come back at a steady rate. It refuses
/// with the same error as a [`RateLimit`]. A refused call costs nothing.
///
/// The bytes of a call are charged when it comes in, its time and the bytes of its answer when it ends,
/// however it ends: answered, by its handler or later, given up, or in a panic. So a call that turns out to
/// be expensive is served, and the next ones are refused until there is a unit again. Calls that run at the
/// same time can together cost more than is left; a [`Dispatcher`](crate::Dispatcher) limits how many run.
/// Notifications that this side sends, and its own calls, are not counted.
///
/// ```
/// use antiphon_shell::{CostLimit, Router};
/// // At the prices that are the default: as much as 2 MB a second, or two handlers at all times; 10 MB, or
/// // ten seconds of a handler, after a pause.
/// let router = Router::new()
///     .intercept(CostLimit::per_connection(2_000_000, 10_000_000))
///     .intercept(CostLimit::per_server(50_000_000, 200_000_000));
/// # let _: Router = router;
/// ```
#[derive(Debug)]
pub struct CostLimit {
    /// Distinguishes this limit from others.
    number: u64,
    limit: Limit,
    prices: Prices,
}

impl CostLimit {
    /// Lets the calls of all connections together cost `rate` units a second, and bursts of calls `burst` units
    /// after a pause.
    pub fn per_server(rate: u64, burst: u64) -> Self {
        Self::of(Limit::Buckets(Buckets::one(Bucket::per_second(
            rate, burst,
        ))))
    }

    /// Lets the calls of each connection cost `rate` units a second, and bursts of calls `burst` units after
    /// a pause. Each connection has its own budget, which its HTTP requests share. In a web framework, which has
    /// the connections, use [`per_server`](Self::per_server); the first call there is reported as
    /// [`Report::Failed`](antiphon::session::Report::Failed), and served.
    pub fn per_connection(rate: u64, burst: u64) -> Self {
        Self::of(Limit::Buckets(Buckets::many(Bucket::per_second(
            rate, burst,
        ))))
    }

    /// Lets the calls from each address cost `rate` units a second, and bursts of calls `burst` units after a
    /// pause. Addresses as in [`RateLimit::per_address`].
    pub fn per_address(rate: u64, burst: u64) -> Self {
        Self::of(Limit::per_address(Bucket::per_second(rate, burst)))
    }

    /// Lets the calls with each key cost `rate` units a second, and bursts of calls `burst` units after a pause.
    /// Keys as in [`RateLimit::per_key`].
    pub fn per_key(
        rate: u64,
        burst: u64,
        key: impl Fn(&Request) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::of(Limit::per_key(Bucket::per_second(rate, burst), key))
    }

    fn of(limit: Limit) -> Self {
        Self {
            number: next_number(),
            limit,
            prices: Prices::new(),
        }
    }

    /// Sets the prices.
    ///
    /// ```
    /// use antiphon::service::Prices;
    /// use antiphon_shell::CostLimit;
    /// // Only the time of handlers counts: half a second in each second, and 10 s at once after a pause.
    /// let mut prices = Prices::new();
    /// (prices.per_byte_in, prices.per_byte_out, prices.per_millisecond) = (0, 0, 1);
    /// let limit = CostLimit::per_connection(500, 10_000).with_prices(prices);
    /// # drop(limit);
    /// ```
    #[must_use]
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// Charges the time and the bytes of the answer of a call that has ended. A call that this limit has
    /// refused is not charged.
    fn settle(&self, cx: &Cx, request: &Request, bytes: usize, duration: Duration) {
        let Some(Charged(all)) = cx.attributes().get() else {
            return;
        };
        let own = all.iter().find(|(limit, _)| *limit == self.number);
        if let Some((_, place)) = own {
            let sent = if request.is_notification() { 0 } else { bytes };
            let (cost, now) = (self.prices.of_answer(sent, duration), request.now());
            place.with(now, |bucket| bucket.charge(now, cost));
        }
    }
}

impl Interceptor<Request> for CostLimit {
    fn request(&self, cx: &mut Cx, request: &Request) -> Decision {
        let Some(place) = self.limit.of(request) else {
            return Decision::Continue;
        };
        let (cost, now) = (self.prices.of_call(request.origin().bytes), request.now());
        let is_charged = place.with(now, |bucket| {
            let has_units = !bucket.is_empty(now);
            if has_units {
                bucket.charge(now, cost);
            }
            has_units
        });
        if !is_charged {
            return refusal(request);
        }
        let own = (self.number, place);
        match cx.attributes_mut().get_mut() {
            Some(Charged(all)) => all.push(own),
            None => cx.attributes_mut().insert(Charged(vec![own])),
        }
        Decision::Continue
    }

    fn response(&self, cx: &Cx, request: &Request, reply: &mut Reply) {
        if let Some(end) = reply.end() {
            self.settle(cx, request, end.answer_bytes, end.duration);
        }
    }

    fn answered(&self, cx: &Cx, request: &Request, end: &CallEnd) {
        self.settle(cx, request, end.answer_bytes, end.duration);
    }

    fn given_up(&self, cx: &Cx, request: &Request) {
        self.settle(cx, request, 0, cx.given_up(request).duration);
    }
}

/// What is reported when a limit per connection serves HTTP requests whose connection is not known.
const WITHOUT_EFFECT: &str = "a limit `per_connection` begins anew with each HTTP request of a web framework: use \
    `per_server` there";

/// The buckets of a limit: one for all connections, or one for each.
#[derive(Debug)]
struct Buckets {
    /// Distinguishes the buckets of this limit from those of others.
    number: u64,
    /// A full bucket, as each one begins.
    full: Bucket,
    /// The bucket of all connections; `None` if each has its own.
    shared: Option<Arc<Lock<Bucket>>>,
    /// Whether it was reported that connections with buckets of their own are HTTP requests.
    is_reported: AtomicBool,
}

/// The bucket to which a limit charges calls, and the number of the limit.
struct Own {
    limit: u64,
    bucket: Arc<Lock<Bucket>>,
}

/// The buckets to which a call is charged when it ends, by the numbers of their limits. They are stored with the call,
/// because the code that answers may hold the lock of the connection's attributes.
struct Charged(Vec<(u64, Place)>);

/// A number that no other limit has.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Buckets {
    fn one(full: Bucket) -> Self {
        Self {
            shared: Some(Arc::new(Lock::new(full.clone()))),
            ..Self::many(full)
        }
    }

    fn many(full: Bucket) -> Self {
        Self {
            number: next_number(),
            full,
            shared: None,
            is_reported: AtomicBool::new(false),
        }
    }

    /// Returns the bucket to which a request is charged.
    fn of(&self, request: &Request) -> Arc<Lock<Bucket>> {
        if let Some(shared) = &self.shared {
            return Arc::clone(shared);
        }
        let context = request.responder.session().context();
        let mut attributes = match context.shared_attributes() {
            Some(shared) => shared,
            None => {
                if request.is_exchange() && !self.is_reported.swap(true, Ordering::Relaxed) {
                    request.report(Failure::Interceptor(WITHOUT_EFFECT.into()));
                }
                request.connection_attributes()
            }
        };
        if attributes.get::<Vec<Own>>().is_none() {
            attributes.insert(Vec::<Own>::new());
        }
        let new = || Arc::new(Lock::new(self.full.clone()));
        let Some(all) = attributes.get_mut::<Vec<Own>>() else {
            return new();
        };
        if let Some(known) = all.iter().find(|own| own.limit == self.number) {
            return Arc::clone(&known.bucket);
        }
        let bucket = new();
        all.push(Own {
            limit: self.number,
            bucket: Arc::clone(&bucket),
        });
        bucket
    }
}

fn refusal(request: &Request) -> Decision {
    request.error_profile().rate_limited().into_owned().into()
}
