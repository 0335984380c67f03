//! The health check method.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_tokio::{Config, Health, Link, OwnedJson, Router, Tokio, connect};

const SECOND: Duration = Duration::from_secs(1);

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, "db.internal:5432 refused")
}

/// Six checks: two pass, one fails, one never ends, one panics, and one panics before it has made
/// its future.
fn unwell() -> Health {
    Health::new()
        .check("disk", SECOND, || async { Ok::<_, io::Error>(()) })
        .check("queue", SECOND, || async {
            tokio::time::sleep(SECOND / 2).await;
            Ok::<_, io::Error>(3)
        })
        .check("database", SECOND, || async { Err::<(), _>(refused()) })
        .check("mail", 2 * SECOND, pending::<io::Result<()>>)
        .check("cache", SECOND, || async {
            assert_eq!(1, 2, "as asked");
            Ok::<_, io::Error>(())
        })
        .check("made", SECOND, || {
            assert_eq!(1, 2, "as asked");
            async { Ok::<_, io::Error>(()) }
        })
}

/// Asks a router for its health; gives the answer, and what was reported.
async fn asked(router: Router, params: OwnedJson) -> (Result<String, i64>, Vec<String>) {
    let reports = Arc::<Mutex<Vec<String>>>::default();
    let told = Arc::clone(&reports);
    let router = router.on_report(move |_, report| {
        told.lock().unwrap().push(report.to_string());
    });
    let (near, far) = Link::pair();
    let _serving = connect(far, Config::new(), router);
    let peer = connect(near, Config::new(), ());
    let answer = peer.call::<OwnedJson>("health", &params).await;
    let answer = match answer {
        Ok(result) => Ok(result.as_str().to_owned()),
        Err(antiphon_tokio::CallError::Remote(error)) => Err(error.code()),
        Err(other) => panic!("{other}"),
    };
    let reports = reports.lock().unwrap().clone();
    (answer, reports)
}

fn nothing() -> OwnedJson {
    OwnedJson::parse("{}".into()).unwrap()
}

// OBS-06
#[tokio::test(start_paused = true)]
async fn health_says_what_passes_and_hides_why_something_fails() {
    let began = tokio::time::Instant::now();
    let router = Router::new().method("health", [], unwell());
    let (answer, reports) = asked(router, nothing()).await;
    let expected = concat!(
        r#"{"status":"fail","checks":{"#,
        r#""disk":{"status":"pass","duration_ms":0.0},"#,
        r#""queue":{"status":"pass","duration_ms":500.0,"detail":3},"#,
        r#""database":{"status":"fail","duration_ms":0.0,"reason":"failed"},"#,
        r#""mail":{"status":"fail","duration_ms":2000.0,"reason":"timed out"},"#,
        r#""cache":{"status":"fail","duration_ms":0.0,"reason":"panicked"},"#,
        r#""made":{"status":"fail","duration_ms":0.0,"reason":"panicked"}}}"#,
    );
    assert_eq!(rounded(&answer.unwrap()), expected);
    // The checks run at the same time, so together they take as long as the longest.
    assert_eq!(began.elapsed().as_secs(), 2);
    let found: Vec<&str> = reports
        .iter()
        .filter_map(|report| report.strip_prefix("a handler failed: the check "))
        .filter_map(|report| Some(report.split_once(": health (id 1)")?.0))
        .collect();
    let expected = [
        "database failed: db.internal:5432 refused",
        "mail timed out",
        "cache panicked",
        "made panicked",
    ];
    assert_eq!(found, expected, "{reports:?}");
}

/// Rounds durations down to 100 ms, because timers of the runtime may be some milliseconds late.
fn rounded(text: &str) -> String {
    let mut parts = text.split(r#""duration_ms":"#);
    let mut rounded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find([',', '}']).unwrap();
        let millis: f64 = part[..end].parse().unwrap();
        let tenth = (millis / 100.0).floor() * 100.0;
        rounded += &format!(r#""duration_ms":{tenth:.1}{}"#, &part[end..]);
    }
    rounded
}

// OBS-06
#[tokio::test(start_paused = true)]
async fn health_shows_causes_if_asked_for_and_takes_no_params() {
    let health = Health::new()
        .check("database", SECOND, || async { Err::<(), _>(refused()) })
        .show_causes();
    let router = Router::new().extension("rpc.health", [], health.clone());
    let router = router.method("health", [], health.clone());
    let (answer, _) = asked(router.clone(), nothing()).await;
    let text = answer.unwrap();
    assert!(
        text.contains(r#""reason":"failed","cause":"db.internal:5432 refused"}"#),
        "{text}"
    );
    let surplus = OwnedJson::parse("[1]".into()).unwrap();
    assert_eq!(asked(router, surplus).await.0, Err(-32602));
    let report = health.run(&*Tokio::current()).await;
    assert!(!report.is_passing());
    assert!(report.failures().eq([("database", "failed")]));
    let report = Health::new().run(&*Tokio::current()).await;
    assert!(report.is_passing());
    let (answer, reports) =
        asked(Router::new().method("health", [], Health::new()), nothing()).await;
    assert_eq!(answer.unwrap(), r#"{"status":"pass","checks":{}}"#);
    assert!(reports.is_empty(), "{reports:?}");
}
