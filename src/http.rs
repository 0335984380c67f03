//! What an HTTP binding of JSON-RPC decides: which requests are messages, which status a reply
//! has, and what a client may take for a reply. Rules only: HTTP itself is a library's affair.
//!
//! The rules guarded here: a reply is judged by its body first and its status second, and what is
//! no reply of JSON-RPC is a failure of the transport, never an error object; nothing is let in
//! across origins that was not named.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::Serialize;

use crate::answer::{Incoming, answer};
use crate::codes;
use crate::config::Config;
use crate::error_object::{ErrorObject, OwnedError};
use crate::json::{Json, JsonKind};
use crate::websocket::{Refusal, lets_in};

/// The media type of requests and replies.
pub const MEDIA_TYPE: &str = "application/json";

/// The media types that a server takes, and a client understands.
const MEDIA_TYPES: [&str; 3] = [
    MEDIA_TYPE,
    "application/json-rpc",
    "application/jsonrequest",
];

/// How many redirects within the same origin a client follows.
pub const REDIRECTS_MAX: u32 = 5;

/// What an HTTP binding can be told beforehand. The protocol itself is in
/// [`Config`](crate::Config); the limit on bodies is its `message_bytes_max`, both ways.
///
/// ```
/// use antiphon::http::{HttpRules, RequestHead};
/// let mut rules = HttpRules::new();
/// rules.paths.push("/rpc".into());
/// let mut head = RequestHead::new("POST", "/rpc");
/// head.content_type = Some("application/json; charset=utf-8");
/// assert!(rules.judge(&head).is_ok());
/// head.method = "GET";
/// assert_eq!(rules.judge(&head).unwrap_err().status, 405);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRules {
    /// The paths that are served, without a query; a request for another is answered 404. Empty
    /// serves every path. Default empty.
    pub paths: Vec<String>,
    /// The status where no reply is owed. Default 204, as most clients expect; MCP prescribes 202.
    pub no_reply_status: u16,
    /// The status of a reply that is an error. Default [`ErrorStatus::Ok`].
    pub error_status: ErrorStatus,
    /// The origins whose scripts may ask, as `https://app.example`; a request from another is
    /// answered 403. Empty checks none. Default empty.
    pub origins: Vec<String>,
    /// The headers that scripts of the `origins` may send beside the ordinary ones, and how long
    /// their browser may remember it. With none no CORS header is ever sent, and `OPTIONS` is
    /// answered 405. Default none.
    pub cors: Option<Cors>,
    /// The longest head of a request, in bytes; 431 beyond it. Default 8 KiB.
    pub header_bytes_max: usize,
    /// The most headers of a request; 431 beyond it. Default 64.
    pub headers_max: usize,
    /// How long a fresh connection may stay silent. Default 10 s.
    pub first_byte_time_max: Duration,
    /// How long the head of a request may take, from its first byte. Default 10 s.
    pub header_time_max: Duration,
    /// How long the body of a request may take; 408 beyond it. Default 30 s.
    pub body_time_max: Duration,
    /// How long a connection may wait for its next request. Default 60 s.
    pub idle_time_max: Duration,
}

/// The status of a reply that is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorStatus {
    /// 200 like any other: the body tells. JSON-RPC over HTTP is customarily done so.
    Ok,
    /// By the code, as Bitcoin's legacy dialect and jsonrpc4j do: −32600 is 400, −32601 is 404,
    /// any other 500. A batch is 200.
    ByCode,
}

/// What a browser is told about requests across origins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cors {
    /// The headers that may be sent beside `content-type`, by name.
    pub headers: Vec<String>,
    /// How long the browser may remember the answer, in seconds. Default 600.
    pub max_age: u32,
}

impl Cors {
    /// Nothing beside `content-type`, for ten minutes.
    pub const fn new() -> Self {
        Self {
            headers: Vec::new(),
            max_age: 600,
        }
    }
}

impl Default for Cors {
    fn default() -> Self {
        Self::new()
    }
}

/// What the head of a request says.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// The method: `POST`.
    pub method: &'a str,
    /// The path and query asked for: `/rpc?v=2`.
    pub target: &'a str,
    /// The `Content-Type`.
    pub content_type: Option<&'a str>,
    /// The values of its `Origin` headers. More than one is none that can be trusted.
    pub origins: &'a [&'a str],
}

