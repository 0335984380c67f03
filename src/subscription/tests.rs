use alloc::string::ToString;

use super::{ProgressStyle, Style};
use crate::json::{Json, OwnedJson};

const LSP: Style = Style::LSP_PROGRESS;
const MCP: Style = Style::MCP_PROGRESS;

fn json(text: &str) -> Json<'_> {
    Json::parse_str(text).unwrap()
}

// USE-21
#[test]
fn a_request_carries_its_token_where_the_dialect_has_it() {
    let cases = [
        (LSP, r#"{"workDoneToken":"a"}"#, Some(r#""a""#)),
        (LSP, r#"{"workDone\u0054oken":1e2}"#, Some("1e2")),
        (
            LSP,
            r#"{"workDoneToken":9007199254740993.0}"#,
            Some("9007199254740993.0"),
        ),
        (LSP, r#"{"workDoneToken":null}"#, None),
        (LSP, r#"{"workDoneToken":["a"]}"#, None),
        (LSP, r#"{"_meta":{"progressToken":"a"}}"#, None),
        (LSP, r#"["workDoneToken"]"#, None),
        (
            MCP,
            r#"{"_meta":{"progressToken":"\u0061"}}"#,
            Some(r#""\u0061""#),
        ),
        (MCP, r#"{"_meta":{"progressToken":-0}}"#, Some("-0")),
        (MCP, r#"{"_meta":{"progressToken":{}}}"#, None),
        (MCP, r#"{"_meta":7}"#, None),
        (MCP, r#"{"progressToken":"a"}"#, None),
    ];
    for (style, params, token) in cases {
        assert_eq!(
            style.token(json(params)).map(Json::as_str),
            token,
            "{params}"
        );
    }
}

// USE-21
#[test]
fn what_carries_the_token_is_no_parameter() {
    let cases = [
        (
            LSP,
            r#"{"workDone\u0054oken":{},"a":1.0}"#,
            Some(r#"{"a":1.0}"#),
        ),
        (LSP, r#"{"a":1,"_meta":{}}"#, None),
        (
            MCP,
            r#"{"a":1,"_meta":{"x":1},"\u0062":[ 2 ]}"#,
            Some(r#"{"a":1,"\u0062":[ 2 ]}"#),
        ),
        (MCP, r#"{"_meta":7}"#, Some("{}")),
        (MCP, r#"["_meta"]"#, None),
    ];
    for (style, params, expected) in cases {
        let rest = style.without_token(json(params));
        assert_eq!(rest.as_ref().map(OwnedJson::as_str), expected, "{params}");
    }
}

// USE-21
#[test]
fn progress_is_told_with_the_token_as_it_was_written() {
    let cases = [
        (
            LSP,
            "1.50",
            r#"{"kind":"end"}"#,
            Ok(r#"{"token":1.50,"value":{"kind":"end"}}"#),
        ),
        (LSP, r#""a""#, "[1]", Ok(r#"{"token":"a","value":[1]}"#)),
        (
            MCP,
            "1e0",
            r#"{"progress":0.5}"#,
            Ok(r#"{"progressToken":1e0,"progress":0.5}"#),
        ),
        (MCP, "1", "{}", Ok(r#"{"progressToken":1}"#)),
        // A token among the value's own members is left out.
        (
            MCP,
            "1",
            r#"{"progressToken":2,"a\n":3}"#,
            Ok(r#"{"progressToken":1,"a\n":3}"#),
        ),
        (MCP, "1", "7", Err("progress is told as an object")),
    ];
    for (style, token, value, expected) in cases {
        let params = style.params(json(token), &json(value));
        let params = params.map_err(|error| error.to_string());
        let params = params.as_ref().map(OwnedJson::as_str);
        assert_eq!(params.map_err(|error| &**error), expected, "{value}");
    }
}

// USE-21
#[test]
fn what_is_told_is_read_again() {
    let value = json(r#"{"progress":0.5,"total":1}"#);
    for style in [LSP, MCP] {
        let params = style.params(json(r#""p1""#), &value).unwrap();
        let (token, told) = style.read(params.as_json()).unwrap();
        assert_eq!(token.as_str(), r#""p1""#);
        assert_eq!(told.get("progress").map(Json::as_str), Some("0.5"));
    }
    assert!(LSP.read(json(r#"{"token":"a"}"#)).is_none());
    assert!(LSP.read(json(r#"{"token":[],"value":1}"#)).is_none());
    assert!(MCP.read(json(r#"{"progress":1}"#)).is_none());
}

// USE-21
#[test]
fn params_ask_for_progress_and_stay_what_they_are() {
    let array = "params in an array have no place for a progress token";
    let cases = [
        (LSP, "", Ok(r#"{"workDoneToken":"p\"1"}"#)),
        (LSP, "{}", Ok(r#"{"workDoneToken":"p\"1"}"#)),
        (
            LSP,
            r#"{"a":1.0}"#,
            Ok(r#"{"workDoneToken":"p\"1","a":1.0}"#),
        ),
        (
            LSP,
            r#"{"workDoneToken":1,"\u0061":2}"#,
            Ok(r#"{"workDoneToken":"p\"1","\u0061":2}"#),
        ),
        (LSP, "[1]", Err(array)),
        (MCP, "", Ok(r#"{"_meta":{"progressToken":"p\"1"}}"#)),
        (
            MCP,
            r#"{"name":"wait","_meta":{"trace":"x","progressToken":1}}"#,
            Ok(r#"{"_meta":{"progressToken":"p\"1","trace":"x"},"name":"wait"}"#),
        ),
        (MCP, "[]", Err(array)),
    ];
    for (style, params, expected) in cases {
        let given = (!params.is_empty()).then(|| json(params));
        let asked = style.ask(given, "p\"1").map_err(|error| error.to_string());
        let asked = asked.as_ref().map(OwnedJson::as_str);
        assert_eq!(asked.map_err(|error| &**error), expected, "{params}");
    }
}

#[test]
fn a_value_as_deep_as_may_be_is_refused_where_it_would_stand_deeper() {
    // A value may have 128 levels, and around it is the object of the params.
    let deep = "[".repeat(128) + &"]".repeat(128);
    assert!(LSP.params(json("1"), &json(&deep)).is_err());
    assert!(LSP.params(json("1"), &json(&deep[1..255])).is_ok());
}

// USE-21
#[test]
fn each_dialect_with_progress_has_its_style() {
    let styles = [ProgressStyle::None, ProgressStyle::Lsp, ProgressStyle::Mcp];
    let styles = styles.map(ProgressStyle::style);
    assert_eq!(styles, [None, Some(LSP), Some(MCP)]);
    // The id of a subscription comes with the answer, so a request cannot ask for one.
    let refused = Style::ETHEREUM.ask((), "a").unwrap_err().to_string();
    assert_eq!(refused, "a request has no token for such events");
    assert_eq!(Style::ETHEREUM.token(json(r#"{"subscription":"a"}"#)), None);
}

// USE-15
#[test]
fn subscriptions_have_a_method_that_opens_and_one_that_ends_them() {
    for (style, names) in [
        (
            Style::ETHEREUM,
            ["eth_subscribe", "eth_subscription", "eth_unsubscribe"],
        ),
        (
            Style::SOLANA_ACCOUNT,
            [
                "accountSubscribe",
                "accountNotification",
                "accountUnsubscribe",
            ],
        ),
        (
            Style::SUBSTRATE_NEW_HEADS,
            [
                "chain_subscribeNewHeads",
                "chain_newHead",
                "chain_unsubscribeNewHeads",
            ],
        ),
        (Style::named("a", "b", "c"), ["a", "b", "c"]),
    ] {
        let [subscribe, notification, unsubscribe] = names;
        assert_eq!(style.subscribe_method(), Some(subscribe));
        assert_eq!(style.method(), notification);
        assert_eq!(style.unsubscribe_method(), Some(unsubscribe));
        let params = style.params(json("7"), &1).unwrap();
        assert_eq!(params.as_str(), r#"{"subscription":7,"result":1}"#);
        let (id, event) = style.read(params.as_json()).unwrap();
        assert_eq!((id.as_str(), event.as_str()), ("7", "1"));
    }
    for style in [LSP, MCP, Style::LSP_PARTIAL_RESULTS] {
        assert_eq!(style.subscribe_method(), None);
        assert_eq!(style.unsubscribe_method(), None);
    }
}

// USE-15
#[test]
fn partial_results_come_as_progress_does_under_another_token() {
    let partial = Style::LSP_PARTIAL_RESULTS;
    let asked = partial.ask(json(r#"{"workDoneToken":1}"#), "p1").unwrap();
    let expected = r#"{"partialResultToken":"p1","workDoneToken":1}"#;
    assert_eq!(asked.as_str(), expected);
    assert_eq!(partial.token(asked.as_json()).unwrap().as_str(), r#""p1""#);
    assert_eq!(LSP.token(asked.as_json()).unwrap().as_str(), "1");
    assert_eq!(partial.method(), LSP.method());
}

// USE-15
#[test]
fn a_listening_request_has_its_own_id_in_meta_of_its_notifications() {
    let listen = Style::MCP_LISTEN;
    assert_eq!(listen.subscribe_method(), None);
    assert!(!listen.has_token() && MCP.has_token() && !Style::ETHEREUM.has_token());
    assert_eq!(listen.token(json(r#"{"_meta":{"progressToken":1}}"#)), None);
    assert!(listen.ask((), "p1").is_err());
    let uri = OwnedJson::parse(
        r#"{"uri":"a","_meta":{"x":1,"io.modelcontextprotocol/subscriptionId":2}}"#.into(),
    );
    let params = listen.params(json("1.0"), &uri.unwrap()).unwrap();
    let expected = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":1.0,"x":1},"uri":"a"}"#;
    assert_eq!(params.as_str(), expected);
    let (id, event) = listen.read(params.as_json()).unwrap();
    assert_eq!((id.as_str(), event.as_str()), ("1.0", expected));
}
