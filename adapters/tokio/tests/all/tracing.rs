//! Calls as spans of the crate `tracing`, and reports as its events.
#![cfg(feature = "tracing")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use antiphon_tokio::service::{TraceContext, Tracing};
use antiphon_tokio::{
    CallError, Config, ConnectionConfig, Internal, Link, OwnedError, OwnedJson, Peer, Router,
    TracingSpans, attach, trace_report,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

type Fields = BTreeMap<String, String>;

/// The fields of all spans, in the order in which they began, and of all events. The field `in` is the
/// number of the span around a span or an event.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(Vec<Fields>, Vec<Fields>)>>);

/// The number of a span, counted from 0.
struct Number(usize);

/// Adds fields to a map.
struct Into<'f>(&'f mut Fields);

impl Visit for Into<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Seen {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::new();
        span.record(&mut Into(&mut fields));
        fields.insert("span".into(), span.metadata().name().into());
        let mut seen = self.0.lock().unwrap();
        let span = context.span(id).unwrap();
        if let Some(parent) = span.parent() {
            let number = parent.extensions().get::<Number>().unwrap().0;
            fields.insert("in".into(), number.to_string());
        }
        span.extensions_mut().insert(Number(seen.0.len()));
        seen.0.push(fields);
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let number = context
            .span(id)
            .unwrap()
            .extensions()
            .get::<Number>()
            .unwrap()
            .0;
        record.record(&mut Into(&mut self.0.lock().unwrap().0[number]));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let number = context
            .span(&id)
            .unwrap()
            .extensions()
            .get::<Number>()
            .unwrap()
            .0;
        let fields = &mut self.0.lock().unwrap().0[number];
        fields.insert("closed".into(), "yes".into());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::new();
        event.record(&mut Into(&mut fields));
        fields.insert("level".into(), event.metadata().level().to_string());
        if let Some(span) = context.event_span(event) {
            let number = span.extensions().get::<Number>().unwrap().0;
            fields.insert("in".into(), number.to_string());
        }
        self.0.lock().unwrap().1.push(fields);
    }
}

impl Seen {
    /// Records spans and events of this thread until the guard is dropped.
    fn here() -> (Self, DefaultGuard) {
        let seen = Self::default();
        let subscriber = tracing_subscriber::registry().with(seen.clone());
        (seen, tracing::subscriber::set_default(subscriber))
    }

    fn spans(&self) -> Vec<Fields> {
        self.0.lock().unwrap().0.clone()
    }

    fn events(&self) -> Vec<Fields> {
        self.0.lock().unwrap().1.clone()
    }
}

fn served(router: Router) -> (Peer, Peer) {
    let (near, far) = Link::pair();
    let serving = attach(far, Config::new(), router);
    (attach(near, Config::new(), ()), serving)
}

fn json(text: &str) -> OwnedJson {
    OwnedJson::parse(text.into()).unwrap()
}

fn fields(expected: &[(&str, &str)]) -> Fields {
    let owned = expected
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    owned.collect()
}

/// A `traceparent` of W3C.
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// OBS-04 INT-10
#[tokio::test]
async fn a_call_is_a_span_that_its_handler_runs_in() {
    let (seen, _guard) = Seen::here();
    let router = Router::new()
        .method("add", ["a", "b"], async |a: f64, b: f64| {
            tracing::info!("before");
            tokio::task::yield_now().await;
            tracing::info!("behind");
            Ok::<_, OwnedError>(a + b)
        })
        .method("fail", [], || {
            Err::<(), _>(OwnedError::new(1001, "tops3cret"))
        })
        .intercept(Tracing::new(TracingSpans::new()));
    let (peer, _serving) = served(router);
    let params = json(&format!(
        r#"{{"a":1,"b":2,"_meta":{{"traceparent":"{PARENT}","secret":"tops3cret"}}}}"#
    ));
    assert_eq!(peer.call::<f64>("add", &params).await.unwrap(), 3.0);
    let failed = peer.call::<()>("fail", ()).await;
    assert!(matches!(failed, Err(CallError::Remote(error)) if error.code() == 1001));
    let unknown = peer.call::<()>("none", &["tops3cret"]).await;
    assert!(matches!(unknown, Err(CallError::Remote(error)) if error.code() == -32601));
    peer.notify("fail", ()).await.unwrap();
    peer.call::<OwnedJson>("rpc.listMethods", ()).await.unwrap();

    // The number counts all connections that the program has made.
    let number = seen.spans()[0]["antiphon.connection"].clone();
    assert_ne!(number, "0");
    let common = [
        ("span", "jsonrpc"),
        ("otel.kind", "server"),
        ("rpc.system.name", "jsonrpc"),
        ("antiphon.connection", number.as_str()),
        ("jsonrpc.protocol.version", "2.0"),
        ("closed", "yes"),
    ];
    let special: [&[(&str, &str)]; 5] = [
        &[
            ("otel.name", "add"),
            ("rpc.method", "add"),
            ("jsonrpc.request.id", "1"),
            ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
            ("parent_id", "b7ad6b7169203331"),
        ],
        &[
            ("otel.name", "fail"),
            ("rpc.method", "fail"),
            ("jsonrpc.request.id", "2"),
            ("rpc.status_code", "1001"),
            ("error.type", "1001"),
            ("otel.status_code", "ERROR"),
        ],
        &[
            ("otel.name", "jsonrpc"),
            ("rpc.method", "_OTHER"),
            ("rpc.method_original", "none"),
            ("jsonrpc.request.id", "3"),
            ("rpc.status_code", "-32601"),
            ("error.type", "-32601"),
            ("otel.status_code", "ERROR"),
        ],
        &[
            ("otel.name", "fail"),
            ("rpc.method", "fail"),
            ("rpc.status_code", "1001"),
            ("error.type", "1001"),
            ("otel.status_code", "ERROR"),
        ],
        &[
            ("otel.name", "rpc.listMethods"),
            ("rpc.method", "rpc.listMethods"),
            ("jsonrpc.request.id", "4"),
        ],
    ];
    let expected = special.map(|special| fields(&[&common[..], special].concat()));
    assert_eq!(seen.spans(), expected);
    let inside = |message| fields(&[("message", message), ("level", "INFO"), ("in", "0")]);
    assert_eq!(seen.events(), [inside("before"), inside("behind")]);
}