impl<'a> RequestHead<'a> {
    /// A head without headers.
    pub const fn new(method: &'a str, target: &'a str) -> Self {
        Self {
            method,
            target,
            content_type: None,
            origins: &[],
        }
    }
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its body is a message.
    Message,
    /// It asks whether a request across origins would be let in: answer 204 with
    /// [`HttpRules::preflight_headers`].
    Preflight,
}

impl HttpRules {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            paths: Vec::new(),
            no_reply_status: 204,
            error_status: ErrorStatus::Ok,
            origins: Vec::new(),
            cors: None,
            header_bytes_max: 8 << 10,
            headers_max: 64,
            first_byte_time_max: Duration::from_secs(10),
            header_time_max: Duration::from_secs(10),
            body_time_max: Duration::from_secs(30),
            idle_time_max: Duration::from_secs(60),
        }
    }

    /// As MCP's Streamable HTTP has it: 202 where no reply is owed. (The rest of that transport,
    /// its event streams and sessions, is not here.)
    pub const fn mcp() -> Self {
        let mut rules = Self::new();
        rules.no_reply_status = 202;
        rules
    }

    /// As Bitcoin Core speaks to clients that do not say 2.0: errors have a status by their code.
    pub const fn bitcoin_legacy() -> Self {
        let mut rules = Self::new();
        rules.error_status = ErrorStatus::ByCode;
        rules
    }

    /// Judges the head of a request as a server.
    ///
    /// # Errors
    /// How to refuse it: 403, 404, 405 (with [`allowed_methods`](Self::allowed_methods)) or 415.
    pub fn judge(&self, head: &RequestHead<'_>) -> Result<Verdict, Refusal> {
        let refuse = |status, reason| Err(Refusal { status, reason });
        let path = head.target.split('?').next().unwrap_or_default();
        if !self.paths.is_empty() && !self.paths.iter().any(|served| served == path) {
            return refuse(404, "nothing is served at this path");
        }
        let is_preflight = head.method == "OPTIONS" && self.cors.is_some();
        if head.method != "POST" && !is_preflight {
            return refuse(405, "messages are sent by POST");
        }
        if !lets_in(&self.origins, false, head.origins) {
            return refuse(403, "this origin is not let in");
        }
        if is_preflight {
            return Ok(Verdict::Preflight);
        }
        if !head.content_type.is_none_or(is_json) {
            return refuse(415, "messages are application/json in UTF-8");
        }
        Ok(Verdict::Message)
    }

    /// The value of `Allow` beside a 405.
    pub const fn allowed_methods(&self) -> &'static str {
        match self.cors {
            Some(_) => "POST, OPTIONS",
            None => "POST",
        }
    }

    /// The status of a reply; none owed is `None`.
    pub fn reply_status(&self, reply: Option<&[u8]>) -> u16 {
        let Some(reply) = reply else {
            return self.no_reply_status;
        };
        let code = match self.error_status {
            ErrorStatus::Ok => None,
            ErrorStatus::ByCode => error_code(reply),
        };
        match code {
            None => 200,
            Some(codes::INVALID_REQUEST) => 400,
            Some(codes::METHOD_NOT_FOUND) => 404,
            Some(_) => 500,
        }
    }

    /// The CORS headers of any answer to a request that came from `origins`, names in lower case.
    pub fn cors_headers<'a>(
        &'a self,
        origins: &[&'a str],
    ) -> impl Iterator<Item = (&'static str, &'a str)> + use<'a> {
        let origin = match (&self.cors, origins) {
            (Some(_), [origin]) if lets_in(&self.origins, false, origins) => Some(*origin),
            _ => None,
        };
        let allow = origin.map(|origin| ("access-control-allow-origin", origin));
        let vary = self.cors.as_ref().map(|_| ("vary", "origin"));
        allow.into_iter().chain(vary)
    }

    /// The further headers of the answer to a [preflight](Verdict::Preflight), names in lower
    /// case.
    pub fn preflight_headers(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let cors = self.cors.as_ref().map(|cors| {
            let mut headers = String::from("content-type");
            for name in &cors.headers {
                headers.push_str(", ");
                headers.push_str(name);
            }
            [
                ("access-control-allow-methods", String::from("POST")),
                ("access-control-allow-headers", headers),
                ("access-control-max-age", alloc::format!("{}", cors.max_age)),
            ]
        });
        cors.into_iter().flatten()
    }
}

