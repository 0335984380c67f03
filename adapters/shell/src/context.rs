//! Facts about the other side that the transport knows, for handlers.
//!
//! Values that may be secrets (headers, cookies, certificates) can be read by handlers, and never
//! appear in debug output.

use std::any::Any;
use std::fmt;
use std::io;
use std::mem::take;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::guard::caught;
use antiphon::service::Attributes;
use antiphon::session::Handshake;
use http::{HeaderMap, HeaderName, HeaderValue};

/// How many numbers of connections have been drawn.
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

/// Facts that the transport knows about a connection, or about an HTTP exchange. Empty where it
/// knows nothing: standard streams have no address.
///
/// ```
/// use antiphon_shell::Context;
/// let mut context = Context::new();
/// context.headers.push("Cookie", b"theme=dark; session=s3cret");
/// assert_eq!(context.cookie("session"), Some("s3cret"));
/// assert!(!format!("{context:?}").contains("s3cret"));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Context {
    /// The number of the connection: the configuration's
    /// [`connection`](antiphon::Config::connection), or else one that no other connection of the
    /// program's adapters has. They are counted from 1. The connections of servers and of reconnecting
    /// clients are always counted, because many have one configuration.
    pub connection: u32,
    /// Whether the other side has opened the connection, to a listener of ours.
    pub is_accepted: bool,
    /// The other side's network address.
    pub peer_addr: Option<SocketAddr>,
    /// The network address of this side.
    pub local_addr: Option<SocketAddr>,
    /// The path and query asked for, over HTTP and WebSocket: `/rpc?v=2`.
    pub target: Option<String>,
    /// The request's headers, over HTTP and WebSocket; for the client of a WebSocket those of the
    /// answer.
    pub headers: Headers,
    /// The certificate with which the other side has authenticated itself, in DER, over TLS with
    /// client authentication.
    pub client_certificate: Option<Vec<u8>>,
    /// The protocol that TLS has agreed on (ALPN, RFC 7301). `None` without TLS, and where one side offers
    /// none. Never `h2`, which is not offered.
    pub alpn_protocol: Option<Vec<u8>>,
    /// The negotiated subprotocol, over WebSocket.
    pub subprotocol: Option<String>,
    /// What the check of a web server has found out: see [`extension`](Self::extension).
    extension: Option<Arc<dyn Any + Send + Sync>>,
    /// What limits and interceptors store for the connection of several HTTP exchanges: see
    /// [`share_connection`](Self::share_connection).
    shared: Option<Arc<SharedAttributes>>,
}

/// The attributes of a connection of several exchanges.
#[derive(Default)]
struct SharedAttributes(Mutex<Attributes>);

impl Drop for SharedAttributes {
    fn drop(&mut self) {
        // Interceptors hear of the end of the connection.
        let all = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        caught(|| drop(take(all)));
    }
}

impl Context {
    /// Makes an empty context.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the connection a number that no other has.
    pub fn draw_number(&mut self) {
        // Number 0 is not used: it says that a connection has no number.
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        self.connection = number.wrapping_add(1).max(1);
    }

    /// The value of type `T` that the check of a web server has returned when it let the request in: who is there.
    /// Handlers get it as an [`Extension`](crate::Extension), too.
    pub fn extension<T: Any>(&self) -> Option<&T> {
        self.extension.as_deref()?.downcast_ref()
    }

    /// Sets the value of [`extension`](Self::extension).
    pub fn set_extension(&mut self, value: Arc<dyn Any + Send + Sync>) {
        self.extension = Some(value);
    }

    /// Notes that the clones of this context are those of the exchanges of one connection: limits for each connection
    /// count them together, and interceptors are told of one connection. Nothing else is shared, because behind a
    /// proxy they may be those of several clients.
    pub fn share_connection(&mut self) {
        self.shared = Some(Arc::default());
    }

    /// Whether there are other exchanges of this connection.
    pub(crate) fn shares_connection(&self) -> bool {
        self.shared.is_some()
    }

    /// The context of a connection after its handshake.
    pub(crate) fn after(&self, handshake: Handshake) -> Self {
        let mut context = self.clone();
        context.target = handshake.target;
        for (name, value) in &handshake.headers {
            context.headers.push(name, value);
        }
        context.subprotocol = handshake.subprotocol;
        context
    }

