//! Options of HTTP servers and clients.

use antiphon::http::WebRules;
use antiphon_shell::ConnectionConfig;

/// The protocol, the limits around it, and the rules of HTTP. It can be made from a [`Config`](antiphon::Config) or
/// [`ConnectionConfig`], with defaults for the rest.
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
    /// The protocol, and the limits of the service. The service sees every HTTP request as a connection
    /// of its own: limits on a connection, such as `max_running_requests`, apply to the messages of one
    /// HTTP request.
    pub connection: ConnectionConfig,
    /// Which requests are accepted, how their replies look, and the time limits.
    pub rules: WebRules,
}

impl HttpConfig {
    /// Uses the rules of the configuration's dialect: see [`WebRules::of`].
    pub fn new(connection: impl Into<ConnectionConfig>) -> Self {
        let connection = connection.into();
        Self {
            rules: WebRules::of(&connection.config),
            connection,
        }
    }

    /// Sets the rules.
    #[must_use]
    pub fn with_rules(mut self, rules: WebRules) -> Self {
        self.rules = rules;
        self
    }
}

impl<C: Into<ConnectionConfig>> From<C> for HttpConfig {
    fn from(connection: C) -> Self {
        Self::new(connection)
    }
}
