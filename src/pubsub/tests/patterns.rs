//! The rules of topics and patterns.

use alloc::format;
use alloc::string::String;

use crate::pubsub::InvalidTopic::{
    EmptyToken, InvalidCharacter, NotLast, NotOneTopic, PartOfToken, Reserved, TooLong,
    TooManyTokens,
};
use crate::pubsub::{InvalidTopic, Pattern, Publication, PublishError};

// PUB-04
#[test]
fn a_topic_is_tokens_with_dots_between_them() {
    let sixteen = ["a"; 16].join(".");
    let seventeen = ["a"; 17].join(".");
    let longest = "x".repeat(256);
    for text in ["a", "stock.prices.ACME", "Ä.ß-_/:\"\\", &sixteen, &longest] {
        assert_eq!(Pattern::parse(text).unwrap().as_str(), text);
    }
    let million = "x".repeat(1 << 20);
    let dots = ".".repeat(256);
    for (text, why) in [
        ("", EmptyToken),
        (".", EmptyToken),
        (".a", EmptyToken),
        ("a.", EmptyToken),
        ("a..b", EmptyToken),
        (&dots, EmptyToken),
        ("a b", InvalidCharacter),
        ("a.\0", InvalidCharacter),
        ("a\n", InvalidCharacter),
        ("a.\u{a0}b", InvalidCharacter),
        ("\u{85}", InvalidCharacter),
        ("\u{7f}", InvalidCharacter),
        ("$SYS.>", Reserved),
        ("$SYS", Reserved),
        (">.a", NotLast),
        ("a.>.b", NotLast),
        ("a.>.", NotLast),
        ("a*", PartOfToken),
        ("a.>b", PartOfToken),
        ("**", PartOfToken),
        (&seventeen, TooManyTokens),
        (&format!("{sixteen}.>"), TooManyTokens),
        (&format!("{longest}x"), TooLong),
        (&million, TooLong),
    ] {
        let start: String = text.chars().take(20).collect();
        assert_eq!(Pattern::parse(text), Err(why), "{start}");
        assert!(!format!("{why}").is_empty());
    }
}

// PUB-05
#[test]
fn a_star_is_one_token_and_an_arrow_all_that_follow() {
    for (pattern, topic, expected) in [
        ("events.user", "events.user", true),
        ("events.user", "events.User", false),
        ("events.user", "events.users", false),
        ("events.*", "events.user", true),
        ("events.*", "events.user.login", false),
        ("events.*", "events", false),
        ("events.>", "events.user", true),
        ("events.>", "events.user.login", true),
        ("events.>", "events", false),
        ("*.user.>", "events.user.login", true),
        ("*.user.>", "events.user", false),
        ("*.*", "a.b", true),
        ("*", "a.b", false),
        (">", "a", true),
        (">", "a.b.c", true),
    ] {
        let parsed = Pattern::parse(pattern).unwrap();
        assert_eq!(parsed.matches(topic), expected, "{pattern} {topic}");
        assert_eq!(format!("{parsed}"), pattern);
    }
}

// PUB-06
#[test]
fn publishing_to_a_pattern_is_a_local_error() {
    let publish = |topic: &str| match Publication::new(topic, &1) {
        Err(PublishError::Topic(why)) => Some(why),
        _ => None,
    };
    for pattern in ["*", ">", "a.*", "a.>", "*.a"] {
        assert_eq!(publish(pattern), Some(NotOneTopic), "{pattern}");
    }
    let expected: Option<InvalidTopic> = Some(EmptyToken);
    assert_eq!(publish("a..b"), expected);
    let error = Publication::new("a..b", ()).unwrap_err();
    assert_eq!(format!("{error}"), "the topic is not valid");
    assert_eq!(publish("a.b"), None);
}

// PUB-02 PUB-03
#[test]
fn a_publication_is_the_params_of_the_notification() {
    assert_eq!(Publication::METHOD, "rpc.notification");
    let text = |publication: Publication| String::from(publication.params().as_str());
    let json = crate::Json::parse_str("{\"n\": 1.0}").unwrap();
    let publication = Publication::new("a.b", json).unwrap();
    assert_eq!(
        publication.bytes(),
        r#"{"topic":"a.b","data":{"n": 1.0}}"#.len()
    );
    assert_eq!(text(publication), r#"{"topic":"a.b","data":{"n": 1.0}}"#);
    assert_eq!(
        text(Publication::new("a.b", ()).unwrap()),
        r#"{"topic":"a.b","data":null}"#
    );
    assert_eq!(
        text(Publication::new(r#"q"\"#, &true).unwrap()),
        r#"{"topic":"q\"\\","data":true}"#
    );
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let deep = crate::Json::parse_str(&deep).unwrap();
    assert!(Publication::new("a", deep).is_ok());
    let deeper = format!("{}{}", "[".repeat(128), "]".repeat(128));
    let deeper = crate::Json::parse_str(&deeper).unwrap();
    let error = Publication::new("a", deeper).unwrap_err();
    assert!(matches!(error, PublishError::Encode(_)));
    assert!(core::error::Error::source(&error).is_some());
    assert_eq!(format!("{error}"), "the value has no JSON form");
}

// PUB-13
#[test]
fn topic_and_data_are_read_from_params_of_either_kind() {
    let read = |text: &str| {
        let params = crate::Json::parse_str(text).unwrap();
        let (topic, data) = Publication::read(params)?;
        Some(format!("{topic} {}", data.as_str()))
    };
    let expected = Some(String::from("a.b 1.0"));
    assert_eq!(read(r#"{"data":1.0,"topic":"a.b"}"#), expected);
    assert_eq!(read(r#"["\u0061.b",1.0]"#), expected);
    for text in [
        "{}",
        "[]",
        r#"{"topic":"a"}"#,
        r#"{"data":1}"#,
        r#"{"topic":1,"data":1}"#,
        r#"["a"]"#,
        r#"["\ud800",1]"#,
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}
