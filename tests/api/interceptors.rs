//! Interceptors: chains, credentials, decisions that come later, logs and spans; and what they are told
//! when a call ends.

use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antiphon::service::conventions::protocol_version;
use antiphon::service::{
    AnyRequest, Asked, Authorization, BearerAuth, CallEnd, CallLog, Chain, Cx, Decision, Deferred,
    Failure, Interceptor, InvalidToken, LoggedCall, Logging, NoAnswer, Reply, ResultText,
    SpanFields, TraceContext, Tracer, Tracing,
};
use antiphon::{
    ErrorObject, Instant, Json, OwnedError, OwnedId, OwnedJson, SendError, VersionPolicy,
};

use crate::{id, json};

/// A call that has only what `AnyRequest` requires.
struct Plain;

impl AnyRequest for Plain {
    fn method(&self) -> &str {
        "m"
    }

    fn params(&self) -> Option<Json<'_>> {
        None
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
        Instant::ZERO + Duration::from_secs(5)
    }
}

/// A call that also has most of what `AnyRequest` does not require; it has no local address.
#[derive(Default)]
struct Known {
    params: Option<&'static str>,
    is_outgoing: bool,
    is_panicking: bool,
}

impl AnyRequest for Known {
    fn method(&self) -> &str {
        "known"
    }

    fn params(&self) -> Option<Json<'_>> {
        self.params.map(json)
    }

    fn id(&self) -> Option<OwnedId> {
        Some(id("1.0").into_owned())
    }

    fn is_notification(&self) -> bool {
        false
    }

    fn connection(&self) -> u32 {
        8
    }

    fn peer_addr(&self) -> Option<std::net::SocketAddr> {
        "127.0.0.1:9".parse().ok()
    }

    fn server(&self) -> Option<(&str, u16)> {
        Some(("example.org", 443))
    }

    fn header(&self, name: &str) -> Option<&str> {
        (name == "tracestate").then_some("a=1")
    }

    fn version(&self) -> Option<&'static str> {
        Some("2.0")
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_secs(5)
    }

    fn is_panicking(&self) -> bool {
        self.is_panicking
    }

    fn is_outgoing(&self) -> bool {
        self.is_outgoing
    }
}

/// What was written down, line by line.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn say(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn cx() -> Cx {
    Cx::new(Instant::ZERO + Duration::from_secs(2), true)
}

/// A chain of one.
fn only<R: ?Sized + 'static>(interceptor: impl Interceptor<R>) -> Chain<R> {
    let mut chain = Chain::default();
    chain.push(interceptor);
    chain
}

/// A result after 3 ms.
fn result(text: &str) -> Reply {
    Reply::new(Some(Ok(text.as_bytes().to_vec())), Duration::from_millis(3))
}

/// A failure after 3 ms.
fn failed(failure: impl Into<Failure>) -> Reply {
    Reply::new(Some(Err(failure.into())), Duration::from_millis(3))
}

/// The output of a future that is ready at once.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

// OBS-05
#[test]
fn of_a_call_nothing_is_said_that_is_not_known() {
    let call = LoggedCall::of(&cx(), &Plain);
    let expected = "LoggedCall { method: \"m\", is_registered: true, is_outgoing: false, id: None, \
                    connection: 7, peer_addr: None, local_addr: None, server: None, version: None }";
    assert_eq!(format!("{call:?}"), expected);
    assert_eq!(Plain.header("authorization"), None);
    assert!(!Plain.is_panicking());
    let known = Known::default();
    let call = LoggedCall::of(&cx(), &known);
    assert_eq!(
        (call.server, call.version, call.id.is_some()),
        (Some(("example.org", 443)), Some("2.0"), true)
    );
    assert_eq!(call.peer_addr, known.peer_addr());
    let mut fields = Vec::new();
    call.fields(&mut |name, value| {
        fields.push((name, format!("{value:?}")));
    });
    let text = |name, text: &str| (name, format!("Text({text:?})"));
    let number = |name, number: i64| (name, format!("Number({number})"));
    let expected = [
        text("rpc.system.name", "jsonrpc"),
        text("rpc.method", "known"),
        text("jsonrpc.request.id", "1.0"),
        text("jsonrpc.protocol.version", "2.0"),
        text("server.address", "example.org"),
        number("server.port", 443),
        text("network.peer.address", "127.0.0.1"),
        number("network.peer.port", 9),
    ];
    assert_eq!(fields, expected);
    assert_eq!(protocol_version(VersionPolicy::V2Only), Some("2.0"));
    assert_eq!(protocol_version(VersionPolicy::V1Only), Some("1.0"));
    assert_eq!(protocol_version(VersionPolicy::V1AndV2), None);
}

