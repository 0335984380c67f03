//! Limits on the rate and the cost of calls: a bucket that fills with tokens over time, and the
//! prices of calls in tokens.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use crate::time::Instant;

/// How many of the units in which a bucket counts make a token. At a rate of one token a second,
/// one unit comes back each nanosecond, so nothing is lost by rounding.
const TOKEN: u128 = 1_000_000_000;

/// Tokens that come back at a steady rate. Each call takes one, and is refused while there is none; or it
/// is [charged](Self::charge) what it costs, and further calls are refused until there is a token again.
///
/// ```
/// use core::time::Duration;
/// use antiphon::Instant;
/// use antiphon::service::Bucket;
/// let mut bucket = Bucket::per_second(2, 3);
/// let mut now = Instant::ZERO;
/// assert!([true, true, true, false].iter().all(|expected| bucket.take(now) == *expected));
/// now = now + Duration::from_millis(500);
/// assert!(bucket.take(now) && !bucket.take(now));
/// // The bucket is empty, so 21 tokens must come back before there is one, at 2 a second.
/// bucket.charge(now, 20);
/// assert_eq!(bucket.wait(now), Duration::from_millis(10_500));
/// ```
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Tokens a second.
    rate: u64,
    /// How many tokens a full bucket has.
    burst: u64,
    /// How much was missing in the bucket at the time `since`, in units of which [`TOKEN`] make a
    /// token. What exceeds the size of the bucket is a debt.
    missing: u128,
    /// The time to which `missing` belongs. It never goes back, so a clock that steps back brings no
    /// tokens.
    since: Instant,
}

impl Bucket {
    /// Lets `rate` tokens a second come back, up to `burst` of them, which are there at the beginning. Both
    /// are at least one.
    pub const fn per_second(rate: u64, burst: u64) -> Self {
        Self {
            rate: if rate == 0 { 1 } else { rate },
            burst: if burst == 0 { 1 } else { burst },
            missing: 0,
            since: Instant::ZERO,
        }
    }

    /// Takes a token. Returns false if there is none.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_there = !self.is_empty(now);
        if is_there {
            self.charge(now, 1);
        }
        is_there
    }

    /// Takes this many tokens, even if the bucket has fewer: for a cost that is known only afterwards.
    /// The tokens that it did not have must come back before it has a token again.
    pub fn charge(&mut self, now: Instant, tokens: u64) {
        let missing = self.missing(now);
        self.missing = missing.saturating_add(u128::from(tokens) * TOKEN);
        self.since = self.since.max(now);
    }

    /// Whether the bucket has no whole token.
    pub fn is_empty(&self, now: Instant) -> bool {
        self.over(now) > 0
    }

    /// How long until there is a token again; zero if there is one.
    pub fn wait(&self, now: Instant) -> Duration {
        let over = self.over(now);
        if over == 0 {
            return Duration::ZERO;
        }
        let nanos = over.div_ceil(u128::from(self.rate));
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        // If the clock has stepped back, nothing comes back until it has reached `since` again.
        let behind = self.since.saturating_since(now);
        Duration::from_nanos(nanos).saturating_add(behind)
    }

    /// How much has to come back before there is a token, in units of which [`TOKEN`] make one.
    fn over(&self, now: Instant) -> u128 {
        let most = u128::from(self.burst - 1) * TOKEN;
        self.missing(now).saturating_sub(most)
    }

    /// Returns how much is missing in the bucket at the time `now`.
    fn missing(&self, now: Instant) -> u128 {
        let span = now.saturating_since(self.since);
        let come_back = span.as_nanos() * u128::from(self.rate);
        self.missing.saturating_sub(come_back)
    }
}

/// A bucket for each key: for each token of a program, for example. At most 10 000 keys of at most 256 bytes
/// each are known at a time, which takes about 4 MB; a key is forgotten when its bucket is full again. All
/// further keys, and longer ones, share one bucket, so new keys bring a peer nothing.
///
/// ```
/// use antiphon::Instant;
/// use antiphon::service::{Bucket, KeyedBuckets};
/// let mut buckets = KeyedBuckets::new(Bucket::per_second(1, 1));
/// let now = Instant::ZERO;
/// assert!(buckets.take("one", now) && !buckets.take("one", now) && buckets.take("other", now));
/// ```
#[derive(Clone, Debug)]
pub struct KeyedBuckets {
    /// A full bucket, as each one begins.
    full: Bucket,
    known: BTreeMap<String, Bucket>,
    /// The bucket of all keys that are not known.
    others: Bucket,
    /// When full buckets were last forgotten.
    swept: Instant,
}

