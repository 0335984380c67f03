//! Options of HTTP servers and clients.

use crate::ConnectionConfig;
use antiphon::Config;
use antiphon::http::HttpRules;

/// The protocol, the limits around it, and the rules of HTTP. Made from a [`Config`] or
/// [`ConnectionConfig`] alone where the defaults will do.
///
/// ```
/// use antiphon::Config;
/// use antiphon_net::http::HttpConfig;
/// let mut options = HttpConfig::from(Config::new());
/// options.rules.paths.push("/rpc".into());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The protocol, and the limits on what is served. Every request is an exchange of its own:
    /// limits on a connection, such as `max_running_requests`, are limits on a request.
    pub options: ConnectionConfig,
    /// Which requests are served, how their replies look, and how slow they may be.
    pub rules: HttpRules,
}

impl HttpConfig {
    /// Takes the default rules.
    pub fn new(options: impl Into<ConnectionConfig>) -> Self {
        Self {
            options: options.into(),
            rules: HttpRules::new(),
        }
    }

    /// Takes other rules.
    #[must_use]
    pub fn with_rules(mut self, rules: HttpRules) -> Self {
        self.rules = rules;
        self
    }
}

impl From<ConnectionConfig> for HttpConfig {
    fn from(options: ConnectionConfig) -> Self {
        Self::new(options)
    }
}

impl From<Config> for HttpConfig {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}
