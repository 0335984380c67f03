//! The head of a request as the rules see it. Reads the header lines one by one, and finds faults for which
//! a request must be refused.
//!
//! If a field that may occur only once occurs twice, this server may use one value and a proxy in
//! front of it the other. RFC 9110 clause 5.3 forbids such requests, so they are refused before
//! anything runs.

use alloc::vec::Vec;

use super::sse_writer::EVENT_STREAM;

/// The header lines that a request may have at most once: the fields of RFC 9110 and RFC 9112 that
/// are not lists, `Origin` (RFC 6454 clause 7.3), the fields of Fetch Metadata, and the fields of a
/// WebSocket handshake (RFC 6455 clauses 11.3.1 and 11.3.5), and those of the Model Context Protocol.
const ONCE: [&str; 28] = [
    "host",
    "content-length",
    "content-type",
    "origin",
    "authorization",
    "user-agent",
    "referer",
    "sec-fetch-site",
    "sec-fetch-mode",
    "sec-fetch-dest",
    "sec-fetch-user",
    "sec-websocket-key",
    "sec-websocket-version",
    "proxy-authorization",
    "content-location",
    "content-range",
    "date",
    "from",
    "if-modified-since",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "max-forwards",
    "range",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "mcp-session-id",
];

// The positions in `ONCE` of the lines that the code names.
const HOST: usize = 0;
const CONTENT_LENGTH: usize = 1;
const CONTENT_TYPE: usize = 2;
const ORIGIN: usize = 3;
const FETCH_SITE: usize = 7;
const WEBSOCKET_KEY: usize = 11;
const WEBSOCKET_VERSION: usize = 12;
const MCP_VERSION: usize = 24;

/// The parts of a request before its body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// The method: `POST`.
    pub method: &'a str,
    /// The path and query: `/rpc?v=2`.
    pub target: &'a str,
    /// The `Content-Type`. If its value is not text, it is the empty string, which is no media
    /// type.
    pub content_type: Option<&'a str>,
    /// The length of the body in bytes, if it is declared.
    pub content_length: Option<u64>,
    /// The first coding of the `Content-Encoding` that is not `identity`.
    pub content_coding: Option<&'a str>,
    /// The last coding of the `Transfer-Encoding` that is not `chunked`.
    pub transfer_coding: Option<&'a str>,
    /// Whether the request has a `Sec-Fetch-Site`, which only browsers send.
    pub names_fetch_site: bool,
    /// Whether a body follows.
    pub has_body: bool,
    /// Whether the request is of HTTP/1.1, which a WebSocket needs.
    pub is_http11: bool,
    /// Whether the `Accept` names `text/event-stream`: the reply may be a stream of events. A range such
    /// as `*/*` is not enough, because clients that read only JSON send it, too.
    pub accepts_events: bool,
    /// The handshake of a WebSocket, if the request asks for one.
    pub upgrade: Option<Upgrade<'a>>,
    /// The value of `MCP-Protocol-Version`.
    pub mcp_version: Option<&'a str>,
    /// The value of the `Host` header. Without it only listed origins are accepted.
    pub host: Option<&'a str>,
    /// The values of the `Origin` headers. If there are several, none can be trusted.
    pub origins: &'a [&'a str],
    /// The fault of the headers that [`Fields`](super::Fields) has found.
    pub fault: Option<&'static str>,
}

impl<'a> RequestHead<'a> {
    /// Makes a head without headers. [`Fields::head`](super::Fields::head) makes one from header
    /// lines.
    pub const fn new(method: &'a str, target: &'a str) -> Self {
        Self {
            method,
            target,
            content_type: None,
            content_length: None,
            content_coding: None,
            transfer_coding: None,
            names_fetch_site: false,
            has_body: false,
            is_http11: false,
            accepts_events: false,
            upgrade: None,
            mcp_version: None,
            host: None,
            origins: &[],
            fault: None,
        }
    }
    /// The path, without a query.
    pub fn path(&self) -> &'a str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// What a request for a WebSocket says: its headers `Connection` and `Upgrade` ask for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upgrade<'a> {
    /// The `Sec-WebSocket-Key`.
    pub key: Option<&'a str>,
    /// The `Sec-WebSocket-Version`.
    pub version: Option<&'a str>,
    /// The offered subprotocols, each as one entry.
    pub subprotocols: &'a [&'a str],
}