impl KeyedBuckets {
    const MAX_KEYS: usize = 10_000;
    const MAX_KEY_BYTES: usize = 256;

    /// Makes a set whose buckets begin as copies of `full`.
    pub const fn new(full: Bucket) -> Self {
        let others = Bucket { ..full };
        Self {
            full,
            known: BTreeMap::new(),
            others,
            swept: Instant::ZERO,
        }
    }

    /// Takes a token from the bucket of a key. Returns false if there is none.
    pub fn take(&mut self, key: &str, now: Instant) -> bool {
        self.bucket(key, now).take(now)
    }

    /// The bucket of a key.
    pub fn bucket(&mut self, key: &str, now: Instant) -> &mut Bucket {
        let is_new = !self.known.contains_key(key);
        // Once a second at most, so that many new keys do not cost a sweep each.
        let is_due = now.saturating_since(self.swept) >= Duration::from_secs(1);
        if is_new && self.known.len() >= Self::MAX_KEYS && is_due {
            self.known.retain(|_, bucket| bucket.missing(now) > 0);
            self.swept = now;
        }
        if is_new && (self.known.len() >= Self::MAX_KEYS || key.len() > Self::MAX_KEY_BYTES) {
            return &mut self.others;
        }
        let bucket = self.known.entry(key.into());
        bucket.or_insert_with(|| self.full.clone())
    }
}

/// What a call costs, in tokens of a [`Bucket`].
///
/// ```
/// use core::time::Duration;
/// use antiphon::service::Prices;
/// let mut prices = Prices::new();
/// prices.per_byte_out = 2;
/// assert_eq!(prices.of_call(100), 100);
/// assert_eq!(prices.of_answer(10, Duration::from_micros(1500)), 20 + 1500);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prices {
    /// The price of each byte of the call's message, or of its entry in a batch. Default 1.
    pub per_byte_in: u64,
    /// The price of each byte of the result or of the error object. Default 1.
    pub per_byte_out: u64,
    /// The price of each millisecond from the beginning of a call to its answer, waiting included; a part
    /// of a millisecond costs its part. Default 1000: as much as a thousand bytes.
    pub per_millisecond: u64,
}

impl Prices {
    /// Returns the default prices.
    pub const fn new() -> Self {
        Self {
            per_byte_in: 1,
            per_byte_out: 1,
            per_millisecond: 1000,
        }
    }

    /// Returns what a call of this many bytes costs before it is served.
    pub const fn of_call(&self, bytes: usize) -> u64 {
        self.per_byte_in.saturating_mul(bytes as u64)
    }

    /// Returns what a call costs in addition, once it is answered: `bytes` is the size of the
    /// answer, `duration` the time that the call took.
    pub const fn of_answer(&self, bytes: usize, duration: Duration) -> u64 {
        let nanos = duration.as_nanos();
        let time = nanos.saturating_mul(self.per_millisecond as u128) / 1_000_000;
        let time = if time > u64::MAX as u128 {
            u64::MAX
        } else {
            time as u64
        };
        let bytes = self.per_byte_out.saturating_mul(bytes as u64);
        time.saturating_add(bytes)
    }
}

impl Default for Prices {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use alloc::string::ToString;

