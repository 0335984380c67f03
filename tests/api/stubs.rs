//! The messages of a typed client, the calls that loggers see, and small parts of `service`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon::service::{
    AnyRequest, Arguments, Asked, Bucket, CallLog, Caller, Chain, Cx, Decision, Encoding,
    Interceptor, LoggedCall, Logging, Naming, ParamInfo, Reply, Scheduler, Stub,
};
use antiphon::{ErrorObject, Instant, Json, OwnedError, OwnedId, Params, Payload, RpcError};
use serde::de::DeserializeOwned;

use crate::json;

/// Keeps what is sent.
#[derive(Default)]
struct Sent {
    only: Option<Encoding>,
    all: RefCell<Vec<String>>,
}

impl Sent {
    fn keep(&self, kind: &str, method: &str, params: impl Payload) {
        let mut text = Vec::new();
        let params = match antiphon::Encoded::write(&antiphon_payload(params), &mut text) {
            Ok(_) => String::from_utf8(text).unwrap(),
            Err(error) => error.to_string(),
        };
        self.all
            .borrow_mut()
            .push(format!("{kind} {method} {params}"));
    }
}

/// The params as a value, for a test to look at.
fn antiphon_payload(params: impl Payload) -> antiphon::OwnedJson {
    let mut conn: antiphon::Connection<u8> = antiphon::Connection::new(antiphon::Config::new());
    conn.notify("m", params).unwrap();
    let sent = conn.poll_transmit().unwrap().to_vec();
    let message = Json::parse(sent.trim_ascii()).unwrap();
    message.get("params").unwrap_or(Json::NULL).to_owned_json()
}

impl Caller for Sent {
    type Call<'c, R: DeserializeOwned + 'c, E: RpcError + 'c> = ();
    type Notified<'c> = ();

    fn encoding(&self) -> Option<Encoding> {
        self.only
    }

    fn start<'c, R, E>(&'c self, method: Cow<'c, str>, params: impl Payload)
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        self.keep("call", &method, params);
    }

    fn tell<'c>(&'c self, method: Cow<'c, str>, params: impl Payload) {
        self.keep("tell", &method, params);
    }
}

// CLI-26 GEN-04 GEN-05
#[test]
fn a_stub_sends_by_name_unless_told_otherwise() {
    let sent = Sent::default();
    let stub = Stub::new(&sent, "calc");
    stub.call::<u8, OwnedError>("add", &["a", "b"], &(&1, &"x"));
    stub.call::<u8, OwnedError>("none", &[], &());
    stub.notify("log", &["line"], &(&"x",));
    let stub = Stub::new(&sent, "calc")
        .with_encoding(Encoding::ByPosition)
        .with_prefix("");
    stub.call::<u8, OwnedError>("add", &["a", "b"], &(&1, &"x"));
    let stub = stub.with_prefix("other");
    stub.notify("log", &["line"], &(&"x",));
    let expected = [
        r#"call calc.add {"a":1,"b":"x"}"#,
        "call calc.none null",
        r#"tell calc.log {"line":"x"}"#,
        r#"call add [1,"x"]"#,
        r#"tell other.log ["x"]"#,
    ];
    assert_eq!(*sent.all.borrow(), expected);
    // What the caller demands comes before what the stub was told.
    for only in [Encoding::ByName, Encoding::ByPosition] {
        let sent = Sent {
            only: Some(only),
            ..Sent::default()
        };
        let other = match only {
            Encoding::ByName => Encoding::ByPosition,
            Encoding::ByPosition => Encoding::ByName,
        };
        let stub = Stub::new(&sent, "").with_encoding(other);
        stub.call::<u8, OwnedError>("m", &["a"], &(&1,));
        let expected = if only == Encoding::ByName {
            r#"call m {"a":1}"#
        } else {
            "call m [1]"
        };
        assert_eq!(*sent.all.borrow(), [expected]);
    }
}

struct Called {
    is_registered: bool,
}

impl AnyRequest for Called {
    fn method(&self) -> &str {
        "m"
    }