impl Default for HttpRules {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a `Content-Type` is one of ours, in UTF-8 if it says in what.
fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';');
    let media_type = parts.next().unwrap_or_default().trim();
    let is_known = MEDIA_TYPES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(media_type));
    is_known && parts.all(is_utf8_parameter)
}

fn is_utf8_parameter(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return true;
    };
    let value = value.trim().trim_matches('"');
    !name.trim().eq_ignore_ascii_case("charset")
        || value.eq_ignore_ascii_case("utf-8")
        || value.eq_ignore_ascii_case("utf8")
}

/// The code of a reply that is a single error.
fn error_code(reply: &[u8]) -> Option<i64> {
    let reply = Json::parse(reply).ok()?;
    let error = reply.get("error").filter(|error| !error.is_null())?;
    Some(ErrorObject::read(error)?.code())
}

/// An answer to be sent over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The `Content-Type`, where there is a body.
    pub content_type: Option<&'static str>,
    /// The body; empty where no reply is owed.
    pub body: Vec<u8>,
}

impl HttpRules {
    /// The answer that carries a reply, or none where none is owed.
    pub fn answer(&self, reply: Option<Vec<u8>>) -> Answer {
        Answer {
            status: self.reply_status(reply.as_deref()),
            content_type: reply.is_some().then_some(MEDIA_TYPE),
            body: reply.unwrap_or_default(),
        }
    }
}

/// Answers the body of a request with a function that finishes at once: for serverless hosts, and
/// for web frameworks that have read the request already. A missing body is an empty one, which is
/// no JSON.
///
/// ```
/// use antiphon::http::{HttpRules, handle};
/// use antiphon::{Config, ErrorObject};
/// let echo = |call: antiphon::Incoming<'_>| match call.method {
///     "ping" => Ok("pong"),
///     _ => Err(ErrorObject::method_not_found()),
/// };
/// let body = br#"{"jsonrpc":"2.0","method":"ping","id":1}"#;
/// let answer = handle(Config::new(), &HttpRules::new(), Some(body), echo);
/// assert_eq!((answer.status, answer.content_type), (200, Some("application/json")));
/// assert_eq!(answer.body, br#"{"jsonrpc":"2.0","result":"pong","id":1}"#);
/// ```
pub fn handle<R, E, F>(config: Config, rules: &HttpRules, body: Option<&[u8]>, handler: F) -> Answer
where
    R: Serialize,
    E: Into<OwnedError>,
    F: FnMut(Incoming<'_>) -> Result<R, E>,
{
    rules.answer(answer(config, body.unwrap_or_default(), handler))
}

/// What the answer to a client's request holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A message, to be given to the exchange. If nothing in it was for this exchange, and the
    /// status is not one of success, [`HttpError::Status`] is what happened.
    Message(&'a [u8]),
    /// No reply: the exchange is over, and what it asked is missing.
    None,
}

/// Judges the answer to a client's request, by its body first.
///
/// A 2xx without a body, or with one that is blank, `null` or `[]`, is no reply. Any other body
/// that is an object or an array of JSON is the reply whatever the status: some servers send
/// errors with 400, 404 or 500.
///
/// # Errors
/// [`HttpError::Status`] for anything else with a status that is not 2xx. (A 2xx with a body that
/// is no JSON is given to the exchange, which tells what is wrong with it.)
///
/// ```
/// use antiphon::http::{HttpError, Reply, judge_reply};
/// assert_eq!(judge_reply(204, b""), Ok(Reply::None));
/// let refused = br#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"?"},"id":1}"#;
/// assert_eq!(judge_reply(404, refused), Ok(Reply::Message(refused)));
/// assert_eq!(judge_reply(502, b"<html>"), Err(HttpError::Status(502)));
/// ```
pub fn judge_reply(status: u16, body: &[u8]) -> Result<Reply<'_>, HttpError> {
    let is_success = (200..300).contains(&status);
    let body = trim(body);
    let is_none = body.is_empty() || body == b"null" || is_empty_array(body);
    if is_success {
        return Ok(if is_none {
            Reply::None
        } else {
            Reply::Message(body)
        });
    }
    let json = Json::parse(body).ok().filter(|_| !is_none);
    match json.map(Json::kind) {
        Some(JsonKind::Object | JsonKind::Array) => Ok(Reply::Message(body)),
        _ => Err(HttpError::Status(status)),
    }
}

