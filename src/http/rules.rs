//! The server's side of HTTP: which requests are served, and how replies look.
//!
//! Only a POST of JSON, from an accepted origin, within the limit, reaches a service. Every other
//! request is answered without it: with a status and a short reason, a preflight with the
//! permissions of its origin, a body over the limit with an error object.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::statuses::Statuses;
use crate::answer::unanswered;
use crate::config::{CancelStyle, Config};
use crate::origin::{ANY, lets_in};

/// The media type of requests and replies.
pub const MEDIA_TYPE: &str = "application/json";

/// The media types that a body may have. A missing one counts as the first, unless a browser sent
/// the request. A web page cannot make a browser send any of these to another origin without a
/// preflight, because they are not on the Fetch standard's safelist.
const MEDIA_TYPES: [&str; 3] = [
    MEDIA_TYPE,
    "application/json-rpc",
    "application/jsonrequest",
];

/// Options of an HTTP server. The protocol itself is in [`Config`]: its `max_message_bytes` limits
/// bodies, and its `write_timeout` the time in which a client may take nothing of a reply.
///
/// ```
/// use antiphon::Config;
/// use antiphon::http::{HttpRules, RequestHead, Verdict};
/// let mut rules = HttpRules::new();
/// rules.paths.push("/rpc".into());
/// let mut head = RequestHead::new("POST", "/rpc");
/// head.content_type = Some("application/json; charset=utf-8");
/// assert_eq!(rules.judge(&Config::new(), &head), Verdict::Serve);
/// head.method = "GET";
/// let Verdict::Answer(answer) = rules.judge(&Config::new(), &head) else { panic!() };
/// assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRules {
    /// The paths that are served, without a query; other paths are answered 404. If empty, every
    /// path is served. Default empty.
    pub paths: Vec<String>,
    /// The statuses of replies that are errors. Default [`Statuses::always_ok`].
    pub error_statuses: Statuses,
    /// The status if there is no answer to send. Default 204; 202 for MCP.
    pub no_reply_status: u16,
    /// The accepted origins of web pages, such as `https://app.example` or `http://localhost:3000`;
    /// scheme and host in any case, the scheme's default port may be left out. Pages of other
    /// origins are answered 403, except the server's own: see `hosts`. `*` accepts every origin:
    /// right for servers that need credentials which a browser does not add by itself. Programs
    /// other than browsers send no origin, and need none. Default empty.
    pub origins: Vec<String>,
    /// The hosts under which pages of this server's own reach it, such as `app.example`, or
    /// `app.example:8443` for one port only. A page is the server's own if its origin is that of the
    /// request's `Host`, and this host is listed here or is loopback: `localhost`, a name below it,
    /// `127.0.0.0/8` or `[::1]`. A name that is not listed may be one that another site has given
    /// the address of this machine (DNS rebinding). Default empty.
    pub hosts: Vec<String>,
    /// Whether a request without an origin is refused too. Programs other than browsers send none,
    /// and could send any. Default off.
    pub origin_required: bool,
    /// What scripts from the accepted origins may do with the server. Default none: no CORS header
    /// is sent, and an OPTIONS request is answered 405.
    pub cors: Option<Cors>,
    /// The longest head of a request, in bytes. A longer one is answered 431 and ends the
    /// connection. Needs that much while a head arrives. Default 8 KiB, as in common HTTP servers.
    pub max_header_bytes: usize,
    /// The most headers of a request. More are answered 431 and end the connection. Default 64.
    pub max_headers: usize,
    /// How long a new connection may send nothing. Then it is cut. Default 10 s.
    pub first_byte_timeout: Duration,
    /// How long the head of a request may take, from its first byte to its last. Then the
    /// connection is cut. Default 10 s.
    pub header_timeout: Duration,
    /// How long the body of a request may take, from the end of the head. Then 408 is answered.
    /// Default 30 s.
    pub body_timeout: Duration,
    /// How long a connection may wait for its next request. Then it is closed. Default 60 s.
    pub idle_timeout: Duration,
    /// How long handlers go on after the end of the client's input. A client that hangs up looks
    /// like one that has only finished sending and still waits for the answer. When the time is
    /// over, the handlers are cancelled, and the connection ends without an answer. Zero ends them
    /// at once; `None` waits for the configuration's
    /// [`drain_timeout`](crate::config::Timeouts::drain_timeout). Default 1 s.
    pub half_close_timeout: Option<Duration>,
}

/// The permissions of scripts from other origins: the Fetch standard's CORS protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cors {
    /// The request headers that a script may set. Default `content-type`.
    pub headers: Vec<String>,
    /// Whether the browser may send cookies; not if the origins are `*`. Default off.
    pub credentials: bool,
    /// How long a browser may cache the permission. Default 10 minutes.
    pub max_age: Duration,
}

impl Cors {
    /// Returns the default permissions.
    pub fn new() -> Self {
        Self {
            headers: Vec::from(["content-type".to_string()]),
            credentials: false,
            max_age: Duration::from_secs(600),
        }
    }
}

