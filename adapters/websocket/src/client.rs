//! The client's side of the handshake: the request, and whether the answer fits it.
//!
//! The rule guarded here: a connection is taken for open only after every check of RFC 6455 clause
//! 4.1; what else the server says is an error with its status.

use std::fmt;
use std::io;

use antiphon::websocket::WebSocketRules;
use tungstenite::handshake::client::{Response, generate_key, generate_request};
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::machine::TryParse;
use tungstenite::http::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use tungstenite::http::{self, StatusCode};

use super::server::handshake;
use super::url::WebSocketUrl;
use antiphon::session::Handshake;

/// Headers that are the handshake's own.
const RESERVED: [HeaderName; 7] = [
    CONNECTION,
    UPGRADE,
    SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION,
];

/// What a client asks for: a URL, and headers of its own.
///
/// ```
/// use antiphon_websocket::WebSocketRequest;
/// let request = WebSocketRequest::new("ws://localhost:8080/rpc")?
///     .with_header("authorization", "Bearer s3cret")?
///     .with_header("origin", "https://app.example")?;
/// assert_eq!(request.url().port(), 8080);
/// assert!(!format!("{request:?}").contains("s3cret"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct WebSocketRequest {
    url: WebSocketUrl,
    headers: HeaderMap,
}

impl WebSocketRequest {
    /// Asks for the WebSocket at `url`.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is not the URL of one.
    pub fn new(url: &str) -> io::Result<Self> {
        Ok(Self {
            url: url.parse()?,
            headers: HeaderMap::new(),
        })
    }

    /// The same with another header, beside those of the same name. A `Host` replaces the one that
    /// the URL gives.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if a name or value is none that HTTP knows, or
    /// the name is one of the handshake's own.
    pub fn with_header(mut self, name: &str, value: impl AsRef<[u8]>) -> io::Result<Self> {
        let invalid = |what: &str| {
            let text = format!("the header {name:?} cannot be sent: {what}");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        let Ok(known) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(invalid("no name of a header"));
        };
        if RESERVED.contains(&known) {
            return Err(invalid("the handshake has its own"));
        }
        let Ok(value) = HeaderValue::from_bytes(value.as_ref()) else {
            return Err(invalid("a line break or control character in it"));
        };
        if known == HOST {
            if value.to_str().is_err() {
                return Err(invalid("no host's name"));
            }
            self.headers.insert(known, value);
        } else {
            self.headers.append(known, value);
        }
        Ok(self)
    }

    /// Where to connect to.
    pub fn url(&self) -> &WebSocketUrl {
        &self.url
    }
}

/// Shows where it goes without the query, and how many headers there are, for they may be secrets.
impl fmt::Debug for WebSocketRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketRequest")
            .field("host", &self.url.host())
            .field("port", &self.url.port())
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

/// Appends the request to `into`. Gives the key that must be accepted.
///
/// # Errors
/// The URL cannot be asked for.
pub(super) fn ask(
    request: &WebSocketRequest,
    rules: &WebSocketRules,
    into: &mut Vec<u8>,
) -> io::Result<String> {
    let mut asked = http::Request::new(());
    let invalid = |error: &dyn fmt::Display| {
        let text = format!("the WebSocket cannot be asked for: {error}");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    *asked.uri_mut() = request
        .url
        .target()
        .parse()
        .map_err(|error: http::uri::InvalidUri| invalid(&error))?;
    let host = HeaderValue::try_from(request.url.authority()).map_err(|error| invalid(&error))?;
    let key = HeaderValue::try_from(generate_key()).map_err(|error| invalid(&error))?;
    let headers = asked.headers_mut();
    headers.extend(request.headers.clone());
    headers.entry(HOST).or_insert(host);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, key);
    if let Some(offered) = rules.offered() {
        let offered = HeaderValue::from_static(offered);
        headers.insert(SEC_WEBSOCKET_PROTOCOL, offered);
    }
    let (written, key) = generate_request(asked).map_err(|error| invalid(&error))?;
    into.extend_from_slice(&written);
    Ok(derive_accept_key(key.as_bytes()))
}

/// Why the server's answer opens nothing.
#[derive(Debug)]
pub(super) struct Mismatch {
    /// The answer's status, if it was an answer.
    pub(super) status: Option<u16>,
    pub(super) reason: String,
    pub(super) headers: HeaderMap,
}

/// Judges the head of the answer.
pub(super) fn judge(
    head: &[u8],
    accepted: &str,
    target: &str,
    rules: &WebSocketRules,
) -> Result<Handshake, Box<Mismatch>> {
    let no_answer = || {
        Box::new(Mismatch {
            status: None,
            reason: "the answer is no HTTP".into(),
            headers: HeaderMap::new(),
        })
    };
    let (_, response) = Response::try_parse(head)
        .map_err(|_| no_answer())?
        .ok_or_else(no_answer)?;
    let status = response.status();
    let mismatch = |reason: &str| {
        let mut headers = response.headers().clone();
        // They are not shown: they may be secrets.
        for value in headers.values_mut() {
            value.set_sensitive(true);
        }
        Box::new(Mismatch {
            status: Some(status.as_u16()),
            reason: reason.into(),
            headers,
        })
    };
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(mismatch(status.canonical_reason().unwrap_or("refused")));
    }
    let has = |name: HeaderName, token: &str| {
        let mut values = response.headers().get_all(name).iter();
        values.any(|value| {
            let mut tokens = value.to_str().unwrap_or_default().split(',');
            tokens.any(|found| found.trim().eq_ignore_ascii_case(token))
        })
    };
    // RFC 6455 clauses 4.1 and 11.3.3: both stand once, and the upgrade is to nothing else.
    let sole = |name: HeaderName| {
        let mut values = response.headers().get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    let is_websocket = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
    if !sole(UPGRADE).is_some_and(is_websocket) || !has(CONNECTION, "upgrade") {
        return Err(mismatch("the answer upgrades to something else"));
    }
    if sole(SEC_WEBSOCKET_ACCEPT).is_none_or(|key| key != accepted) {
        return Err(mismatch("the answer accepts another key"));
    }
    if response.headers().contains_key(SEC_WEBSOCKET_EXTENSIONS) {
        return Err(mismatch(
            "the server chose an extension that was not offered",
        ));
    }
    let mut selected = response.headers().get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let first = selected.next().map(|value| value.to_str().unwrap_or(""));
    if selected.next().is_some() {
        return Err(mismatch("the server chose several subprotocols"));
    }
    let subprotocol = rules.judge_selected(first).map_err(mismatch)?;
    Ok(handshake(target, response.headers(), subprotocol))
}
