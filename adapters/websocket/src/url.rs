//! The URL of a WebSocket: `ws://host:port/path?query`.

use std::fmt;
use std::io;
use std::str::FromStr;

use tungstenite::http::Uri;

/// The URL of a WebSocket, with the scheme `ws` or `wss`. Debug output does not show the query,
/// because it may be a secret.
///
/// ```
/// use antiphon_websocket::WebSocketUrl;
/// let url: WebSocketUrl = "wss://api.example/rpc?v=2".parse().unwrap();
/// assert!(url.is_tls());
/// assert_eq!((url.host(), url.port(), url.target()), ("api.example", 443, "/rpc?v=2"));
/// assert!("https://api.example".parse::<WebSocketUrl>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct WebSocketUrl(pub(crate) Uri);

impl WebSocketUrl {
    /// Whether the connection must use TLS: `wss`.
    pub fn is_tls(&self) -> bool {
        let scheme = self.0.scheme_str().unwrap_or_default();
        scheme.eq_ignore_ascii_case("wss")
    }

    /// The host's name or address (an IPv6 address without its brackets): to connect to, and to
    /// check a certificate.
    pub fn host(&self) -> &str {
        let host = self.0.host().unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port; 80, or 443 with TLS, if the URL has none.
    pub fn port(&self) -> u16 {
        let default = if self.is_tls() { 443 } else { 80 };
        self.0.port_u16().unwrap_or(default)
    }

    /// The path and query; `/` if the URL has none.
    pub fn target(&self) -> &str {
        let target = self.0.path_and_query();
        target.map_or("/", |target| target.as_str())
    }

    /// The host and port as in the URL and in a `Host` header.
    pub fn authority(&self) -> &str {
        let authority = self.0.authority();
        authority.map_or("", |authority| authority.as_str())
    }
}

impl FromStr for WebSocketUrl {
    type Err = io::Error;

    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput): no URL, another scheme, a user's name or a
    /// fragment. The message has the reason, not the URL, which may have a secret.
    fn from_str(text: &str) -> io::Result<Self> {
        // A WebSocket URL has no fragment (RFC 6455 clause 3), and a parser would drop it.
        if text.contains('#') {
            return Err(invalid("a fragment in it"));
        }
        let url = Self(text.parse().map_err(|_| invalid("no URL"))?);
        let scheme = url.0.scheme_str().unwrap_or_default();
        if !url.is_tls() && !scheme.eq_ignore_ascii_case("ws") {
            return Err(invalid("another scheme than ws and wss"));
        }
        let authority = url.0.authority().ok_or_else(|| invalid("no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("a user in it; send credentials in a header"));
        }
        // The parser ignores a port that is not valid.
        if authority.port().is_none() && authority.as_str() != authority.host() {
            return Err(invalid("no port behind the colon"));
        }
        if url.host().is_empty() {
            return Err(invalid("no host"));
        }
        // The parser adds the path `/` to a URL without a path.
        let url = url.to_string().parse().map_err(|_| invalid("no URL"))?;
        Ok(Self(url))
    }
}

impl fmt::Display for WebSocketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for WebSocketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = if self.0.query().is_some() { "?…" } else { "" };
        write!(f, "{:?}{query}", self.authority())
    }
}

fn invalid(what: &str) -> io::Error {
    let text = format!("not the URL of a WebSocket: {what}");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::WebSocketUrl;

    // WSK-14
    #[test]
    fn a_url_says_whom_to_connect_to_and_what_to_ask_for() {
        for (text, is_tls, host, port, target, authority) in [
            ("ws://a.example", false, "a.example", 80, "/", "a.example"),
            ("ws://a:81/x", false, "a", 81, "/x", "a:81"),
            ("WSS://a/x?y=z", true, "a", 443, "/x?y=z", "a"),
            ("wss://a:80?q", true, "a", 80, "/?q", "a:80"),
            ("ws://[::1]:9/", false, "::1", 9, "/", "[::1]:9"),
            ("ws://[::1]", false, "::1", 80, "/", "[::1]"),
        ] {
            let url: WebSocketUrl = text.parse().unwrap();
            assert_eq!(url.is_tls(), is_tls, "{text}");
            assert_eq!((url.host(), url.port()), (host, port), "{text}");
            assert_eq!(url.target(), target, "{text}");
            assert_eq!(url.authority(), authority, "{text}");
            assert_eq!(url.to_string().parse::<WebSocketUrl>().unwrap(), url);
        }
    }

    // WSK-14
    #[test]
    fn what_is_no_such_url_is_refused_without_being_repeated() {
        for text in [
            "",
            "ws://",
            "ws:///x",
            "/x",
            "a.example",
            "http://a",
            "ws://us3r:s3cret@a/",
            "ws://a/#s3cret",
            "ws://a b/",
            "ws://a:99999/",
            "ws://a:/",
            "ws://a/\r\nx: y",
        ] {
            let error = text.parse::<WebSocketUrl>().unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{text}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}
