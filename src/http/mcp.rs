//! What the revisions of the Model Context Protocol demand of headers, as data.
//!
//! Since 2026-07-28 headers repeat what the message says, so that proxies need not read it. A proxy that
//! has read other values than the server would let through what it forbids, so both must be the same. Earlier
//! revisions have the version only.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::answer::{HttpAnswer, MEDIA_TYPE};
use super::fields::RequestHead;
use crate::codes;
use crate::encode::{self, Style};
use crate::error_object::ErrorObject;
use crate::json::{Json, JsonKind, write_str};
use crate::presets::McpRevision;

/// The methods whose target `Mcp-Name` repeats, and the param that names it.
const NAMED: [(&str, &str); 3] = [
    ("tools/call", "name"),
    ("prompts/get", "name"),
    ("resources/read", "uri"),
];

/// The member of `_meta` that has the revision.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// What a server of the Model Context Protocol demands of headers.
///
/// ```
/// use antiphon::McpRevision;
/// use antiphon::http::{RequestHead, WebRules};
/// let rules = WebRules::mcp(McpRevision::V2026_07_28);
/// let mut head = RequestHead::new("POST", "/mcp");
/// head.mcp_version = Some("2026-07-28");
/// let headers: [(&str, &[u8]); 2] = [("mcp-protocol-version", b"2026-07-28"), ("mcp-method", b"tools/list")];
/// let body = br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"pay"},"id":1}"#;
/// let refused = rules.judge_message(&head, &headers, body).unwrap_err();
/// assert_eq!(refused.status, 400);
/// assert!(refused.body_text().unwrap().contains("-32020"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpRules {
    /// The revisions that the server speaks. A request that names another one is answered 400. One that names
    /// none is of 2025-03-26, or of an earlier one: it is answered 400 if the server speaks 2026-07-28 only.
    pub revisions: Vec<McpRevision>,
    /// The arguments of tools that headers repeat, since 2026-07-28. Default none.
    pub params: Vec<McpParam>,
}

/// An argument of a tool whose value the header `Mcp-Param-…` repeats: in the tool's schema `x-mcp-header` says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpParam {
    /// The tool.
    pub tool: String,
    /// The names of the argument and of the members below it.
    pub path: Vec<String>,
    /// The end of the header's name.
    pub header: String,
}

/// Whether a message needs a session, in the revisions up to 2025-11-25.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionUse {
    /// Its revision has no sessions, or it is no message.
    Free,
    /// It is `initialize`: a session may begin with its result.
    Begins,
    /// It names its session, which must be open.
    Needed,
}

impl McpRules {
    /// Rules for one revision.
    pub fn new(revision: McpRevision) -> Self {
        Self {
            revisions: [revision].into(),
            params: Vec::new(),
        }
    }

    /// The revision that the request names, if the server speaks it.
    fn revision(&self, head: &RequestHead<'_>) -> Option<McpRevision> {
        let named = McpRevision::of(head.mcp_version?)?;
        self.revisions.contains(&named).then_some(named)
    }

    /// Whether the request is of a revision in which errors have the status 200.
    pub(super) fn is_before(&self, head: &RequestHead<'_>) -> bool {
        match self.revision(head) {
            Some(named) => named < McpRevision::V2026_07_28,
            None => self.has_sessions(),
        }
    }

    /// Whether it speaks a revision that has sessions.
    pub(super) fn has_sessions(&self) -> bool {
        let is_old = |revision: &McpRevision| *revision < McpRevision::V2026_07_28;
        self.revisions.iter().any(is_old)
    }

