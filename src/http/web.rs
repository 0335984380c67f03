//! The rules of a web server, for every way in: which requests are served, and how replies look.
//!
//! A request is a POST of JSON, the handshake of a WebSocket, or a GET of a page, such as one for metrics.
//! Each begins with the same checks: its path, faults of its headers, its origin. Every request that is not
//! served is answered here: with a status and a short reason, a preflight with the permissions of its
//! origin, a body over the limit with an error object.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::answer::{HttpAnswer, MEDIA_TYPE, Refusal};
use super::fields::{RequestHead, Upgrade};
use super::mcp::{McpRules, SessionUse};
use super::sse_writer::EVENT_STREAM;
use super::statuses::Statuses;
use crate::answer::unanswered;
use crate::config::{CancelStyle, Config};
use crate::origin::{ANY, is_at, is_fixed, lets_in};
use crate::presets::McpRevision;

/// The media types that a body may have. A missing one counts as the first, unless a browser sent
/// the request. A web page cannot make a browser send any of these to another origin without a
/// preflight, because they are not on the Fetch standard's safelist.
const MEDIA_TYPES: [&str; 3] = [
    MEDIA_TYPE,
    "application/json-rpc",
    "application/jsonrequest",
];

/// The rules of a web server: who may come in, over HTTP or a WebSocket, and the limits of HTTP. The protocol itself
/// is in [`Config`]: its `max_message_bytes` limits bodies, and its `write_timeout` the time in which a client may
/// take nothing of a reply.
///
/// ```
/// use antiphon::Config;
/// use antiphon::http::{WebRules, RequestHead, Verdict};
/// let mut rules = WebRules::new();
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
pub struct WebRules {
    /// The paths that are served, without a query; other paths are answered 404. If empty, every
    /// path is served. Default empty.
    pub paths: Vec<String>,
    /// The statuses of replies that are errors. Default [`Statuses::always_ok`].
    pub error_statuses: Statuses,
    /// The status if there is no answer to send. Default 204; 202 for MCP.
    pub no_reply_status: u16,
    /// What the Model Context Protocol demands of headers. Default none: nothing is demanded.
    pub mcp: Option<McpRules>,
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
    /// How long the program's own check of a request may take. Then 503 is answered, and the check is dropped. A
    /// check that blocks its thread cannot be ended. Default 10 s.
    pub check_timeout: Duration,
    /// How long a connection may wait for its next request. Then it is closed. Default 60 s.
    pub idle_timeout: Duration,
    /// How long handlers go on after the end of the client's input. A client that hangs up looks
    /// like one that has only finished sending and still waits for the answer. When the time is
    /// over, the handlers are cancelled, and the connection ends without an answer. Zero ends them
    /// at once; `None` waits for the configuration's
    /// [`drain_timeout`](crate::config::Timeouts::drain_timeout). Default 1 s.
    pub half_close_timeout: Option<Duration>,
    /// How long a reply may be silent if the client [accepts](RequestHead::accepts_events) a stream of
    /// events. Then the stream begins, with a comment, and each further silence of this length has a
    /// comment: so neither the client nor a proxy takes the connection for dead. `None` sends no comments,
    /// and a stream begins only with a notification. Default 15 s, as the WHATWG proposes in HTML clause
    /// 9.2.7.
    pub silence: Option<Duration>,
    /// What becomes of the handlers of a request whose client closes the connection. Default
    /// [`OnClose::Cancel`]. See [`on_close_of`](Self::on_close_of).
    pub on_close: OnClose,
}

/// What becomes of the handlers of a request whose client closes the connection before it has the
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnClose {
    /// They are cancelled: nobody reads what they would send.
    Cancel,
    /// They go on, and what they send is dropped. Up to revision 2025-11-25 of MCP closing should not
    /// cancel.
    GoOn {
        /// For how long at most; then they are cancelled.
        at_most: Duration,
    },
}

/// The permissions of scripts from other origins: the Fetch standard's CORS protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cors {
    /// The request headers that a script may set. Default `content-type`. Scripts of the Model Context Protocol
    /// set more, such as `mcp-session-id`.
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