    /// What limits and interceptors store for the connection of several exchanges. No code of the program runs under
    /// its lock.
    pub(crate) fn shared_attributes(&self) -> Option<MutexGuard<'_, Attributes>> {
        let shared = self.shared.as_ref()?;
        Some(shared.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The first value of the header `name` that is text: see [`Headers::get`].
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// Checks that HTTP/1.1 may be spoken: TLS has agreed on it, or on no protocol.
    ///
    /// # Errors
    /// It has agreed on another protocol ([`InvalidInput`](io::ErrorKind::InvalidInput)).
    pub fn check_http1(&self) -> io::Result<()> {
        match self.alpn_protocol.as_deref() {
            None | Some(b"http/1.1" | b"http/1.0") => Ok(()),
            Some(other) => {
                let other = other.escape_ascii();
                let text =
                    format!("TLS has agreed on \"{other}\" (ALPN), and HTTP/1.1 was to follow");
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        }
    }

    /// The value of a cookie, from any `Cookie` header.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.headers.texts_of("cookie");
        cookies
            .flat_map(|header| header.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find_map(|(found, value)| (found == name).then_some(value))
    }
}

/// HTTP headers: names in lower case, and values, which are any bytes that HTTP allows.
///
/// An interceptor of an HTTP client adds headers to a call by inserting a `Headers` into the call's
/// attributes ([`Cx::attributes_mut`](antiphon::service::Cx::attributes_mut)); those whose values are
/// text are sent with the call's HTTP request.
///
/// ```
/// use antiphon_shell::Headers;
/// let mut headers = Headers::new();
/// headers.push("Accept", b"application/json");
/// assert_eq!(headers.get("ACCEPT"), Some("application/json"));
/// assert!(headers.iter().eq([("accept", &b"application/json"[..])]));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    /// `None` before the first header: most connections have none. Clones share it.
    all: Option<Arc<HeaderMap>>,
}

impl Headers {
    /// Makes headers that are empty.
    pub const fn new() -> Self {
        Self { all: None }
    }

    /// Adds a header, if HTTP allows its name. Bytes that HTTP does not allow in a value become
    /// `?`.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        let is_allowed = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        let allowed = value
            .iter()
            .map(|&byte| if is_allowed(byte) { byte } else { b'?' });
        let value = HeaderValue::try_from(allowed.collect::<Vec<u8>>());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value) {
            // The map has space for more than 10 000 headers; further ones are not added.
            let _ = Arc::make_mut(self.all.get_or_insert_default()).try_append(name, value);
        }
    }

    /// The names, each with its value; values of one name in the order received.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let all = self.all.iter().flat_map(|all| all.iter());
        all.map(|(name, value)| (name.as_str(), value.as_bytes()))
    }

    /// Returns the headers whose values are text, as names and values.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (String, String)> {
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).ok();
        self.iter()
            .filter_map(move |(name, value)| Some((name.to_owned(), text(value)?)))
    }

    /// Moves the headers into a map that has others.
    pub fn append_to(self, map: &mut HeaderMap) {
        for (name, value) in self.all.iter().flat_map(|all| all.iter()) {
            let _ = map.try_append(name, value.clone());
        }
    }

    /// The first value of the header `name` that is text (UTF-8). It does not matter which letters of
    /// `name` are capitals.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts_of(name).next()
    }

    /// The first value of a header that is text.
    pub(crate) fn text(&self, name: HeaderName) -> Option<&str> {
        self.all.as_ref()?.get(name)?.to_str().ok()
    }

    fn texts_of<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let all = self.all.as_ref().map(|all| all.get_all(name));
        let values = all.into_iter().flatten();
        values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok())
    }
}

impl From<HeaderMap> for Headers {
    fn from(all: HeaderMap) -> Self {
        Self {
            all: Some(Arc::new(all)),
        }
    }
}

/// Prints only how many headers there are, because their values may be secrets.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headers")
            .field("len", &self.iter().count())
            .finish_non_exhaustive()
    }
}

/// Prints no target, header or certificate, because these may be secrets.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("connection", &self.connection)
            .field("peer_addr", &self.peer_addr)
            .field("local_addr", &self.local_addr)
            .field("headers", &self.headers)
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
        // Bytes that HTTP does not allow in a value are seen as `?`.
        context.headers.push("origin", b"http://a\r\nb");
        assert_eq!(context.header("origin"), Some("http://a??b"));
        // Neither as text nor as the numbers of its bytes: "top" is 116, 111, 112.
        let shown = format!("{context:?} {:?}", context.headers);
        assert!(
            !shown.contains("tops3cret") && !shown.contains("116, 111, 112"),
            "{shown}"
        );
    }
}