    pub(super) fn judge(
        &self,
        head: &RequestHead<'_>,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> Result<SessionUse, HttpAnswer> {
        // Whether a body is a message is the exchange's matter.
        let Ok(message) = Json::parse(body) else {
            return Ok(SessionUse::Free);
        };
        let method = text_of(message.get("method"));
        let refused = |error: &ErrorObject<'_>| {
            let id = message.get("id").filter(|id| {
                matches!(
                    id.kind(),
                    JsonKind::String | JsonKind::Number | JsonKind::Null
                )
            });
            let mut body = Vec::new();
            encode::failure(&mut body, Style::V2, id.map(Json::as_bytes), error);
            Err(HttpAnswer::new(400).with_body(MEDIA_TYPE, body))
        };
        let named = self.revision(head);
        // The revision is agreed on by `initialize`, which may name any.
        if named.is_none() && head.mcp_version.is_some() && method.as_deref() != Some("initialize")
        {
            let mut data = Vec::from(*b"{\"supported\":[");
            for (at, known) in self.revisions.iter().enumerate() {
                data.extend_from_slice(if at > 0 { b"," } else { b"" });
                write_str(&mut data, known.as_str());
            }
            data.extend_from_slice(b"],\"requested\":");
            write_str(&mut data, head.mcp_version.unwrap_or_default());
            data.push(b'}');
            let text = "Unsupported protocol version";
            let error = ErrorObject::fixed(codes::MCP_UNSUPPORTED_VERSION, text);
            return refused(&match Json::parse(&data) {
                Ok(data) => error.with_data(data),
                Err(_) => error,
            });
        }
        if self.is_before(head) {
            return Ok(match method.as_deref() {
                Some("initialize") => SessionUse::Begins,
                _ => SessionUse::Needed,
            });
        }
        match self.mirrors(method.as_deref(), message, headers) {
            Some(()) => Ok(SessionUse::Free),
            None => refused(&ErrorObject::fixed(
                codes::MCP_HEADER_MISMATCH,
                "Header mismatch",
            )),
        }
    }

    /// Whether the headers repeat the message; `None` if they do not.
    fn mirrors(
        &self,
        method: Option<&str>,
        message: Json<'_>,
        headers: &[(&str, &[u8])],
    ) -> Option<()> {
        let header = |name: &str| {
            let mut all = headers
                .iter()
                .filter(|(found, _)| found.eq_ignore_ascii_case(name));
            let one = all.next().map(|(_, value)| value.trim_ascii());
            // Of two, a proxy may have read the other.
            all.next().is_none().then_some(one)
        };
        let Some(method) = method else {
            // Headers repeat one message, so a batch cannot agree with them.
            return (message.kind() == JsonKind::Object).then_some(());
        };
        let params = only(message, "params")?;
        let version = only_at(params, ["_meta", VERSION])?;
        let is_sent = header("mcp-protocol-version")?;
        is_sent?;
        if version.is_some() {
            same(is_sent, version)?;
        }
        (header("mcp-method")? == Some(method.as_bytes())).then_some(())?;
        if let Some((_, param)) = NAMED.iter().find(|(known, _)| *known == method) {
            same(header("mcp-name")?, only_at(params, [*param])?)?;
        }
        if method == "tools/call" {
            let tool = text_of(only_at(params, ["name"])?);
            let mirrored = |param: &&McpParam| Some(&*param.tool) == tool.as_deref();
            for McpParam {
                path, header: name, ..
            } in self.params.iter().filter(mirrored)
            {
                let path = ["arguments"]
                    .into_iter()
                    .chain(path.iter().map(String::as_str));
                let value = only_at(params, path)?.filter(|value| !value.is_null());
                same(header(&["mcp-param-", name].concat())?, value)?;
            }
        }
        Some(())
    }
}

/// The only member with this name; `None` if there are several, of which a reader may take either.
fn only<'a>(object: Json<'a>, name: &str) -> Option<Option<Json<'a>>> {
    let mut all = object.members().filter(|(key, _)| key.eq_str(name));
    let one = all.next().map(|(_, value)| value);
    all.next().is_none().then_some(one)
}

fn only_at<'a, 'p>(
    object: Option<Json<'a>>,
    path: impl IntoIterator<Item = &'p str>,
) -> Option<Option<Json<'a>>> {
    let mut found = object;
    for name in path {
        let Some(object) = found else {
            return Some(None);
        };
        found = only(object, name)?;
    }
    Some(found)
}

/// Whether a header says what the message does. Neither may be absent alone.
fn same(header: Option<&[u8]>, value: Option<Json<'_>>) -> Option<()> {
    let is_same = match (header, value) {
        (None, None) => true,
        (Some(header), Some(value)) => {
            let text = text_of(Some(value)).unwrap_or(Cow::Borrowed(value.as_str()));
            header == mirrored(&text).as_bytes()
        }
        _ => false,
    };
    is_same.then_some(())
}

fn text_of(value: Option<Json<'_>>) -> Option<Cow<'_, str>> {
    value?.as_string()?.to_cow()
}

/// The value of a header that repeats this text: in base64 if HTTP would not leave it as it is.
fn mirrored(text: &str) -> Cow<'_, str> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let is_kept = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text;
    if is_kept && !(text.starts_with("=?base64?") && text.ends_with("?=")) {
        return text.into();
    }
    let mut value = String::from("=?base64?");
    for three in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            value.push(if at > three.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    value.push_str("?=");
    value.into()
}

#[cfg(test)]
mod tests;
