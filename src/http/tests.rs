use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{
    ClientExchange, Cors, Fields, HttpAnswer, MAX_REDIRECTS, McpRules, ReplyError, RequestHead,
    Statuses, Verdict, WebRules, handle, redirect,
};
use crate::config::Config;
use crate::error_object::ErrorObject;
use crate::event::Outcome;
use crate::presets::McpRevision;

fn head(method: &'static str, target: &'static str) -> RequestHead<'static> {
    RequestHead {
        method,
        ..RequestHead::new("POST", target)
    }
}

fn refused(rules: &WebRules, head: &RequestHead<'_>) -> HttpAnswer {
    match rules.judge(&Config::new(), head) {
        Verdict::Answer(reply) => reply,
        other => panic!("{head:?}: {other:?}"),
    }
}

// HTP-04
#[test]
fn only_a_post_of_json_is_served() {
    let rules = WebRules::new();
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "post"] {
        let reply = refused(&rules, &head(method, "/"));
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, Some("POST")),
            "{method}"
        );
        assert!(!reply.body.is_empty());
    }
    assert!(refused(&rules, &head("HEAD", "/")).body.is_empty());
    let cases = [
        ("application/json", true),
        ("application/json-rpc", true),
        ("application/jsonrequest", true),
        ("Application/JSON", true),
        ("application/json; charset=utf-8", true),
        ("application/json;charset=\"UTF-8\"", true),
        ("application/json ; profile=x; charset=utf8", true),
        ("application/json; charset=latin1", false),
        ("application/json; charset=utf-16", false),
        ("application/json; charset", true),
        ("application/jsonp", false),
        ("application/xml", false),
        ("text/plain", false),
        ("text/json", false),
        ("application/x-www-form-urlencoded", false),
        ("", false),
        ("application/json, text/plain", false),
        ("json", false),
    ];
    for (content_type, is_served) in cases {
        let mut head = RequestHead::new("POST", "/");
        head.content_type = Some(content_type);
        let verdict = rules.judge(&Config::new(), &head);
        let shown = content_type;
        match verdict {
            Verdict::Serve => assert!(is_served, "{shown}"),
            Verdict::Answer(reply) => assert!(!is_served && reply.status == 415, "{shown}"),
            Verdict::TooLarge(_) => panic!("{shown}"),
        }
    }
    assert_eq!(
        rules.judge(&Config::new(), &RequestHead::new("POST", "/")),
        Verdict::Serve
    );
}

// HTP-04 SRV-15
#[test]
fn a_declared_length_over_the_limit_is_refused_before_the_body_is_read() {
    let mut config = Config::new();
    config.limits.max_message_bytes = 1000;
    let mut head = RequestHead::new("POST", "/");
    for (length, verdict) in [
        (0, Verdict::Serve),
        (1000, Verdict::Serve),
        (1001, Verdict::TooLarge(1001)),
        (u64::MAX, Verdict::TooLarge(u64::MAX)),
    ] {
        head.content_length = Some(length);
        assert_eq!(WebRules::new().judge(&config, &head), verdict);
    }
    let reply = WebRules::new().too_large(&head, Some(b"{}".to_vec()));
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (413, Some("application/json"))
    );
}

// HTP-01
#[test]
fn a_path_is_served_whatever_its_query() {
    let mut rules = WebRules::new();
    assert_eq!(
        rules.judge(&Config::new(), &RequestHead::new("POST", "/any")),
        Verdict::Serve
    );
    rules.paths.push("/rpc".into());
    for (target, is_served) in [
        ("/rpc", true),
        ("/rpc?v=2", true),
        ("/rpc/", false),
        ("/", false),
        ("/rpcs", false),
    ] {
        let verdict = rules.judge(&Config::new(), &head("POST", target));
        assert_eq!(verdict == Verdict::Serve, is_served, "{target}");
    }
    assert_eq!(refused(&rules, &head("GET", "/")).status, 404);
}

