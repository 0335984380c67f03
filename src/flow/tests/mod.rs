//! Flows without a connection, and over real connections in memory, in virtual time.

use super::*;
use crate::{Instant, Json};

mod consumers;
mod end;
mod pairs;
mod producers;
mod random;
mod wire;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn json(text: &str) -> Json<'_> {
    Json::parse_str(text).unwrap()
}

// FLO-02
#[test]
fn the_two_methods_have_exactly_their_names_behind_the_prefix() {
    let config = FlowConfig::new();
    let cases = [
        (
            "kotlinx.rpc.jsonrpc.internal.nextFlowValue",
            Some(FlowMethod::Next),
        ),
        (
            "kotlinx.rpc.jsonrpc.internal.cancelFlow",
            Some(FlowMethod::Cancel),
        ),
        ("kotlinx.rpc.jsonrpc.internal.nextflowvalue", None),
        ("kotlinx.rpc.jsonrpc.internal.", None),
        ("kotlinx.rpc.jsonrpc.internal.cancelFlow ", None),
        ("nextFlowValue", None),
        ("", None),
    ];
    for (name, method) in cases {
        assert_eq!(config.method(name), method, "{name}");
    }
    let mut config = config;
    config.prefix = "";
    assert_eq!(config.method("nextFlowValue"), Some(FlowMethod::Next));
    assert_eq!(config.name(FlowMethod::Cancel), "cancelFlow");
}

// FLO-06 FLO-13
#[test]
fn the_params_are_the_id_alone_in_an_array_or_an_object() {
    let cases = [
        ("[7]", Some("7")),
        ("[7.0]", Some("7.0")),
        (r#"{"id":7}"#, Some("7")),
        (r#"{"any":-1}"#, Some("-1")),
        ("[18446744073709551616]", Some("18446744073709551616")),
        ("[]", None),
        ("{}", None),
        ("[7,8]", None),
        (r#"{"a":7,"b":8}"#, None),
        (r#"["7"]"#, None),
        ("[7.5]", None),
        ("[null]", None),
        ("[[7]]", None),
        ("7", None),
    ];
    for (params, id) in cases {
        let read = super::config::read_params(Some(json(params)));
        assert_eq!(read.map(Json::as_str), id, "{params}");
    }
    assert_eq!(super::config::read_params(None), None);
}

#[test]
fn a_flow_costs_less_than_the_bytes_that_its_limit_names() {
    let producer = size_of::<(FlowId, super::producers::Producer<crate::ReplyToken>)>();
    let consumer = size_of::<(ConsumerId, super::consumers::Consumer)>();
    assert!(producer < 256 && consumer < 256, "{producer}, {consumer}");
}
