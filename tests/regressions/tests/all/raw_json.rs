//! Raw JSON as a part of serde's values, which reached the wire as an object with a private key. Some
//! tests are named after that fault, and assert that it is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Sender, channel};

use antiphon::OwnedError;
use antiphon::{Config, Connection, DecodeErrorKind, Input, Json, OwnedJson};
use antiphon_net::{Answer, Notification, Request};
use antiphon_regressions::{LONG, Rt, on_every_runtime};
use serde::de::IntoDeserializer;
use serde::de::value::{Error as OtherError, StrDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is sent and answered.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Token {
    t: OwnedJson,
}

fn token() -> OwnedJson {
    OwnedJson::parse("\"tok\"".to_owned()).expect("JSON")
}

/// Passes on the params of notifications, and answers with a `Value` that holds raw JSON.
#[derive(Clone)]
struct Told(Sender<String>);

impl Told {
    fn tell(&self, notification: &Notification) {
        let params = notification.raw_params().map(|params| params.to_string());
        // The test may be over.
        let _ = self.0.send(params.unwrap_or_default());
    }
}

fn answer() -> Answer {
    json!({ "t": token() }).into()
}

impl antiphon_blocking::Service for Told {
    fn request(&mut self, _: &antiphon_blocking::Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(answer())
    }

    fn notification(&mut self, _: &antiphon_blocking::Peer, notification: Notification) {
        self.tell(&notification);
    }
}

impl antiphon_net::Service for Told {
    async fn request(&self, _: &antiphon_net::Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(answer())
    }

    async fn notification(&self, _: &antiphon_net::Peer, notification: Notification) {
        self.tell(&notification);
    }
}

const WANTED: &str = r#"{"t":"tok"}"#;

// USE-16
#[test]
fn raw_json_in_a_tree_was_sent_as_an_object_with_a_private_key_on_threads() {
    use antiphon_blocking::{Link, attach};
    let (told, heard) = channel();
    let (near, far) = Link::pair();
    let _server = attach(far, Config::new(), Told(told)).expect("a thread");
    let peer = attach(near, Config::new(), ()).expect("a thread");
    let sent = peer.notify("p", &json!({ "t": token() }));
    sent.wait().expect("sent");
    assert_eq!(heard.recv_timeout(LONG).expect("told"), WANTED);
    let call = peer.call("q", &Token { t: token() });
    let answer: Token = call.wait().expect("an answer");
    assert_eq!(answer.t, token());
}

macro_rules! on_tasks {
    ($name:ident, $adapter:ident) => {
        async fn $name() {
            use $adapter::{Link, attach};
            let (told, heard) = channel();
            let (near, far) = Link::pair();
            let _server = attach(far, Config::new(), Told(told));
            let peer = attach(near, Config::new(), ());
            let sent = peer.notify("p", &json!({ "t": token() })).await;
            sent.expect("sent");
            let answer: Token = peer.call("q", &Token { t: token() }).await.expect("answer");
            assert_eq!(answer.t, token());
            // A notification is handled before the request after it begins.
            assert_eq!(heard.try_recv().expect("told"), WANTED);
        }
    };
}

on_tasks!(on_tokio, antiphon_tokio);
on_tasks!(on_futures, antiphon_async_std);

on_every_runtime! {
    raw_json_in_a_tree_was_sent_as_an_object_with_a_private_key;
}

// USE-16
fn raw_json_in_a_tree_was_sent_as_an_object_with_a_private_key(rt: Rt) {
    rt.run(|_| async move {
        match rt {
            Rt::Tokio | Rt::TokioLocal => on_tokio().await,
            Rt::Smol | Rt::AsyncStd => on_futures().await,
        }
    });
}

/// The params that a notification carries, if they can be sent.
fn sent(params: &impl Serialize) -> Option<String> {
    let mut conn: Connection = Connection::new(Config::new());
    conn.notify("p", params).ok()?;
    let frame = conn.poll_transmit().expect("a frame");
    let frame: Value = serde_json::from_slice(frame).expect("JSON");
    Some(frame["params"].to_string())
}

// USE-16 SER-07
#[test]
fn raw_json_passes_through_trees_text_and_fields_as_the_json_it_is() {
    let text = r#"{"n":1.50,"s":"é","a":[null]}"#;
    let raw = OwnedJson::parse(text.to_owned()).expect("JSON");
    let json = Json::parse_str(text).expect("JSON");
    assert_eq!(
        serde_json::to_string(&(&raw, json)).expect("text"),
        format!("[{text},{text}]")
    );
    let tree = serde_json::to_value([json]).expect("a tree");
    assert_eq!(tree, json!([{"n": 1.50, "s": "é", "a": [null]}]));
    assert_eq!(
        sent(&json!([{ "deep": [raw] }])),
        sent(&json!([{ "deep": [tree[0]] }]))
    );
    let back: Vec<OwnedJson> = serde_json::from_value(tree).expect("raw JSON out of a tree");
    assert_eq!(back[0].as_json().get("s").map(Json::as_str), Some("\"é\""));
    let borrowed: BTreeMap<&str, Json<'_>> = serde_json::from_str(text).expect("a map");
    assert_eq!(borrowed["n"].as_str(), "1.50");
    let read: OwnedJson = serde_json::from_reader(text.as_bytes()).expect("JSON");
    assert_eq!(read.as_str(), text);
    let params = json.decode::<BTreeMap<String, OwnedJson>>().expect("a map");
    assert_eq!(params["a"].as_str(), "[null]");
}

// USE-16
#[test]
fn keys_by_which_serde_json_reads_another_document_are_refused_from_anybody() {
    for key in [
        "$serde_json::private::RawValue",
        "$serde_json::private::Number",
        "$serde_json::private::",
    ] {
        assert_eq!(sent(&BTreeMap::from([(key, "[1]")])), None, "{key}");
        assert_eq!(sent(&json!({ "a": [{ key: "[1]" }] })), None, "{key}");
        assert!(
            sent(&json!([key])).is_some(),
            "as a value it is a word like any other"
        );
        for written in [
            key.to_owned(),
            key.replace('$', "\\u0024"),
            key.replace("pri", "\\u0070ri"),
        ] {
            let text = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[{{\"{written}\": \"[1]\"}}]}}\n"
            );
            let mut conn: Connection = Connection::new(Config::new());
            let mut input = Input::stream(text.as_bytes());
            let Some(antiphon::Event::Notification(told)) = conn.poll_event(&mut input) else {
                panic!("{text}");
            };
            let params = told.params.expect("params");
            let refused = params.decode::<Value>().expect_err("a reserved key");
            assert_eq!(refused.kind(), DecodeErrorKind::ReservedKey, "{text}");
            let refused = params
                .decode::<Vec<OwnedJson>>()
                .expect_err("a reserved key");
            assert_eq!(refused.kind(), DecodeErrorKind::ReservedKey, "{text}");
            let owned = told.into_owned();
            let params = owned.params().expect("params");
            assert!(params.decode::<Value>().is_err(), "{text}");
            // A text that is passed on whole is not read, and stays as it is.
            conn.notify("p", params).expect("sent");
            let frame = String::from_utf8_lossy(conn.poll_transmit().expect("a frame"));
            assert!(frame.contains(params.as_str()), "{frame}");
        }
    }
}

/// Prints raw JSON by a serializer that is not serde_json's.
struct Printed(OwnedJson);

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(f)
    }
}

// USE-16
#[test]
fn other_formats_refuse_raw_json_instead_of_writing_a_strange_struct() {
    use fmt::Write;
    assert!(write!(String::new(), "{}", Printed(token())).is_err());
    let other: StrDeserializer<'_, OtherError> = "text".into_deserializer();
    assert!(OwnedJson::deserialize(other).is_err());
    let other: StrDeserializer<'_, OtherError> = "text".into_deserializer();
    assert!(Json::deserialize(other).is_err());
}