// SEC-08
#[test]
fn an_origin_that_is_not_named_is_refused() {
    let mut rules = WebRules::new();
    let mut head = RequestHead::new("POST", "/");
    head.content_type = Some("application/json");
    head.origins = &["https://evil.example"];
    assert_eq!(refused(&rules, &head).status, 403);
    head.host = Some("evil.example");
    assert_eq!(refused(&rules, &head).status, 403);
    rules.hosts.push("evil.example".into());
    assert_eq!(rules.judge(&Config::new(), &head), Verdict::Serve);
    (rules.hosts, head.host) = (Vec::new(), None);
    rules.origins.push("https://app.example".into());
    assert_eq!(refused(&rules, &head).status, 403);
    let cases: [(&[&str], bool); 7] = [
        (&["https://app.example"], true),
        (&["https://APP.example:443"], true),
        (&["http://app.example"], false),
        (&["https://app.example", "https://app.example"], false),
        (&["null"], false),
        (&[""], false),
        (&[], true),
    ];
    for (origins, is_let_in) in cases {
        head.origins = origins;
        let verdict = rules.judge(&Config::new(), &head);
        assert_eq!(verdict == Verdict::Serve, is_let_in, "{origins:?}");
    }
    rules.origin_required = true;
    assert_eq!(refused(&rules, &head).status, 403);
}

// USE-07 SEC-08
#[test]
fn what_a_browser_sends_without_asking_first_is_not_served() {
    let simple = [
        None,
        Some(""),
        Some("text/plain"),
        Some("text/plain; application/json"),
        Some("text/plain;charset=utf-8"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data; boundary=application/json"),
    ];
    let mut rules = WebRules::new();
    rules.origins.push("*".into());
    for (origins, names_fetch_site) in [
        (&["http://evil.example"][..], false),
        (&["null"][..], false),
        (&["https://app.example"][..], true),
        (&[][..], true),
    ] {
        let mut head = RequestHead::new("POST", "/");
        (head.origins, head.names_fetch_site) = (origins, names_fetch_site);
        for content_type in simple {
            head.content_type = content_type;
            let reply = refused(&rules, &head);
            assert_eq!(reply.status, 415, "{head:?}");
        }
        for content_type in ["application/json", "application/json; charset=utf-8"] {
            head.content_type = Some(content_type);
            let verdict = rules.judge(&Config::new(), &head);
            assert_eq!(verdict, Verdict::Serve, "{head:?}");
        }
    }
}

// USE-09
#[test]
fn a_body_that_is_encoded_is_refused_and_what_would_be_right_is_named() {
    for (lines, wanted) in [
        (&[("content-encoding", "gzip")][..], Some(415)),
        (&[("content-encoding", "identity, br")], Some(415)),
        (
            &[
                ("content-encoding", "identity"),
                ("content-encoding", "x-own"),
            ],
            Some(415),
        ),
        (&[("content-encoding", "Identity")], None),
        (&[("content-encoding", "")], None),
        (&[("transfer-encoding", "gzip, chunked")], Some(501)),
        (&[("transfer-encoding", "Chunked")], None),
    ] {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.line(name, value.as_bytes());
        }
        let head = fields.head("POST", "/");
        let Some(status) = wanted else {
            let verdict = WebRules::new().judge(&Config::new(), &head);
            assert_eq!(verdict, Verdict::Serve, "{lines:?}");
            continue;
        };
        let reply = refused(&WebRules::new(), &head);
        assert_eq!(reply.status, status, "{lines:?}");
        let identity = (status == 415).then_some("identity");
        assert_eq!(reply.header("accept-encoding"), identity);
    }
}

// USE-08
#[test]
fn a_fault_of_the_headers_is_told_before_all_else() {
    let mut head = head("GET", "/nowhere");
    head.fault = Some("the host is named twice");
    let mut rules = WebRules::new();
    rules.origins.push("https://app.example".into());
    let reply = refused(&rules, &head);
    assert_eq!(
        (reply.status, reply.header("connection")),
        (400, Some("close"))
    );
    assert_eq!(
        reply.body_text().as_deref(),
        Some("the host is named twice\n")
    );
}

