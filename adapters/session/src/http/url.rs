//! Where requests go: an absolute URL of HTTP, taken apart.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::error::HttpError;

/// With or without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpScheme {
    /// `http`: none.
    Http,
    /// `https`: with TLS.
    Https,
}

/// An absolute URL of HTTP: scheme, host, port, path and query. User and password are refused:
/// they belong in an `Authorization` header, which is not printed in logs.
///
/// ```
/// use antiphon_session::http::{HttpScheme, HttpUrl};
/// let url: HttpUrl = "https://node.example/rpc?key=1".parse()?;
/// assert_eq!((url.scheme(), url.host(), url.port()), (HttpScheme::Https, "node.example", 443));
/// assert_eq!((url.authority(), url.target()), ("node.example", "/rpc?key=1"));
/// # Ok::<(), antiphon_session::http::HttpError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl {
    scheme: HttpScheme,
    authority: Arc<str>,
    port: u16,
    target: Arc<str>,
}

impl HttpUrl {
    /// With or without TLS.
    pub fn scheme(&self) -> HttpScheme {
        self.scheme
    }

    /// Host and port as written, for the `Host` header.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The host: a name, or an address without brackets.
    pub fn host(&self) -> &str {
        let (host, _) = split_port(&self.authority);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port: as written, or the scheme's own.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path and query.
    pub fn target(&self) -> &str {
        &self.target
    }
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    // The colons of `[::1]` are none before a port.
    match authority
        .rfind(':')
        .filter(|&at| !authority[at..].contains(']'))
    {
        Some(at) => (&authority[..at], Some(&authority[at + 1..])),
        None => (authority, None),
    }
}

impl FromStr for HttpUrl {
    type Err = HttpError;

    fn from_str(url: &str) -> Result<Self, HttpError> {
        let refuse = |why: &'static str| Err(HttpError::Url(why));
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("it has blanks, control characters, or is not ASCII");
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return refuse("it does not begin with http:// or https://");
        };
        let (scheme, port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (HttpScheme::Http, 80),
            "https" => (HttpScheme::Https, 443),
            _ => return refuse("it does not begin with http:// or https://"),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains(['@', '\\']) {
            return refuse("it names a user; use an Authorization header");
        }
        let (host, given) = split_port(authority);
        let port = match given.map(str::parse) {
            None => port,
            Some(Ok(given)) => given,
            Some(Err(_)) => return refuse("its port is no number up to 65535"),
        };
        if host.is_empty() || (host.contains(':') && !host.starts_with('[')) {
            return refuse("it names no host");
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self {
            scheme,
            authority: authority.into(),
            port,
            target: [slash, target].concat().into(),
        })
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            HttpScheme::Http => "http",
            HttpScheme::Https => "https",
        };
        write!(f, "{scheme}://{}{}", self.authority, self.target)
    }
}

/// Without the query, which may be a secret.
impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "HttpUrl({:?} {}{path})", self.scheme, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::{HttpScheme, HttpUrl};

    // HTP-05 SEC-15
    #[test]
    fn a_url_is_taken_apart_or_refused() {
        for (text, host, port, target) in [
            ("http://a", "a", 80, "/"),
            ("HTTP://a/", "a", 80, "/"),
            ("https://a", "a", 443, "/"),
            ("http://a:8080/b/c?d=/e", "a", 8080, "/b/c?d=/e"),
            ("http://a?q", "a", 80, "/?q"),
            ("http://a/b#part", "a", 80, "/b"),
            ("http://127.0.0.1:1", "127.0.0.1", 1, "/"),
            ("http://[::1]/x", "::1", 80, "/x"),
            ("http://[::1]:9/x", "::1", 9, "/x"),
        ] {
            let url: HttpUrl = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (url.host(), url.port(), url.target()),
                (host, port, target),
                "{text}"
            );
            assert_eq!(url.scheme() == HttpScheme::Https, text.starts_with("https"));
        }
        for text in [
            "",
            "a",
            "/rpc",
            "a:80",
            "ws://a",
            "http:/a",
            "http://",
            "http:///x",
            "http://:80",
            "http://a:x",
            "http://a:70000",
            "http://user@a",
            "http://user:word@a/",
            "http://a b",
            "http://a\r\nx",
            "http://é",
            "http://::1",
            "http://evil\\@a",
        ] {
            assert!(text.parse::<HttpUrl>().is_err(), "{text}");
        }
        let url: HttpUrl = "http://a/b?key=s3cret".parse().expect("a URL");
        assert!(!format!("{url:?}").contains("s3cret"));
        assert_eq!(url.to_string(), "http://a/b?key=s3cret");
    }
}