impl Default for Cors {
    fn default() -> Self {
        Self::new()
    }
}

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
            host: None,
            origins: &[],
            fault: None,
        }
    }
}

/// The decision of [`HttpRules::judge`] about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is served: its body is a message.
    Serve,
    /// The body has this many bytes, more than the limit. The body of [`HttpRules::too_large`] is
    /// the connection's answer to [`Input::oversize`](crate::Input::oversize).
    TooLarge(u64),
    /// This is the answer; the body of the request is not read.
    Answer(HttpAnswer),
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values. The length of the body is not among them.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
}

impl HttpAnswer {
    fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    fn text(status: u16, text: &str) -> Self {
        Self::new(status).with_body("text/plain; charset=utf-8", text.into())
    }

    fn with_body(mut self, content_type: &'static str, body: Vec<u8>) -> Self {
        self.headers.push(("content-type", content_type.into()));
        self.body = body;
        self
    }

    fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(found, value)| (*found == name).then_some(&**value))
    }
}

impl HttpRules {
    /// Returns the default rules.
    pub const fn new() -> Self {
        Self {
            paths: Vec::new(),
            error_statuses: Statuses::always_ok(),
            no_reply_status: 204,
            origins: Vec::new(),
            hosts: Vec::new(),
            origin_required: false,
            cors: None,
            max_header_bytes: 8 << 10,
            max_headers: 64,
            first_byte_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            half_close_timeout: Some(Duration::from_secs(1)),
        }
    }

    /// Returns the rules of the dialect: those of [`mcp`](Self::mcp) under
    /// [`Config::mcp`](Config::mcp), those of [`bitcoin_legacy`](Self::bitcoin_legacy) under
    /// [`Config::bitcoin_legacy`](Config::bitcoin_legacy), otherwise the default.
    pub fn of(config: &Config) -> Self {
        let dialect = &config.dialect;
        if dialect.cancel_receive == CancelStyle::Mcp {
            Self::mcp()
        } else if dialect.v1_missing_id {
            // Only Bitcoin Core answers a request that has no id.
            Self::bitcoin_legacy()
        } else {
            Self::new()
        }
    }

    /// Rules for the Model Context Protocol: 202 if there is no reply.
    pub const fn mcp() -> Self {
        let mut rules = Self::new();
        rules.no_reply_status = 202;
        rules
    }

    /// Rules for Bitcoin Core: errors in 1.0 and 1.1 replies have statuses of their own.
    pub fn bitcoin_legacy() -> Self {
        Self {
            error_statuses: Statuses::bitcoin(),
            ..Self::new()
        }
    }

    fn is_served(&self, target: &str) -> bool {
        let path = target.split('?').next().unwrap_or_default();
        self.paths.iter().any(|served| served == path)
    }

    /// Checks a request before its body is read.
    ///
    /// A web page of another origin cannot make this server run anything without a preflight: if a
    /// request comes from a browser (it has `Origin` or `Sec-Fetch-Site`), it must have a media
    /// type of JSON.
    pub fn judge(&self, config: &Config, head: &RequestHead<'_>) -> Verdict {
        if head.fault.is_none() && !self.paths.is_empty() && !self.is_served(head.target) {
            return Verdict::Answer(HttpAnswer::text(404, "nothing is served at this path\n"));
        }
        self.judge_routed(config, head)
    }

    /// Checks a request as [`judge`](Self::judge) does, except its path. Use it after a router has
    /// checked the path.
    pub fn judge_routed(&self, config: &Config, head: &RequestHead<'_>) -> Verdict {
        if let Some(fault) = head.fault {
            let reply = HttpAnswer::text(400, &[fault, "\n"].concat());
            return Verdict::Answer(reply.with("connection", "close"));
        }
        let (known, hosts) = (&self.origins, &self.hosts);
        if !lets_in(known, hosts, self.origin_required, head.origins, head.host) {
            return Verdict::Answer(HttpAnswer::text(403, "this origin is not let in\n"));
        }
        if head.method != "POST" {
            return Verdict::Answer(self.other_method(head));
        }
        if head.transfer_coding.is_some() {
            // RFC 9112 clause 6.1. The beginning of the next request cannot be found.
            let reply = HttpAnswer::text(501, "only the transfer coding chunked is understood\n");
            let reply = reply.with("connection", "close");
            return Verdict::Answer(self.permit(head, reply));
        }
        if head.content_coding.is_some() {
            // RFC 9110 clauses 8.4 and 12.5.3: the answer names what is allowed.
            let reply = HttpAnswer::text(415, "the body must not be encoded\n");
            let reply = reply.with("accept-encoding", "identity");
            return Verdict::Answer(self.permit(head, reply));
        }
        let is_from_browser = head.names_fetch_site || !head.origins.is_empty();
        let is_typed = head.content_type.map_or(!is_from_browser, is_json);
        if !is_typed {
            let reply = HttpAnswer::text(415, "the body must be application/json in UTF-8\n");
            return Verdict::Answer(self.permit(head, reply));
        }
        match head.content_length {
            Some(bytes) if bytes > config.limits.max_message_bytes as u64 => {
                Verdict::TooLarge(bytes)
            }
            _ => Verdict::Serve,
        }
    }