fn trim(mut body: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = body {
        body = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = body {
        body = rest;
    }
    body
}

fn is_empty_array(body: &[u8]) -> bool {
    matches!(body, [b'[', inner @ .., b']'] if trim(inner).is_empty())
}

/// Where a client goes after a redirect.
///
/// Only 307 and 308 keep a request as it is, and only one to the same origin is followed: what was
/// meant for one host, credentials included, is never sent to another.
///
/// # Errors
/// [`HttpError::Redirect`] for every other redirect.
pub fn judge_redirect<'a>(
    status: u16,
    origin: &str,
    location: Option<&'a str>,
) -> Result<&'a str, HttpError> {
    let refused = Err(HttpError::Redirect(status));
    let Some(location) = location.filter(|_| matches!(status, 307 | 308)) else {
        return refused;
    };
    if location.starts_with('/') && !location.starts_with("//") {
        return Ok(location);
    }
    let Some(rest) = location.find("://").map(|at| &location[at + 3..]) else {
        return refused;
    };
    let path_at = location.len() - rest.len() + rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (its_origin, path) = location.split_at(path_at);
    if !crate::websocket::is_same(origin, its_origin) {
        return refused;
    }
    Ok(if path.is_empty() { "/" } else { path })
}

/// A failure of HTTP, which is none of JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpError {
    /// The server answered with this status and no reply.
    Status(u16),
    /// The server sent the client elsewhere, and it must not go there.
    Redirect(u16),
    /// The server sent the client around more than [`REDIRECTS_MAX`] times.
    TooManyRedirects,
    /// The answer is larger than the limit.
    TooLarge,
    /// The answer did not come in time.
    TimedOut,
    /// The server could not be reached, or the connection broke.
    Unreachable,
    /// The client has been closed.
    Closed,
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the server answered with status {status}"),
            Self::Redirect(status) => {
                write!(
                    f,
                    "the server sent a redirect ({status}) that is not followed"
                )
            }
            Self::TooManyRedirects => f.write_str("the server sent too many redirects"),
            Self::TooLarge => f.write_str("the answer is larger than the limit"),
            Self::TimedOut => f.write_str("the answer did not come in time"),
            Self::Unreachable => f.write_str("the server cannot be reached"),
            Self::Closed => f.write_str("the client has been closed"),
        }
    }
}

impl core::error::Error for HttpError {}

#[cfg(test)]
mod tests {
    use super::{
        Cors, HttpError, HttpRules, Reply, RequestHead, Verdict, judge_redirect, judge_reply,
    };
    use alloc::vec::Vec;

    fn status(rules: &HttpRules, head: &RequestHead<'_>) -> u16 {
        rules
            .judge(head)
            .map_or_else(|refusal| refusal.status, |_| 200)
    }

    // HTP-01 HTP-04
    #[test]
    fn a_message_is_a_post_of_json() {
        let rules = HttpRules::new();
        for method in [
            "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "post", "",
        ] {
            assert_eq!(
                status(&rules, &RequestHead::new(method, "/")),
                405,
                "{method}"
            );
        }
        assert_eq!(rules.allowed_methods(), "POST");
        let cases = [
            (None, 200),
            (Some("application/json"), 200),
            (Some("Application/JSON"), 200),
            (Some("application/json; charset=utf-8"), 200),
            (Some("application/json;charset=\"UTF-8\""), 200),
            (Some("application/json ; charset = utf8"), 200),
            (Some("application/json; profile=x; charset=utf-8"), 200),
            (Some("application/json-rpc"), 200),
            (Some("application/jsonrequest"), 200),
            (Some("application/json; charset=latin-1"), 415),
            (Some("application/jsonp"), 415),
            (Some("application/x-www-form-urlencoded"), 415),
            (Some("text/json"), 415),
            (Some("text/plain"), 415),
            (Some(""), 415),
        ];
        for (content_type, wanted) in cases {
            let mut head = RequestHead::new("POST", "/any?query");
            head.content_type = content_type;
            assert_eq!(status(&rules, &head), wanted, "{content_type:?}");
        }
    }