// OBS-04
#[tokio::test]
async fn a_span_of_a_call_of_ours_lies_in_that_of_the_handler_and_the_peer_is_told() {
    let (seen, _guard) = Seen::here();
    let spans = TracingSpans::linked(
        |span, parent| {
            span.record("trace_id", format!("adopted {parent}"));
        },
        |_| TraceContext::parse(PARENT).map(|context| context.with_state("a=1")),
    );
    let asks = Router::new()
        .method("ask", [], async |peer: Peer| {
            let heard: OwnedJson = peer.call("heard", &json("{}")).await.internal()?;
            Ok::<_, OwnedError>(heard)
        })
        .intercept(Tracing::new(spans));
    let hears = Router::new().raw("heard", |request| {
        let params = request
            .raw_params()
            .map(|params| params.as_str().to_owned());
        Ok(params.into())
    });
    let (near, far) = Link::pair();
    let options = ConnectionConfig::new(Config::new()).intercept(Tracing::new(spans).with_meta());
    let _serving = attach(far, options, asks);
    let peer = attach(near, Config::new(), hears);
    let heard: String = peer
        .call(
            "ask",
            &json(&format!(r#"{{"_meta":{{"traceparent":"{PARENT}"}}}}"#)),
        )
        .await
        .unwrap();
    assert_eq!(
        heard,
        format!(r#"{{"_meta":{{"traceparent":"{PARENT}","tracestate":"a=1"}}}}"#)
    );
    let spans = seen.spans();
    let [asked, asking] = &*spans else {
        panic!("{spans:?}");
    };
    assert_eq!(asked["trace_id"], format!("adopted {PARENT}"));
    let kind = |span: &Fields| (span["otel.name"].clone(), span["otel.kind"].clone());
    assert_eq!(kind(asked), ("ask".into(), "server".into()));
    assert_eq!(kind(asking), ("heard".into(), "client".into()));
    assert_eq!(asking["in"], "0");
    assert!(
        spans.iter().all(|span| span["closed"] == "yes"),
        "{spans:?}"
    );
}

// OBS-04 OBS-10
#[tokio::test]
async fn what_goes_wrong_is_an_event_and_a_call_that_is_given_up_says_so() {
    let (seen, _guard) = Seen::here();
    let router = Router::new()
        .method("slow", [], std::future::pending::<Result<(), OwnedError>>)
        .method("panics", [], || -> Result<(), OwnedError> {
            panic!("as asked")
        })
        .method("n", ["n"], |n: u8| Ok::<_, OwnedError>(n))
        .intercept(Tracing::new(TracingSpans::new()))
        .on_report(trace_report);
    let (peer, serving) = served(router);
    assert!(peer.call::<u8>("n", &["tops3cret"]).await.is_err());
    assert!(peer.call::<()>("panics", ()).await.is_err());
    let slow = peer.call::<OwnedJson>("slow", ()).start().await.unwrap();
    // `slow` has begun before this call is answered.
    assert_eq!(peer.call::<u8>("n", &[1]).await.unwrap(), 1);
    serving.close(antiphon_tokio::CloseReason::Done);
    serving
        .wait_closed(std::time::Duration::from_secs(10))
        .await
        .expect("it ends");
    drop(slow);
    let spans = seen.spans();
    let errors: Vec<_> = spans
        .iter()
        .map(|span| {
            (
                span["rpc.method"].as_str(),
                span.get("error.type").map(String::as_str),
            )
        })
        .collect();
    let expected = [
        ("n", Some("-32602")),
        ("panics", Some("panicked")),
        ("slow", Some("cancelled")),
        ("n", None),
    ];
    assert_eq!(errors, expected);
    let events = seen.events();
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event["level"].as_str(),
                event["message"].split(':').next().unwrap_or(""),
            )
        })
        .collect();
    let expected = [
        ("INFO", "invalid params"),
        ("ERROR", "the service panicked"),
    ];
    assert_eq!(told, expected, "{events:?}");
    assert!(!format!("{spans:?}{events:?}").contains("tops3cret"));
}
