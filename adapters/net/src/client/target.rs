//! Where a client connects to.

use std::fmt;
use std::process::Command;
use std::sync::Arc;

use crate::transport::link::{Connecting, Link};

/// Makes a connection. Any function that returns a [`Connecting`] is one.
pub trait Connect: Send + Sync + 'static {
    /// Begins an attempt.
    fn connect(&self) -> Connecting;
}

impl<F: Fn() -> Connecting + Send + Sync + 'static> Connect for F {
    fn connect(&self) -> Connecting {
        self()
    }
}

/// Where a client connects to:
///
/// | made from | is |
/// |---|---|
/// | `"tcp://host:port"` | a TCP server, with the framing of the configuration |
/// | `"unix:/path"` | a Unix socket |
/// | `"ws://host:port/path"`, `"wss://…"` | a WebSocket (feature `websocket`), over TLS (feature `tls`) |
/// | `"http://host:port/path"`, `"https://…"` | HTTP (feature `http`), over TLS (feature `tls`) |
/// | a [`Command`] | a child process, by its standard input and output |
/// | a [`Link`] | an open transport; not for `reconnect` |
/// | [`Target::new`] | what a function of the program connects to |
/// | `Target::http` | HTTP over that (feature `http`) |
///
/// A text without one of these schemes is refused when the client is made.
pub struct Target(pub(crate) Kind);

pub(crate) enum Kind {
    Url(String),
    Command(Command),
    Link(Link),
    Function(Arc<dyn Connect>),
    /// HTTP to this URL, over what the function connects to.
    #[cfg(feature = "http")]
    Http(String, Arc<dyn Connect>),
}

impl Target {
    /// What `connect` connects to, which is called for each attempt.
    ///
    /// ```
    /// use antiphon_net::{Connecting, Link, Target};
    /// let target = Target::new(|| -> Connecting {
    ///     Box::pin(async { Link::tcp("127.0.0.1:7777").await })
    /// });
    /// # drop(target);
    /// ```
    pub fn new(connect: impl Connect) -> Self {
        Self(Kind::Function(Arc::new(connect)))
    }
}

#[cfg(feature = "http")]
impl Target {
    /// HTTP to `url`, over what `connect` connects to: a Unix socket, a proxy. With `https://` that must be
    /// TLS.
    pub fn http(url: impl Into<String>, connect: impl Connect) -> Self {
        Self(Kind::Http(url.into(), Arc::new(connect)))
    }
}

impl From<&str> for Target {
    fn from(url: &str) -> Self {
        url.to_owned().into()
    }
}

impl From<String> for Target {
    fn from(url: String) -> Self {
        Self(Kind::Url(url))
    }
}

impl From<&String> for Target {
    fn from(url: &String) -> Self {
        url.clone().into()
    }
}

impl From<Command> for Target {
    fn from(command: Command) -> Self {
        Self(Kind::Command(command))
    }
}

impl From<Link> for Target {
    fn from(link: Link) -> Self {
        Self(Kind::Link(link))
    }
}

/// Prints a URL without its query, which may be a secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut target = f.debug_tuple("Target");
        match &self.0 {
            Kind::Url(url) => target.field(&without_query(url)),
            #[cfg(feature = "http")]
            Kind::Http(url, _) => target.field(&without_query(url)),
            Kind::Command(command) => target.field(&command.get_program()),
            Kind::Link(link) => target.field(link),
            Kind::Function(_) => return target.finish_non_exhaustive(),
        };
        target.finish()
    }
}

/// The part of a URL that may be shown.
pub(crate) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}
