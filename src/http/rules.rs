//! A server's side: which requests are served, and what the reply to each looks like.
//!
//! The rule guarded here: only a POST of JSON, from an origin that may ask, within the limit,
//! reaches a service; everything else is told what is wrong by its status, and nothing more.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::statuses::Statuses;
use crate::config::Config;
use crate::origin;

/// The media types that a body may have. A missing one is taken for the first.
const MEDIA_TYPES: [&str; 3] = [
    "application/json",
    "application/json-rpc",
    "application/jsonrequest",
];

/// What an HTTP server can be told beforehand. The protocol itself is in
/// [`Config`]: the limit on bodies is its `message_bytes_max`, the time that
/// one may take to come in its `frame_time_max`, and the time that a client may leave a reply
/// standing its `write_time_max`.
///
/// ```
/// use antiphon::{Config, http::{HttpHead, HttpRules, Verdict}};
/// let mut rules = HttpRules::new();
/// rules.paths.push("/rpc".into());
/// let mut head = HttpHead::post("/rpc");
/// assert_eq!(rules.judge(&Config::new(), &head), Verdict::Serve);
/// head.method = "GET";
/// let Verdict::Reply(reply) = rules.judge(&Config::new(), &head) else { panic!() };
/// assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRules {
    /// The paths that are served, without a query; a request for another is answered 404. Empty
    /// serves every path. Default empty.
    pub paths: Vec<String>,
    /// The statuses of replies that are errors. Default [`Statuses::always_ok`].
    pub statuses: Statuses,
    /// The status where no reply is owed. Default 204; 202 for MCP.
    pub empty_status: u16,
    /// The origins that may ask, as `https://app.example` or `http://localhost:3000`; scheme and
    /// host in any case, the scheme's own port may be left out. A request from another is answered
    /// 403. Empty lets every origin ask: right for servers that no browser can reach, or that ask
    /// for credentials which a browser does not add by itself. Default empty.
    pub origins: Vec<String>,
    /// Whether a request that names no origin is refused too, where `origins` names some. Programs
    /// other than browsers name none, and could name any. Default off.
    pub origin_required: bool,
    /// What scripts of the origins above may do with the server. Default none: no such header is
    /// sent, and an OPTIONS request is answered 405.
    pub cors: Option<Cors>,
    /// The longest head of a request, in bytes. A longer one is answered 431 and ends the
    /// connection. Costs that much while a head comes in. Default 16 KiB, as Node has it.
    pub header_bytes_max: usize,
    /// The most headers of a request. More are answered 431 and end the connection. Default 100.
    pub headers_max: usize,
    /// How long a new connection may take to its first byte. `None` waits for ever. Default 30 s.
    pub first_byte_time_max: Option<Duration>,
    /// How long a head may take from its first byte to its last. The connection is cut then.
    /// `None` waits for ever. Default 10 s.
    pub header_time_max: Option<Duration>,
    /// How long a connection may wait for its next request. The connection is closed then. `None`
    /// waits for ever. Default 60 s.
    pub idle_time_max: Option<Duration>,
}

/// What scripts from other origins may do: the Fetch standard's CORS protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cors {
    /// The request headers that a script may set. Default `content-type`.
    pub headers: Vec<String>,
    /// Whether the browser may send cookies along; only to origins that the rules name. Default
    /// off.
    pub credentials: bool,
    /// How long a browser may remember the permission. Default 10 minutes.
    pub max_age: Duration,
}

impl Cors {
    /// The defaults.
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

/// What a request says before its body. A header that occurs several times is given with its
/// values joined by commas.
#[derive(Clone, Copy, Debug)]
pub struct HttpHead<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The path and query asked for: `/rpc?v=2`.
    pub target: &'a str,
    /// The header `Content-Type`.
    pub content_type: Option<&'a [u8]>,
    /// The length of the body, where it is declared, in bytes.
    pub content_length: Option<u64>,
    /// The header `Origin`.
    pub origin: Option<&'a [u8]>,
    /// Whether there is a header `Access-Control-Request-Method`: an OPTIONS request with one is a
    /// browser's question whether a script may ask.
    pub asks_permission: bool,
}

impl<'a> HttpHead<'a> {
    /// A POST without headers.
    pub const fn post(target: &'a str) -> Self {
        Self {
            method: "POST",
            target,
            content_type: None,
            content_length: None,
            origin: None,
            asks_permission: false,
        }
    }
}

/// What is to be done with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its body is a message.
    Serve,
    /// Its body has this many bytes, more than the limit. The connection's answer to
    /// [`Input::oversize`](crate::Input::oversize) is the body of
    /// [`HttpRules::too_large`].
    TooLarge(u64),
    /// This is the answer; its body is not wanted.
    Reply(HttpReply),
}