/// The decision of [`WebRules::judge`] about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is served: its body is a message.
    Serve,
    /// The body has this many bytes, more than the limit. The body of [`WebRules::too_large`] is
    /// the connection's answer to [`Input::oversize`](crate::Input::oversize).
    TooLarge(u64),
    /// This is the answer; the body of the request is not read.
    Answer(HttpAnswer),
}

impl WebRules {
    /// Returns the default rules.
    pub const fn new() -> Self {
        Self {
            paths: Vec::new(),
            error_statuses: Statuses::always_ok(),
            no_reply_status: 204,
            mcp: None,
            origins: Vec::new(),
            hosts: Vec::new(),
            origin_required: false,
            cors: None,
            max_header_bytes: 8 << 10,
            max_headers: 64,
            first_byte_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            check_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            half_close_timeout: Some(Duration::from_secs(1)),
            silence: Some(Duration::from_secs(15)),
            on_close: OnClose::Cancel,
        }
    }

    /// Returns the rules of the dialect: 202 if there is no reply under [`Config::mcp`](Config::mcp), which names no
    /// revision later ([`mcp`](Self::mcp) does), those of [`bitcoin_legacy`](Self::bitcoin_legacy) under
    /// [`Config::bitcoin_legacy`](Config::bitcoin_legacy), otherwise the default.
    pub fn of(config: &Config) -> Self {
        let dialect = &config.dialect;
        if dialect.cancel_receive == CancelStyle::Mcp {
            Self {
                no_reply_status: 202,
                ..Self::new()
            }
        } else if dialect.v1_missing_id {
            // Only Bitcoin Core answers a request that has no id.
            Self::bitcoin_legacy()
        } else {
            Self::new()
        }
    }

    /// Rules for a revision of the Model Context Protocol: 202 if there is no reply, [`Statuses::mcp`], and
    /// [`McpRules`] for this revision. Up to 2025-11-25 handlers go on for 60 s after a close.
    pub fn mcp(revision: McpRevision) -> Self {
        let at_most = Duration::from_secs(60);
        Self {
            no_reply_status: 202,
            error_statuses: Statuses::mcp(revision),
            mcp: Some(McpRules::new(revision)),
            on_close: OnClose::GoOn { at_most },
            ..Self::new()
        }
    }

    /// Rules for Bitcoin Core: errors in 1.0 and 1.1 replies have statuses of their own.
    pub fn bitcoin_legacy() -> Self {
        Self {
            error_statuses: Statuses::bitcoin(),
            ..Self::new()
        }
    }

    /// The checks of every way in: faults of the headers, the path, and the origin. The path of a page is the caller's
    /// matter, and the programs that read it send no origin.
    fn enter(&self, head: &RequestHead<'_>, is_page: bool) -> Result<(), HttpAnswer> {
        if let Some(fault) = head.fault {
            let reply = HttpAnswer::text(400, &[fault, "\n"].concat());
            return Err(reply.with_header("connection", "close"));
        }
        let is_served = |path: &String| path == head.path();
        if !is_page && !self.paths.is_empty() && !self.paths.iter().any(is_served) {
            return Err(HttpAnswer::text(404, "nothing is served at this path\n"));
        }
        let is_required = self.origin_required && !is_page;
        let (known, hosts) = (&self.origins, &self.hosts);
        if lets_in(known, hosts, is_required, head.origins, head.host) {
            return Ok(());
        }
        let why = match head.origins {
            [] => "a request needs an origin here: `WebRules::origin_required`\n",
            [origin] if head.host.is_some_and(|host| is_at(origin, host)) => {
                "this host is not listed in `WebRules::hosts`\n"
            }
            _ => "this origin is not listed in `WebRules::origins`\n",
        };
        Err(HttpAnswer::text(403, why))
    }

