//! Calls, batches and connections of a router and of a connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::measured::measured;
use crate::raw::{INTERNAL, PATIENCE, Raw};
use antiphon_tokio::service::{AnyRequest, Cx, Decision, Interceptor, Reply};
use antiphon_tokio::{
    Answer, Config, ConnectionConfig, ErrorObject, Link, OwnedError, Request, Router, attach,
};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::timeout;

// OBS-02 OBS-03 OBS-07 OBS-08 INT-10
#[tokio::test]
async fn calls_are_counted_by_method_and_error_and_unknown_names_are_one() {
    let (metrics, shown) = measured();
    let router = Router::new()
        .method("n", ["n"], |n: u8| Ok::<_, OwnedError>(n))
        .method("odd \"name\"", [], || ())
        .method("slow", [], async || {
            std::future::pending::<()>().await;
            Ok::<_, OwnedError>(())
        })
        .intercept(metrics);
    let mut raw = Raw::to(&router).await;
    raw.ask("n", "[1]").await;
    raw.ask("n", "[2]").await;
    raw.ask("n", "").await;
    raw.say(r#"{"jsonrpc":"2.0","method":"odd \"name\""}"#)
        .await;
    for n in 0..100 {
        raw.ask(&format!("none{n}"), "").await;
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"slow","id":1}"#).await;
    raw.ask("n", "[3]").await;
    let count = |labels: &str| {
        let text = shown.render();
        let start = format!(
            "rpc_server_call_duration_seconds_count{{rpc_system_name=\"jsonrpc\",rpc_method={labels}}} "
        );
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&start).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {start} in {text}"))
    };
    assert_eq!(count(r#""n""#), "3");
    assert_eq!(count(r#""n",error_type="-32602""#), "1");
    assert_eq!(count(r#""odd \"name\"""#), "1");
    assert_eq!(count(r#""_OTHER",error_type="-32601""#), "100");
    assert!(shown.render().contains("antiphon_server_calls_running 1\n"));
    drop(raw);
    // The handler is dropped with its connection.
    let ended = async {
        while !shown.render().contains("antiphon_server_calls_running 0\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, ended)
        .await
        .expect("the handler is given up");
    assert_eq!(count(r#""slow",error_type="cancelled""#), "1");
}

// INT-05 OBS-02
#[tokio::test]
async fn the_size_of_a_batch_is_counted_once_on_each_side() {
    let (served, served_text) = measured();
    let (called, called_text) = measured();
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .notification("told", [], || ())
        .intercept(served.clone());
    let mut raw = Raw::to(&router).await;
    for batch in [
        // One that begins with an invalid entry, one with a notification, and one with nothing valid.
        r#"[7,{"jsonrpc":"2.0","method":"n","id":1},{"jsonrpc":"2.0","method":"n","id":2}]"#,
        r#"[{"jsonrpc":"2.0","method":"told"},{"jsonrpc":"2.0","method":"n","id":1}]"#,
        "[7,8]",
        // An empty batch is refused, and a single call is no batch: neither counts.
        "[]",
        r#"{"jsonrpc":"2.0","method":"n","id":1}"#,
    ] {
        raw.say(batch).await;
        raw.hear().await;
    }

    let (near, far) = Link::pair();
    let options = ConnectionConfig::from(Config::new())
        .intercept(called)
        .intercept(ReadOnly);
    let _server = attach(far, Config::new(), router);
    let peer = attach(near, options, Router::new().intercept(served));
    let (handles, mut came) = peer
        .batch(|batch| {
            batch.notify("told", ())?;
            let first = batch.call::<i32>("n", ())?;
            Ok((first, batch.call::<i32>("write", ())?))
        })
        .await
        .unwrap();
    assert_eq!(came.fetch(handles.0).unwrap(), 1);
    // Nothing of this one is sent.
    let (_, started) = peer
        .batch(|batch| batch.call::<i32>("write", ()))
        .start()
        .await
        .unwrap();
    started.await;

    let sizes = |shown: &PrometheusHandle, side: &str| -> Vec<String> {
        let start = format!("antiphon_{side}_batch_size_");
        let text = shown.render();
        let lines = text.lines().filter_map(|line| line.strip_prefix(&start));
        let lines = lines.map(|line| line.replace("{rpc_system_name=\"jsonrpc\"", "{"));
        lines.collect()
    };
    let expected = |up_to_two: u32, up_to_five: u32, sum: u32| -> Vec<String> {
        let mut lines = vec![
            "bucket{,le=\"1\"} 0".to_owned(),
            format!("bucket{{,le=\"2\"}} {up_to_two}"),
        ];
        for bound in ["5", "10", "20", "50", "100", "1000", "10000", "+Inf"] {
            lines.push(format!("bucket{{,le=\"{bound}\"}} {up_to_five}"));
        }
        lines.push(format!("sum{{}} {sum}"));
        lines.push(format!("count{{}} {up_to_five}"));
        lines
    };
    // Three of the raw connection, with 3, 2 and 2 entries, and one of the peer with 2: the call of
    // `write` was not sent. A batch of answers does not count.
    assert_eq!(sizes(&served_text, "server"), expected(3, 4, 9));
    assert_eq!(sizes(&called_text, "client"), expected(1, 1, 2));
    for (shown, side) in [(&served_text, "client"), (&called_text, "server")] {
        assert_eq!(sizes(shown, side), [""; 0]);
    }
}

/// Refuses `write` instead of sending it.
struct ReadOnly;

impl<R: AnyRequest + ?Sized> Interceptor<R> for ReadOnly {
    fn request(&self, _: &mut Cx, request: &R) -> Decision {
        match request.method() {
            "write" => OwnedError::new(1001, "Read only").into(),
            _ => Decision::Continue,
        }
    }
}

// INT-03 OBS-02
#[tokio::test]
async fn a_call_that_is_answered_later_ends_with_its_answer() {
    let (metrics, shown) = measured();
    let kept = Arc::<Mutex<Vec<antiphon_tokio::Responder>>>::default();
    let (keep, threads) = (Arc::clone(&kept), std::thread::spawn);
    let router = Router::new()
        .raw("at once", |request| {
            drop(request.defer().ok("before the handler returns"));
            Ok(Answer::deferred())
        })
        .raw("on a thread", move |request| {
            let responder = request.defer();
            // A second responder cannot answer, and does not end the call.
            drop(request.defer().ok(&2).unwrap_err());
            drop(threads(move || responder.ok("later")));
            Ok(Answer::deferred())
        })
        .raw("on the pool", |request| {
            request.defer().spawn(|reply| drop(reply.ok(&1)));
            Ok(Answer::deferred())
        })
        .raw("on a task", |request| {
            let responder = request.defer();
            tokio::spawn(async { responder.err(&ErrorObject::new(1001, "no")) });
            Ok(Answer::deferred())
        })
        .raw("panics", |request| {
            request.defer().spawn(|_| panic!("as asked"));
            Ok(Answer::deferred())
        })
        .raw("dropped", |request| {
            drop(request.defer());
            Ok(Answer::deferred())
        })
        .raw("forgotten", |_| Ok(Answer::deferred()))
        .raw("kept", move |request| {
            keep.lock().unwrap().push(request.defer());
            Ok(Answer::deferred())
        })
        .intercept(metrics);
    let mut raw = Raw::to(&router).await;
    let mut answers = Vec::new();
    for method in [
        "at once",
        "on a thread",
        "on the pool",
        "on a task",
        "panics",
        "dropped",
        "forgotten",
    ] {
        answers.push(raw.ask(method, "").await);
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"forgotten"}"#).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"kept","id":2}"#).await;
    // An answer from a thread is sent before it is counted, so this waits until only `kept` is
    // running.
    let begun = async {
        while kept.lock().unwrap().is_empty()
            || !shown.render().contains("server_calls_running 1\n")
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, begun).await.expect("one is open");
    let still_open = kept.lock().unwrap().pop().unwrap();
    drop(raw);
    timeout(PATIENCE, still_open.cancellation())
        .await
        .expect("it is given up");
    still_open.ok("too late").unwrap_err();
    assert!(
        shown.render().contains("server_calls_running 0\n"),
        "{}",
        shown.render()
    );
    let text = shown.render();
    let mut counts: Vec<_> = text
        .lines()
        .filter_map(|line| {
            line.split_once("_count{rpc_system_name=\"jsonrpc\",rpc_method=")?
                .1
                .into()
        })
        .collect();
    counts.sort_unstable();
    let expected = [
        r#""at once"} 1"#,
        r#""dropped",error_type="-32603"} 1"#,
        r#""forgotten",error_type="-32603"} 1"#,
        r#""forgotten"} 1"#,
        r#""kept",error_type="cancelled"} 1"#,
        r#""on a task",error_type="1001"} 1"#,
        r#""on a thread"} 1"#,
        r#""on the pool"} 1"#,
        r#""panics",error_type="panicked"} 1"#,
    ];
    assert_eq!(counts, expected);
    assert_eq!(answers[0], r#""result":"before the handler returns""#);
    assert_eq!(answers[6], INTERNAL);
}

// OBS-03
#[tokio::test]
async fn connections_are_counted_while_they_are_open_and_ever() {
    let (metrics, shown) = measured();
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .intercept(metrics);
    let mut one = Raw::to(&router).await;
    let mut other = one.another().await;
    one.ask("n", "").await;
    other.ask("n", "").await;
    let shows = |open: u32, total: u32| {
        let text = shown.render();
        text.contains(&format!("\nantiphon_server_connections_open {open}\n"))
            && text.contains(&format!("\nantiphon_server_connections_total {total}\n"))
    };
    assert!(shows(2, 2), "{}", shown.render());
    drop(other);
    let ended = async {
        while !shows(1, 2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, ended)
        .await
        .expect("its end is counted, its beginning stays");
}

/// Panics in `request` for `ask` and in `response` for `answer`, makes `list` a call of a built-in
/// method, and runs every step twice.
struct Broken;

impl Interceptor<Request> for Broken {
    fn request(&self, cx: &mut Cx, request: &Request) -> Decision {
        match request.method() {
            "list" => cx.set_method("rpc.listMethods"),
            "ask" => panic!("as asked"),
            _ => {}
        }
        Decision::Continue
    }

    fn response(&self, _: &Cx, request: &Request, _: &mut Reply) {
        assert_ne!(request.method(), "answer", "as asked");
    }

    fn scope(&self, _: &Cx, _: &Request, step: &mut dyn FnMut()) {
        step();
        step();
    }
}

// INT-11 USE-17
#[tokio::test]
async fn an_interceptor_that_fails_leaves_no_other_in_the_dark() {
    let (metrics, shown) = measured();
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .method("answer", [], || ())
        .intercept(metrics)
        .intercept(Broken);
    let mut raw = Raw::to(&router).await;
    assert_eq!(raw.ask("n", "").await, r#""result":1"#);
    assert_eq!(raw.ask("list", "").await, r#""result":["answer","n"]"#);
    assert_eq!(raw.ask("ask", "").await, INTERNAL);
    assert_eq!(raw.ask("answer", "").await, INTERNAL);
    let text = shown.render();
    assert!(text.contains("antiphon_server_calls_running 0\n"), "{text}");
    for series in [
        r#""_OTHER",error_type="panicked""#,
        r#""answer",error_type="panicked""#,
    ] {
        let line = format!("_count{{rpc_system_name=\"jsonrpc\",rpc_method={series}}} 1\n");
        assert!(text.contains(&line), "{text}");
    }
}