// USE-07
#[test]
fn a_function_asks_the_rules_first() {
    let mut rules = WebRules::new();
    rules.origins.push("https://app.example".into());
    let mut fields = Fields::new();
    fields.line("Origin", b"http://evil.example");
    fields.line("Content-Type", b"application/json");
    let head = fields.head("POST", "/");
    let body = br#"{"jsonrpc":"2.0","method":"ping","id":1}"#;
    let never =
        |_: crate::answer::Incoming<'_>| -> Result<u8, ErrorObject<'static>> { panic!("it ran") };
    let reply = handle(Config::new(), &rules, &head, Some(body), never);
    assert_eq!(reply.status, 403);
}

// USE-32
#[test]
fn a_function_told_an_unanswered_batch_as_success() {
    let mut head = RequestHead::new("POST", "/");
    head.content_type = Some("application/json");
    let call = r#"{"jsonrpc":"2.0","method":"ping","id":1}"#;
    let batch = format!("[{call},{call}]");
    let mut config = Config::new();
    config.limits.max_outbox_bytes = 150;
    let long = |_: crate::answer::Incoming<'_>| Ok::<_, ErrorObject<'static>>("x".repeat(90));
    let error = r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":null}"#;
    let reply = handle(
        config,
        &WebRules::new(),
        &head,
        Some(batch.as_bytes()),
        long,
    );
    assert_eq!(
        (reply.status, reply.body_text().as_deref()),
        (500, Some(error))
    );
    let reply = crate::answer::answer(config, batch.as_bytes(), long);
    assert_eq!(reply.as_deref(), Some(error.as_bytes()));
    // Nothing was asked.
    let told = batch.replace(r#","id":1"#, "");
    let reply = handle(config, &WebRules::new(), &head, Some(told.as_bytes()), long);
    assert_eq!(reply.status, 204);
}

// SEC-08
#[test]
fn cross_origin_headers_are_sent_only_where_they_are_configured() {
    let mut preflight = head("OPTIONS", "/");
    preflight.origins = &["https://app.example"];
    let mut post = RequestHead::new("POST", "/");
    post.origins = preflight.origins;
    let is_silent = |reply: &HttpAnswer| {
        let mut names = reply.headers.iter().map(|(name, _)| name);
        names.all(|name| !name.starts_with("access-control"))
    };

    let mut rules = WebRules::new();
    rules.origins.push("*".into());
    let reply = refused(&rules, &preflight);
    assert!(reply.status == 405 && is_silent(&reply));
    assert!(is_silent(&rules.reply(&post, Some(b"{}".to_vec()))));

    let mut cors = Cors::new();
    cors.headers.push("authorization".to_string());
    rules.cors = Some(cors);
    let reply = refused(&rules, &preflight);
    assert_eq!(reply.status, 204);
    let wanted = [
        ("access-control-allow-methods", "POST"),
        (
            "access-control-allow-headers",
            "content-type, authorization",
        ),
        ("access-control-max-age", "600"),
        ("access-control-allow-origin", "*"),
    ];
    assert_eq!(
        reply.headers,
        wanted.map(|(name, value)| (name, value.into()))
    );

    // A script may begin and end a session of MCP.
    let mut sessions = rules.clone();
    for (revision, methods, exposed) in [
        (
            McpRevision::V2025_11_25,
            "POST, DELETE",
            Some("mcp-session-id"),
        ),
        (McpRevision::V2026_07_28, "POST", None),
    ] {
        sessions.mcp = Some(McpRules::new(revision));
        let allowed = refused(&sessions, &preflight);
        let allowed = allowed.header("access-control-allow-methods");
        assert_eq!(allowed, Some(methods));
        let reply = sessions.reply(&post, Some(b"{}".to_vec()));
        assert_eq!(reply.header("access-control-expose-headers"), exposed);
    }

    rules.origins = Vec::from(["https://app.example".into()]);
    rules.mcp = Some(McpRules::new(McpRevision::V2025_11_25));
    if let Some(cors) = &mut rules.cors {
        cors.credentials = true;
    }
    let reply = rules.reply(&post, Some(b"{}".to_vec()));
    assert_eq!(
        reply.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(
        reply.header("access-control-allow-credentials"),
        Some("true")
    );
    assert_eq!(reply.header("vary"), Some("origin"));
    // A refused origin does not learn which origins are accepted. A client that is no browser gets
    // no CORS headers.
    preflight.origins = &["https://evil.example"];
    let reply = refused(&rules, &preflight);
    assert!(reply.status == 403 && is_silent(&reply));
    assert!(is_silent(
        &rules.reply(&RequestHead::new("POST", "/"), None)
    ));
    let reply = refused(&rules, &head("GET", "/"));
    assert_eq!(
        (reply.status, reply.header("allow")),
        (405, Some("POST, OPTIONS"))
    );
}

// HTP-01 HTP-03
#[test]
fn a_reply_is_json_and_none_is_no_content() {
    let head = RequestHead::new("POST", "/");
    let reply = WebRules::new().reply(&head, Some(b"{}".to_vec()));
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("application/json"))
    );
    let reply = WebRules::new().reply(&head, None);
    assert_eq!(
        (reply.status, reply.headers.len(), reply.body.len()),
        (204, 0, 0)
    );
    assert_eq!(
        WebRules::mcp(McpRevision::V2025_11_25)
            .reply(&head, None)
            .status,
        202
    );
}