/// A reply, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values. The length of the body is not among them.
    pub headers: Vec<(&'static str, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

impl HttpReply {
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

    fn with_body(mut self, content_type: &str, body: Vec<u8>) -> Self {
        self.headers.push(("content-type", content_type.into()));
        self.body = body;
        self
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
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
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            paths: Vec::new(),
            statuses: Statuses::always_ok(),
            empty_status: 204,
            origins: Vec::new(),
            origin_required: false,
            cors: None,
            header_bytes_max: 16 << 10,
            headers_max: 100,
            first_byte_time_max: Some(Duration::from_secs(30)),
            header_time_max: Some(Duration::from_secs(10)),
            idle_time_max: Some(Duration::from_secs(60)),
        }
    }

    /// Model Context Protocol: 202 where no reply is owed. A server on the user's machine should
    /// also name its `origins`, as that protocol demands.
    pub const fn mcp() -> Self {
        let mut rules = Self::new();
        rules.empty_status = 202;
        rules
    }

    /// Bitcoin Core: errors of 1.0 and 1.1 replies have statuses of their own.
    pub fn bitcoin_legacy() -> Self {
        Self {
            statuses: Statuses::bitcoin(),
            ..Self::new()
        }
    }

    /// Judges a request before its body is read.
    pub fn judge(&self, config: &Config, head: &HttpHead<'_>) -> Verdict {
        let path = head.target.split('?').next().unwrap_or_default();
        if !self.paths.is_empty() && !self.paths.iter().any(|served| served == path) {
            return Verdict::Reply(HttpReply::text(404, "nothing is served at this path\n"));
        }
        if !self.lets_in(head) {
            return Verdict::Reply(HttpReply::text(403, "this origin is not let in\n"));
        }
        if head.method != "POST" {
            return Verdict::Reply(self.other_method(head));
        }
        if !is_json(head.content_type) {
            let reply = HttpReply::text(415, "the body must be application/json in UTF-8\n");
            return Verdict::Reply(self.permit(head, reply));
        }
        match head.content_length {
            Some(bytes) if bytes > config.message_bytes_max as u64 => Verdict::TooLarge(bytes),
            _ => Verdict::Serve,
        }
    }

    /// The reply to a message that was served; none where none is owed.
    pub fn reply(&self, head: &HttpHead<'_>, reply: Option<Vec<u8>>) -> HttpReply {
        let reply = match reply {
            None => HttpReply::new(self.empty_status),
            Some(body) => HttpReply::new(self.statuses.of(&body)).with_body(MEDIA_TYPES[0], body),
        };
        self.permit(head, reply)
    }

    /// The reply to a body over the limit, with what the connection answered.
    pub fn too_large(&self, head: &HttpHead<'_>, reply: Option<Vec<u8>>) -> HttpReply {
        let body = reply.unwrap_or_default();
        let reply = HttpReply::new(413).with_body(MEDIA_TYPES[0], body);
        self.permit(head, reply)
    }

    /// The reply to a body that did not come in time.
    pub fn timed_out(&self, head: &HttpHead<'_>) -> HttpReply {
        let reply = HttpReply::text(408, "the body did not come in time\n");
        self.permit(head, reply.with("connection", "close"))
    }

    /// The reply to a body that was cut short or is not encoded as it says.
    pub fn broken(&self, head: &HttpHead<'_>) -> HttpReply {
        let reply = HttpReply::text(400, "the body is broken\n");
        self.permit(head, reply.with("connection", "close"))
    }

    fn lets_in(&self, head: &HttpHead<'_>) -> bool {
        // What is not text is nobody's origin.
        let origin = head.origin.map(|origin| text(origin).unwrap_or_default());
        origin::lets_in(&self.origins, self.origin_required, origin)
    }

    fn other_method(&self, head: &HttpHead<'_>) -> HttpReply {
        let Some(cors) = self
            .cors
            .as_ref()
            .filter(|_| head.method == "OPTIONS" && head.asks_permission && head.origin.is_some())
        else {
            let reply = match head.method {
                "HEAD" => HttpReply::new(405),
                _ => HttpReply::text(405, "only POST is served\n"),
            };
            return self.permit(head, reply.with("allow", "POST"));
        };
        let reply = HttpReply::new(204)
            .with("access-control-allow-methods", "POST")
            .with("access-control-allow-headers", cors.headers.join(", "))
            .with("access-control-max-age", cors.max_age.as_secs().to_string());
        self.permit(head, reply)
    }

    /// Lets the script that asked see the reply, if it may.
    fn permit(&self, head: &HttpHead<'_>, reply: HttpReply) -> HttpReply {
        let (Some(cors), Some(origin)) = (&self.cors, head.origin.and_then(text)) else {
            return reply;
        };
        if self.origins.is_empty() {
            return reply.with("access-control-allow-origin", "*");
        }
        let reply = reply
            .with("access-control-allow-origin", origin)
            .with("vary", "origin");
        match cors.credentials {
            true => reply.with("access-control-allow-credentials", "true"),
            false => reply,
        }
    }
}

impl Default for HttpRules {
    fn default() -> Self {
        Self::new()
    }
}

fn text(value: &[u8]) -> Option<&str> {
    core::str::from_utf8(value).ok()
}

/// Whether a body of this type may be JSON in UTF-8.
fn is_json(content_type: Option<&[u8]>) -> bool {
    let Some(content_type) = content_type else {
        return true;
    };
    let Some(content_type) = text(content_type) else {
        return false;
    };
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
