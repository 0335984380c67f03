//! Decides which calls are sent again, and after how long. It does no I/O: the caller passes random
//! numbers.
//!
//! A call that ended as [`Unsent`](crate::Outcome::Unsent) may always be sent again. A call that
//! ended as [`Aborted`](crate::Outcome::Aborted) may be sent again only if its caller says that
//! running it twice does no harm; a call that was answered, only if the code of the answer means
//! that it was not run. Both are sent again only a limited number of times.
//!
//! So no call runs twice unless its caller allowed it, and no call that was sent is sent again for
//! ever.

use alloc::vec::Vec;
use core::time::Duration;

use crate::error_profile::ErrorProfile;
use crate::owned::OwnedOutcome;

/// Whether a call that ended with its connection may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// Send it again on the next connection: it cannot run twice, or running twice does no harm.
    Again,
    /// Do not send it again: the peer may have acted.
    Never,
}

impl Resend {
    /// Decides by the outcome of a call. `is_idempotent` says that running it twice does no harm. A
    /// call that was answered or has timed out is not sent again; [`Retries`] also knows error
    /// codes after which a call is.
    pub fn judge(outcome: &OwnedOutcome, is_idempotent: bool) -> Self {
        match outcome {
            OwnedOutcome::Unsent => Self::Again,
            OwnedOutcome::Aborted if is_idempotent => Self::Again,
            _ => Self::Never,
        }
    }
}

/// How often an aborted call is sent again by default.
pub const DEFAULT_MAX_RESENDS: u32 = 3;

/// Decides for one call, whenever its connection was lost, and limits how often it is sent again: a
/// request that crashes every server must not do so for ever.
///
/// ```
/// use antiphon::{OwnedOutcome, Resend, Resends};
/// let mut resends = Resends::new(1);
/// assert_eq!(resends.judge(&OwnedOutcome::Aborted, true), Resend::Again);
/// assert_eq!(resends.judge(&OwnedOutcome::Unsent, true), Resend::Again); // not counted
/// assert_eq!(resends.judge(&OwnedOutcome::Aborted, true), Resend::Never);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resends {
    left: u32,
}

impl Resends {
    /// Allows an aborted call to be sent again this often. A call that was not sent is not counted:
    /// it did nothing, and its own deadline ends it.
    pub const fn new(max_resends: u32) -> Self {
        Self { left: max_resends }
    }

    /// Decides as [`Resend::judge`] does, and counts. An aborted call over the limit is never sent
    /// again.
    pub fn judge(&mut self, outcome: &OwnedOutcome, is_idempotent: bool) -> Resend {
        let judged = Resend::judge(outcome, is_idempotent);
        if judged == Resend::Never || matches!(outcome, OwnedOutcome::Unsent) {
            return judged;
        }
        match self.take() {
            true => Resend::Again,
            false => Resend::Never,
        }
    }

    /// Counts one more resend. Returns false if the limit is reached.
    fn take(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

impl Default for Resends {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_RESENDS)
    }
}

/// Options for sending calls again: after which outcomes, how often, and after which delays.
///
/// A client that reconnects, or that speaks HTTP, uses all of them. A single connection sends a
/// call again only after an error with one of the [`codes`](Self::codes), because when it has
/// ended, there is no other connection.
///
/// ```
/// use antiphon::{ErrorProfile, Retry};
/// use core::time::Duration;
/// let mut retry = Retry::new().when_busy(ErrorProfile::Antiphon);
/// retry.max_resends = 5;
/// retry.initial_delay = Duration::from_millis(50);
/// assert_eq!(retry.codes, [-32002]);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Retry {
    /// How often one call is sent again, so that a request that crashes every server is not sent
    /// for ever. A client that reconnects does not count a call that was not sent; over HTTP it is
    /// counted. Default 3.
    pub max_resends: u32,
    /// Error codes after which a call is sent again, even if it is not idempotent: they must mean
    /// that it was not run. Default none.
    pub codes: Vec<i64>,
    /// Statuses of HTTP, besides 429 (Too Many Requests), after which a call is sent again, even if it is not
    /// idempotent: they must mean that it was not run. Default none. A 503 does not mean that, because a proxy
    /// may send it for a server that was lost while it ran the call: after it only idempotent calls are sent
    /// again.
    pub statuses: Vec<u16>,
    /// The longest time that a server may ask for by `Retry-After`. A call is not sent earlier than the server
    /// asks; if it asks for more, or for more than the call's timeout leaves, the call fails at once. Default
    /// 60 s.
    pub max_retry_after: Duration,
    /// The first delay. A client that reconnects sends a call whose connection was lost again
    /// without a delay, as soon as there is another connection. Default 100 ms.
    pub initial_delay: Duration,
    /// The factor from one delay to the next. A value below 1, or not a number, counts as 1.
    /// Default 2.
    pub multiplier: f64,
    /// The longest delay. Default 10 s.
    pub max_delay: Duration,
    /// The largest part of each delay, from 0 to 1, that is subtracted at random, so that callers
    /// that were refused together do not come back together. Default 0.5.
    pub jitter: f64,
    /// The seed of random numbers, to make them repeatable in tests. Default none.
    pub seed: Option<u64>,
}

impl Retry {
    /// Returns the default options.
    pub const fn new() -> Self {
        Self {
            max_resends: DEFAULT_MAX_RESENDS,
            codes: Vec::new(),
            statuses: Vec::new(),
            max_retry_after: Duration::from_secs(60),
            initial_delay: Duration::from_millis(100),
            multiplier: 2.0,
            max_delay: Duration::from_secs(10),
            jitter: 0.5,
            seed: None,
        }
    }

