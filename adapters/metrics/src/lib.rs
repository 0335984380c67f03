//! Counts and durations of JSON-RPC calls with [antiphon](https://docs.rs/antiphon), on the facade
//! [`metrics`]: the program chooses the exporter, such as `metrics-exporter-prometheus`.
//!
//! [`Metrics`] is an interceptor, for routers and for clients, on every runtime.
//!
//! ```
//! use antiphon_metrics::{BUCKETS, Metrics};
//! use antiphon_tokio::{OwnedError, Router};
//! use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
//!
//! let mut exporter = PrometheusBuilder::new().with_recommended_naming(true);
//! for (name, bounds) in BUCKETS {
//!     exporter = exporter.set_buckets_for_metric(Matcher::Full(name.into()), bounds)?;
//! }
//! let shown = exporter.install_recorder()?;
//! let router = Router::new()
//!     .method("add", ["a", "b"], |a: f64, b: f64| Ok::<_, OwnedError>(a + b))
//!     .intercept(Metrics::new());
//! // Whatever answers `GET /metrics` sends this text, of type `text/plain; version=0.0.4`.
//! assert!(shown.render().contains("antiphon_server_connections_open 0"));
//! # let _: Router = router;
//! # Ok::<(), metrics_exporter_prometheus::BuildError>(())
//! ```
//!
//! The names are in [`antiphon::service::conventions`]. Prometheus writes them with `_`, and with the setting
//! above it adds the unit and `_total`: `rpc_server_call_duration_seconds`,
//! `antiphon_server_connections_total`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use antiphon::service::conventions::{
    BATCH_BOUNDS, CLIENT_BATCH_SIZE, CLIENT_CALLS_RUNNING, DURATION_BOUNDS, ERROR_TYPE, OTHER,
    RPC_CLIENT_CALL_DURATION, RPC_METHOD, RPC_SERVER_CALL_DURATION, RPC_SYSTEM_NAME,
    SERVER_BATCH_SIZE, SERVER_CALLS_RUNNING, SERVER_CONNECTIONS, SERVER_CONNECTIONS_OPEN,
    SYSTEM_NAME,
};
use antiphon::service::{AnyRequest, CallEnd, Cx, Decision, Interceptor, LoggedCall, Reply};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit};

/// The upper bounds of the histograms' buckets, by the names of the histograms. The facade has no buckets,
/// so they are set where the exporter is made.
pub const BUCKETS: [(&str, &[f64]); 4] = [
    (RPC_SERVER_CALL_DURATION, &DURATION_BOUNDS),
    (RPC_CLIENT_CALL_DURATION, &DURATION_BOUNDS),
    (SERVER_BATCH_SIZE, &BATCH_BOUNDS),
    (CLIENT_BATCH_SIZE, &BATCH_BOUNDS),
];

/// The most series for the peer's calls, and as many for ours. There is a limit because a peer that we call
/// may invent any number of error codes, each of which is a series. Further ones are counted in one more
/// series, `_OTHER`.
const MAX_SERIES: usize = 10_000;

const METADATA: Metadata<'static> = Metadata::new("antiphon", Level::INFO, None);

/// An interceptor that counts connections and the sizes of batches, and counts and measures calls, by method
/// and by the code of the error, or what there is instead of an answer: `cancelled` and `panicked` for a
/// server; `cancelled`, `timeout`, `connection_closed`, `unsent`, `missing` and `invalid` for a client. The
/// HTTP requests of one connection count as one, from the first; in a web framework, which has the connections, each
/// counts as one. Clones count together. The peer's calls and our own are counted
/// separately, each in at most 10 000 series (one for each method and error), and one more for the rest.
#[derive(Clone)]
pub struct Metrics {
    shared: Arc<Shared>,
}

struct Shared {
    /// `None` for the recorder of the program.
    recorder: Option<Box<dyn Recorder + Send + Sync>>,
    open: Gauge,
    opened: Counter,
    server: Side,
    client: Side,
}

/// The calls of the peer, or those of this side.
struct Side {
    duration: &'static str,
    running: Gauge,
    /// By method and kind of error, which is `None` for a call with a result.
    calls: Mutex<BTreeMap<Series, Histogram>>,
}

type Series = (String, Option<String>);

impl Metrics {
    /// Uses the recorder that the program has installed. Install it before: what is made without a recorder
    /// counts nothing.
    pub fn new() -> Self {
        Self::of(None)
    }

    /// Uses the given recorder.
    pub fn with_recorder(recorder: impl Recorder + Send + Sync + 'static) -> Self {
        Self::of(Some(Box::new(recorder)))
    }