    /// Checks a request before its body is read.
    ///
    /// A web page of another origin cannot make this server run anything without a preflight: if a
    /// request comes from a browser (it has `Origin` or `Sec-Fetch-Site`), it must have a media
    /// type of JSON.
    pub fn judge(&self, config: &Config, head: &RequestHead<'_>) -> Verdict {
        if let Err(refused) = self.enter(head, false) {
            return Verdict::Answer(refused);
        }
        if head.method != "POST" {
            return Verdict::Answer(self.other_method(head));
        }
        if head.transfer_coding.is_some() {
            // RFC 9112 clause 6.1. The beginning of the next request cannot be found.
            let reply = HttpAnswer::text(501, "only the transfer coding chunked is understood\n");
            let reply = reply.with_header("connection", "close");
            return Verdict::Answer(self.permit(head, reply));
        }
        if head.content_coding.is_some() {
            // RFC 9110 clauses 8.4 and 12.5.3: the answer names what is allowed.
            let reply = HttpAnswer::text(415, "the body must not be encoded\n");
            let reply = reply.with_header("accept-encoding", "identity");
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

    /// Checks the handshake of a WebSocket (RFC 6455 clause 4.2.1). Its subprotocol is still to be
    /// [selected](crate::websocket::WebSocketRules::select).
    ///
    /// # Errors
    /// The answer to a request that is refused.
    pub fn judge_upgrade<'a>(&self, head: &RequestHead<'a>) -> Result<Upgrade<'a>, HttpAnswer> {
        if head.fault.is_none() && head.method != "GET" {
            // RFC 9110 clause 15.5.6: the answer names the allowed method.
            let answer = HttpAnswer::text(405, "only GET opens a WebSocket\n");
            return Err(answer.with_header("allow", "GET"));
        }
        self.enter(head, false)?;
        let refused = |status, text| Err(HttpAnswer::text(status, text));
        if head.has_body {
            // Frames follow a handshake. A body would be read as frames.
            let answer = HttpAnswer::text(400, "a handshake has no body\n");
            return Err(answer.with_header("connection", "close"));
        }
        if !head.is_http11 {
            return refused(400, "HTTP/1.1 is needed\n");
        }
        let Some(upgrade) = head.upgrade else {
            return Err(needs_upgrade("only a WebSocket is served here\n"));
        };
        if upgrade.version != Some("13") {
            return Err(needs_upgrade("WebSocket version 13 is needed\n"));
        }
        match is_key(upgrade.key) {
            true => Ok(upgrade),
            false => refused(400, "no valid WebSocket key\n"),
        }
    }

    /// Checks a GET of a page that is no message, such as one for metrics. A browser sends no `Origin` with it,
    /// so the name in `Host` must be one that no other site can have: loopback, an address, or one of
    /// [`hosts`](Self::hosts). The path is the caller's matter.
    ///
    /// # Errors
    /// The answer to a request that is refused.
    pub fn judge_page(&self, head: &RequestHead<'_>) -> Result<(), HttpAnswer> {
        self.enter(head, true)?;
        if head.host.is_some_and(|host| !is_fixed(&self.hosts, host)) {
            let why = "this host is not listed in `WebRules::hosts`\n";
            return Err(HttpAnswer::text(403, why));
        }
        match head.method {
            "GET" | "HEAD" => Ok(()),
            _ => {
                let answer = HttpAnswer::text(405, "this page is read by GET\n");
                Err(answer.with_header("allow", "GET, HEAD"))
            }
        }
    }

    /// Checks the headers of a message against its body, if there are rules for [`mcp`](Self::mcp), and returns
    /// whether the message needs a session. `headers` are all lines of the head.
    ///
    /// # Errors
    /// The answer to a message that is refused.
    pub fn judge_message(
        &self,
        head: &RequestHead<'_>,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> Result<SessionUse, HttpAnswer> {
        let judged = self.mcp.as_ref().map(|mcp| mcp.judge(head, headers, body));
        judged
            .unwrap_or(Ok(SessionUse::Free))
            .map_err(|refused| self.permit(head, refused))
    }

    /// What becomes of the handlers of this request if its client closes: [`on_close`](Self::on_close), but since revision
    /// 2026-07-28 of MCP closing must cancel.
    pub fn on_close_of(&self, head: &RequestHead<'_>) -> OnClose {
        match &self.mcp {
            Some(mcp) if !mcp.is_before(head) => OnClose::Cancel,
            _ => self.on_close,
        }
    }

