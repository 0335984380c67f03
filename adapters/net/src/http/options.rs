//! What an HTTP server or client can be told beforehand.

use crate::Options;
use antiphon::Config;
use antiphon::http::HttpRules;

/// The protocol, the limits around it, and the rules of HTTP. Made from a [`Config`] or
/// [`Options`] alone where the defaults will do.
///
/// ```
/// use antiphon::Config;
/// use antiphon_net::http::HttpOptions;
/// let mut options = HttpOptions::from(Config::new());
/// options.rules.paths.push("/rpc".into());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The protocol, and the limits on what is served. Every request is an exchange of its own:
    /// limits on a connection, such as `handlers_max`, are limits on a request.
    pub options: Options,
    /// Which requests are served, how their replies look, and how slow they may be.
    pub rules: HttpRules,
}

impl HttpOptions {
    /// Takes the default rules.
    pub fn new(options: impl Into<Options>) -> Self {
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

impl From<Options> for HttpOptions {
    fn from(options: Options) -> Self {
        Self::new(options)
    }
}

impl From<Config> for HttpOptions {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}