    // HTP-01
    #[test]
    fn only_the_named_paths_are_served() {
        let mut rules = HttpRules::new();
        rules.paths.push("/rpc".into());
        for (target, wanted) in [("/rpc", 200), ("/rpc?a=/", 200), ("/rpc/", 404), ("/", 404)] {
            assert_eq!(status(&rules, &RequestHead::new("POST", target)), wanted);
        }
    }

    // SEC-08
    #[test]
    fn cors_headers_are_sent_to_listed_origins_and_by_default_to_none() {
        let mut rules = HttpRules::new();
        let ours = &["https://app.example"][..];
        let theirs = &["https://evil.example"][..];
        assert_eq!(rules.cors_headers(ours).count(), 0);
        assert_eq!(rules.preflight_headers().count(), 0);
        rules.origins.push("https://app.example".into());
        let mut head = RequestHead::new("OPTIONS", "/");
        head.origins = ours;
        assert_eq!(status(&rules, &head), 405);
        rules.cors = Some(Cors::new());
        assert_eq!(rules.judge(&head), Ok(Verdict::Preflight));
        assert_eq!(rules.allowed_methods(), "POST, OPTIONS");
        let headers: Vec<_> = rules.cors_headers(ours).collect();
        let allowed = ("access-control-allow-origin", "https://app.example");
        assert_eq!(headers, [allowed, ("vary", "origin")]);
        let headers: Vec<_> = rules.cors_headers(theirs).collect();
        assert_eq!(headers, [("vary", "origin")]);
        head.origins = theirs;
        assert_eq!(status(&rules, &head), 403);
        head.method = "POST";
        assert_eq!(status(&rules, &head), 403);
        // A program that is no browser names no origin.
        head.origins = &[];
        assert_eq!(status(&rules, &head), 200);
        rules
            .cors
            .as_mut()
            .unwrap()
            .headers
            .push("authorization".into());
        let headers: Vec<_> = rules.preflight_headers().collect();
        assert_eq!(headers[0].1, "POST");
        assert_eq!(headers[1].1, "content-type, authorization");
        assert_eq!(headers[2], ("access-control-max-age", "600".into()));
    }