// HTP-02
#[test]
fn codes_have_statuses_only_where_they_are_configured() {
    let v2 = |code: &str| {
        format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":"x"}},"id":1}}"#)
    };
    let v1 =
        |code: &str| format!(r#"{{"result":null,"error":{{"code":{code},"message":"x"}},"id":1}}"#);
    let mut own = Statuses::by_code();
    own.codes.insert(0, (-32700, 422));
    // A code, and four statuses: of a 2.0 error by code, of a 2.0 and a 1.0 error in Bitcoin, and
    // of a 2.0 error by the changed list.
    for (code, wanted) in [
        ("-32600", [400, 200, 400, 400]),
        ("-32601", [404, 200, 404, 404]),
        ("-32602", [500, 200, 500, 500]),
        ("-32603", [500, 200, 500, 500]),
        ("-32700", [500, 200, 500, 422]),
        ("-8", [500, 200, 500, 500]),
        ("7", [500, 200, 500, 500]),
    ] {
        assert_eq!(Statuses::always_ok().of(v2(code).as_bytes()), 200);
        assert_eq!(Statuses::always_ok().of(v1(code).as_bytes()), 200);
        let found = [
            Statuses::by_code().of(v2(code).as_bytes()),
            Statuses::bitcoin().of(v2(code).as_bytes()),
            Statuses::bitcoin().of(v1(code).as_bytes()),
            own.of(v2(code).as_bytes()),
        ];
        assert_eq!(found, wanted, "{code}");
    }
    for reply in [
        r#"{"jsonrpc":"2.0","result":{"error":{"code":-32601}},"id":1}"#,
        r#"{"result":1,"error":null,"id":1}"#,
        &format!("[{}]", v2("-32601")),
        "[]",
        "",
    ] {
        assert_eq!(Statuses::by_code().of(reply.as_bytes()), 200, "{reply}");
    }
}

// TRN-05 EXA-10
#[test]
fn a_function_answers_a_body_or_its_absence() {
    let mut config = Config::new();
    config.limits.max_message_bytes = 100;
    let call = |body: Option<&str>| {
        handle(
            config,
            &WebRules::new(),
            &RequestHead::new("POST", "/"),
            body.map(str::as_bytes),
            |call| match call.method {
                "ping" => Ok("pong"),
                _ => Err(ErrorObject::method_not_found()),
            },
        )
    };
    let long = format!(
        r#"{{"jsonrpc":"2.0","method":"{}","id":1}}"#,
        "m".repeat(100)
    );
    for (body, status, wanted) in [
        (
            Some(r#"{"jsonrpc":"2.0","method":"ping","id":1}"#),
            200,
            r#"{"jsonrpc":"2.0","result":"pong","id":1}"#,
        ),
        (Some(r#"{"jsonrpc":"2.0","method":"ping"}"#), 204, ""),
        (
            None,
            200,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#,
        ),
        (
            Some(""),
            200,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#,
        ),
    ] {
        let reply = call(body);
        assert_eq!(reply.status, status, "{body:?}");
        assert_eq!(reply.body_text().unwrap_or_default(), wanted, "{body:?}");
        let content_type = (status == 200).then_some("application/json");
        assert_eq!(reply.header("content-type"), content_type);
    }
    let reply = call(Some(&long));
    assert_eq!(reply.status, 413);
    assert!(
        reply
            .body_text()
            .is_some_and(|text| text.contains("-32004"))
    );
}

/// An exchange whose one call has been sent.
fn exchange() -> ClientExchange<u8> {
    let mut exchange = ClientExchange::new(Config::new());
    exchange.call("a", (), 1).unwrap();
    assert!(!exchange.take_body().is_empty());
    exchange
}

/// Returns how the one call of an exchange ends with this reply.
fn ended(status: u16, body: &str) -> Result<Vec<String>, ReplyError> {
    let mut ends = Vec::new();
    exchange().receive(status, body.as_bytes(), |response| {
        ends.push(match response.outcome {
            Outcome::Ok(result) => format!("ok {}", result.as_str()),
            Outcome::Err(error) => format!("err {}", error.code()),
            Outcome::Missing => "missing".to_string(),
            Outcome::Invalid(_) => "invalid".to_string(),
            other => format!("{other:?}"),
        });
    })?;
    Ok(ends)
}

// HTP-06 HTP-07 HTP-08 HTP-03
#[test]
fn a_body_is_believed_before_a_status() {
    let result = r#"{"jsonrpc":"2.0","result":5,"id":1}"#;
    let error = r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"},"id":1}"#;
    let null_id = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"},"id":null}"#;
    let other = r#"{"jsonrpc":"2.0","result":5,"id":2}"#;
    for status in [200, 201, 203, 299, 400, 404, 500, 503] {
        assert_eq!(ended(status, result), Ok(vec!["ok 5".into()]), "{status}");
        assert_eq!(
            ended(status, error),
            Ok(vec!["err -32601".into()]),
            "{status}"
        );
        assert_eq!(
            ended(status, null_id),
            Ok(vec!["err -32700".into()]),
            "{status}"
        );
    }
    for body in ["", " \r\n", "null", "[]", other] {
        for status in [200, 202, 204] {
            assert_eq!(
                ended(status, body),
                Ok(vec!["missing".into()]),
                "{status} {body:?}"
            );
        }
        let failed = ended(500, body).unwrap_err();
        assert_eq!(failed.status(), Some(500), "{body:?}");
    }
    for body in [
        "Unauthorized",
        "<html>",
        r#"{"error":"no"}"#,
        r#"{"error":"no","id":1}"#,
        "7",
    ] {
        let failed = ended(401, body).unwrap_err();
        let text = body.to_string();
        assert_eq!(failed, ReplyError::Status { status: 401, text });
    }
    for body in ["Unauthorized", "<html>", r#"{"error":"no"}"#, r#"{"a":1}"#] {
        assert!(
            matches!(ended(200, body), Err(ReplyError::NoAnswer(_))),
            "{body}"
        );
    }
    assert_eq!(
        ended(200, r#"{"error":"no","id":1}"#),
        Ok(vec!["invalid".into()])
    );
    for status in [100, 300, 302, 304] {
        assert_eq!(ended(status, "").unwrap_err().status(), Some(status));
    }
}

// HTP-03 HTP-06
#[test]
fn a_notification_is_content_with_any_success() {
    for (status, body, is_fine) in [
        (204, "", true),
        (202, "", true),
        (200, "", true),
        (200, "[]", true),
        (200, "null", true),
        (200, "OK", true),
        (500, "", false),
        (404, "not here", false),
        (302, "", false),
    ] {
        let mut exchange = ClientExchange::<()>::new(Config::new());
        exchange.notify("a", ()).unwrap();
        let received = exchange.receive(status, body.as_bytes(), |_| {});
        assert_eq!(received.is_ok(), is_fine, "{status} {body}");
    }
}

// CLI-18 CLI-24
#[test]
fn the_entries_of_a_batch_settle_one_by_one_and_ids_go_on() {
    let mut config = Config::new();
    config.first_call = 7;
    let mut exchange = ClientExchange::new(config);
    let mut batch = exchange.batch();
    batch.call::<()>("a", (), 'a').unwrap();
    batch.notify("n", ()).unwrap();
    batch.call::<()>("b", (), 'b').unwrap();
    batch.send().unwrap();
    assert_eq!(exchange.next_call(), 9);
    let mut ends = Vec::new();
    let body = br#"[{"jsonrpc":"2.0","result":5,"id":8}]"#;
    exchange
        .receive(200, body, |response| {
            let is_ok = matches!(response.outcome, Outcome::Ok(_));
            ends.push((response.tag, is_ok));
        })
        .unwrap();
    assert_eq!(ends, [('b', true), ('a', false)]);
}

// ERR-13 CLI-18
#[test]
fn a_request_that_fails_settles_its_calls_once_as_unsent_or_in_doubt() {
    let ends = |exchange: &mut ClientExchange<u8>, was_sent| {
        let mut ends = Vec::new();
        exchange.fail(was_sent, |response| {
            ends.push(format!("{} {:?}", response.tag, response.outcome));
        });
        ends
    };
    assert_eq!(ends(&mut exchange(), true), ["1 Aborted"]);
    assert_eq!(ends(&mut exchange(), false), ["1 Unsent"]);

    let mut untaken = ClientExchange::new(Config::new());
    untaken.call("a", (), 1).unwrap();
    assert_eq!(ends(&mut untaken, true), ["1 Unsent"]);
    assert!(untaken.take_body().is_empty(), "it must not leave any more");
    assert!(ends(&mut untaken, true).is_empty(), "it has settled");

    let mut exchange = exchange();
    let html = exchange.receive(502, b"<html>", |_| panic!("nothing was answered"));
    assert!(html.is_err());
    assert_eq!(ends(&mut exchange, true), ["1 Aborted"]);

    let mut batch = ClientExchange::new(Config::new());
    let mut calls = batch.batch();
    for tag in 1..=3 {
        calls.call::<()>("a", (), tag).unwrap();
    }
    calls.send().unwrap();
    batch.take_body();
    assert_eq!(
        ends(&mut batch, true),
        ["1 Aborted", "2 Aborted", "3 Aborted"]
    );

    let mut answered = ClientExchange::new(Config::new());
    answered.call("a", (), 1).unwrap();
    answered.take_body();
    let reply = br#"{"jsonrpc":"2.0","result":5,"id":1}"#;
    answered.receive(200, reply, |_| {}).unwrap();
    assert!(ends(&mut answered, true).is_empty(), "it was answered");
}

// HTP-06 ERR-13
#[test]
fn a_reply_over_the_limit_is_not_read() {
    let mut config = Config::new();
    config.limits.max_message_bytes = 10;
    let mut exchange = ClientExchange::<()>::new(config);
    exchange.call("a", (), ()).unwrap();
    let received = exchange.receive(200, &[b' '; 11], |_| {});
    assert_eq!(received, Err(ReplyError::TooLarge { max_bytes: 10 }));
}

// HTP-05 ERR-13
#[test]
fn a_post_is_redirected_within_its_origin_only() {
    let from = "http://a.example:80/x/rpc?k=1";
    for (location, wanted) in [
        ("/y", Some("http://a.example:80/y")),
        ("/y?q", Some("http://a.example:80/y?q")),
        ("?q", Some("http://a.example:80/x/rpc?q")),
        ("y", Some("http://a.example:80/x/y")),
        ("", Some("http://a.example:80/x/rpc")),
        ("/y#part", Some("http://a.example:80/y")),
        ("http://a.example/z", Some("http://a.example/z")),
        ("HTTP://A.example/z", Some("HTTP://A.example/z")),
        ("//a.example/z", Some("http://a.example/z")),
        ("http://b.example/z", None),
        ("//b.example/z", None),
        ("https://a.example/z", None),
        ("http://a.example:81/z", None),
        ("http://a.example.evil/z", None),
        ("http://a.example@evil/z", None),
        ("http://a.example:80@evil/z", None),
        ("http://evil\\@a.example/z", None),
        ("http://a.example:80\\@evil/z", None),
        ("/\\evil/z", None),
        ("\\\\evil/z", None),
        ("ftp:x", None),
        ("/y\r\nx", None),
        ("javascript:alert(1)", None),
    ] {
        for status in [307, 308] {
            let target = redirect(status, from, Some(location), 0);
            assert_eq!(target.ok().flatten().as_deref(), wanted, "{location}");
        }
        for status in [301, 302, 303] {
            assert!(redirect(status, from, Some(location), 0).is_err());
        }
    }
    assert_eq!(redirect(200, from, Some("/y"), 0), Ok(None));
    assert_eq!(redirect(307, from, None, 0), Ok(None));
    assert!(redirect(307, from, Some("/y"), MAX_REDIRECTS - 1).is_ok());
    assert!(redirect(307, from, Some("/y"), MAX_REDIRECTS).is_err());
    assert_eq!(
        redirect(307, "http://a.example", Some("y"), 0),
        Ok(Some("http://a.example/y".to_string()))
    );
}

// HTP-08
#[test]
fn a_client_exchange_in_the_memory_of_another_is_as_new() {
    let answer = |id: u64| format!(r#"{{"jsonrpc":"2.0","result":{id},"id":{id}}}"#);
    let talk = |exchange: &mut ClientExchange<u32>, calls: u32, replies: &[String]| {
        let mut seen = String::new();
        if calls > 1 {
            let mut batch = exchange.batch();
            for tag in 0..calls {
                batch.call::<()>("m", (), tag).unwrap();
            }
            batch.send().unwrap();
        } else {
            exchange.call("m", (), 9).unwrap();
        }
        seen += &String::from_utf8(exchange.take_body()).unwrap();
        let mut settle = |response: crate::ResponseRef<'_, u32>| {
            seen += &format!("\n{} {:?}", response.tag, response.outcome);
        };
        let ended = match replies {
            [] => {
                exchange.fail(true, &mut settle);
                Ok(())
            }
            [reply] => exchange.receive(200, reply.as_bytes(), &mut settle),
            _ => Ok(()),
        };
        format!("{seen}\n{ended:?} {}", exchange.next_call())
    };
    let cases: [(u32, &[String]); 6] = [
        (1, &[answer(1)]),
        (1, &[answer(5)]),
        (1, &[]),
        (1, &["?".into()]),
        (40, &[answer(3)]),
        // Its calls stay open.
        (3, &[answer(1), answer(2)]),
    ];
    for (calls, replies) in &cases {
        for (next, next_replies) in &cases {
            let mut config = Config::new();
            let mut exchange = ClientExchange::new(config);
            talk(&mut exchange, *calls, replies);
            config.first_call = 5;
            exchange.renew(config);
            let mut fresh = ClientExchange::new(config);
            let what = (calls, replies, next, next_replies);
            let seen = talk(&mut exchange, *next, next_replies);
            assert_eq!(seen, talk(&mut fresh, *next, next_replies), "{what:?}");
        }
    }
}