/// Writes down what it sees, with its number in front.
struct Noting(u8, Lines);

impl Interceptor<Plain> for Noting {
    fn request(&self, _: &mut Cx, _: &Plain) -> Decision {
        self.1.say(format!("{} request", self.0));
        Decision::Continue
    }

    fn response(&self, _: &Cx, _: &Plain, reply: &mut Reply) {
        self.1.say(format!("{} {:?}", self.0, reply.result()));
    }

    fn answered(&self, _: &Cx, _: &Plain, end: &CallEnd) {
        self.1
            .say(format!("{} answered {:?}", self.0, end.duration));
    }

    fn given_up(&self, _: &Cx, _: &Plain) {
        self.1.say(format!("{} given up", self.0));
    }

    fn opened(&self, connection: u32) {
        self.1.say(format!("{} opened {connection}", self.0));
    }

    fn closed(&self, connection: u32) {
        self.1.say(format!("{} closed {connection}", self.0));
    }

    fn batch_received(&self, connection: u32, items: usize) {
        self.1
            .say(format!("{} {connection} received {items}", self.0));
    }

    fn batch_sent(&self, connection: u32, items: usize) {
        self.1.say(format!("{} {connection} sent {items}", self.0));
    }
}

/// Sees all, and does nothing.
struct Idle;

impl<R: ?Sized> Interceptor<R> for Idle {}

// INT-01 INT-02
#[test]
fn all_are_told_of_ends_and_connections_in_their_order() {
    let lines = Lines::default();
    let mut chain = only(Noting(1, lines.clone()));
    chain.push(Idle);
    chain.push(Noting(2, lines.clone()));
    // A clone has the same interceptors.
    let chain = chain.clone();
    assert_eq!(format!("{chain:?}"), "Chain { len: 3 }");
    chain.opened(7);
    chain.batch_received(7, 3);
    chain.batch_sent(7, 2);
    let (mut cx, mut asked) = (cx(), 0);
    assert!(asked_of(&chain, &mut asked, &mut cx, &Plain).is_none());
    assert_eq!(asked, 3);
    let end = CallEnd::new(Duration::from_secs(1), None, None);
    chain.answered(asked, &cx, &Plain, &end);
    // Only the first was asked about this call.
    chain.answered(1, &cx, &Plain, &end);
    for place in [2, 1, 0, 0] {
        chain.given_up_at(place, &cx, &Plain);
    }
    chain.response(&mut asked, &cx, &Plain, &mut result("1"));
    let mut steps = 0;
    chain.scope(&cx, &Plain, &mut || steps += 1);
    chain.closed(7, |closed| closed());
    let expected = [
        "1 opened 7",
        "2 opened 7",
        "1 7 received 3",
        "2 7 received 3",
        "1 7 sent 2",
        "2 7 sent 2",
        "1 request",
        "2 request",
        "2 answered 1s",
        "1 answered 1s",
        "1 answered 1s",
        "2 given up",
        "1 given up",
        "1 given up",
        "2 Some(\"1\")",
        "1 Some(\"1\")",
        "2 closed 7",
        "1 closed 7",
    ];
    assert_eq!(lines.take(), expected);
    assert_eq!((steps, asked), (1, 0));
}

/// Answers, fails or decides later.
struct Decides(fn(&mut Cx) -> Decision);

impl<R: ?Sized> Interceptor<R> for Decides {
    fn request(&self, cx: &mut Cx, _: &R) -> Decision {
        (self.0)(cx)
    }
}

