//! Where a client connects to.

use std::fmt;
use std::process::Command;
use std::sync::Arc;

use antiphon_shell::ConnectError;

use crate::link::{Connect, Link};

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
pub struct Target(pub(crate) TargetKind);

pub(crate) enum TargetKind {
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
        Self(TargetKind::Function(Arc::new(connect)))
    }

    /// HTTP to `url`, over what `connect` connects to: a Unix socket, a proxy. With `https://` that must be
    /// TLS.
    #[cfg(feature = "http")]
    pub fn http(url: impl Into<String>, connect: impl Connect) -> Self {
        Self(TargetKind::Http(url.into(), Arc::new(connect)))
    }
}

impl From<&str> for Target {
    fn from(url: &str) -> Self {
        url.to_owned().into()
    }
}

impl From<String> for Target {
    fn from(url: String) -> Self {
        Self(TargetKind::Url(url))
    }
}

impl From<&String> for Target {
    fn from(url: &String) -> Self {
        url.clone().into()
    }
}

impl From<Command> for Target {
    fn from(command: Command) -> Self {
        Self(TargetKind::Command(command))
    }
}

impl From<Link> for Target {
    fn from(link: Link) -> Self {
        Self(TargetKind::Link(link))
    }
}

/// Prints scheme, host and port of a URL: the rest may be a secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut target = f.debug_tuple("Target");
        match &self.0 {
            TargetKind::Url(url) => target.field(&origin_of(url)),
            #[cfg(feature = "http")]
            TargetKind::Http(url, _) => target.field(&origin_of(url)),
            TargetKind::Command(command) => target.field(&command.get_program()),
            TargetKind::Link(link) => target.field(link),
            TargetKind::Function(_) => return target.finish_non_exhaustive(),
        };
        target.finish()
    }
}

/// The part of a URL that may be shown: scheme, host and port. The rest may be a secret, but for the path of a
/// Unix socket.
fn origin_of(url: &str) -> String {
    let host_of = |rest: &str| {
        let authority = rest.split(['/', '?', '#', '\\']).next();
        let host = authority.and_then(|authority| authority.rsplit('@').next());
        host.unwrap_or_default().to_owned()
    };
    match url.split_once("//") {
        _ if url.starts_with("unix:") => url.to_owned(),
        Some((scheme, rest)) if scheme.ends_with(':') => format!("{scheme}//{}", host_of(rest)),
        _ => host_of(url),
    }
}

/// The error for a URL that is not fit, for this reason. The URL may have secrets, so the text has only its origin.
pub(crate) fn refused(url: &str, why: &str) -> ConnectError {
    ConnectError::Target(format!("cannot connect to {:?}: {why}", origin_of(url)))
}

#[cfg(test)]
mod tests {
    use super::Target;

    // SEC-02 SEC-15
    #[test]
    fn a_target_shows_no_secret_of_its_url() {
        for (url, shown) in [
            ("ws://user:s3cret@a:1/x", "ws://a:1"),
            ("https://a/v3/s3cret?key=s3cret#s3cret", "https://a"),
            ("https://a?s3cret", "https://a"),
            ("s3cret@a:80/s3cret", "a:80"),
            ("tcp://a:1", "tcp://a:1"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(
                format!("{:?}", Target::from(url)),
                format!("Target({shown:?})")
            );
        }
    }
}
