//! A client over HTTP without a network: what its interceptors do to a request.

use std::future::{poll_fn, ready};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use crate::http::{HttpRequest, HttpSend, HttpSending};
use crate::{CallError, Client, ClientConfig, Headers, SharedRuntime, block_on};
use antiphon::Config;
use antiphon::service::{
    AnyRequest, Authorization, BearerAuth, Cx, Decision, Interceptor, LoggedCall, Reply, Tracer,
    Tracing,
};

use super::http_mock::HttpMock;
use super::measured::measured;
use super::support::Hand;

const URL: &str = "http://a/rpc";

impl HttpSend for HttpMock {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> HttpSending<'a> {
        Box::pin(ready(self.exchange(request)))
    }
}

fn client(options: ClientConfig, mock: &Arc<HttpMock>) -> Client {
    let clock: SharedRuntime = Arc::new(Hand::default());
    Client::with_send_on(URL, &options, Arc::clone(mock), &clock).unwrap()
}

/// An answer whose result is its id.
fn result(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":{id},"id":{id}}}"#)
}

/// The values of a header of a request.
fn header<'r>(request: &'r HttpRequest, name: &str) -> Vec<&'r str> {
    let of_name = request.headers.iter();
    let of_name = of_name.filter(|(found, _)| found.eq_ignore_ascii_case(name));
    of_name.map(|(_, value)| value.as_str()).collect()
}

// INT-08 SEC-02
#[test]
fn a_token_that_is_awaited_is_sent_with_its_request() {
    let auth = BearerAuth::from_async(|| {
        let mut is_there = false;
        poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            match std::mem::replace(&mut is_there, true) {
                true => Poll::Ready(Ok(Some("s3cret".into()))),
                false => Poll::Pending,
            }
        })
    });
    let options = ClientConfig::new(Config::new()).intercept(auth);
    let mock = Arc::new(HttpMock::new());
    let client = client(options, &mock);
    mock.reply(200, &result(1));
    assert_eq!(client.call::<u32>("m", ()).wait().unwrap(), 1);
    mock.reply(200, "");
    block_on(client.notify("n", ())).unwrap();
    mock.reply(200, &format!("[{}]", result(2)));
    let (sum, mut outcomes) = block_on(client.batch(|batch| {
        batch.notify("n", ())?;
        batch.call::<u32>("m", ())
    }))
    .unwrap();
    assert_eq!(outcomes.fetch(sum).unwrap(), 2);
    let sent = mock.sent();
    assert_eq!(sent.len(), 3);
    for request in &sent {
        assert_eq!(header(request, "authorization"), ["Bearer s3cret"]);
    }
}