/// The answer of interceptors that decide at once.
fn asked_of<R: 'static>(
    chain: &Chain<R>,
    asked: &mut usize,
    cx: &mut Cx,
    request: &R,
) -> Option<Result<ResultText, Failure>> {
    match chain.decide(Decision::Continue, asked, cx, request) {
        Asked::Passed => None,
        Asked::Answered(answer) => Some(answer),
        Asked::Deferred(_) => panic!("nobody decides later"),
    }
}

// INT-01
#[test]
fn what_an_interceptor_decides_is_what_the_call_comes_to() {
    let asked = |decide| {
        let outcome = asked_of(&only(Decides(decide)), &mut 0, &mut cx(), &Plain);
        outcome.map(|outcome| {
            let outcome = outcome.map(|text| String::from_utf8(text).unwrap());
            outcome.map_err(|failure| {
                let cause = failure.cause().map(ToString::to_string);
                (failure.as_error().code(), cause)
            })
        })
    };
    assert_eq!(asked(|_| Decision::Continue), None);
    assert_eq!(
        asked(|_| Decision::Answer(Ok(OwnedJson::from_value(&[1]).unwrap()))),
        Some(Ok("[1]".into()))
    );
    assert_eq!(
        asked(|_| OwnedError::new(1001, "Read only").into()),
        Some(Err((1001, None)))
    );
    assert_eq!(
        asked(|_| Decision::Fail("disk full".into())),
        Some(Err((-32603, Some("disk full".into()))))
    );
}

// INT-04 SEC-03
#[test]
fn what_is_decided_later_lets_the_call_on_or_answers_it() {
    for is_known in [true, false] {
        let lines = Lines::default();
        let mut chain = Chain::default();
        chain.push(Noting(1, lines.clone()));
        let found = async move {
            match is_known {
                true => Ok("Ann"),
                false => Err(OwnedError::new(1001, "Unauthorized")),
            }
        };
        let deferred = Mutex::new(Some(Deferred::new(found)));
        struct Defers(Mutex<Option<Deferred>>);
        impl Interceptor<Plain> for Defers {
            fn request(&self, _: &mut Cx, _: &Plain) -> Decision {
                Decision::Defer(self.0.lock().unwrap().take().unwrap())
            }
        }
        chain.push(Defers(deferred));
        chain.push(Noting(3, lines.clone()));
        let (mut cx, mut asked) = (cx(), 0);
        let Asked::Deferred(deferred) =
            chain.decide(Decision::Continue, &mut asked, &mut cx, &Plain)
        else {
            panic!("it decides later");
        };
        assert_eq!(format!("{deferred:?}"), "Deferred");
        assert_eq!((asked, lines.take()), (2, vec!["1 request".to_string()]));
        let decision = now(deferred)(&mut cx);
        let came = chain.decide(decision, &mut asked, &mut cx, &Plain);
        match (is_known, came) {
            (true, Asked::Passed) => {
                assert_eq!((asked, lines.take()), (3, vec!["3 request".to_string()]));
                assert_eq!(cx.attributes().get::<&str>(), Some(&"Ann"));
            }
            (false, Asked::Answered(Err(Failure::Error(error)))) => {
                assert_eq!((asked, lines.take()), (2, Vec::new()));
                assert_eq!(error.as_error().code(), 1001);
                assert_eq!(cx.attributes().get::<&str>(), None);
            }
            (_, came) => panic!("{came:?}"),
        }
    }
}

// INT-01
#[test]
fn a_call_may_get_another_method_and_other_params() {
    let mut cx = cx();
    assert_eq!((cx.method(), cx.params().map(Json::as_str)), (None, None));
    cx.set_method("other");
    cx.set_params(OwnedJson::from_value(&[1]).unwrap());
    assert_eq!(cx.method(), Some("other"));
    assert_eq!(cx.params().map(Json::as_str), Some("[1]"));
}

