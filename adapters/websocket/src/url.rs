//! Where a WebSocket is: `ws://host:port/path?query`.

use std::fmt;
use std::io;
use std::str::FromStr;

use tungstenite::http::Uri;

/// The address of a WebSocket, of scheme `ws` or `wss`.
///
/// ```
/// use antiphon_websocket::WebSocketUrl;
/// let url: WebSocketUrl = "wss://api.example/rpc?v=2".parse().unwrap();
/// assert!(url.is_tls());
/// assert_eq!((url.host(), url.port(), url.target()), ("api.example", 443, "/rpc?v=2"));
/// assert!("https://api.example".parse::<WebSocketUrl>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketUrl {
    is_tls: bool,
    host: String,
    port: u16,
    target: String,
}

impl WebSocketUrl {
    /// Whether the connection is to be made over TLS: `wss`.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The host's name or address, an IPv6 address without its brackets: to connect to, and to
    /// check a certificate against.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 80, or 443 over TLS, where the URL names none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path and query, `/` where the URL has none.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The host and port as a `Host` header has them.
    pub fn authority(&self) -> String {
        let default = if self.is_tls { 443 } else { 80 };
        let (open, close) = if self.host.contains(':') {
            ("[", "]")
        } else {
            ("", "")
        };
        match self.port {
            port if port == default => format!("{open}{}{close}", self.host),
            port => format!("{open}{}{close}:{port}", self.host),
        }
    }
}

impl FromStr for WebSocketUrl {
    type Err = io::Error;

    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput): no URL, another scheme, a user's name or a
    /// fragment in it. The message names what is wrong, not the URL, which may hold a secret.
    fn from_str(text: &str) -> io::Result<Self> {
        // A WebSocket URL has no fragment (RFC 6455 clause 3), and a parser would drop it.
        if text.contains('#') {
            return Err(invalid("a fragment in it"));
        }
        let uri: Uri = text.parse().map_err(|_| invalid("no URL"))?;
        let is_tls = match uri.scheme_str() {
            Some(scheme) if scheme.eq_ignore_ascii_case("ws") => false,
            Some(scheme) if scheme.eq_ignore_ascii_case("wss") => true,
            _ => return Err(invalid("another scheme than ws and wss")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("a user in it; send credentials in a header"));
        }
        let host = authority.host();
        // The parser takes a port that is none for no port.
        let port = match authority.as_str().strip_prefix(host) {
            Some("") if is_tls => 443,
            Some("") => 80,
            _ => uri
                .port_u16()
                .ok_or_else(|| invalid("no port behind the colon"))?,
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() {
            return Err(invalid("no host"));
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self {
            is_tls,
            host: host.into(),
            port,
            target: format!("{slash}{target}"),
        })
    }
}

impl fmt::Display for WebSocketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "wss" } else { "ws" };
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
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
