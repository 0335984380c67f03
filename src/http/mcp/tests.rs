use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Debug;

use super::{McpParam, SessionUse, mirrored};
use crate::http::{HttpAnswer, RequestHead, Statuses, WebRules, is_result};
use crate::presets::McpRevision;

const NEW: McpRevision = McpRevision::V2026_07_28;
const OLD: McpRevision = McpRevision::V2025_11_25;

fn head(version: Option<&str>) -> RequestHead<'_> {
    let mut head = RequestHead::new("POST", "/mcp");
    head.mcp_version = version;
    head
}

/// Judges a message of 2026-07-28 with these further headers.
fn judged(rules: &WebRules, headers: &[(&str, &str)], body: &str) -> Result<(), HttpAnswer> {
    let version = [("mcp-protocol-version", "2026-07-28")];
    let all = version.iter().chain(headers);
    let all: Vec<_> = all.map(|(name, value)| (*name, value.as_bytes())).collect();
    let judged = rules.judge_message(&head(Some("2026-07-28")), &all, body.as_bytes());
    judged.map(|_| ())
}

fn call(method: &str, params: &str) -> String {
    [
        r#"{"jsonrpc":"2.0","method":""#,
        method,
        r#"","params":"#,
        params,
        r#","id":"x"}"#,
    ]
    .concat()
}

#[track_caller]
fn mismatch<T: Debug>(judged: Result<T, HttpAnswer>) {
    let refused = judged.unwrap_err();
    let body = r#"{"jsonrpc":"2.0","error":{"code":-32020,"message":"Header mismatch"},"id":"x"}"#;
    assert_eq!(
        (refused.status, refused.body_text()),
        (400, Some(body.into()))
    );
    assert_eq!(refused.header("content-type"), Some("application/json"));
}

// HTP-01 USE-12
#[test]
fn headers_of_2026_07_28_repeat_the_message() {
    let mut rules = WebRules::mcp(NEW);
    if let Some(mcp) = &mut rules.mcp {
        mcp.params.push(McpParam {
            tool: "pay".into(),
            path: ["to".to_string(), "iban".to_string()].into(),
            header: "Iban".into(),
        });
    }
    let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
    let pay = r#"{"name":"pay","arguments":{"to":{"iban":7}}}"#;
    let other = r#"{"name":"pay","arguments":{"to":{"iban":null}}}"#;
    let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "pay"));
    for (headers, body) in [
        (
            &[("MCP-Method", "tools/list")][..],
            call("tools/list", "{}"),
        ),
        (&[("mcp-method", "tools/list")], call("tools/list", meta)),
        (
            &[method, name, ("mcp-param-iban", "7")],
            call("tools/call", pay),
        ),
        (&[method, name], call("tools/call", other)),
        (
            &[
                ("mcp-method", "resources/read"),
                ("mcp-name", "=?base64?w6Q=?="),
            ],
            call("resources/read", r#"{"uri":"ä"}"#),
        ),
        (
            &[("mcp-name", "ä")],
            r#"{"jsonrpc":"2.0","result":1,"id":1}"#.into(),
        ),
        (&[], "no JSON".into()),
    ] {
        assert_eq!(judged(&rules, headers, &body), Ok(()), "{body}");
    }
    let twice = r#"{"name":"pay","name":"steal","arguments":{"to":{"iban":7}}}"#;
    let older = meta.replace("2026", "2025");
    for (headers, body) in [
        (&[][..], call("tools/list", "{}")),
        (&[("mcp-method", "Tools/list")], call("tools/list", "{}")),
        (&[("mcp-method", "tools/list")], call("tools/list", &older)),
        (
            &[method, method, name, ("mcp-param-iban", "7")],
            call("tools/call", pay),
        ),
        (&[method, ("mcp-param-iban", "7")], call("tools/call", pay)),
        (
            &[method, ("mcp-name", "steal"), ("mcp-param-iban", "7")],
            call("tools/call", pay),
        ),
        (&[method, name], call("tools/call", pay)),
        (
            &[method, name, ("mcp-param-iban", "8")],
            call("tools/call", pay),
        ),
        (
            &[method, name, ("mcp-param-iban", "7")],
            call("tools/call", other),
        ),
        (
            &[method, name, ("mcp-param-iban", "7")],
            call("tools/call", twice),
        ),
    ] {
        mismatch(judged(&rules, headers, &body));
    }
    // A batch has no headers that repeat all of it.
    let batch = ["[", &call("tools/call", pay), "]"].concat();
    for body in [&*batch, "[]", "1"] {
        let headers = [method, name, ("mcp-param-iban", "7")];
        let refused = judged(&rules, &headers, body).unwrap_err();
        assert_eq!(refused.status, 400, "{body}");
    }
    // Without a version it could be of an earlier revision, which this server does not speak.
    let body = call("tools/list", "{}");
    let headers: [(&str, &[u8]); 1] = [("mcp-method", b"tools/list")];
    mismatch(rules.judge_message(&head(None), &headers, body.as_bytes()));
}

