//! The health check of the example `health`.

use std::error::Error;
use std::future::pending;
use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_tokio::{CallError, Config, Link, OwnedError, OwnedJson, Router, attach};
use tokio::time::{Instant, sleep};

use crate::programs::example;

#[path = "../../examples/health.rs"]
#[allow(dead_code, reason = "its checks are what is tested here")]
mod example_health;

use example_health::Checks;

const SECOND: Duration = Duration::from_secs(1);

/// Two checks pass, one fails, one never ends and one panics.
fn unwell() -> Checks {
    Checks::default()
        .check("disk", SECOND, async { Ok(()) })
        .check("queue", SECOND, async {
            sleep(SECOND / 2).await;
            Ok(())
        })
        .check("database", SECOND, async {
            Err("db.internal:5432 refused".into())
        })
        .check("mail", 2 * SECOND, pending())
        .check("cache", SECOND, async { panic!("as asked") })
}

// OBS-06
#[tokio::test(start_paused = true)]
async fn health_says_what_passes_and_hides_why_something_fails() {
    let log = Arc::<Mutex<Vec<String>>>::default();
    let written = Arc::clone(&log);
    let router = Router::new().method("health", [], move || {
        let log = Arc::clone(&log);
        async move {
            let write = |name: &str, cause: &dyn Error| {
                log.lock().unwrap().push(format!("{name}: {cause}"));
            };
            Ok::<_, OwnedError>(unwell().health(write).await)
        }
    });
    let (near, far) = Link::pair();
    let _serving = attach(far, Config::new(), router);
    let peer = attach(near, Config::new(), ());
    let began = Instant::now();
    let answer: OwnedJson = peer.call("health", ()).await.unwrap();
    let expected = concat!(
        r#"{"status":"fail","checks":{"cache":"panicked","database":"failed","#,
        r#""disk":"pass","mail":"timed out","queue":"pass"}}"#,
    );
    assert_eq!(answer.as_str(), expected);
    // The checks run at the same time, so together they take as long as the longest.
    assert_eq!(began.elapsed().as_secs(), 2);
    let mut written = written.lock().unwrap().clone();
    written.sort_unstable();
    assert!(written[0].starts_with("cache: ") && written[0].contains("panicked"));
    assert_eq!(
        written[1..],
        [
            "database: db.internal:5432 refused",
            "mail: its deadline has passed"
        ]
    );
    let surplus = peer.call::<OwnedJson>("health", &[1]).await.unwrap_err();
    assert!(matches!(surplus, CallError::Remote(error) if error.code() == -32602));
}

// OBS-06
#[test]
fn the_example_says_that_it_is_well() {
    let mut child = example("health")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let call = br#"{"jsonrpc":"2.0","method":"health","id":1}"#;
    let mut input = child.stdin.take().unwrap();
    input.write_all(&[call, &b"\n"[..]].concat()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let answer = r#"{"jsonrpc":"2.0","result":{"status":"pass","checks":{"disk":"pass"}},"id":1}"#;
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), answer);
}