/// The header lines of one request.
///
/// ```
/// use antiphon::http::Fields;
/// let mut fields = Fields::new();
/// fields.line("Host", b"localhost:8080");
/// fields.line("Content-Type", b"application/json");
/// fields.line("Origin", b"https://app.example");
/// let head = fields.head("POST", "/rpc");
/// assert_eq!((head.content_type, head.fault), (Some("application/json"), None));
///
/// fields.line("Host", b"other.example");
/// assert!(fields.head("POST", "/rpc").fault.is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    /// A bit for each of [`ONCE`] that was seen.
    seen: u32,
    fault: Option<&'static str>,
    content_type: Option<&'a str>,
    content_length: Option<u64>,
    content_coding: Option<&'a str>,
    transfer_coding: Option<&'a str>,
    is_chunked: bool,
    names_fetch_site: bool,
    accepts_events: bool,
    mcp_version: Option<&'a str>,
    host: Option<&'a str>,
    origins: Vec<&'a str>,
    is_http11: bool,
    /// Whether `Connection` and `Upgrade` name what a WebSocket needs.
    upgrades: [bool; 2],
    websocket_key: Option<&'a str>,
    websocket_version: Option<&'a str>,
    subprotocols: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    /// Makes an empty list of header lines.
    pub const fn new() -> Self {
        Self {
            seen: 0,
            fault: None,
            content_type: None,
            content_length: None,
            content_coding: None,
            transfer_coding: None,
            is_chunked: false,
            names_fetch_site: false,
            accepts_events: false,
            mcp_version: None,
            host: None,
            origins: Vec::new(),
            is_http11: false,
            upgrades: [false; 2],
            websocket_key: None,
            websocket_version: None,
            subprotocols: Vec::new(),
        }
    }

    /// Takes one line: its name, in any case, and its value.
    pub fn line(&mut self, name: &str, value: &'a [u8]) {
        // A value that is not text counts as empty. Of the values checked here, only a host may be
        // empty: see below.
        let text = core::str::from_utf8(value.trim_ascii()).unwrap_or_default();
        let Some(at) = ONCE
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))
        else {
            return self.list(name, text);
        };
        if self.seen & (1 << at) != 0 {
            self.blame(match at {
                HOST => "the host is named twice",
                _ => "a header that may stand once stands twice",
            });
        }
        self.seen |= 1 << at;
        match at {
            // If the lengths differ, the value is not text.
            HOST if !is_host(text) || text.len() != value.trim_ascii().len() => {
                self.blame("the host is no host");
            }
            HOST => self.host = Some(text),
            CONTENT_LENGTH => match length(text) {
                Some(bytes) => self.content_length = Some(bytes),
                None => self.blame("the length of the body is no number"),
            },
            CONTENT_TYPE => self.content_type = Some(text),
            FETCH_SITE => self.names_fetch_site = true,
            ORIGIN => self.origins.push(text),
            MCP_VERSION => self.mcp_version = Some(text),
            WEBSOCKET_KEY => self.websocket_key = Some(text),
            WEBSOCKET_VERSION => self.websocket_version = Some(text),
            _ => {}
        }
    }

    /// Takes a line that may occur more than once.
    fn list(&mut self, name: &str, text: &'a str) {
        if name.eq_ignore_ascii_case("accept") {
            let mut ranges = text.as_bytes().split(|byte| *byte == b',');
            self.accepts_events |= ranges.any(is_event_stream);
            return;
        }
        let mut codings = text.split(',').map(str::trim).filter(|one| !one.is_empty());
        if name.eq_ignore_ascii_case("content-encoding") {
            let other = codings.find(|coding| !coding.eq_ignore_ascii_case("identity"));
            self.content_coding = self.content_coding.or(other);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            for coding in codings {
                if !coding.eq_ignore_ascii_case("chunked") {
                    self.transfer_coding = Some(coding);
                } else if self.is_chunked {
                    // RFC 9112 clause 6.1: a body may be chunked only once.
                    self.blame("a body is chunked twice");
                }
                self.is_chunked |= coding.eq_ignore_ascii_case("chunked");
            }
        } else if name.eq_ignore_ascii_case("connection") {
            self.upgrades[0] |= codings.any(|option| option.eq_ignore_ascii_case("upgrade"));
        } else if name.eq_ignore_ascii_case("upgrade") {
            self.upgrades[1] |= codings.any(|protocol| protocol.eq_ignore_ascii_case("websocket"));
        } else if name.eq_ignore_ascii_case("sec-websocket-protocol") {
            self.subprotocols.extend(text.split(',').map(str::trim));
        }
    }

    /// Stores a fault, unless there was one before.
    fn blame(&mut self, fault: &'static str) {
        self.fault = self.fault.or(Some(fault));
    }

    /// Notes that the request is of HTTP/1.1, which requires a `Host` (RFC 9112 clause 3.2). Call it
    /// after all lines.
    pub fn require_host(&mut self) {
        self.is_http11 = true;
        if self.seen & (1 << HOST) == 0 {
            self.blame("no header names the host");
        }
    }

    /// Checks the number of `Content-Length` lines that a [`RequestScan`](super::RequestScan) has counted, because the
    /// HTTP library may have dropped some of them. Call it after all lines.
    pub fn compare_lengths(&mut self, scanned: u32) {
        if scanned > 1 {
            self.blame("the length of the body is named twice");
        }
        if scanned > 0 && self.has_transfer_coding() {
            // RFC 9112 clause 6.3: this may be an attempt to hide a request in another's body.
            self.blame("a length and a transfer coding contradict each other");
        }
    }

    fn has_transfer_coding(&self) -> bool {
        self.is_chunked || self.transfer_coding.is_some()
    }

    /// The fault of the lines, if there is one.
    pub fn fault(&self) -> Option<&'static str> {
        let is_contradicted = self.content_length.is_some() && self.has_transfer_coding();
        self.fault
            .or(is_contradicted.then_some("a length and a transfer coding contradict each other"))
    }

    /// Whether a body follows.
    pub fn has_body(&self) -> bool {
        self.has_transfer_coding() || self.content_length.is_some_and(|bytes| bytes > 0)
    }

    /// Returns the parts of the request that the rules check.
    pub fn head<'s>(&'s self, method: &'s str, target: &'s str) -> RequestHead<'s> {
        RequestHead {
            content_type: self.content_type,
            content_length: self.content_length,
            content_coding: self.content_coding,
            transfer_coding: self.transfer_coding,
            names_fetch_site: self.names_fetch_site,
            has_body: self.has_body(),
            is_http11: self.is_http11,
            accepts_events: self.accepts_events,
            upgrade: (self.upgrades == [true; 2]).then_some(Upgrade {
                key: self.websocket_key,
                version: self.websocket_version,
                subprotocols: &self.subprotocols,
            }),
            mcp_version: self.mcp_version,
            host: self.host,
            origins: &self.origins,
            fault: self.fault(),
            ..RequestHead::new(method, target)
        }
    }
}

