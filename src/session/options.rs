//! Options of a session, besides the protocol's configuration.

use core::time::Duration;

use crate::config::Config;

/// The protocol's [`Config`], and the limits of the session around it.
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
    /// The protocol. Its `drain_timeout` is also the time for running requests after the input has
    /// ended, and its `write_timeout` the time for one write.
    pub config: Config,
    /// The most notifications, beginnings of batches and reports that wait for the service.
    /// [`when_full`](Self::when_full) sets what happens at the limit. Default 16 384. Each needs
    /// its own bytes and about 100 more. Events of
    /// streams have [bounds](super::Bound) of their own.
    pub max_queued_messages: usize,
    /// The most bytes of messages that wait for the service, and of requests that are not answered
    /// yet. One message is always accepted. [`when_full`](Self::when_full) sets what happens at the
    /// limit. Default 64 MiB. Events of streams may have as many bytes besides, all together.
    pub max_queued_bytes: usize,
    /// What happens at these limits. Default [`WhenFull::Pause`].
    pub when_full: WhenFull,
    /// How long input is still read after a write has failed, and how long it is read and dropped
    /// after the end, so that a peer that is still writing notices the end. Default 1 s.
    pub linger: Duration,
    /// Which work waits until other work has ended. Default [`Order::Notifications`].
    pub order: Order,
    /// Whether requests and notifications that nobody serves are reported: see
    /// [`Report::Unserved`](super::Report::Unserved). Default on.
    pub report_unserved: bool,
    /// Whether a stream that begins like an HTTP request is closed before anything of it runs.
    /// A page in a browser can have such a request sent to any port. For listeners. Default off.
    pub refuse_http: bool,
}

/// The behaviour of a session when more waits for its service than
/// [`max_queued_messages`](SessionConfig::max_queued_messages) and
/// [`max_queued_bytes`](SessionConfig::max_queued_bytes) allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// [`Session::wants_input`](super::Session::wants_input) is false until there is space, and nothing
    /// is lost. Messages that were already read are kept, so the limits may be exceeded by that
    /// much.
    ///
    /// While one of our calls is open, reading goes on, because the call's answer may come after
    /// the messages that wait. At twice the limits the session closes with
    /// [`Report::QueueOverflow`](super::Report::QueueOverflow).
    #[default]
    Pause,
    /// Reading goes on. Notifications, beginnings of batches and reports beyond the limits are
    /// dropped, and counted in one [`Report::Dropped`](super::Report::Dropped); a request beyond
    /// the limit of bytes is answered *busy*.
    Drop,
}

/// Which of a service's work waits until other work has ended. Under each of them requests and
/// notifications begin in the order in which they came, entries of a batch too; cancels and the answers to
/// calls of ours never wait.
///
/// A notification has ended when its handler has, a request when it is answered, by its handler or later,
/// or when the peer has cancelled it and the dialect wants no answer to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Nothing waits for the end of anything. For services whose handlers do not depend on each other, or
    /// keep their order themselves.
    Free,
    /// A notification ends before anything after it begins; requests run side by side. So later
    /// requests see what a notification has changed. But if the handler of a notification waits, for an
    /// answer of the peer for example, everything after it waits too: set a short timeout of such a
    /// call. After 5 s the handler is [reported](super::Report::HoldsOrder).
    #[default]
    Notifications,
    /// Each request and each notification ends before the next begins. If a handler calls the peer, and
    /// the peer sends a request before it answers, that request waits for the handler, and the handler for
    /// the answer, until its call times out.
    Serial,
}

impl SessionConfig {
    /// Returns the default limits with `config`.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            max_queued_messages: 16_384,
            max_queued_bytes: 64 << 20,
            when_full: WhenFull::Pause,
            linger: Duration::from_secs(1),
            order: Order::Notifications,
            report_unserved: true,
            refuse_http: false,
        }
    }
}

impl From<Config> for SessionConfig {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}
