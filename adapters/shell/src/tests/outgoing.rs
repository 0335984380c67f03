//! Our calls with interceptors.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{CallError, ConnectionConfig, OutgoingCall, block_on};
use antiphon::service::{
    AnyRequest, BearerAuth, CallLog, Cx, Decision, Interceptor, LoggedCall, Logging, NoAnswer,
    Reply,
};
use antiphon::{CloseReason, Config, ErrorObject, OwnedError, OwnedJson, OwnedOutcome, SendError};

use super::measured::measured;
use super::support::{Side, poll_once};

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what it sees. The one that is called `b` also does to a method what the method's name says.
struct Seen(&'static str, Log);

impl Seen {
    fn note(&self, what: &str, call: &OutgoingCall) {
        let params = call.params().map_or("", |params| params.as_str());
        let kind = if call.is_notification() { "*" } else { "" };
        let line = format!("{}{what} {}{kind}{params}", self.0, call.method());
        self.1.lock().unwrap().push(line);
    }
}

fn json(value: &str) -> OwnedJson {
    OwnedJson::parse(value.into()).unwrap()
}

impl Interceptor<OutgoingCall> for Seen {
    fn request(&self, cx: &mut Cx, call: &OutgoingCall) -> Decision {
        self.note(">", call);
        assert!(call.is_outgoing() && cx.is_registered() && call.id().is_none());
        match (self.0, call.method()) {
            ("b", "changed") => {
                cx.set_method("other");
                cx.set_params(json("[7]"));
            }
            ("b", "known") => return Decision::Answer(Ok(json(r#""known""#))),
            ("b", "refused") => return OwnedError::new(7, "not now").into(),
            ("b", "broken") => return Decision::Fail("no token".into()),
            _ => {}
        }
        Decision::Continue
    }

    fn response(&self, _: &Cx, call: &OutgoingCall, reply: &mut Reply) {
        let millis = reply.duration().as_millis();
        let came = match (reply.result(), reply.error(), reply.no_answer()) {
            (Some(result), None, None) => result.to_owned(),
            (None, Some(error), None) => error.code().to_string(),
            (None, None, Some(why)) => why.as_str().to_owned(),
            other => panic!("{other:?}"),
        };
        self.note(&format!("< {millis} {came}"), call);
        if self.0 == "b" && call.method() == "mended" {
            reply.replace(Ok(json("\"mended\"")));
        }
    }

    fn given_up(&self, _: &Cx, call: &OutgoingCall) {
        self.note("x", call);
    }
}

/// A side whose calls two interceptors see.
fn seen() -> (Side, Log) {
    let log = Log::default();
    let options = ConnectionConfig::new(Config::new())
        .intercept(Seen("a", Arc::clone(&log)))
        .intercept(Seen("b", Arc::clone(&log)));
    (Side::new(options), log)
}

/// Takes the lines that were written down since the last time.
fn told(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

// INT-01 INT-02 INT-03
#[test]
fn a_call_passes_interceptors_on_its_way_out_and_its_answer_in_reverse() {
    let (side, log) = seen();
    let peer = side.peer();
    let mut call = peer.call::<i32>("changed", &[1]);
    assert!(poll_once(&mut call).is_none());
    assert_eq!(told(&log), ["a> changed[1]", "b> changed[1]"]);
    assert_eq!(
        side.written(),
        "{\"jsonrpc\":\"2.0\",\"method\":\"other\",\"params\":[7],\"id\":1}\n"
    );
    side.pass(40);
    side.hear(r#"{"jsonrpc":"2.0","result":3,"id":1}"#);
    assert_eq!(poll_once(&mut call).unwrap().unwrap(), 3);
    assert_eq!(told(&log), ["b< 40 3 changed[1]", "a< 40 3 changed[1]"]);
    drop(call);
    assert!(told(&log).is_empty());

    // An error, and one that is replaced on its way.
    let mut refused = peer.call::<String>("m", ());
    let mut mended = peer.call::<String>("mended", ());
    assert!(poll_once(&mut refused).is_none() && poll_once(&mut mended).is_none());
    told(&log);
    for id in 2..=3 {
        side.hear(&format!(
            r#"{{"jsonrpc":"2.0","error":{{"code":7,"message":"x","data":[1e2]}},"id":{id}}}"#
        ));
    }
    let Some(Err(CallError::Remote(error))) = poll_once(&mut refused) else {
        panic!("an error")
    };
    let data = error.as_error().data().map(|data| data.as_str().to_owned());
    assert_eq!(data.as_deref(), Some("[1e2]"), "as it came");
    assert_eq!(poll_once(&mut mended).unwrap().unwrap(), "mended");
    assert_eq!(
        told(&log),
        [
            "b< 0 7 m",
            "a< 0 7 m",
            "b< 0 7 mended",
            "a< 0 \"mended\" mended"
        ]
    );
}

// INT-01 INT-06
#[test]
fn what_an_interceptor_answers_is_not_sent() {
    let (side, log) = seen();
    let peer = side.peer();
    let known = block_on(peer.call::<String>("known", ())).unwrap();
    assert_eq!(known, "known");
    assert_eq!(
        told(&log),
        [
            "a> known",
            "b> known",
            "b< 0 \"known\" known",
            "a< 0 \"known\" known"
        ]
    );
    let refused = block_on(peer.call::<String>("refused", ()));
    assert!(matches!(refused, Err(CallError::Remote(error)) if error.code() == 7));
    let broken = block_on(peer.call::<String>("broken", ())).unwrap_err();
    assert!(matches!(broken, CallError::Interceptor(_)));
    assert_eq!(broken.to_string(), "the call was kept back: no token");

    // The same by `start` and by `then`.
    let started = block_on(peer.call("known", ()).start()).unwrap();
    assert_eq!(block_on(started), OwnedOutcome::Ok(json("\"known\"")));
    let OwnedOutcome::Err(error) = block_on(block_on(peer.call("broken", ()).start()).unwrap())
    else {
        panic!("an error")
    };
    assert_eq!(error.code(), -32603);
    assert_eq!(error.source().unwrap().to_string(), "no token");
    let (tell, hear) = std::sync::mpsc::channel();
    let then = move |outcome| tell.send(outcome).unwrap();
    block_on(peer.call("known", ()).then(then)).unwrap();
    assert_eq!(hear.recv().unwrap(), OwnedOutcome::Ok(json("\"known\"")));

    // A notification that an interceptor answers is not sent, and its sender gets no error.
    told(&log);
    block_on(peer.notify("refused", ())).unwrap();
    peer.try_notify("refused", ()).unwrap();
    // One at which an interceptor fails is not sent either, and that is an error.
    let failed = Err(SendError::Interceptor);
    assert_eq!(block_on(peer.notify("broken", ())), failed);
    assert_eq!(peer.try_notify("broken", ()), failed);
    assert_eq!(side.written(), "");
    peer.try_notify("changed", ()).unwrap();
    assert_eq!(
        side.written(),
        "{\"jsonrpc\":\"2.0\",\"method\":\"other\",\"params\":[7]}\n"
    );
    // The first eight lines are about `refused` and `broken`.
    assert_eq!(
        told(&log)[16..],
        [
            "a> changed*",
            "b> changed*",
            "b< 0 null changed*",
            "a< 0 null changed*"
        ]
    );
}

// INT-01
#[test]
fn interceptors_learn_how_a_call_ends_without_an_answer() {
    let (side, log) = seen();
    let peer = side.peer();
    let mut late = peer
        .call::<i32>("late", ())
        .timeout(Duration::from_millis(50));
    let mut given_up = Box::pin(peer.call::<i32>("given_up", ()));
    let started = block_on(peer.call("cancelled", ()).start()).unwrap();
    let mut cut = peer.call::<i32>("cut", ());
    let mut mended = peer.call::<String>("mended", ());
    assert!(poll_once(&mut late).is_none());
    assert!(poll_once(given_up.as_mut()).is_none());
    assert!(poll_once(&mut cut).is_none());
    assert!(poll_once(&mut mended).is_none());
    side.written();
    told(&log);
    side.wait(51);
    assert!(matches!(
        poll_once(&mut late),
        Some(Err(CallError::TimedOut))
    ));
    assert_eq!(told(&log), ["b< 51 timeout late", "a< 51 timeout late"]);
    drop(given_up);
    assert_eq!(told(&log), ["bx given_up", "ax given_up"]);
    started.cancel();
    assert_eq!(told(&log), ["bx cancelled", "ax cancelled"]);
    peer.close(CloseReason::Done);
    assert!(matches!(poll_once(&mut cut), Some(Err(CallError::Closed))));
    let closed = "connection_closed cut";
    assert_eq!(
        told(&log),
        [format!("b< 51 {closed}"), format!("a< 51 {closed}")]
    );
    // An interceptor makes a result for a call without an answer.
    assert_eq!(poll_once(&mut mended).unwrap().unwrap(), "mended");
    told(&log);
    let unsent = block_on(peer.call::<i32>("m", ()));
    assert!(matches!(unsent, Err(CallError::Rejected(_))));
    // The first two lines are those of the way out, here and below.
    assert_eq!(told(&log)[2..], ["b< 0 unsent m", "a< 0 unsent m"]);
    assert!(peer.try_notify("n", ()).is_err());
    assert_eq!(told(&log)[2..], ["b< 0 unsent n*", "a< 0 unsent n*"]);
    assert!(block_on(peer.notify("n", ())).is_err());
    assert_eq!(told(&log)[2..], ["b< 0 unsent n*", "a< 0 unsent n*"]);
}

// INT-05
#[test]
fn each_entry_of_a_batch_passes_interceptors_by_itself() {
    let (side, log) = seen();
    let ((known, changed, broken, mended), pending) = side.batch(|batch| {
        batch.notify("refused", ())?;
        let known = batch.call::<String>("known", ())?;
        let changed = batch.call::<i32>("changed", ())?;
        batch.notify("n", ())?;
        let broken = batch.call::<i32>("broken", ())?;
        Ok((known, changed, broken, batch.call::<String>("mended", ())?))
    });
    assert_eq!(
        side.written(),
        concat!(
            r#"[{"jsonrpc":"2.0","method":"other","params":[7],"id":1},"#,
            r#"{"jsonrpc":"2.0","method":"n"},"#,
            r#"{"jsonrpc":"2.0","method":"mended","id":2}]"#,
            "\n"
        )
    );
    told(&log);
    // A handle names its call, although the entries before it were taken out of the batch.
    assert!(side.peer().cancel(mended.call()));
    side.hear(r#"[{"jsonrpc":"2.0","result":3,"id":1}]"#);
    let mut outcomes = block_on(pending);
    assert_eq!(outcomes.fetch(known).unwrap(), "known");
    assert_eq!(outcomes.fetch(changed).unwrap(), 3);
    assert_eq!(outcomes.fetch(mended).unwrap(), "mended");
    let OwnedOutcome::Err(error) = outcomes.take(broken.call()).unwrap() else {
        panic!("an error")
    };
    assert_eq!(error.source().unwrap().to_string(), "no token");
    assert_eq!(
        told(&log),
        [
            "b< 0 3 changed",
            "a< 0 3 changed",
            "b< 0 null n*",
            "a< 0 null n*",
            "b< 0 connection_closed mended",
            "a< 0 \"mended\" mended"
        ]
    );

    // Nothing is left to send.
    let peer = side.peer();
    let (known, mut outcomes) =
        block_on(peer.batch(|batch| batch.call::<String>("known", ()))).unwrap();
    assert_eq!(outcomes.fetch(known).unwrap(), "known");
    let (known, pending) = side.batch(|batch| batch.call::<String>("known", ()));
    assert_eq!(block_on(pending).fetch(known).unwrap(), "known");
    assert_eq!(side.written(), "");

    // A batch that is dropped is given up.
    let (_, pending) = side.batch(|batch| batch.call::<i32>("m", ()));
    told(&log);
    drop(pending);
    assert_eq!(told(&log), ["bx m", "ax m"]);
}

// INT-05
#[test]
fn a_batch_is_refused_if_an_interceptor_fails_at_one_of_its_notifications() {
    let (side, log) = seen();
    let peer = side.peer();
    let batch = || {
        peer.batch(|batch| {
            let call = batch.call::<i32>("m", ())?;
            batch.notify("broken", ())?;
            Ok(call)
        })
    };
    let error = block_on(batch()).map(drop).unwrap_err();
    assert!(matches!(error, CallError::Interceptor(_)), "{error}");
    let lines = [
        "a> m",
        "b> m",
        "a> broken*",
        "b> broken*",
        "b< 0 -32603 broken*",
        "a< 0 -32603 broken*",
        "b< 0 unsent m",
        "a< 0 unsent m",
    ];
    assert_eq!(told(&log), lines);
    let started = block_on(batch().start()).map(drop);
    assert_eq!(started, Err(SendError::Interceptor));
    assert_eq!(told(&log), lines);
    assert_eq!(side.written(), "");
}

/// Replaces every answer by an error of its own.
struct Replaces;

impl<R: AnyRequest + ?Sized> Interceptor<R> for Replaces {
    fn response(&self, _: &Cx, _: &R, reply: &mut Reply) {
        reply.replace(Err(OwnedError::new(9, "as asked")));
    }
}

// INT-06
#[test]
fn what_replaces_the_error_of_a_refused_call_is_its_outcome() {
    let side = Side::new(ConnectionConfig::new(Config::new()).intercept(Replaces));
    let peer = side.peer();
    // A blank method is refused.
    let started = block_on(peer.call("", ()).start()).unwrap();
    let OwnedOutcome::Err(error) = block_on(started) else {
        panic!("an error")
    };
    assert_eq!(error.code(), 9);
}

/// Breaks down at one method.
struct Panics;

impl<R: AnyRequest + ?Sized> Interceptor<R> for Panics {
    fn request(&self, _: &mut Cx, call: &R) -> Decision {
        assert!(call.method() != "panic", "as asked");
        Decision::Continue
    }
}

#[test]
fn an_interceptor_that_panics_leaves_no_other_in_the_dark() {
    let log = Log::default();
    let options = ConnectionConfig::new(Config::new())
        .intercept(Seen("a", Arc::clone(&log)))
        .intercept(Panics);
    let side = Side::new(options);
    let peer = side.peer();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        poll_once(&mut peer.call::<i32>("panic", ()))
    }));
    assert!(panicked.is_err());
    assert_eq!(told(&log), ["a> panic", "ax panic"]);
    assert_eq!(side.written(), "");
}

/// Writes calls down as a logger.
#[derive(Clone, Default)]
struct Lines(Log);

impl CallLog for Lines {
    fn request(&self, call: &LoggedCall<'_>, params: Option<&str>) {
        self.line(call, format!("> {params:?}"));
    }

    fn response(&self, call: &LoggedCall<'_>, duration: Duration, result: Option<&str>) {
        self.line(call, format!("{} {result:?}", duration.as_millis()));
    }

    fn no_answer(&self, call: &LoggedCall<'_>, duration: Duration, why: NoAnswer) {
        self.line(call, format!("{} {why}", duration.as_millis()));
    }

    fn given_up(&self, call: &LoggedCall<'_>) {
        self.line(call, "given up".into());
    }

    fn error(
        &self,
        call: &LoggedCall<'_>,
        duration: Duration,
        error: &ErrorObject<'_>,
        cause: Option<&dyn Error>,
    ) {
        let text = format!("{} {} {cause:?}", duration.as_millis(), error.code());
        self.line(call, text);
    }
}

impl Lines {
    fn line(&self, call: &LoggedCall<'_>, text: String) {
        assert!(call.is_outgoing && call.is_registered);
        let line = format!("{} {text}", call.method);
        self.0.lock().unwrap().push(line);
    }
}

// INT-07 INT-10 SEC-15
#[test]
fn a_client_logs_and_measures_with_what_a_server_does() {
    let lines = Lines::default();
    let (metrics, shown) = measured();
    let redact = |_: &str, text: &str| (!text.contains("s3cret")).then(|| text.to_owned());
    let options = ConnectionConfig::new(Config::new())
        .intercept(metrics)
        .intercept(Logging::new(lines.clone()).with_payloads(redact));
    let side = Side::new(options);
    let peer = side.peer();
    for id in 1..=2 {
        let mut call = peer.call::<i32>("add", &[id]);
        assert!(poll_once(&mut call).is_none());
        side.pass(20);
        side.hear(&format!(r#"{{"jsonrpc":"2.0","result":3,"id":{id}}}"#));
        assert!(poll_once(&mut call).unwrap().is_ok());
    }
    let mut failed = peer.call::<i32>("add", &["s3cret"]);
    let mut late = peer.call::<i32>("slow", ()).timeout(Duration::from_secs(2));
    let mut given_up = Box::pin(peer.call::<i32>("slow", ()));
    assert!(poll_once(&mut failed).is_none() && poll_once(&mut late).is_none());
    assert!(poll_once(given_up.as_mut()).is_none());
    assert!(shown.render().contains("antiphon_client_calls_running 3\n"));
    side.hear(r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"x"},"id":3}"#);
    assert!(poll_once(&mut failed).unwrap().is_err());
    side.wait(2000);
    // The duration is taken when the call is polled, 1 ms after its deadline.
    side.wait(1);
    assert!(poll_once(&mut late).unwrap().is_err());
    drop(given_up);
    assert_eq!(
        told(&lines.0),
        [
            "add > Some(\"[1]\")",
            "add 20 Some(\"3\")",
            "add > Some(\"[2]\")",
            "add 20 Some(\"3\")",
            "add > None",
            "slow > None",
            "slow > None",
            "add 0 -32602 None",
            "slow 2001 there was no answer in time",
            "slow given up",
        ]
    );
    let text = shown.render();
    let name = "rpc_client_call_duration_seconds";
    let system = "rpc_system_name=\"jsonrpc\",rpc_method=";
    for line in [
        format!("# TYPE {name} histogram"),
        format!("{name}_bucket{{{system}\"add\",le=\"0.01\"}} 0"),
        format!("{name}_bucket{{{system}\"add\",le=\"0.025\"}} 2"),
        format!("{name}_sum{{{system}\"add\"}} 0.04"),
        format!("{name}_count{{{system}\"add\",error_type=\"-32602\"}} 1"),
        format!("{name}_count{{{system}\"slow\",error_type=\"timeout\"}} 1"),
        format!("{name}_count{{{system}\"slow\",error_type=\"cancelled\"}} 1"),
        "antiphon_client_calls_running 0".into(),
        "antiphon_server_calls_running 0".into(),
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in {text}"
        );
    }
    assert!(!text.contains("rpc_server_call_duration_seconds_count"));
}

// INT-08 SEC-15
#[test]
fn a_source_of_tokens_that_fails_keeps_the_call_back() {
    let (given, count) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let (queue, asked) = (Arc::clone(&given), Arc::clone(&count));
    let auth = BearerAuth::new(move || {
        *asked.lock().unwrap() += 1;
        queue.lock().unwrap().pop().unwrap_or(Ok(None))
    });
    let options = ConnectionConfig::new(Config::new()).intercept(auth);
    assert!(!format!("{options:?}").contains("s3cret"));
    let side = Side::new(options);
    let peer = side.peer();
    for (token, text) in [
        (Err("the vault is shut".into()), "the vault is shut"),
        (
            Ok(Some("s3cret\r\nx: y".to_owned())),
            "the token is empty or has characters that a header cannot hold",
        ),
        (
            Ok(Some(String::new())),
            "the token is empty or has characters that a header cannot hold",
        ),
    ] {
        given.lock().unwrap().push(token);
        let error = block_on(peer.call::<i32>("m", ())).unwrap_err();
        assert_eq!(error.to_string(), format!("the call was kept back: {text}"));
        assert!(!format!("{error:?}").contains("s3cret"));
        assert_eq!(side.written(), "");
    }
    // A stream has no headers for the token, so the call is sent unchanged.
    given.lock().unwrap().push(Ok(Some("s3cret".into())));
    assert!(poll_once(&mut peer.call::<i32>("m", ())).is_none());
    assert_eq!(
        side.written(),
        "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1}\n"
    );
    assert_eq!(*count.lock().unwrap(), 4, "once a call");
}

// ERR-13
#[test]
fn the_text_of_an_error_says_what_was_expected_and_assumes_no_connection() {
    let decode = |json: OwnedJson| CallError::decoded::<u32>(OwnedOutcome::Ok(json)).unwrap_err();
    let error = decode(json("\"secret\""));
    let expected = "the result is not what was expected: the value does not have the expected form: \
        invalid type: string, expected u32 at line 1 column 8";
    assert_eq!(error.to_string(), expected);
    let reserved = decode(json(r#"{"$serde_json::private::Number":"1"}"#));
    let expected = "the result is not what was expected: the value has a reserved key";
    assert_eq!(reserved.to_string(), expected);

    let unsent = CallError::of(OwnedOutcome::Unsent).unwrap_err();
    let expected = "the call was not sent: there was no connection, or it ended before";
    assert_eq!(unsent.to_string(), expected);
}
