//! The URL of requests: an absolute URL of HTTP, split into its parts.

use std::fmt;
use std::str::FromStr;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};

use super::error::HttpError;

/// An absolute URL of HTTP: scheme, host, port, path and query. User and password are refused,
/// because they belong in an `Authorization` header, which is not logged.
///
/// ```
/// use antiphon_shell::http::HttpUrl;
/// let url: HttpUrl = "https://node.example/rpc?key=1".parse()?;
/// assert_eq!((url.is_tls(), url.host(), url.port()), (true, "node.example", 443));
/// assert_eq!((url.authority(), url.target()), ("node.example", "/rpc?key=1"));
/// # Ok::<(), antiphon_shell::http::HttpError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl {
    url: Uri,
    /// The value of the `Host` header.
    authority: HeaderValue,
}

impl HttpUrl {
    /// Whether it is `https`: over TLS.
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == Some(&Scheme::HTTPS)
    }

    /// Host and port as written, for the `Host` header.
    pub fn authority(&self) -> &str {
        self.url.authority().map_or("", Authority::as_str)
    }

    /// The `Host` header of requests.
    pub fn host_header(&self) -> HeaderValue {
        self.authority.clone()
    }

    /// The path and query alone, which a request names.
    pub fn origin_form(&self) -> Uri {
        let target = self.url.path_and_query().cloned();
        target.map_or_else(Uri::default, Uri::from)
    }

    /// The host: a name, or an address without brackets.
    pub fn host(&self) -> &str {
        let host = self.url.host().unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port: as written, or the scheme's own.
    pub fn port(&self) -> u16 {
        let port = self.url.port_u16();
        port.unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    /// Path and query.
    pub fn target(&self) -> &str {
        self.url.path_and_query().map_or("/", PathAndQuery::as_str)
    }
}

impl FromStr for HttpUrl {
    type Err = HttpError;

    fn from_str(url: &str) -> Result<Self, HttpError> {
        let refuse = |why: &'static str| Err(HttpError::Url(why));
        let Ok(uri) = url.parse::<Uri>() else {
            return refuse("it is no URL");
        };
        let mut parts = uri.into_parts();
        if !matches!(&parts.scheme, Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS)
        {
            return refuse("it does not begin with http:// or https://");
        }
        let Some(authority) = parts.authority.as_ref() else {
            return refuse("it names no host");
        };
        if authority.as_str().contains('@') {
            return refuse("it names a user; use an Authorization header");
        }
        if authority.host().is_empty() {
            return refuse("it names no host");
        }
        let has_port = authority.as_str().len() > authority.host().len();
        if has_port && authority.port_u16().is_none() {
            return refuse("its port is no number up to 65535");
        }
        let host = HeaderValue::from_str(authority.as_str());
        // A query may follow the host directly; the request's target begins with a slash.
        let target = parts.path_and_query.take();
        let target = target.as_ref().map_or("", PathAndQuery::as_str);
        let slash = if target.starts_with('/') { "" } else { "/" };
        parts.path_and_query = [slash, target].concat().parse().ok();
        match (Uri::from_parts(parts), host) {
            (Ok(url), Ok(authority)) => Ok(Self { url, authority }),
            _ => refuse("it is no URL"),
        }
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Prints the URL without the query, which may be a secret.
impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (authority, path) = (self.authority(), self.url.path());
        let scheme = self.url.scheme_str().unwrap_or_default();
        write!(f, "HttpUrl({scheme}://{authority}{path})")
    }
}

#[cfg(test)]
mod tests {
    use super::HttpUrl;

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
            assert_eq!(url.is_tls(), text.starts_with("https"));
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
