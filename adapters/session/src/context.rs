//! What the transport knows about the other side, for the handlers to see.
//!
//! The rule guarded here: what may be a secret (headers, cookies, certificates) is there for those
//! who ask, and never in debug output.

use std::fmt;
use std::net::SocketAddr;

/// What the transport knows of a connection, or of an HTTP exchange. Empty where it knows nothing:
/// standard streams have no address.
///
/// ```
/// use antiphon_session::Context;
/// let mut context = Context::new();
/// context.headers.push("Cookie", b"theme=dark; session=s3cret");
/// assert_eq!(context.cookie("session"), Some("s3cret"));
/// assert!(!format!("{context:?}").contains("s3cret"));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Context {
    /// Numbers the connections of a server, and those that a reconnecting client makes, from 1; 0 for
    /// one that was made by itself.
    pub connection: u32,
    /// Whether the other side made the connection, to a listener of ours.
    pub is_accepted: bool,
    /// The other side's network address.
    pub peer_addr: Option<SocketAddr>,
    /// The path and query asked for, over HTTP and WebSocket: `/rpc?v=2`.
    pub target: Option<String>,
    /// The request's headers in the order received, over HTTP and WebSocket; of the answer for the
    /// client of a WebSocket, whose names are then in lower case.
    pub headers: Headers,
    /// The certificate that the other side proved to own, in DER, over TLS with client
    /// authentication.
    pub client_certificate: Option<Vec<u8>>,
    /// The subprotocol agreed on, over WebSocket.
    pub subprotocol: Option<String>,
}

impl Context {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first header of that name, whatever its case, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// The value of a cookie, from whichever `Cookie` header has it.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.headers.texts_of("cookie");
        cookies
            .flat_map(|header| header.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find_map(|(found, value)| (found == name).then_some(value))
    }
}

/// Names and values, in order. A value is any bytes.
///
/// ```
/// use antiphon_session::Headers;
/// let mut headers = Headers::new();
/// headers.push("Accept", b"application/json");
/// assert_eq!(headers.get("accept"), Some("application/json"));
/// assert!(headers.iter().eq([("Accept", &b"application/json"[..])]));
/// ```
#[derive(Clone, Default)]
pub struct Headers {
    /// None before there was one: most connections have none.
    all: Option<Box<Text>>,
}

/// All names, one behind the other, and all values.
#[derive(Clone, Default)]
struct Text {
    names: String,
    values: Vec<u8>,
    /// Where each name and its value end.
    ends: Vec<(usize, usize)>,
}

impl Headers {
    /// None yet.
    pub const fn new() -> Self {
        Self { all: None }
    }

    /// Adds one.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        let all = self.all.get_or_insert_default();
        all.names.push_str(name);
        all.values.extend_from_slice(value);
        all.ends.push((all.names.len(), all.values.len()));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.as_ref().map_or(0, |all| all.ends.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names as they were sent, each with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.all.iter().flat_map(|all| {
            let mut begin = (0, 0);
            all.ends.iter().map(move |&end| {
                let name = all.names.get(begin.0..end.0).unwrap_or_default();
                let value = all.values.get(begin.1..end.1).unwrap_or_default();
                begin = end;
                (name, value)
            })
        })
    }

    /// The value of the first of that name, whatever its case, that is text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts_of(name).next()
    }

    fn texts_of<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let named = self
            .iter()
            .filter(move |(found, _)| found.eq_ignore_ascii_case(name));
        named.filter_map(|(_, value)| std::str::from_utf8(value).ok())
    }
}

impl PartialEq for Headers {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Headers {}

/// Shows how many there are: their values may be secrets.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headers")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Shows what is there, but neither headers nor certificates, which may be secrets.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("connection", &self.connection)
            .field("peer_addr", &self.peer_addr)
            .field("headers", &self.headers.len())
            .field("has_client_certificate", &self.client_certificate.is_some())
            .field("subprotocol", &self.subprotocol)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Context;

    // SRV-33 SEC-02 SEC-15
    #[test]
    fn headers_and_cookies_are_found_and_never_shown() {
        let mut context = Context::new();
        context.target = Some("/rpc?token=tops3cret".into());
        context.client_certificate = Some(b"tops3cret".to_vec());
        let headers = [
            ("X-Key", &b"tops3cret"[..]),
            ("cookie", b"a=1; b=2"),
            ("Cookie", b" b=3;c=4=5 ;d"),
            ("binary", b"\xff"),
        ];
        for (name, value) in headers {
            context.headers.push(name, value);
        }
        assert_eq!(context.header("x-key"), Some("tops3cret"));
        assert_eq!(context.header("none"), None);
        assert_eq!(context.header("binary"), None);
        assert_eq!(context.cookie("b"), Some("2"));
        assert_eq!(context.cookie("c"), Some("4=5"));
        assert_eq!(context.cookie("d"), None);
        // Neither as text nor as the numbers that bytes are shown as.
        let shown = format!("{context:?} {:?}", context.headers);
        assert!(
            !shown.contains("tops3cret") && !shown.contains("116, 111, 112"),
            "{shown}"
        );
    }
}