// OBS-01
#[test]
fn a_reply_says_how_the_call_has_ended() {
    let end = |reply: &Reply| {
        reply
            .end()
            .map(|end| (end.duration, end.code, end.instead, end.error_type()))
    };
    let took = Duration::from_millis(3);
    let mut good = result("[1]");
    assert_eq!(end(&good), Some((took, None, None, None)));
    assert_eq!((good.is_deferred(), good.is_replaced()), (false, false));
    assert!(good.no_answer().is_none() && good.failure().is_none());
    let refused = || OwnedError::new(7, "no");
    let bad = failed(refused());
    let seven = Some("7".to_string());
    assert_eq!(end(&bad), Some((took, Some(7), None, seven)));
    assert_eq!(bad.error().map(|error| error.code()), Some(7));
    assert!(bad.no_answer().is_none() && bad.result().is_none());
    let lost = failed(Failure::NoAnswer(NoAnswer::Unsent));
    let unsent = Some("unsent".to_string());
    assert_eq!(end(&lost), Some((took, None, Some("unsent"), unsent)));
    assert!(lost.error().is_none());
    assert_eq!(lost.no_answer(), Some(NoAnswer::Unsent));
    // What is answered later has not ended, and is not replaced.
    let mut later = Reply::new(None, took);
    assert_eq!((later.is_deferred(), end(&later)), (true, None));
    later.replace(Err(refused()));
    assert!(!later.is_replaced() && later.into_outcome().is_none());
    good.replace(Err(refused()));
    assert!(good.is_replaced());
    let outcome = good.into_outcome();
    assert!(
        matches!(&outcome, Some(Err(Failure::Error(error))) if *error == refused()),
        "{outcome:?}"
    );
    assert_eq!(result("[1]").into_outcome().unwrap().unwrap(), b"[1]");
    // Its bytes are counted, of a result or of an error.
    let bytes = |reply: Reply| reply.end().unwrap().answer_bytes;
    assert_eq!(bytes(result("[1]")), 3);
    let error = r#"{"code":7,"message":"no"}"#;
    assert_eq!(bytes(failed(OwnedError::new(7, "no"))), error.len());
    assert_eq!(bytes(lost), 0);
    // A call that was given up ends, too.
    let given_up = |is_panicking| {
        let known = Known {
            is_panicking,
            ..Known::default()
        };
        let end = cx().given_up(&known);
        (end.duration, end.code, end.error_type())
    };
    let since = Duration::from_secs(3);
    let why = |why: &str| Some(why.to_string());
    assert_eq!(given_up(false), (since, None, why("cancelled")));
    assert_eq!(given_up(true), (since, None, why("panicked")));
}

// USE-17
#[test]
fn a_call_without_an_answer_says_why() {
    let all = [
        (NoAnswer::TimedOut, "timeout", "there was no answer in time"),
        (
            NoAnswer::Closed,
            "connection_closed",
            "the connection ended before the answer came",
        ),
        (NoAnswer::Unsent, "unsent", "the call was not sent"),
        (
            NoAnswer::Missing,
            "missing",
            "the peer left the call out of its answer",
        ),
        (NoAnswer::Invalid, "invalid", "what came is no answer"),
    ];
    for (why, word, text) in all {
        assert_eq!((why.as_str(), why.to_string()), (word, text.to_string()));
    }
}

