//! The health check method, on threads.

use std::future::pending;
use std::io;
use std::time::Duration;

use antiphon_blocking::{Config, Health, Link, OwnedJson, Router, connect};

// OBS-06
#[test]
fn health_is_answered_on_threads_and_a_check_that_never_ends_has_its_deadline() {
    let health = Health::new()
        .check("disk", Duration::from_secs(30), || async {
            Ok::<_, io::Error>("free")
        })
        .check("mail", Duration::from_millis(10), pending::<io::Result<()>>);
    let router = Router::new().method("health", [], health);
    let (near, far) = Link::pair();
    let _serving = connect(far, Config::new(), router).unwrap();
    let peer = connect(near, Config::new(), ()).unwrap();
    let answer: OwnedJson = peer.call("health", ()).wait().unwrap();
    let checks = answer.as_json().get("checks").unwrap();
    let member = |check: &str, name: &str| {
        let found = checks.get(check).and_then(|check| check.get(name));
        found.map(|value| value.as_str().to_owned())
    };
    assert_eq!(
        answer.as_json().get("status").unwrap().as_str(),
        r#""fail""#
    );
    assert_eq!(member("disk", "detail").as_deref(), Some(r#""free""#));
    assert_eq!(member("mail", "reason").as_deref(), Some(r#""timed out""#));
    let millis: f64 = member("mail", "duration_ms").unwrap().parse().unwrap();
    assert!((10.0..30_000.0).contains(&millis), "{millis}");
}