    /// Whether the request is of a revision of the [Model Context Protocol](Self::mcp) that has sessions.
    pub fn may_have_session(&self, head: &RequestHead<'_>) -> bool {
        self.mcp.as_ref().is_some_and(|mcp| mcp.is_before(head))
    }

    /// Returns the reply to a request that the program's own check has refused.
    pub fn refused(&self, head: &RequestHead<'_>, refusal: Refusal) -> HttpAnswer {
        self.permit(head, refusal.into())
    }

    /// Returns the reply to a message that was handled; `reply` is `None` if there is no answer.
    pub fn reply(&self, head: &RequestHead<'_>, reply: Option<Vec<u8>>) -> HttpAnswer {
        let reply = match reply {
            None => HttpAnswer::new(self.no_reply_status),
            Some(body) => {
                let is_plain = self.mcp.as_ref().is_some_and(|mcp| mcp.is_before(head));
                let status = if is_plain {
                    200
                } else {
                    self.error_statuses.of(&body)
                };
                HttpAnswer::new(status).with_body(MEDIA_TYPE, body)
            }
        };
        self.permit(head, reply)
    }

    /// Returns the head of a reply that is a stream of events: each a message, the last one the answer.
    /// Caches store nothing of it, and nginx passes on each event at once.
    pub fn stream(&self, head: &RequestHead<'_>) -> HttpAnswer {
        let reply = HttpAnswer::new(200)
            .with_header("content-type", EVENT_STREAM)
            .with_header("cache-control", "no-store")
            .with_header("x-accel-buffering", "no");
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
        HttpAnswer::text(503, "too many connections are open\n").with_header("connection", "close")
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
        let methods = match self.has_sessions() {
            true => "POST, DELETE",
            false => "POST",
        };
        let answer = HttpAnswer::new(204)
            .with_header("access-control-allow-methods", methods)
            .with_header("access-control-allow-headers", cors.headers.join(", "))
            .with_header("access-control-max-age", cors.max_age.as_secs().to_string());
        self.permit(head, answer)
    }

    fn has_sessions(&self) -> bool {
        self.mcp.as_ref().is_some_and(McpRules::has_sessions)
    }

    /// Allows the script that sent the request to read the answer, if the rules do.
    fn permit(&self, head: &RequestHead<'_>, answer: HttpAnswer) -> HttpAnswer {
        let Some(cors) = &self.cors else {
            return answer;
        };
        let expose = |answer: HttpAnswer| match self.has_sessions() {
            true => answer.with_header("access-control-expose-headers", "mcp-session-id"),
            false => answer,
        };
        if self.origins.iter().any(|known| known == ANY) {
            return expose(answer.with_header("access-control-allow-origin", ANY));
        }
        // The answer depends on the origin, which caches have to know.
        let answer = answer.with_header("vary", "origin");
        let [origin] = head.origins else {
            return answer;
        };
        let answer = expose(answer.with_header("access-control-allow-origin", origin.to_string()));
        match cors.credentials {
            true => answer.with_header("access-control-allow-credentials", "true"),
            false => answer,
        }
    }
}

fn refuse_method(head: &RequestHead<'_>, allowed: &'static str) -> HttpAnswer {
    let answer = match head.method {
        "HEAD" => HttpAnswer::new(405),
        _ => HttpAnswer::text(405, "messages are sent by POST\n"),
    };
    answer.with_header("allow", allowed)
}

impl Default for WebRules {
    fn default() -> Self {
        Self::new()
    }
}

/// RFC 9110 clause 15.5.22: the answer names the protocol to upgrade to.
fn needs_upgrade(text: &str) -> HttpAnswer {
    HttpAnswer::text(426, text)
        .with_header("connection", "upgrade")
        .with_header("upgrade", "websocket")
        .with_header("sec-websocket-version", "13")
}

/// Whether the key is 16 bytes in base64 (RFC 6455 clause 4.2.1): 22 letters, of which the last has only two bits,
/// and the padding.
fn is_key(key: Option<&str>) -> bool {
    let Some(letters) = key.and_then(|key| key.strip_suffix("==")) else {
        return false;
    };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    letters.len() == 22 && letters.bytes().all(is_letter) && letters.ends_with(['A', 'Q', 'g', 'w'])
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

#[cfg(test)]
mod tests;
