//! The data that a collector receives over OTLP.

use std::time::Duration;

use antiphon_otel::{OtelMetrics, OtelTracer};
use antiphon_tokio::service::Tracing;
use antiphon_tokio::{
    Answer, CallError, ClientConfig, Config, ConnectionConfig, ErrorObject, Internal, Link,
    OwnedError, OwnedJson, Peer, Router, TcpServer, attach, connect,
};
use serde_json::Value;
use support::{Collector, Program, attribute, list};

mod support;

fn json(text: &str) -> OwnedJson {
    OwnedJson::parse(text.into()).unwrap()
}

/// A connection whose calls are spans that the peer is told of.
fn traced(program: &Program) -> ConnectionConfig {
    ConnectionConfig::from(Config::new())
        .intercept(Tracing::new(OtelTracer::new(&program.spans)).with_meta())
        .intercept(OtelMetrics::new(&program.meters))
}

/// A router without methods whose calls are spans.
fn router(program: &Program) -> Router {
    Router::new()
        .intercept(Tracing::new(OtelTracer::new(&program.spans)))
        .intercept(OtelMetrics::new(&program.meters))
}

// The kinds of spans in OTLP.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;

/// The span of a program, method and kind.
fn find<'s>(spans: &'s [Value], service: &str, name: &str, kind: u64) -> &'s Value {
    let mut found = spans
        .iter()
        .filter(|span| span["service"] == service && span["name"] == name && span["kind"] == kind);
    let first = found.next();
    let first = first.unwrap_or_else(|| panic!("{service} {name} {kind} in {spans:#?}"));
    assert!(found.next().is_none(), "{spans:#?}");
    first
}

