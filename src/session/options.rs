//! Options of a session, besides the protocol's configuration.

use core::time::Duration;

use crate::config::Config;

/// The protocol's [`Config`] and the limits of what waits around it.
///
/// ```
/// use antiphon::Config;
/// use antiphon::session::SessionConfig;
/// let mut config = SessionConfig::from(Config::lsp());
/// config.max_queued_messages = 1000;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionConfig {
    /// The protocol. Its `drain_timeout` is also how long requests may run on after the input has
    /// ended, and its `write_timeout` how long one write may take.
    pub config: Config,
    /// The most notifications and reports that wait for the service before
    /// [`when_full`](Self::when_full) says what happens. Default 16 384. Each costs its own bytes
    /// and about 100 more.
    pub max_queued_messages: usize,
    /// The most bytes of messages that wait for the service, and of requests that wait for their
    /// answer, before [`when_full`](Self::when_full) says what happens. One message always fits.
    /// Default 64 MiB.
    pub max_queued_bytes: usize,
    /// What happens when more waits for the service than that. Default [`WhenFull::Pause`].
    pub when_full: WhenFull,
    /// How long the peer's last words are read after a write has failed, and for how long input
    /// is read and dropped after the end, so that a peer that is still writing sees the end.
    /// Default 1 s.
    pub linger: Duration,
    /// Whether a stream that begins like an HTTP request is closed before anything of it runs.
    /// A page in a browser can have such a request sent to any port. For listeners. Default off.
    pub refuse_http: bool,
}

/// What a session does when more waits for its service than
/// [`max_queued_messages`](SessionConfig::max_queued_messages) and
/// [`max_queued_bytes`](SessionConfig::max_queued_bytes) allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// [`Session::may_read`](super::Session::may_read) is false until there is room, and nothing
    /// is lost. What one read has brought is kept, so the limits may be passed by that much.
    ///
    /// While a call of ours is open reading goes on, because its answer may be after what waits.
    /// If twice the limits wait then, the session closes with
    /// [`Report::QueueOverflow`](super::Report::QueueOverflow).
    #[default]
    Pause,
    /// Reading goes on. Notifications and reports beyond the limits are dropped, and counted in one
    /// [`Report::Dropped`](super::Report::Dropped); a request is answered *busy*.
    Drop,
}

impl SessionConfig {
    /// Takes the defaults around `config`.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            max_queued_messages: 16_384,
            max_queued_bytes: 64 << 20,
            when_full: WhenFull::Pause,
            linger: Duration::from_secs(1),
            refuse_http: false,
        }
    }
}

impl From<Config> for SessionConfig {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}