    fn error(code: i64) -> Vec<u8> {
        let error = alloc::format!(r#"{{"code":{code},"message":"m"}}"#);
        alloc::format!(r#"{{"jsonrpc":"2.0","error":{error},"id":1}}"#).into_bytes()
    }

    // HTP-01 HTP-02 HTP-03
    #[test]
    fn errors_are_200_unless_the_rules_say_otherwise() {
        let (plain, legacy) = (HttpRules::new(), HttpRules::bitcoin_legacy());
        assert_eq!(plain.reply_status(None), 204);
        assert_eq!(legacy.reply_status(None), 204);
        assert_eq!(HttpRules::mcp().reply_status(None), 202);
        for (code, wanted) in [
            (-32700, 500),
            (-32600, 400),
            (-32601, 404),
            (-32602, 500),
            (-1, 500),
        ] {
            let reply = error(code);
            assert_eq!(plain.reply_status(Some(&reply)), 200);
            assert_eq!(legacy.reply_status(Some(&reply)), wanted);
        }
        let replies: [&[u8]; 3] = [
            br#"{"result":1,"error":null,"id":1}"#,
            br#"{"jsonrpc":"2.0","result":{"error":{"code":-32600,"message":""}},"id":1}"#,
            br#"[{"jsonrpc":"2.0","error":{"code":-32600,"message":""},"id":1}]"#,
        ];
        for reply in replies {
            assert_eq!(legacy.reply_status(Some(reply)), 200);
        }
        let v1 = br#"{"result":null,"error":{"code":-32601,"message":"m"},"id":1}"#;
        assert_eq!(legacy.reply_status(Some(v1)), 404);
    }

    // HTP-03 HTP-06 HTP-07
    #[test]
    fn an_answer_is_judged_by_its_body_first() {
        for status in [200, 202, 204, 299] {
            for body in ["", " \r\n\t", "null", " null\n", "[]", "[ \n ]"] {
                assert_eq!(
                    judge_reply(status, body.as_bytes()),
                    Ok(Reply::None),
                    "{body:?}"
                );
            }
        }
        let reply = error(-32601);
        for status in [200, 400, 404, 500] {
            assert_eq!(judge_reply(status, &reply), Ok(Reply::Message(&reply)));
        }
        assert_eq!(judge_reply(200, b"<html>"), Ok(Reply::Message(b"<html>")));
        for body in [
            "",
            "null",
            "[]",
            "<html>",
            "404",
            "\"not found\"",
            "{\"a\":",
        ] {
            let judged = judge_reply(404, body.as_bytes());
            assert_eq!(judged, Err(HttpError::Status(404)), "{body:?}");
        }
        assert_eq!(judge_reply(101, b"{}"), Ok(Reply::Message(b"{}")));
    }

    // TRN-05 HTP-03 HTP-09 EXA-10
    #[test]
    fn a_serverless_handler_answers_200_204_and_a_missing_body_as_no_json() {
        use crate::{Config, ErrorObject, Incoming};
        let handle = |body: Option<&[u8]>| {
            let mut heard = 0;
            let answer = super::handle(
                Config::new(),
                &HttpRules::new(),
                body,
                |call: Incoming<'_>| {
                    heard += 1;
                    if call.method == "m" {
                        Ok(1)
                    } else {
                        Err(ErrorObject::method_not_found())
                    }
                },
            );
            (answer, heard)
        };
        let (answer, _) = handle(Some(br#"{"jsonrpc":"2.0","method":"m","id":1}"#));
        assert_eq!(
            (answer.status, answer.content_type),
            (200, Some("application/json"))
        );
        assert_eq!(answer.body, br#"{"jsonrpc":"2.0","result":1,"id":1}"#);
        let (answer, heard) = handle(Some(br#"{"jsonrpc":"2.0","method":"m"}"#));
        assert_eq!((answer.status, answer.content_type, heard), (204, None, 1));
        assert!(answer.body.is_empty());
        let (missing, heard) = handle(None);
        assert_eq!((missing.status, heard), (200, 0));
        assert!(
            missing
                .body
                .starts_with(br#"{"jsonrpc":"2.0","error":{"code":-32700"#)
        );
        assert_eq!(handle(Some(b"")).0, missing);
    }

    // HTP-05
    #[test]
    fn a_redirect_is_followed_within_its_origin_only() {
        let cases = [
            (307, "/other", Ok("/other")),
            (308, "/other?q=1", Ok("/other?q=1")),
            (308, "http://host:80/x", Ok("/x")),
            (308, "HTTP://HOST", Ok("/")),
            (307, "http://host?q", Ok("?q")),
            (301, "/other", Err(301)),
            (302, "/other", Err(302)),
            (303, "/other", Err(303)),
            (304, "/other", Err(304)),
            (307, "//evil/x", Err(307)),
            (307, "http://evil/x", Err(307)),
            (307, "https://host/x", Err(307)),
            (307, "http://host:81/x", Err(307)),
            (307, "http://host@evil/x", Err(307)),
            (307, "http://host.evil/x", Err(307)),
            (307, "relative", Err(307)),
            (307, "", Err(307)),
        ];
        for (status, location, wanted) in cases {
            let judged = judge_redirect(status, "http://host", Some(location));
            assert_eq!(judged, wanted.map_err(HttpError::Redirect), "{location}");
        }
        let judged = judge_redirect(307, "http://host", None);
        assert_eq!(judged, Err(HttpError::Redirect(307)));
    }

    // ERR-13
    #[test]
    fn a_failure_of_the_transport_says_what_it_is() {
        use alloc::string::ToString;
        let shown = HttpError::Status(503).to_string();
        assert!(shown.contains("503"), "{shown}");
    }
}
