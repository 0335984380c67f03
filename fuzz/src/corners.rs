//! Small scenes that choices made at random hardly ever come upon; a byte of a case of `values` picks one.
//!
//! The rule guarded here: a scene is not more than the few steps that lead to its corner, and says what is right there.

use std::io::{self, Write};
use std::time::Duration;

use antiphon::{
    Closed, Config, Connection, ConnectionError, ErrorObject, ErrorProfile, Event, Framer, Framing,
    Id, IdScheme, Input, Instant, Json, NullIdError, Outcome, RefusedCause, SendError,
};

pub(crate) fn run(which: u8) {
    match which % 8 {
        0 => {}
        1 => draining(),
        2 => huge_exponents(),
        3 => half_a_frame(),
        4 => shown_otherwise(),
        5 => an_exchange_without_an_answer(),
        6 => the_last_numbers(),
        _ => unwritable(),
    }
}

fn id(text: &str) -> Id<'_> {
    Id::new(Json::parse_str(text).expect("JSON")).expect("a scalar")
}

/// Who takes nothing new says so with the code of the profile.
fn draining() {
    let mut config = Config::new();
    config.error_profile = ErrorProfile::WebSocketDraft;
    let mut conn: Connection<u64> = Connection::new(config);
    conn.call("m", (), None, 0).expect("it is the first");
    conn.drain();
    let mut asked = Input::text(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    let Some(Event::Refused(refused)) = conn.poll_event(&mut asked) else {
        panic!("it is refused");
    };
    assert_eq!(refused.cause, RefusedCause::Draining);
    assert_eq!(
        refused.answered,
        Some(antiphon::codes::websocket_draft::SERVICE_UNAVAILABLE)
    );
}

/// Numbers too large to be worked out are the same when they are written the same.
fn huge_exponents() {
    let nines = "9".repeat(45);
    let [one, other] = ["1", "2"].map(|digit| format!("{digit}e{nines}"));
    assert_eq!(id(&one), id(&one.clone()));
    assert_ne!(id(&one), id(&other));
    assert_ne!(id(&one), id("1"));
}

/// A frame that is begun and not finished ends the connection in time.
fn half_a_frame() {
    let mut config = Config::new();
    config.frame_time_max = Some(Duration::from_millis(5));
    let mut conn: Connection<u64> = Connection::new(config);
    assert!(conn.poll_event(&mut Input::stream(b"{")).is_none());
    conn.handle_timeout(Instant::from_millis(5));
    let event = conn.poll_event(&mut Input::stream(b"{"));
    let why = Closed::Failed(ConnectionError::FrameTimedOut);
    assert!(matches!(event, Some(Event::Closed(closed)) if closed == why));
}

/// Less of a batch than was shown before tells nothing; another message ends a half-told one.
fn shown_otherwise() {
    let mut config = Config::new();
    config.null_id_error = NullIdError::FailAll;
    let mut conn: Connection<u64> = Connection::new(config);
    let batch = br#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]
"#;
    assert!(conn.poll_event(&mut Input::stream(batch)).is_some());
    assert!(conn.poll_event(&mut Input::stream(&batch[..9])).is_none());
    assert!(conn.poll_event(&mut Input::stream(batch)).is_some());
    for tag in 0..3 {
        conn.call("m", (), None, tag).expect("there is room");
        assert!(conn.poll_transmit().is_some());
    }
    let error = br#"{"jsonrpc":"2.0","error":{"code":1,"message":""},"id":null}
"#;
    let event = conn.poll_event(&mut Input::stream(error));
    assert!(matches!(event, Some(Event::Response(_))));
    let other = format!(
        "{}\n",
        r#"{"jsonrpc":"2.0","method":"c","params":["longer than the error before it"]}"#
    );
    let event = conn.poll_event(&mut Input::stream(other.as_bytes()));
    assert!(matches!(event, Some(Event::Notification(told)) if told.method == "c"));
    assert_eq!(conn.calls_open(), 2);
}

/// An exchange that ends without its answer says that it is missing.
fn an_exchange_without_an_answer() {
    let config = Config::new().for_client_exchange();
    assert_eq!(
        Framer::new(config.framing, 10, 10).framing(),
        Framing::Messages
    );
    assert!(config.memory_bytes_max() > 0);
    let mut conn: Connection<u64> = Connection::new(config);
    conn.call("m", (), None, 0).expect("it is the first");
    assert!(conn.take_transmit(&mut Vec::new()));
    conn.handle_eof();
    let Some(Event::Response(settled)) = conn.poll_event(&mut Input::none()) else {
        panic!("it settles");
    };
    let owned = settled.outcome.clone().into_owned();
    assert!(matches!(settled.outcome, Outcome::Missing), "{owned:?}");
}

/// Numbers end; prefixes are cut at a character.
fn the_last_numbers() {
    let mut config = Config::new();
    config.first_call = (1 << 53) - 2;
    let mut conn: Connection<u64> = Connection::new(config);
    let last = id("9007199254740991");
    let named = conn
        .call_with_id(last, "m", (), None, 0)
        .expect("it is free");
    let refused = conn.call("m", (), None, 1).expect_err("no number is left");
    assert_eq!(refused.error, SendError::IdsUsedUp);
    conn.cancel(named);
    let refused = conn.set_deadline(named, None).expect_err("it is over");
    assert!(format!("{refused}").contains("not open"));
    let digits = "012345678901234567890123456789012345678901234567890123456789";
    let cut: [(&'static str, &str); 2] = [
        (
            "012345678901234567890123456789012345678901234567890123456789abcd\u{e9}",
            "abcd1\"",
        ),
        (
            "012345678901234567890123456789012345678901234567890123456789abc\u{e9}",
            "abc1\"",
        ),
    ];
    for (prefix, end) in cut {
        config.first_call = 1;
        config.id_scheme = IdScheme::Prefixed(prefix);
        let mut conn: Connection<u64> = Connection::new(config);
        conn.call("m", (), None, 0).expect("it is the first");
        let sent = conn.poll_transmit().expect("it is sent");
        let sent = std::str::from_utf8(sent).expect("text");
        assert!(sent.contains(&format!("{digits}{end}")), "{sent}");
    }
}

/// What has no JSON form is refused wherever it is given, and nothing is written of it.
fn unwritable() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no room"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let no_key = std::collections::BTreeMap::from([((), ())]);
    assert!(antiphon::encode_response(id("1"), &no_key).is_err());
    assert!(
        antiphon::OwnedError::new(1, "m")
            .with_data(&no_key)
            .is_err()
    );
    assert_eq!(ErrorObject::of(7).message(), "Error");
    let json = Json::parse_str("[1]").expect("JSON");
    assert!(serde_json::to_writer(Full, &json).is_err());
    assert!(serde_json::to_string(&std::collections::BTreeMap::from([(1, json)])).is_ok());
}