// ERR-04 SEC-06 USE-17
#[test]
fn what_failed_is_told_the_peer_as_an_error_and_here_with_its_cause() {
    let secret = || io::Error::other("secret");
    let params = Failure::Params(json("[]").decode::<u8>().unwrap_err());
    let encode = {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        Failure::Encode(OwnedJson::from_value(&map).unwrap_err())
    };
    let own = || OwnedError::new(7, "no");
    let internal = OwnedError::internal(Box::new(secret()));
    let gone = || OwnedError::new(-32601, "Gone");
    // The failure; the code and message that the peer gets; the cause, and whether the error keeps it.
    let cases: [(Failure, i64, &str, Option<&str>, bool); 8] = [
        (
            params,
            -32602,
            "Invalid params",
            Some("the value does not have the expected form"),
            false,
        ),
        (own().into(), 7, "no", None, false),
        (
            internal.into(),
            -32603,
            "Internal error",
            Some("secret"),
            true,
        ),
        (Failure::UnknownMethod(gone()), -32601, "Gone", None, false),
        (encode, -32603, "Internal error", Some("key"), false),
        (
            Failure::Send(SendError::TooLarge),
            -32603,
            "Internal error",
            Some("large"),
            false,
        ),
        (
            Failure::Interceptor(Box::new(secret())),
            -32603,
            "Internal error",
            Some("secret"),
            true,
        ),
        (
            Failure::NoAnswer(NoAnswer::TimedOut),
            -32603,
            "Internal error",
            Some("there was no answer in time"),
            false,
        ),
    ];
    for (failure, code, message, cause, stays) in cases {
        let shown = format!("{failure:?}");
        let told = failure.as_error();
        assert_eq!((told.code(), told.message()), (code, message), "{shown}");
        assert!(told.data().is_none(), "{shown}");
        let found = failure.cause().map(ToString::to_string);
        let is_found = match (&found, cause) {
            (Some(found), Some(cause)) => found.contains(cause),
            (found, cause) => found.is_none() && cause.is_none(),
        };
        assert!(is_found, "{found:?} of {shown}");
        assert!(!failure.declines());
        let error = failure.into_error();
        let told = error.as_error();
        assert_eq!((told.code(), told.message()), (code, message), "{shown}");
        assert_eq!(error.source().is_some(), stays, "{shown}");
    }
    assert!(Failure::from(gone()).declines());
}

// INT-08 SEC-02 SEC-15
#[test]
fn credentials_are_asked_for_at_each_call_and_shown_nowhere() {
    let bearer = Authorization::bearer("s3cret").unwrap();
    assert_eq!(bearer.as_str(), "Bearer s3cret");
    assert_eq!(format!("{bearer:?}"), "Authorization { .. }");
    for refused in ["", " ", "a b", "a\r\nb", "a\u{7f}", "\u{e9}"] {
        assert_eq!(
            Authorization::bearer(refused),
            Err(InvalidToken),
            "{refused:?}"
        );
    }
    assert_eq!(Authorization::new("Basic x").unwrap().as_str(), "Basic x");
    assert_eq!(
        InvalidToken.to_string(),
        "the token is empty or has characters that a header cannot hold"
    );
    let tokens = Arc::new(Mutex::new(vec![
        Err("asked too often"),
        Ok(Some("bad token")),
        Ok(None),
        Ok(Some("two")),
        Ok(Some("one")),
    ]));
    let auth = BearerAuth::new(move || {
        let token = tokens.lock().unwrap().pop().unwrap()?;
        Ok(token.map(Into::into))
    });
    assert_eq!(format!("{auth:?}"), "BearerAuth { .. }");
    let chain = only(auth);
    let mut cx = cx();
    let mut ask = || {
        let asked = asked_of(&chain, &mut 0, &mut cx, &Plain);
        let sent = cx.attributes().get::<Authorization>();
        let sent = sent.map(|sent| sent.as_str().to_string());
        let failed = asked.map(|failed| failed.unwrap_err().cause().unwrap().to_string());
        (sent, failed)
    };
    assert_eq!(ask(), (Some("Bearer one".into()), None));
    assert_eq!(ask(), (Some("Bearer two".into()), None));
    // If there is no token now, none is sent.
    assert_eq!(ask(), (None, None));
    assert_eq!(ask(), (None, Some(InvalidToken.to_string())));
    assert_eq!(ask(), (None, Some("asked too often".into())));
}