// OBS-04 OBS-07 INT-10
#[tokio::test]
async fn a_call_that_is_called_back_is_one_trace_in_three_hops() {
    let (collector, address) = Collector::start();
    let (client, server) = (
        Program::new("client", address),
        Program::new("server", address),
    );

    let asks = router(&server).method("work", ["n"], async |n: u32, peer: Peer| {
        tokio::task::yield_now().await;
        let more: u32 = peer.call("ask", &json("{}")).await.internal()?;
        Ok::<_, OwnedError>(n + more)
    });
    let listener = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().port().to_string();
    let link = Link::tcp(listener.local_addr()).await.unwrap();
    let _running = listener.start(traced(&server), asks.into_make_service());
    let answers = router(&client).method("ask", [], || Ok::<_, OwnedError>(2));
    let peer = attach(link, traced(&client), answers);
    // The two handlers take turns on one task, and each must belong to the trace of its own call.
    let params = [json(r#"{"n":40}"#), json(r#"{"n":50}"#)];
    let (one, other) = tokio::join!(
        peer.call::<u32>("work", &params[0]),
        peer.call::<u32>("work", &params[1]),
    );
    assert_eq!((one.unwrap(), other.unwrap()), (42, 52));
    client.flush();
    server.flush();

    let spans = collector.spans();
    // Two calls with four spans each: the call, its handler, the call back, and its handler.
    assert_eq!(spans.len(), 8, "{spans:#?}");
    let roots: Vec<_> = spans
        .iter()
        .filter(|span| span["parentSpanId"].as_str().unwrap_or_default().is_empty())
        .collect();
    assert_eq!(roots.len(), 2, "{spans:#?}");
    assert_ne!(roots[0]["traceId"], roots[1]["traceId"]);
    for root in roots {
        let whole: Vec<Value> = spans
            .iter()
            .filter(|span| span["traceId"] == root["traceId"])
            .cloned()
            .collect();
        let mut above = find(&whole, "client", "work", CLIENT);
        assert_eq!(attribute(above, "server.port").unwrap(), port);
        assert_eq!(above["spanId"], root["spanId"]);
        for (service, name, kind) in [
            ("server", "work", SERVER),
            ("server", "ask", CLIENT),
            ("client", "ask", SERVER),
        ] {
            let span = find(&whole, service, name, kind);
            assert_eq!(span["parentSpanId"], above["spanId"], "{whole:#?}");
            assert_eq!(attribute(span, "rpc.system.name").unwrap(), "jsonrpc");
            assert_eq!(attribute(span, "rpc.method").unwrap(), name);
            assert_eq!(attribute(span, "error.type"), None);
            above = span;
        }
        let called = find(&whole, "server", "work", SERVER);
        assert_eq!(
            attribute(called, "jsonrpc.protocol.version").unwrap(),
            "2.0"
        );
        assert!(["1", "2"].contains(&&*attribute(called, "jsonrpc.request.id").unwrap()));
        for name in ["network.peer.address", "server.address"] {
            assert_eq!(attribute(called, name).unwrap(), "127.0.0.1");
        }
        assert_eq!(attribute(called, "server.port").unwrap(), port);
        let back = find(&whole, "client", "ask", SERVER);
        assert_ne!(attribute(back, "server.port").unwrap(), port);
    }
}

// OBS-04
#[tokio::test]
async fn over_http_a_trace_goes_on_in_headers_alone() {
    let (collector, address) = Collector::start();
    let (client, server) = (
        Program::new("client", address),
        Program::new("server", address),
    );
    let heard = router(&server).method("heard", ["n"], async |n: OwnedJson| Ok::<_, OwnedError>(n));
    let listener = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr());
    let port = listener.local_addr().port().to_string();
    let _running = listener.start_http(Config::new(), heard);
    let mut options = ClientConfig::from(Config::new());
    options = options.intercept(Tracing::new(OtelTracer::new(&client.spans)));
    let caller = connect(&url, options, ()).await.unwrap();
    assert_eq!(caller.call::<u8>("heard", &[7]).await.unwrap(), 7);
    client.flush();
    server.flush();
    let spans = collector.spans();
    let called = find(&spans, "server", "heard", SERVER);
    let caller = find(&spans, "client", "heard", CLIENT);
    assert_eq!(called["traceId"], caller["traceId"]);
    assert_eq!(called["parentSpanId"], caller["spanId"]);
    assert_eq!(attribute(caller, "server.address").unwrap(), "127.0.0.1");
    assert_eq!(attribute(caller, "server.port").unwrap(), port);
    assert_eq!(attribute(called, "server.address").unwrap(), "127.0.0.1");
    assert_eq!(attribute(called, "server.port").unwrap(), port);
}

// OBS-02 OBS-08 INT-10
#[tokio::test]
async fn errors_and_durations_are_told_by_the_names_of_the_conventions() {
    let (collector, address) = Collector::start();
    let (client, server) = (
        Program::new("client", address),
        Program::new("server", address),
    );
    let serving = router(&server)
        .method("ok", [], || Ok::<_, OwnedError>(1))
        .method("fails", [], || {
            Err::<(), _>(OwnedError::new(1001, "tops3cret"))
        })
        .raw("later", |request| {
            let responder = request.defer();
            tokio::spawn(async { responder.err(&ErrorObject::new(1002, "tops3cret")) });
            Ok(Answer::deferred())
        })
        .method("slow", [], std::future::pending::<Result<(), OwnedError>>);
    let (near, far) = Link::pair();
    let serving = attach(far, Config::new(), serving);
    let peer = attach(near, traced(&client), ());
    for _ in 0..3 {
        peer.call::<u8>("ok", ()).await.unwrap();
    }
    let failed = peer.call::<u8>("fails", ()).await;
    assert!(matches!(failed, Err(CallError::Remote(_))));
    assert!(peer.call::<u8>("later", ()).await.is_err());
    for n in 0..20 {
        let unknown = peer.call::<u8>(&format!("none{n}"), ()).await;
        assert!(matches!(unknown, Err(CallError::Remote(_))));
    }
    let late = peer
        .call::<u8>("slow", ())
        .timeout(Duration::from_millis(1))
        .await;
    assert!(matches!(late, Err(CallError::TimedOut)));
    let ((), came) = peer
        .batch(|batch| {
            batch.notify("ok", ())?;
            batch.notify("ok", ())
        })
        .await
        .unwrap();
    drop(came);
    peer.call::<u8>("ok", ()).await.unwrap();
    client.flush();
    server.flush();

    let spans = collector.spans();
    let told = |span: &Value| {
        let error = attribute(span, "error.type");
        let code = attribute(span, "rpc.status_code");
        // 2 is the status *error* of OTLP.
        (error, code, span["status"]["code"] == 2)
    };
    let some = |text: &str| Some(text.to_owned());
    let code = (some("1001"), some("1001"), true);
    assert_eq!(told(find(&spans, "server", "fails", SERVER)), code);
    assert_eq!(told(find(&spans, "client", "fails", CLIENT)), code);
    let code = (some("1002"), some("1002"), true);
    assert_eq!(told(find(&spans, "server", "later", SERVER)), code);
    let late = (some("timeout"), None, true);
    assert_eq!(told(find(&spans, "client", "slow", CLIENT)), late);
    let unknown: Vec<_> = spans
        .iter()
        .filter(|span| span["service"] == "server" && span["name"] == "jsonrpc")
        .collect();
    assert_eq!(unknown.len(), 20);
    for span in unknown {
        assert_eq!(attribute(span, "rpc.method").unwrap(), "_OTHER");
        let original = attribute(span, "rpc.method_original").unwrap();
        assert!(original.starts_with("none"));
        assert_eq!(told(span), (some("-32601"), some("-32601"), true));
    }
    let counts = |name: &str| {
        let mut counts: Vec<_> = collector
            .points(name)
            .iter()
            .map(|point| {
                assert_eq!(point["unit"], "s");
                // As many as `DURATION_BOUNDS`.
                assert_eq!(list(&point["explicitBounds"]).len(), 14);
                let count = point["count"].as_str().map(str::to_owned);
                let count = count.unwrap_or_else(|| point["count"].to_string());
                let error = attribute(point, "error.type").unwrap_or_default();
                (attribute(point, "rpc.method").unwrap(), error, count)
            })
            .collect();
        counts.sort();
        counts
    };
    let row = |method: &str, error: &str, count: &str| (method.into(), error.into(), count.into());
    let expected: [(String, String, String); 4] = [
        row("_OTHER", "-32601", "20"),
        row("fails", "1001", "1"),
        row("later", "1002", "1"),
        // Four calls, and two notifications.
        row("ok", "", "6"),
    ];
    assert_eq!(counts("rpc.server.call.duration"), expected);
    let ours = counts("rpc.client.call.duration");
    // A client knows all its methods: 20 that the server does not know, and four others.
    assert_eq!(ours.len(), 24, "{ours:?}");
    assert!(ours.contains(&row("slow", "timeout", "1")) && ours.contains(&row("ok", "", "6")));
    for side in ["server", "client"] {
        let sizes = collector.points(&format!("antiphon.{side}.batch.size"));
        assert_eq!(sizes.len(), 1, "{sizes:?}");
        assert_eq!(
            (&sizes[0]["unit"], sizes[0]["sum"].as_f64()),
            (&Value::from("{item}"), Some(2.0))
        );
    }
    let open = collector.points("antiphon.server.connections.open");
    assert_eq!(open.len(), 1, "{open:?}");
    drop(serving);
}