    fn params(&self) -> Option<Json<'_>> {
        Some(json(r#"["secret"]"#))
    }

    fn id(&self) -> Option<OwnedId> {
        None
    }

    fn is_notification(&self) -> bool {
        false
    }

    fn connection(&self) -> u32 {
        7
    }

    fn now(&self) -> Instant {
        Instant::ZERO
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn say(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl CallLog for Lines {
    fn request(&self, call: &LoggedCall<'_>, params: Option<&str>) {
        self.say(format!(
            "{} from {}: {params:?}",
            call.known_method(),
            call.connection
        ));
    }

    fn response(&self, call: &LoggedCall<'_>, duration: Duration, result: Option<&str>) {
        self.say(format!("{} in {duration:?}: {result:?}", call.span_name()));
    }

    fn error(
        &self,
        call: &LoggedCall<'_>,
        duration: Duration,
        error: &ErrorObject<'_>,
        cause: Option<&dyn std::error::Error>,
    ) {
        let cause = cause.map(ToString::to_string);
        self.say(format!(
            "{} in {duration:?}: {} {cause:?}",
            call.method,
            error.code()
        ));
    }

    fn given_up(&self, call: &LoggedCall<'_>) {
        self.say(format!("{} given up", call.method));
    }
}

/// Sends a call that gets this answer through one interceptor, and then gives it up.
fn seen<L: Interceptor<Called>>(log: L, is_registered: bool, answer: Result<&str, OwnedError>) {
    let mut chain = Chain::default();
    assert!(chain.is_empty());
    chain.push(log);
    assert!(!chain.is_empty());
    let call = Called { is_registered };
    let (mut cx, mut asked) = (Cx::new(Instant::ZERO, call.is_registered), 0);
    let passed = chain.decide(Decision::Continue, &mut asked, &mut cx, &call);
    assert!(matches!(passed, Asked::Passed));
    let outcome = answer
        .map(|text| text.as_bytes().to_vec())
        .map_err(Into::into);
    let mut reply = Reply::new(Some(outcome), Duration::from_millis(3));
    chain.response(&mut asked, &cx, &call, &mut reply);
    chain.given_up_at(0, &cx, &call);
}

// INT-07 OBS-01 OBS-08 OBS-09 SEC-15
#[test]
fn a_logger_is_told_of_calls_and_shown_what_is_redacted() {
    let lines = Lines::default();
    seen(Logging::new(lines.clone()), true, Ok("[1]"));
    assert_eq!(
        lines.take(),
        ["m from 7: None", "m in 3ms: None", "m given up"]
    );
    let redact =
        |method: &str, payload: &str| (method == "m").then(|| payload.replace("secret", "*"));
    let shown = Logging::new(lines.clone()).with_payloads(redact);
    seen(shown.clone(), false, Ok("[\"secret\"]"));
    let expected = [
        r#"_OTHER from 7: Some("[\"*\"]")"#,
        r#"jsonrpc in 3ms: Some("[\"*\"]")"#,
        "m given up",
    ];
    assert_eq!(lines.take(), expected);
    seen(shown, true, Err(OwnedError::internal("why".into())));
    assert_eq!(lines.take()[1], r#"m in 3ms: -32603 Some("why")"#);
    let hidden = Logging::new(lines.clone()).with_payloads(|_, _| None);
    seen(hidden, true, Ok("1"));
    assert_eq!(lines.take()[..2], ["m from 7: None", "m in 3ms: None"]);
}

// SRV-23
#[test]
fn a_scheduler_says_who_stands_in_line() {
    let mut scheduler = Scheduler::new(1);
    let mut members = [scheduler.join(), scheduler.join()];
    assert_eq!(scheduler.begin(&mut members[0], 1, || 0), 1);
    let second = &mut members[1];
    assert_eq!(scheduler.begin(second, 1, || 1), 0);
    assert!(second.is_in_line());
    let shown = "Scheduler { running: 1, in_line: 1, .. }";
    assert_eq!(format!("{scheduler:?}"), shown);
    // One that steps out before its turn is not in line any more, and may come again.
    let mut called = Vec::new();
    scheduler.step_out(second, &mut called);
    assert!(!second.is_in_line());
    assert_eq!(scheduler.begin(second, 1, || 2), 0);
    scheduler.end(1, &mut called);
    assert_eq!(called, [2]);
}

// SRV-06 SRV-08 SRV-10 INT-09
#[test]
fn small_parts_do_what_they_say() {
    let arguments = Arguments::of(Some(json("[1]")), &["a", "b"]).unwrap();
    assert_eq!(arguments.raw(0).map(Json::as_str), Some("1"));
    assert!(arguments.raw(1).is_none() && arguments.raw(2).is_none());
    assert_eq!(Naming::FullyQualified.name("", "add").unwrap(), "add");
    assert_eq!(
        Naming::Prefixed("a".into()).name("", "add").unwrap(),
        "a.add"
    );
    #[derive(serde::Deserialize)]
    #[allow(dead_code)]
    struct Pair {
        first: u8,
        second: u8,
    }
    assert_eq!(Params::<Pair>::names(), ["first", "second"]);
    assert_eq!(Params::<u8>::names(), [""; 0]);
    let shown = format!("{:?}", ParamInfo::of::<Option<u8>>("a"));
    assert!(shown.contains("\"a\"") && shown.contains("true"), "{shown}");
    // Three at once, then one after half a second each.
    let mut bucket = Bucket::per_second(2, 3);
    let taken = (0..5).filter(|_| bucket.take(Instant::ZERO)).count();
    assert_eq!(
        (taken, bucket.wait(Instant::ZERO)),
        (3, Duration::from_millis(500))
    );
    let later = Instant::ZERO + Duration::from_millis(499);
    assert_eq!(
        (bucket.take(later), bucket.wait(later)),
        (false, Duration::from_millis(1))
    );
    let later = later + Duration::from_millis(1);
    assert!(bucket.wait(later).is_zero() && bucket.take(later) && !bucket.take(later));
}
