//! Metrics, and what Prometheus reads of them.

use antiphon_metrics::{BUCKETS, Metrics};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Makes metrics with a recorder of their own, and what renders its text.
pub(crate) fn measured() -> (Metrics, PrometheusHandle) {
    let mut builder = PrometheusBuilder::new().with_recommended_naming(true);
    for (name, bounds) in BUCKETS {
        let name = Matcher::Full(name.into());
        builder = builder.set_buckets_for_metric(name, bounds).unwrap();
    }
    let recorder = builder.build_recorder();
    let shown = recorder.handle();
    (Metrics::with_recorder(recorder), shown)
}