    use super::{Bucket, KeyedBuckets, Prices};
    use crate::time::Instant;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    // INT-09 SEC-09
    #[test]
    fn no_more_than_the_rate_passes_in_the_long_run() {
        let mut bucket = Bucket::per_second(10, 5);
        let (mut now, mut passed) = (Instant::ZERO, 0);
        for _ in 0..10_000 {
            passed += u32::from(bucket.take(now));
            now += Duration::from_millis(1);
        }
        // The burst of 5, and 99 that came back: the last call is at 9.999 s, before the hundredth.
        assert_eq!(passed, 104);
        assert!(bucket.wait(now) <= Duration::from_millis(100));
        // A clock that steps back gives nothing away.
        assert!(!bucket.take(Instant::ZERO));
        assert_eq!(bucket.wait(now + Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn invented_keys_bring_nothing() {
        let mut buckets = KeyedBuckets::new(Bucket::per_second(1, 1));
        for key in 0..KeyedBuckets::MAX_KEYS {
            assert!(buckets.take(&key.to_string(), at(0)));
        }
        // All others share one bucket, and no known one is given up for them.
        assert!(buckets.take("new", at(0)) && !buckets.take("newer", at(0)));
        assert!(!buckets.take("7", at(0)));
        assert_eq!(buckets.known.len(), KeyedBuckets::MAX_KEYS);
        // Full buckets are forgotten, but not the one that was used.
        assert!(buckets.take("7", at(1000)));
        assert!(buckets.take("new", at(1001)));
        assert_eq!(buckets.known.len(), 2);
        assert!(!buckets.take("7", at(1001)) && !buckets.take("new", at(1001)));
        // A key without bounds is not kept.
        let long = "x".repeat(KeyedBuckets::MAX_KEY_BYTES + 1);
        assert!(buckets.take(&long, at(1001)) && !buckets.take(&long, at(1001)));
        assert!(!buckets.known.contains_key(&long));
    }

    // SEC-09 SEC-10
    #[test]
    fn a_debt_is_paid_before_anything_passes() {
        let mut bucket = Bucket::per_second(100, 50);
        assert!(!bucket.is_empty(at(0)));
        bucket.charge(at(0), 49);
        // One token is left.
        assert!(!bucket.is_empty(at(0)));
        bucket.charge(at(0), 101);
        // A debt of 100 and the next token come back at 100 a second.
        assert_eq!(bucket.wait(at(0)), Duration::from_millis(1010));
        assert!(bucket.is_empty(at(1009)) && !bucket.take(at(1009)));
        assert!(!bucket.is_empty(at(1010)) && bucket.take(at(1010)));
        assert!(!bucket.take(at(1010)));
        // Never more than the burst comes back.
        let much_later = at(1_000_000);
        bucket.charge(much_later, 50);
        assert!(bucket.is_empty(much_later));
    }

    // SEC-10
    #[test]
    fn a_clock_that_steps_back_gives_nothing_away() {
        let mut bucket = Bucket::per_second(100, 50);
        bucket.charge(at(1000), 50);
        // A clock that goes back and forth over one second brings no tokens.
        for _ in 0..100 {
            assert!(bucket.is_empty(at(0)) && bucket.is_empty(at(1000)));
            bucket.charge(at(0), 0);
        }
        // The clock needs 1000 ms to get back to where it was, and a token 10 ms.
        assert_eq!(bucket.wait(at(0)), Duration::from_millis(1010));
        assert!(bucket.take(at(1010)) && !bucket.take(at(1010)));
        // What is charged while the clock has stepped back counts afterwards too: 101 tokens are missing.
        bucket.charge(at(0), 100);
        assert_eq!(bucket.wait(at(1010)), Duration::from_millis(1010));
    }

    // SEC-10
    #[test]
    fn no_number_is_too_large() {
        let mut bucket = Bucket::per_second(u64::MAX, u64::MAX);
        for _ in 0..3 {
            bucket.charge(Instant::ZERO, u64::MAX);
        }
        // A debt of twice the burst takes two seconds; the next token is the nanosecond, rounded up.
        assert_eq!(
            bucket.wait(Instant::ZERO),
            Duration::from_nanos(2_000_000_001)
        );
        assert!(!bucket.is_empty(Instant::FAR_FUTURE));
        let mut slow = Bucket::per_second(0, 0);
        slow.charge(Instant::ZERO, u64::MAX);
        assert_eq!(slow.wait(Instant::ZERO), Duration::from_nanos(u64::MAX));
        assert!(slow.is_empty(Instant::FAR_FUTURE));
        let mut dear = Prices::new();
        (dear.per_byte_in, dear.per_byte_out, dear.per_millisecond) =
            (u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(dear.of_call(2), u64::MAX);
        assert_eq!(dear.of_answer(2, Duration::MAX), u64::MAX);
        assert_eq!(dear.of_answer(0, Duration::MAX), u64::MAX);
        assert_eq!(dear.of_call(0) + dear.of_answer(0, Duration::ZERO), 0);
    }

    // SEC-10
    #[test]
    fn each_thing_has_its_own_price() {
        let mut prices = Prices::default();
        (
            prices.per_byte_in,
            prices.per_byte_out,
            prices.per_millisecond,
        ) = (2, 3, 5000);
        assert_eq!(prices.of_call(7), 14);
        assert_eq!(prices.of_answer(7, Duration::ZERO), 21);
        assert_eq!(prices.of_answer(0, Duration::from_micros(3)), 15);
        assert_eq!(prices.of_answer(1, Duration::from_secs(1)), 5_000_003);
    }
}