// HTP-01
#[test]
fn versions_are_told_by_revision() {
    let list = call("tools/list", "{}");
    let judged = |rules: &WebRules, version, body: &str| {
        let judged = rules.judge_message(&head(version), &[], body.as_bytes());
        let told = |refused: HttpAnswer| (refused.status, refused.body_text().unwrap_or_default());
        judged.map(|_| ()).map_err(told)
    };
    let old = WebRules::mcp(OLD);
    assert_eq!(judged(&old, None, &list), Ok(()));
    assert_eq!(judged(&old, Some("2025-11-25"), &list), Ok(()));
    // `initialize` asks for a version, and gets one that the server speaks.
    assert_eq!(
        judged(&old, Some("2099-01-01"), &call("initialize", "{}")),
        Ok(())
    );
    let data = r#"{"supported":["2025-11-25"],"requested":"2\"1"}"#;
    let body = [
        r#"{"jsonrpc":"2.0","error":{"code":-32022,"message":"Unsupported protocol version","data":"#,
        data,
        r#"},"id":"x"}"#,
    ]
    .concat();
    assert_eq!(judged(&old, Some("2\"1"), &list), Err((400, body)));
    assert_eq!(judged(&old, Some("2026-07-28"), &list).unwrap_err().0, 400);
    // A server of both judges each request by the version that it names.
    let mut both = WebRules::mcp(NEW);
    both.mcp.as_mut().unwrap().revisions.push(OLD);
    assert_eq!(judged(&both, Some("2025-11-25"), &list), Ok(()));
    assert_eq!(judged(&both, None, &list), Ok(()));
    assert_eq!(judged(&both, Some("2026-07-28"), &list).unwrap_err().0, 400);
    let unknown = br#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"},"id":1}"#;
    for (version, status) in [
        (Some("2026-07-28"), 404),
        (Some("2025-11-25"), 200),
        (None, 200),
    ] {
        let reply = both.reply(&head(version), Some(unknown.to_vec()));
        assert_eq!(reply.status, status, "{version:?}");
    }
    assert_eq!(both.reply(&head(None), None).status, 202);
}

// HTP-01
#[test]
fn statuses_of_mcp_by_revision() {
    let error = |code: i32| {
        let code = code.to_string();
        [
            r#"{"jsonrpc":"2.0","error":{"code":"#,
            &code,
            r#","message":""},"id":1}"#,
        ]
        .concat()
    };
    let (new, old) = (Statuses::mcp(NEW), Statuses::mcp(OLD));
    for (code, status) in [
        (-32601, 404),
        (-32602, 400),
        (-32700, 400),
        (-32600, 400),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-32603, 200),
        (-32002, 200),
        (7, 200),
    ] {
        assert_eq!(new.of(error(code).as_bytes()), status, "{code}");
        assert_eq!(old.of(error(code).as_bytes()), 200, "{code}");
        assert!(!is_result(error(code).as_bytes()));
    }
    let result = br#"{"jsonrpc":"2.0","result":1,"id":1}"#;
    assert_eq!(new.of(result), 200);
    assert!(is_result(result) && !is_result(b""));
}

// HTP-01
#[test]
fn sessions_are_of_the_revisions_that_have_them() {
    let (list, initialize) = (call("tools/list", "{}"), call("initialize", "{}"));
    let (old, new) = (WebRules::mcp(OLD), WebRules::mcp(NEW));
    for (rules, version, body, wanted) in [
        (&old, None, &initialize, SessionUse::Begins),
        (&old, None, &list, SessionUse::Needed),
        (&old, Some("2025-11-25"), &list, SessionUse::Needed),
        (&new, Some("2026-07-28"), &list, SessionUse::Free),
        (&WebRules::new(), None, &list, SessionUse::Free),
    ] {
        let headers = [
            ("mcp-protocol-version", &b"2026-07-28"[..]),
            ("mcp-method", b"tools/list"),
        ];
        let judged = rules.judge_message(&head(version), &headers, body.as_bytes());
        assert_eq!(judged, Ok(wanted));
    }
    let judged = old.judge_message(&head(None), &[], b"no JSON");
    assert_eq!(judged, Ok(SessionUse::Free));
}

#[test]
fn values_that_http_would_change_are_in_base64() {
    for (text, value) in [
        ("a b", "a b"),
        ("", ""),
        (" a", "=?base64?IGE=?="),
        ("ä", "=?base64?w6Q=?="),
        ("äö", "=?base64?w6TDtg==?="),
        ("\n12", "=?base64?CjEy?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
    ] {
        assert_eq!(mirrored(text), value, "{text:?}");
    }
}
