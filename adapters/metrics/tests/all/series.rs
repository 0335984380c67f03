//! How many series there are at most.

use std::time::Duration;

use antiphon_tokio::service::{AnyRequest, Cx, Failure, Interceptor, Reply};
use antiphon_tokio::{Instant, Json, OwnedError, OwnedId};

use crate::measured::measured;

const MAX_SERIES: i64 = 10_000;

/// A call of ours.
struct Call;

impl AnyRequest for Call {
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
        0
    }

    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn is_outgoing(&self) -> bool {
        true
    }
}

// OBS-08
#[test]
fn a_server_that_makes_up_codes_makes_no_series_without_end() {
    let (metrics, shown) = measured();
    let mut cx = Cx::new(Instant::ZERO, true);
    // 100 codes more than there may be series, and the first code once more.
    let codes = (0..MAX_SERIES + 100).chain([0]);
    for code in codes {
        metrics.request(&mut cx, &Call);
        let failed = Err(Failure::Error(OwnedError::new(code, "")));
        let mut reply = Reply::new(Some(failed), Duration::ZERO);
        metrics.response(&cx, &Call, &mut reply);
    }
    let text = shown.render();
    let counts = text.lines().filter(|line| line.contains("seconds_count{"));
    assert_eq!(counts.count(), MAX_SERIES as usize + 1);
    for line in [
        r#"rpc_method="_OTHER",error_type="_OTHER"} 100"#,
        r#"rpc_method="m",error_type="0"} 2"#,
    ] {
        assert!(text.contains(line), "no {line}");
    }
    assert!(text.contains("antiphon_client_calls_running 0\n"));
}