    fn of(recorder: Option<Box<dyn Recorder + Send + Sync>>) -> Self {
        let gauge = |name: &'static str, about: &'static str| {
            with(&recorder, |recorder| {
                recorder.describe_gauge(name.into(), None, about.into());
                recorder.register_gauge(&Key::from_static_name(name), &METADATA)
            })
        };
        let side = |duration: &'static str, running, batch_size: &'static str| {
            with(&recorder, |recorder| {
                let about = "How long calls took.";
                recorder.describe_histogram(duration.into(), Some(Unit::Seconds), about.into());
                let about = "How many items batches have.";
                recorder.describe_histogram(batch_size.into(), None, about.into());
            });
            Side {
                duration,
                running: gauge(running, "Calls that have begun and not ended."),
                calls: Mutex::default(),
            }
        };
        let about = "Connections that have begun and not ended.";
        let open = gauge(SERVER_CONNECTIONS_OPEN, about);
        let opened = with(&recorder, |recorder| {
            let about = "Connections that have begun.";
            recorder.describe_counter(SERVER_CONNECTIONS.into(), None, about.into());
            recorder.register_counter(&Key::from_static_name(SERVER_CONNECTIONS), &METADATA)
        });
        let server = side(
            RPC_SERVER_CALL_DURATION,
            SERVER_CALLS_RUNNING,
            SERVER_BATCH_SIZE,
        );
        let client = side(
            RPC_CLIENT_CALL_DURATION,
            CLIENT_CALLS_RUNNING,
            CLIENT_BATCH_SIZE,
        );
        Self {
            shared: Arc::new(Shared {
                recorder,
                open,
                opened,
                server,
                client,
            }),
        }
    }

    fn side(&self, is_outgoing: bool) -> &Side {
        match is_outgoing {
            true => &self.shared.client,
            false => &self.shared.server,
        }
    }

    fn count(&self, call: &LoggedCall<'_>, end: &CallEnd) {
        let side = self.side(call.is_outgoing);
        side.running.decrement(1.0);
        let series = (call.known_method().to_owned(), end.error_type());
        let histogram = self.calls_of(side, series);
        histogram.record(end.duration.as_secs_f64());
    }

    /// The histogram of a series, or that of the rest if there are too many. The recorder is called without
    /// the lock.
    fn calls_of(&self, side: &Side, mut series: Series) -> Histogram {
        let lock = || side.calls.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let calls = lock();
            if calls.len() >= MAX_SERIES && !calls.contains_key(&series) {
                series = (OTHER.into(), Some(OTHER.into()));
            }
            if let Some(known) = calls.get(&series) {
                return known.clone();
            }
        }
        let mut labels = vec![Label::new(RPC_METHOD, series.0.clone())];
        labels.extend(series.1.clone().map(|error| Label::new(ERROR_TYPE, error)));
        let made = self.histogram(side.duration, labels);
        lock().insert(series, made.clone());
        made
    }

    fn histogram(&self, name: &'static str, mut labels: Vec<Label>) -> Histogram {
        labels.insert(0, Label::from_static_parts(RPC_SYSTEM_NAME, SYSTEM_NAME));
        let key = Key::from_parts(name, labels);
        with(&self.shared.recorder, |recorder| {
            recorder.register_histogram(&key, &METADATA)
        })
    }
}

fn with<T>(
    recorder: &Option<Box<dyn Recorder + Send + Sync>>,
    call: impl FnOnce(&dyn Recorder) -> T,
) -> T {
    match recorder {
        Some(own) => call(&**own),
        None => metrics::with_recorder(call),
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: AnyRequest + ?Sized> Interceptor<R> for Metrics {
    fn opened(&self, _: u32) {
        self.shared.open.increment(1.0);
        self.shared.opened.increment(1);
    }

    fn closed(&self, _: u32) {
        self.shared.open.decrement(1.0);
    }

    fn batch_received(&self, _: u32, items: usize) {
        self.histogram(SERVER_BATCH_SIZE, Vec::new())
            .record(items as f64);
    }

    fn batch_sent(&self, _: u32, items: usize) {
        self.histogram(CLIENT_BATCH_SIZE, Vec::new())
            .record(items as f64);
    }

    fn request(&self, _: &mut Cx, request: &R) -> Decision {
        self.side(request.is_outgoing()).running.increment(1.0);
        Decision::Continue
    }

    fn response(&self, cx: &Cx, request: &R, reply: &mut Reply) {
        if let Some(end) = reply.end() {
            self.count(&LoggedCall::of(cx, request), &end);
        }
    }

    fn answered(&self, cx: &Cx, request: &R, end: &CallEnd) {
        self.count(&LoggedCall::of(cx, request), end);
    }

    fn given_up(&self, cx: &Cx, request: &R) {
        self.count(&LoggedCall::of(cx, request), &cx.given_up(request));
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
