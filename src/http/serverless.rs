//! A server as one function: for hosts that call it once per request and do everything else
//! themselves.

use serde::Serialize;

use super::answer::HttpAnswer;
use super::fields::RequestHead;
use super::web::{Verdict, WebRules};
use crate::answer::{Incoming, Unanswered, reply};
use crate::config::Config;
use crate::error_object::OwnedError;

/// Answers one request with the result of an ordinary function, not an async one, if the rules
/// allow the request. A missing body counts as an empty one, which is not JSON.
///
/// ```
/// use antiphon::http::{Fields, WebRules, handle};
/// use antiphon::{Config, ErrorObject};
/// let rules = WebRules::new();
/// // What the host has read:
/// let mut fields = Fields::new();
/// fields.line("content-type", b"application/json");
/// let head = fields.head("POST", "/rpc");
/// let body = br#"{"jsonrpc":"2.0","method":"ping","id":1}"#;
/// let answer = handle(Config::new(), &rules, &head, Some(body), |call| match call.method {
///     "ping" => Ok("pong"),
///     _ => Err(ErrorObject::method_not_found()),
/// });
/// assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
/// assert_eq!(answer.body, br#"{"jsonrpc":"2.0","result":"pong","id":1}"#);
/// ```
pub fn handle<R, E, F>(
    config: Config,
    rules: &WebRules,
    head: &RequestHead<'_>,
    body: Option<&[u8]>,
    handler: F,
) -> HttpAnswer
where
    R: Serialize,
    E: Into<OwnedError>,
    F: FnMut(Incoming<'_>) -> Result<R, E>,
{
    let body = body.unwrap_or_default();
    if let Verdict::Answer(answer) = rules.judge(&config, head) {
        return answer;
    }
    let is_too_large = body.len() > config.limits.max_message_bytes;
    match reply(config, body, handler) {
        Ok(reply) if is_too_large => rules.too_large(head, reply),
        Ok(reply) => rules.reply(head, reply),
        Err(Unanswered) => rules.unanswered(&config, head),
    }
}