/// Whether an element of `Accept` is the media type of event streams, with a weight above zero (RFC 9110
/// clause 12.5.1).
fn is_event_stream(range: &[u8]) -> bool {
    let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let is_named = |name: &[u8]| name.eq_ignore_ascii_case(EVENT_STREAM.as_bytes());
    let is_zero = |part: &[u8]| match part {
        [b'q' | b'Q', b'=', weight @ ..] => weight.iter().all(|byte| matches!(byte, b'0' | b'.')),
        _ => false,
    };
    parts.next().is_some_and(is_named) && !parts.any(is_zero)
}

/// Reads a number without sign (RFC 9110 clause 8.6).
fn length(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Whether the text is a host and perhaps a port (RFC 9110 clause 7.2, RFC 3986 clause 3.2.2). The
/// host may be empty.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(address) => {
            let Some((address, rest)) = address.split_once(']') else {
                return false;
            };
            let is_address = |byte: u8| byte.is_ascii_alphanumeric() || b":.".contains(&byte);
            if address.is_empty() || !address.bytes().all(is_address) {
                return false;
            }
            match rest.strip_prefix(':') {
                Some(port) => ("", port),
                None => ("", if rest.is_empty() { "" } else { return false }),
            }
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte);
    host.bytes().all(is_of_host) && port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{Fields, ONCE};

    fn fault(lines: &[(&str, &str)]) -> Option<&'static str> {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.line(name, value.as_bytes());
        }
        fields.fault()
    }

    // USE-08
    #[test]
    fn a_line_that_may_stand_once_stands_once() {
        for name in ONCE {
            let value = if name == "content-length" { "2" } else { "x" };
            assert_eq!(fault(&[(name, value)]), None, "{name}");
            let again = name.to_ascii_uppercase();
            assert!(fault(&[(name, value), (&again, value)]).is_some(), "{name}");
        }
        for name in ["cookie", "accept", "x-own", "via", "connection", "upgrade"] {
            assert_eq!(fault(&[(name, "x"), (name, "x")]), None, "{name}");
        }
    }

    // USE-08
    #[test]
    fn a_host_is_a_host_and_perhaps_a_port() {
        for (host, is_one) in [
            ("localhost", true),
            ("localhost:8080", true),
            ("a.example:", true),
            ("127.0.0.1:1", true),
            ("[::1]", true),
            ("[::1]:80", true),
            ("", true),
            ("a_b.example", true),
            ("a b/c", false),
            ("a/b", false),
            ("a,b c", false),
            ("user@a", false),
            ("a:x", false),
            ("a:1:2", false),
            ("[::1", false),
            ("[]", false),
            ("[::1]x", false),
            ("::1", false),
            ("http://a", false),
            ("a?b", false),
            ("\u{e4}", false),
        ] {
            assert_eq!(fault(&[("host", host)]).is_none(), is_one, "{host:?}");
        }
        let mut fields = Fields::new();
        fields.line("host", b"\xff");
        assert!(fields.fault().is_some());
        let mut fields = Fields::new();
        fields.require_host();
        assert!(fields.fault().is_some());
    }

    // USE-08
    #[test]
    fn a_length_is_a_number_and_stands_alone() {
        for (lines, is_right) in [
            (&[("content-length", "0")][..], true),
            (&[("content-length", "+1")], false),
            (&[("content-length", "1, 1")], false),
            (&[("content-length", "")], false),
            (&[("content-length", "99999999999999999999")], false),
            (&[("transfer-encoding", "chunked")], true),
            (
                &[("content-length", "1"), ("transfer-encoding", "chunked")],
                false,
            ),
            (
                &[("transfer-encoding", "gzip"), ("content-length", "1")],
                false,
            ),
            (&[("transfer-encoding", "chunked, chunked")], false),
        ] {
            assert_eq!(fault(lines).is_none(), is_right, "{lines:?}");
        }
    }
}