// INT-08 SEC-02
#[test]
fn a_token_is_awaited_where_its_source_does_not_have_it() {
    let tokens = || {
        let tokens = Mutex::new(vec![Err("the source is gone"), Ok(None), Ok(Some("one"))]);
        move || Ok(tokens.lock().unwrap().pop().unwrap()?.map(Into::into))
    };
    let source = tokens();
    let awaited = BearerAuth::from_async(move || std::future::ready(source()));
    let cause = "the source of tokens has to be awaited";
    assert_eq!(awaited.authorization().unwrap_err().to_string(), cause);
    let at_once = BearerAuth::new(tokens());
    let found = at_once.authorization().unwrap().unwrap();
    assert_eq!(found.as_str(), "Bearer one");
    assert_eq!(at_once.authorization().unwrap(), None);
    for auth in [BearerAuth::new(tokens()), awaited] {
        let fetched = now(auth.fetch()).unwrap().unwrap();
        assert_eq!(fetched.as_str(), "Bearer one");
        assert_eq!(now(auth.fetch()).unwrap(), None);
        let failed = now(auth.fetch()).unwrap_err();
        assert_eq!(failed.to_string(), "the source is gone");
    }
    // The call goes on with the token, without one, or not at all.
    let source = tokens();
    let chain = only(BearerAuth::from_async(move || std::future::ready(source())));
    let mut cx = cx();
    let mut ask = || {
        let mut asked = 0;
        let Asked::Deferred(deferred) =
            chain.decide(Decision::Continue, &mut asked, &mut cx, &Plain)
        else {
            panic!("it decides later");
        };
        let decision = now(deferred)(&mut cx);
        let failed = match chain.decide(decision, &mut asked, &mut cx, &Plain) {
            Asked::Passed => None,
            Asked::Answered(answer) => Some(answer.unwrap_err().cause().unwrap().to_string()),
            Asked::Deferred(_) => panic!("it has decided"),
        };
        let sent = cx.attributes().get::<Authorization>();
        (sent.map(|sent| sent.as_str().to_string()), failed)
    };
    assert_eq!(ask(), (Some("Bearer one".into()), None));
    assert_eq!(ask(), (None, None));
    assert_eq!(ask(), (None, Some("the source is gone".into())));
}

struct Log(Lines);

impl CallLog for Log {
    fn no_answer(&self, call: &LoggedCall<'_>, duration: Duration, why: NoAnswer) {
        self.0
            .say(format!("{} in {duration:?}: {why}", call.method));
    }
}

// OBS-07
#[test]
fn a_logger_is_told_of_what_it_asks_for() {
    let lines = Lines::default();
    let chain = only(Logging::new(Log(lines.clone())));
    let replies = [
        failed(Failure::NoAnswer(NoAnswer::Closed)),
        failed(OwnedError::new(7, "no")),
        result("1"),
    ];
    for mut reply in replies {
        let (mut cx, mut asked) = (cx(), 0);
        assert!(asked_of(&chain, &mut asked, &mut cx, &Plain).is_none());
        chain.response(&mut asked, &cx, &Plain, &mut reply);
        chain.given_up_at(0, &cx, &Plain);
    }
    assert_eq!(
        lines.take(),
        ["m in 3ms: the connection ended before the answer came"]
    );
}

/// Writes down all that it is told of a call, with its id.
struct Whole(Lines);

impl Whole {
    fn say(&self, call: &LoggedCall<'_>, what: std::fmt::Arguments<'_>) {
        let id = call.id.as_ref().map(ToString::to_string);
        self.0
            .say(format!("{} {}: {what}", call.method, id.unwrap()));
    }
}

impl CallLog for Whole {
    fn request(&self, call: &LoggedCall<'_>, params: Option<&str>) {
        self.say(call, format_args!("{params:?}"));
    }

    fn response(&self, call: &LoggedCall<'_>, duration: Duration, result: Option<&str>) {
        self.say(call, format_args!("{duration:?} {result:?}"));
    }

    fn given_up(&self, call: &LoggedCall<'_>) {
        self.say(call, format_args!("given up"));
    }

    fn error(
        &self,
        call: &LoggedCall<'_>,
        duration: Duration,
        error: &ErrorObject<'_>,
        cause: Option<&dyn Error>,
    ) {
        let (code, message) = (error.code(), error.message());
        let cause = cause.map(ToString::to_string);
        self.say(
            call,
            format_args!("{duration:?} {code} {message:?} {cause:?}"),
        );
    }
}

/// A call that says its id once only.
struct Forgetful(Mutex<Option<OwnedId>>);

impl AnyRequest for Forgetful {
    fn method(&self) -> &str {
        "m"
    }