    /// Returns the reply to a message that was handled; `reply` is `None` if there is no answer.
    pub fn reply(&self, head: &RequestHead<'_>, reply: Option<Vec<u8>>) -> HttpAnswer {
        let reply = match reply {
            None => HttpAnswer::new(self.no_reply_status),
            Some(body) => {
                HttpAnswer::new(self.error_statuses.of(&body)).with_body(MEDIA_TYPE, body)
            }
        };
        self.permit(head, reply)
    }

    /// Returns the reply to a request that was handled and is not answered, because a limit or the
    /// program has ended the exchange before: 500, with an *internal error* without id.
    pub fn unanswered(&self, config: &Config, head: &RequestHead<'_>) -> HttpAnswer {
        let reply = HttpAnswer::new(500).with_body(MEDIA_TYPE, unanswered(config));
        self.permit(head, reply)
    }

    /// Returns the reply to a message of notifications only of which none was taken, because too much work
    /// waits: 503. It can be sent again.
    pub fn no_capacity(&self, head: &RequestHead<'_>) -> HttpAnswer {
        let reply = HttpAnswer::text(503, "too much work waits\n");
        self.permit(head, reply)
    }

    /// Returns the reply to a body over the limit, with the connection's answer.
    pub fn too_large(&self, head: &RequestHead<'_>, reply: Option<Vec<u8>>) -> HttpAnswer {
        let body = reply.unwrap_or_default();
        let reply = HttpAnswer::new(413).with_body(MEDIA_TYPE, body);
        self.permit(head, reply)
    }

    /// Returns the reply to a body that did not arrive in time.
    pub fn timed_out(&self, head: &RequestHead<'_>) -> HttpAnswer {
        let reply = HttpAnswer::text(408, "the body did not come in time\n");
        self.permit(head, reply)
    }

    /// Returns the reply to a body that was cut short or has a wrong encoding.
    pub fn broken(&self, head: &RequestHead<'_>) -> HttpAnswer {
        let reply = HttpAnswer::text(400, "the body is broken\n");
        self.permit(head, reply)
    }

    /// Returns the reply to a request on a connection beyond the server's limit.
    pub fn too_many_connections(&self) -> HttpAnswer {
        HttpAnswer::text(503, "too many connections are open\n").with("connection", "close")
    }

    /// Answers a request whose method is not POST: a preflight with the permissions of `cors`, any
    /// other with 405.
    fn other_method(&self, head: &RequestHead<'_>) -> HttpAnswer {
        let Some(cors) = self.cors.as_ref() else {
            return refuse_method(head, "POST");
        };
        if head.method != "OPTIONS" {
            return self.permit(head, refuse_method(head, "POST, OPTIONS"));
        }
        let answer = HttpAnswer::new(204)
            .with("access-control-allow-methods", "POST")
            .with("access-control-allow-headers", cors.headers.join(", "))
            .with("access-control-max-age", cors.max_age.as_secs().to_string());
        self.permit(head, answer)
    }

    /// Allows the script that sent the request to read the answer, if the rules do.
    fn permit(&self, head: &RequestHead<'_>, answer: HttpAnswer) -> HttpAnswer {
        let Some(cors) = &self.cors else {
            return answer;
        };
        if self.origins.iter().any(|known| known == ANY) {
            return answer.with("access-control-allow-origin", ANY);
        }
        // The answer depends on the origin, which caches have to know.
        let answer = answer.with("vary", "origin");
        let [origin] = head.origins else {
            return answer;
        };
        let answer = answer.with("access-control-allow-origin", origin.to_string());
        match cors.credentials {
            true => answer.with("access-control-allow-credentials", "true"),
            false => answer,
        }
    }
}

fn refuse_method(head: &RequestHead<'_>, allowed: &'static str) -> HttpAnswer {
    let answer = match head.method {
        "HEAD" => HttpAnswer::new(405),
        _ => HttpAnswer::text(405, "messages are sent by POST\n"),
    };
    answer.with("allow", allowed)
}

impl Default for HttpRules {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a body of this type may be JSON in UTF-8.
fn is_json(content_type: &str) -> bool {
    // Most requests have exactly this value, which need not be parsed.
    if content_type == MEDIA_TYPE {
        return true;
    }
    let mut parts = content_type.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let is_known = MEDIA_TYPES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(media_type));
    let is_utf8 = |part: &str| match part.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            let charset = value.trim().trim_matches('"');
            charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8")
        }
        _ => true,
    };
    is_known && parts.all(is_utf8)
}