// INT-08 SEC-02 SEC-15
#[test]
fn a_token_is_asked_for_at_each_call_and_sent_with_its_request() {
    let count = Mutex::new(0);
    let auth = BearerAuth::new(move || {
        let mut count = count.lock().unwrap();
        *count += 1;
        match *count {
            3 => Ok(None),
            4 => Err("the vault is shut".into()),
            n => Ok(Some(format!("s3cret{n}"))),
        }
    });
    let mut options = ClientConfig::new(Config::new()).intercept(auth);
    options
        .headers
        .push(("Authorization".into(), "Basic x".into()));
    options.headers.push(("x-own".into(), "1".into()));
    let mock = Arc::new(HttpMock::new());
    let client = client(options, &mock);
    for id in 1..=3 {
        mock.reply(200, &result(id));
        assert_eq!(block_on(client.call::<u32>("m", ())).unwrap(), id);
    }
    let failed = block_on(client.call::<u32>("m", ())).unwrap_err();
    assert!(matches!(failed, CallError::Interceptor(_)));
    assert_eq!(
        failed.to_string(),
        "the call was kept back: the vault is shut"
    );
    mock.reply(200, "");
    block_on(client.notify("n", ())).unwrap();
    mock.reply(200, &format!("[{}]", result(4)));
    let (sum, mut outcomes) = block_on(client.batch(|batch| {
        batch.notify("n", ())?;
        batch.call::<u32>("m", ())
    }))
    .unwrap();
    assert_eq!(outcomes.fetch(sum).unwrap(), 4);

    let sent = mock.sent();
    let tokens: Vec<_> = sent
        .iter()
        .map(|request| header(request, "authorization"))
        .collect();
    assert_eq!(
        tokens,
        [
            ["Bearer s3cret1"],
            ["Bearer s3cret2"],
            ["Basic x"],
            // Nothing was sent when it failed.
            ["Bearer s3cret5"],
            // Each entry has asked for a token, 6 and 7. The batch is one request, with the last token.
            ["Bearer s3cret7"],
        ]
    );
    assert!(sent.iter().all(|request| header(request, "x-own") == ["1"]));
    let shown = format!("{sent:?} {client:?} {failed:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// Adds headers, answers the method `known` itself, and answers `unanswered` with how it ended.
struct Traced;

impl<R: AnyRequest + ?Sized> Interceptor<R> for Traced {
    fn request(&self, cx: &mut Cx, call: &R) -> Decision {
        let mut headers = Headers::new();
        headers.push("TraceParent", call.method().as_bytes());
        cx.attributes_mut().insert(headers);
        cx.attributes_mut()
            .insert(Authorization::new("Digest y").unwrap());
        match call.method() {
            "known" => antiphon::OwnedError::new(7, "known").into(),
            _ => Decision::Continue,
        }
    }

    fn response(&self, _: &Cx, call: &R, reply: &mut Reply) {
        if call.method() == "unanswered" {
            let why = reply.no_answer().map_or("answered", |why| why.as_str());
            let why = antiphon::OwnedJson::from_value(why).unwrap();
            reply.replace(Ok(why));
        }
    }
}

// INT-01 INT-08
#[test]
fn an_interceptor_leaves_headers_for_the_request_of_its_call() {
    let mock = Arc::new(HttpMock::new());
    let (metrics, shown) = measured();
    let options = ClientConfig::new(Config::new())
        .intercept(metrics)
        .intercept(Traced);
    let client = client(options, &mock);
    mock.reply(200, &result(1));
    assert_eq!(block_on(client.call::<u32>("m", ())).unwrap(), 1);
    let known = block_on(client.call::<u32>("known", ())).unwrap_err();
    assert_eq!(known.remote().unwrap().code(), 7);
    block_on(client.notify("known", ())).unwrap();
    // The name of each way to fail.
    for (status, text, why) in [
        (204, "", "missing"),
        (200, "<html>", "invalid"),
        (503, "busy", "invalid"),
    ] {
        mock.reply(status, text);
        let told: String = block_on(client.call("unanswered", ())).unwrap();
        assert_eq!(told, why);
    }
    mock.set_connected(false);
    let told: String = block_on(client.call("unanswered", ())).unwrap();
    assert_eq!(told, "unsent");
    let sent = mock.sent();
    assert_eq!(sent.len(), 4);
    assert_eq!(header(&sent[0], "traceparent"), ["m"]);
    assert_eq!(header(&sent[1], "traceparent"), ["unanswered"]);
    assert_eq!(header(&sent[0], "authorization"), ["Digest y"]);
    let text = shown.render();
    for line in [
        r#"rpc_client_call_duration_seconds_count{rpc_system_name="jsonrpc",rpc_method="m"} 1"#,
        r#"rpc_client_call_duration_seconds_count{rpc_system_name="jsonrpc",rpc_method="unanswered"} 4"#,
        "antiphon_client_calls_running 0",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in {text}"
        );
    }
}

/// A tracer whose span is 1 for a call of ours, and is sent to the peer.
struct Numbers;

impl Tracer for Numbers {
    type Span = u32;
    type Parent = ();

    fn start(&self, call: &LoggedCall<'_>, _: Option<()>) -> u32 {
        u32::from(call.is_outgoing)
    }

    fn inject(&self, span: &u32, put: &mut dyn FnMut(&str, &str)) {
        put("traceparent", &format!("span {span}"));
        put("tracestate", "a=1");
    }
}

// OBS-04
#[test]
fn the_span_of_a_call_is_told_in_headers_of_its_request() {
    let mock = Arc::new(HttpMock::new());
    let options = ClientConfig::new(Config::new()).intercept(Tracing::new(Numbers));
    let client = client(options, &mock);
    mock.reply(200, &result(1));
    assert_eq!(block_on(client.call::<u32>("m", &[1])).unwrap(), 1);
    let sent = mock.sent();
    assert_eq!(header(&sent[0], "traceparent"), ["span 1"]);
    assert_eq!(header(&sent[0], "tracestate"), ["a=1"]);
}