    fn params(&self) -> Option<Json<'_>> {
        Some(json("[1]"))
    }

    fn id(&self) -> Option<OwnedId> {
        self.0.lock().unwrap().take()
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

// OBS-07 SEC-15
#[test]
fn a_logger_is_told_the_id_to_the_end_and_payloads_only_as_they_are_redacted() {
    let redact: fn(&str, &str) -> Option<String> =
        |method, text| (text != "2").then(|| format!("{method}{}", text.len()));
    let logged = |redact: Option<fn(&str, &str) -> Option<String>>| {
        let lines = Lines::default();
        let mut logging = Logging::new(Whole(lines.clone()));
        if let Some(redact) = redact {
            logging = logging.with_payloads(redact);
        }
        let chain = only(logging);
        let begin = || {
            let (mut cx, call) = (cx(), Forgetful(Mutex::new(Some(id("1.0").into_owned()))));
            assert!(asked_of(&chain, &mut 0, &mut cx, &call).is_none());
            (cx, call)
        };
        for mut reply in [
            result("100"),
            result("2"),
            failed(OwnedError::new(7, "no")),
            failed(Failure::Interceptor("disk full".into())),
        ] {
            let (cx, call) = begin();
            chain.response(&mut 1, &cx, &call, &mut reply);
        }
        let ends = [(None, None), (Some(8), None), (None, Some("cancelled"))];
        for (code, instead) in ends {
            let (cx, call) = begin();
            let mut later = Reply::new(None, Duration::ZERO);
            chain.response(&mut 1, &cx, &call, &mut later);
            let end = CallEnd::new(Duration::from_secs(1), code, instead);
            chain.answered(1, &cx, &call, &end);
        }
        let (cx, call) = begin();
        chain.given_up_at(0, &cx, &call);
        lines.take()
    };
    let expected = |shown: &str, result: &str| {
        let ends = [
            &format!("3ms {result}"),
            "3ms None",
            "3ms 7 \"no\" None",
            "3ms -32603 \"Internal error\" Some(\"disk full\")",
            "1s None",
            "1s 8 \"\" None",
            "given up",
            "given up",
        ];
        let lines = ends.iter().flat_map(|end| [shown, end]);
        lines
            .map(|line| format!("m 1.0: {line}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(logged(None), expected("None", "None"));
    let shown = expected("Some(\"m3\")", "Some(\"m3\")");
    assert_eq!(logged(Some(redact)), shown);
}

/// Gives each span the number 5, and writes down what becomes of it.
#[derive(Clone, Default)]
struct Spans {
    lines: Lines,
    /// What the peer is told of a span.
    fields: &'static [(&'static str, &'static str)],
}

impl Tracer for Spans {
    type Span = u8;
    type Parent = TraceContext;

    fn extract(&self, field: &dyn Fn(&str) -> Option<String>) -> Option<TraceContext> {
        TraceContext::extract(field)
    }

    fn start(&self, call: &LoggedCall<'_>, parent: Option<TraceContext>) -> u8 {
        let parent = parent.map(|parent| format!("{:02x} {}", parent.span_id()[7], parent.state()));
        self.lines.say(format!("start {}: {parent:?}", call.method));
        5
    }

    fn inject(&self, span: &u8, put: &mut dyn FnMut(&str, &str)) {
        assert_eq!(*span, 5);
        for (name, value) in self.fields {
            put(name, value);
        }
    }

    fn enter(&self, span: &u8, step: &mut dyn FnMut()) {
        self.lines.say(format!("enter {span}"));
        step();
    }

    fn end(&self, span: &u8, call: &LoggedCall<'_>, end: &CallEnd) {
        let why = end.error_type();
        self.lines
            .say(format!("end {span} {}: {why:?}", call.method));
    }
}

/// Makes spans and does no more.
struct Bare;

impl Tracer for Bare {
    type Span = ();
    type Parent = ();

    fn start(&self, _: &LoggedCall<'_>, parent: Option<()>) {
        assert_eq!(parent, None);
    }
}

// OBS-07
#[test]
fn a_tracer_that_only_makes_spans_lets_all_pass() {
    for is_outgoing in [false, true] {
        let chain = only(Tracing::new(Bare).with_meta());
        let known = Known {
            params: Some("{}"),
            is_outgoing,
            ..Known::default()
        };
        let (mut cx, mut steps) = (cx(), 0);
        assert!(asked_of(&chain, &mut 0, &mut cx, &known).is_none());
        chain.scope(&cx, &known, &mut || steps += 1);
        chain.response(&mut 1, &cx, &known, &mut result("1"));
        assert!(steps == 1 && cx.params().is_none());
    }
}

const PARENT: &str =
    r#"{"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}"#;

// OBS-04
#[test]
fn a_call_of_the_peer_runs_in_a_span_that_ends_once_it_is_known_how() {
    let spans = Spans::default();
    let lines = spans.lines.clone();
    let chain = only(Tracing::new(spans));
    let known = Known {
        params: Some(PARENT),
        ..Known::default()
    };
    let begin = || {
        let mut cx = cx();
        assert!(asked_of(&chain, &mut 0, &mut cx, &known).is_none());
        // The state is among the headers, the rest in the params.
        assert_eq!(lines.take(), [r#"start known: Some("31 a=1")"#]);
        assert!(cx.params().is_none() && cx.attributes().get::<SpanFields>().is_none());
        cx
    };
    let cx = begin();
    chain.scope(&cx, &known, &mut || lines.say("step"));
    chain.response(&mut 1, &cx, &known, &mut failed(OwnedError::new(7, "no")));
    let ended = r#"end 5 known: Some("7")"#;
    assert_eq!(lines.take(), ["enter 5", "step", ended]);
    // The span of a call that is answered later ends with the answer.
    let cx = begin();
    let mut later = Reply::new(None, Duration::ZERO);
    chain.response(&mut 1, &cx, &known, &mut later);
    assert!(lines.take().is_empty());
    let end = CallEnd::new(Duration::ZERO, None, None);
    chain.answered(1, &cx, &known, &end);
    assert_eq!(lines.take(), ["end 5 known: None"]);
    let cx = begin();
    chain.given_up_at(0, &cx, &known);
    assert_eq!(lines.take(), [r#"end 5 known: Some("cancelled")"#]);
    // Without a span the step is done all the same.
    let cx = self::cx();
    chain.scope(&cx, &known, &mut || lines.say("step"));
    chain.given_up_at(0, &cx, &known);
    assert_eq!(lines.take(), ["step"]);
}

// OBS-04
#[test]
fn the_peer_is_told_of_the_span_of_a_call() {
    const TOLD: &[(&str, &str)] = &[("traceparent", "00-1-2-01")];
    let called = |tracing: Tracing<Spans>, params, set: Option<&str>| {
        let known = Known {
            params,
            is_outgoing: true,
            ..Known::default()
        };
        let mut cx = cx();
        if let Some(set) = set {
            cx.set_params(json(set).to_owned_json());
        }
        assert!(asked_of(&only(tracing), &mut 0, &mut cx, &known).is_none());
        let fields = cx.attributes().get::<SpanFields>().unwrap();
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        (
            fields,
            cx.params().map(|params| params.as_str().to_string()),
        )
    };
    let spans = |fields| Spans {
        fields,
        ..Spans::default()
    };
    let told = || vec![("traceparent".to_string(), "00-1-2-01".to_string())];
    let in_headers = spans(TOLD);
    let lines = in_headers.lines.clone();
    let sent = called(Tracing::new(in_headers), Some(PARENT), None);
    assert_eq!(sent, (told(), None));
    // For a call of our own, params do not say to which span it belongs: the tracer knows.
    assert_eq!(lines.take(), ["start known: None"]);
    let meta = || Tracing::new(spans(TOLD)).with_meta();
    let written = r#"{"a":1,"_meta":{"traceparent":"00-1-2-01"}}"#;
    let expected = (told(), Some(written.to_string()));
    assert_eq!(called(meta(), Some(r#"{"a":1}"#), None), expected);
    // What another interceptor has set comes first.
    assert_eq!(called(meta(), Some("{}"), Some(r#"{"a":1}"#)), expected);
    assert_eq!(called(meta(), Some("[1]"), None), (told(), None));
    // A tracer that says nothing leaves the params alone.
    let silent = Tracing::new(spans(&[])).with_meta();
    assert_eq!(called(silent, Some("{}"), None), (Vec::new(), None));
}
