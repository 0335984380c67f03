//! Ids, names, errors and presets as values.

use std::collections::HashSet;

use antiphon::{
    AcpVersion, Config, ErrorObject, Framing, Id, Input, Json, McpRevision, MethodName, Outcome,
    OwnedId, OwnedJson, codes,
};

use crate::{connection, id, json};

// MSG-06 MSG-29
#[test]
fn ids_convert_compare_hash_and_print() {
    assert_eq!(OwnedId::from(7).as_id(), id("7.0"));
    assert_eq!(OwnedId::from("a\"b").as_id(), id(r#""\u0061\"b""#));
    assert_eq!(OwnedId::from(String::from("x")).to_string(), "\"x\"");
    assert_eq!(
        (Id::NULL.to_string(), Id::NULL.is_null()),
        ("null".into(), true)
    );
    assert_ne!(id("1"), id("\"1\""));
    assert_ne!(id("1.9"), id("1.1"));
    assert_ne!(id("null"), id("0"));
    assert_eq!(id("-0"), id("0"));
    assert_eq!(id("1e400").text(), "1e400");
    assert_ne!(id("1e400"), id("1e401"));
    assert_eq!(id("100e398"), id("1e400"));
    assert_eq!(id("18446744073709551615").as_u64(), Some(u64::MAX));
    assert_eq!(id("18446744073709551616").as_u64(), None);
    assert_eq!(id("1.5").as_u64(), None);
    assert_eq!(id("\"\\u00e9\"").as_text().as_deref(), Some("é"));
    assert_eq!(id("\"\\ud800\"").as_text(), None);
    let ids = ["1", "1.0", "1e0", "10e-1", "\"1\"", "\"\\u0031\"", "null"];
    let set: HashSet<OwnedId> = ids.iter().map(|text| id(text).into_owned()).collect();
    assert_eq!(set.len(), 3);
    assert!(Id::new(json("[1]")).is_none() && Id::new(json("{}")).is_none());
}

// MSG-06 SEC-11
#[test]
fn comparing_ids_with_huge_exponents_costs_nothing() {
    let digits = "9".repeat(1000);
    for (left, right, same) in [
        (
            "1e999999999999".to_owned(),
            "1e999999999998".to_owned(),
            false,
        ),
        (
            "1e999999999999".to_owned(),
            "10e999999999998".to_owned(),
            true,
        ),
        (format!("1e{digits}"), format!("1e{digits}"), true),
        (format!("1e{digits}"), format!("1e-{digits}"), false),
        (format!("0e{digits}"), "0".to_owned(), true),
    ] {
        assert_eq!(id(&left) == id(&right), same, "{left} {right}");
    }
}

// MSG-09 MSG-10 MSG-29
#[test]
fn method_names_are_checked_and_know_the_system_ones() {
    assert!(MethodName::new("").is_none() && MethodName::new(" \t").is_none());
    let system = |name| MethodName::new(name).unwrap().is_system();
    assert!(system("rpc.discover") && system("rpc."));
    assert!(!system("rpc") && !system("RPC.discover") && !system("rpcdiscover"));
}

// MSG-15 MSG-16 ERR-01
#[test]
fn errors_have_constructors_and_outcomes_a_success_query() {
    let table = [
        (ErrorObject::parse_error(), -32700, "Parse error"),
        (ErrorObject::invalid_request(), -32600, "Invalid Request"),
        (ErrorObject::method_not_found(), -32601, "Method not found"),
        (ErrorObject::invalid_params(), -32602, "Invalid params"),
        (ErrorObject::internal_error(), -32603, "Internal error"),
        (
            ErrorObject::request_cancelled(),
            -32001,
            "Request cancelled",
        ),
        (ErrorObject::server_busy(), -32002, "Server busy"),
        (
            ErrorObject::batch_too_large(100),
            -32003,
            "Batch too large, limit: 100",
        ),
        (
            ErrorObject::request_too_large(9),
            -32004,
            "Request too large, limit: 9",
        ),
        (ErrorObject::timeout(), -32005, "Request timeout"),
    ];
    for (error, code, message) in table {
        assert_eq!((error.code(), error.message()), (code, message));
        assert!(error.data().is_none());
    }
    assert!(Outcome::Ok(Json::NULL).is_ok());
    assert!(!Outcome::TimedOut.is_ok());
    assert!(codes::is_reserved(-32500) && codes::is_server_error(-32050));
}

// STD-06
#[test]
fn presets_differ_where_their_protocols_do_and_nowhere_else() {
    use McpRevision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};
    assert_eq!(Config::strict(), Config::new());
    assert_eq!(Config::default(), Config::new());
    assert_eq!(Config::mcp(V2024_11_05), Config::mcp(V2025_06_18));
    assert_eq!(Config::mcp(V2025_11_25), Config::mcp(V2026_07_28));
    let mut with_batches = Config::mcp(V2025_06_18);
    with_batches.dialect.batches = true;
    assert_eq!(with_batches, Config::mcp(V2025_03_26));
    let mut acp = Config::acp(AcpVersion::V1);
    acp.dialect.batches = true;
    assert_eq!(acp, Config::acp(AcpVersion::V2));
    let framings = [
        (Config::lsp(), Framing::ContentLength),
        (Config::mcp(V2025_06_18), Framing::Newline),
        (Config::acp(AcpVersion::V1), Framing::Newline),
        (Config::ethereum(), Framing::Concatenated),
        (Config::bitcoin(), Framing::Messages),
        (Config::bitcoin_legacy(), Framing::Messages),
        (Config::electrum(), Framing::Newline),
        (Config::kodi(), Framing::Concatenated),
        (Config::v1(), Framing::Newline),
        (Config::mixed(), Framing::Newline),
    ];
    for (config, framing) in framings {
        assert_eq!(config.framing, framing);
        assert!(config.limits.soft_max_outbox_bytes <= config.limits.max_outbox_bytes);
        assert!(config.max_memory_bytes() < usize::MAX);
    }
}

#[test]
fn presets_let_through_what_their_documentation_says() {
    const MIB: usize = 1 << 20;
    let limits = |config: Config| {
        (
            config.limits.max_message_bytes / MIB,
            config.limits.soft_max_outbox_bytes / MIB,
            config.limits.max_outbox_bytes / MIB,
        )
    };
    assert_eq!(limits(Config::lsp()), (64, 64, 128));
    assert_eq!(limits(Config::mcp(McpRevision::V2025_06_18)), (16, 16, 64));
    assert_eq!(limits(Config::acp(AcpVersion::V1)), (16, 16, 64));
    assert_eq!(limits(Config::ethereum()), (5, 1, 64));
    assert_eq!(limits(Config::bitcoin()), (32, 1, 64));
    assert_eq!(limits(Config::electrum()), (4, 1, 16));
    assert_eq!(limits(Config::kodi()), (1, 1, 16));
    assert_eq!(Config::ethereum().limits.max_batch_reply_bytes, 25_000_000);
    assert_eq!(Config::bitcoin().limits.max_batch_reply_bytes, 32 * MIB);
    let items = |config: Config| (config.limits.max_batch_items, config.limits.max_batch_calls);
    assert_eq!(items(Config::ethereum()), (1000, 1000));
    assert_eq!(items(Config::bitcoin()), (1000, 1000));
    assert_eq!(items(Config::electrum()), (345, 345));
}

#[test]
fn a_malformed_message_shows_why_and_how_long_it_is() {
    let mut conn = connection(0);
    let mut input = Input::text("{\"secret\":7}");
    let Some(event) = conn.poll_event(&mut input) else {
        panic!("it is malformed");
    };
    let shown = format!("{event:?}");
    assert!(
        shown.contains("Unrecognisable") && shown.contains("bytes: 12"),
        "{shown}"
    );
    assert!(!shown.contains("secret"));
}

#[test]
fn json_texts_are_the_same_when_they_are_written_the_same() {
    let [one, same, other] =
        ["[1]", " [1]", "[1.0]"].map(|text| OwnedJson::parse(text.into()).unwrap());
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert_ne!(one.as_json(), other.as_json());
    assert_eq!(
        (one.to_string(), format!("{other}")),
        ("[1]".into(), "[1.0]".into())
    );
}