    /// Adds the codes by which servers of this profile report that they are busy or shutting down,
    /// or that a rate limit is reached. For [`Lsp`](ErrorProfile::Lsp) and
    /// [`Mcp`](ErrorProfile::Mcp) it adds none: the codes of such servers may also mean that a call
    /// was run in part.
    #[must_use]
    pub fn when_busy(self, profile: ErrorProfile) -> Self {
        if matches!(profile, ErrorProfile::Lsp | ErrorProfile::Mcp) {
            return self;
        }
        let errors = [
            profile.busy(),
            profile.rate_limited(),
            profile.unavailable(),
        ];
        self.when_code(&errors.map(|error| error.code()))
    }

    /// The codes by which providers of Ethereum nodes report that a rate limit is reached: −32005 of EIP-1474, and
    /// those of single providers, as alloy knows them. Elsewhere they may mean something else.
    pub const ETHEREUM_LIMITS: [i64; 7] = [-32005, 429, -32007, -32012, -32016, -32055, 1008];

    /// Adds error codes.
    ///
    /// ```
    /// use antiphon::Retry;
    /// let retry = Retry::new().when_code(&Retry::ETHEREUM_LIMITS);
    /// assert!(retry.codes.contains(&-32005));
    /// ```
    #[must_use]
    pub fn when_code(mut self, codes: &[i64]) -> Self {
        for code in codes {
            if !self.codes.contains(code) {
                self.codes.push(*code);
            }
        }
        self
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

/// Decides for one call by a [`Retry`], whenever the call has ended, and counts.
///
/// ```
/// use antiphon::{OwnedError, OwnedOutcome, Retries, Retry};
/// use core::time::Duration;
/// let mut retry = Retry::new();
/// (retry.max_resends, retry.codes) = (2, vec![-32002]);
/// let mut retries = Retries::new(&retry);
/// let busy = OwnedOutcome::Err(OwnedError::new(-32002, "Server busy"));
/// assert_eq!(retries.judge(&busy, false, 0), Some(Duration::from_millis(100)));
/// assert_eq!(retries.judge(&busy, false, 0), Some(Duration::from_millis(200)));
/// assert_eq!(retries.judge(&busy, false, 0), None);
/// ```
#[derive(Clone, Debug)]
pub struct Retries<'r> {
    retry: &'r Retry,
    resends: Resends,
    /// The next delay, in seconds, before it is limited.
    delay: f64,
}

impl<'r> Retries<'r> {
    /// Begins for a call that was not sent yet.
    pub const fn new(retry: &'r Retry) -> Self {
        Self {
            retry,
            resends: Resends::new(retry.max_resends),
            delay: retry.initial_delay.as_secs_f64(),
        }
    }

    /// Returns after how long a call that ended in this way is sent again; `None` for never. Zero
    /// for a call that ended with its connection, because a new connection is made first.
    /// `is_idempotent` says that running it twice does no harm; `entropy` is a random number from
    /// the driver.
    pub fn judge(
        &mut self,
        outcome: &OwnedOutcome,
        is_idempotent: bool,
        entropy: u64,
    ) -> Option<Duration> {
        match outcome {
            OwnedOutcome::Err(error) if self.retry.codes.contains(&error.code()) => {
                // This resend counts towards the limit, as that of an aborted call does.
                self.resends.take().then(|| self.next_delay(entropy))
            }
            outcome => match self.resends.judge(outcome, is_idempotent) {
                Resend::Again => Some(Duration::ZERO),
                Resend::Never => None,
            },
        }
    }

    /// Returns after how long a call is sent again whose reply had this status of HTTP, and no result; `None` for
    /// never.
    pub fn judge_status(
        &mut self,
        status: u16,
        is_idempotent: bool,
        entropy: u64,
    ) -> Option<Duration> {
        let is_refused = status == 429 || self.retry.statuses.contains(&status);
        let may_resend = is_refused || (status == 503 && is_idempotent);
        (may_resend && self.resends.take()).then(|| self.next_delay(entropy))
    }

    /// Returns the later of a delay and the time that the server asks for by `Retry-After`; `None` if it asks for
    /// more than is allowed.
    pub fn delay_after(&self, delay: Duration, retry_after: Option<Duration>) -> Option<Duration> {
        let asked = retry_after.unwrap_or_default();
        (asked <= self.retry.max_retry_after).then(|| delay.max(asked))
    }

    /// Returns the next delay, for a client that does not wait for a new connection, as over HTTP.
    pub fn next_delay(&mut self, entropy: u64) -> Duration {
        let Retry {
            max_delay,
            jitter,
            multiplier,
            ..
        } = *self.retry;
        let delay = back_off(self.delay, max_delay, jitter, entropy);
        // The delay is limited here, so that it never becomes infinite.
        self.delay = (self.delay * multiplier.max(1.0)).min(max_delay.as_secs_f64());
        delay
    }
}

/// Returns a delay of `secs` seconds, `max_delay` at most, less a random part of it. A `jitter`
/// that is not valid counts as the nearest valid one, and NaN as 0.
pub(crate) fn back_off(secs: f64, max_delay: Duration, jitter: f64, entropy: u64) -> Duration {
    let capped = secs.min(max_delay.as_secs_f64());
    let random = entropy as f64 / u64::MAX as f64;
    let jitter = match jitter {
        0.0..=1.0 => jitter,
        _ if jitter > 1.0 => 1.0,
        _ => 0.0,
    };
    let delay = capped * (1.0 - jitter * random);
    Duration::try_from_secs_f64(delay).unwrap_or(max_delay)
}

#[cfg(test)]
mod tests;
