//! Counts and durations of calls, in the format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use antiphon::service::conventions::{
    BATCH_BOUNDS, CLIENT_BATCH_SIZE, DURATION_BOUNDS, OTHER, SERVER_BATCH_SIZE, SYSTEM_NAME,
};
use antiphon::service::{AnyRequest, CallEnd, Cx, Decision, Interceptor, LoggedCall, Reply};

use crate::lock::Lock;

/// The most series for the peer's calls, and as many for ours. There is a limit because a peer that we call
/// may invent any number of error codes, each of which is a series. Further ones are counted in one more
/// series, `_OTHER`. Each series needs about 300 bytes.
const MAX_SERIES: usize = 10_000;

/// An interceptor that counts connections and the sizes of batches, and counts and measures calls, by method
/// and by the code of the error, or what there is instead of an answer: `cancelled` and `panicked` for a
/// server; `cancelled`, `timeout`, `connection_closed`, `unsent`, `missing` and `invalid` for a client. Over
/// HTTP each request counts as a connection. Clones count together. The peer's calls and our own are counted
/// separately, each in at most 10 000 series (one for each method and error), and one more for the rest.
///
/// All numbers only increase, except those of open connections and running calls; so rates can be
/// computed from two readings.
///
/// ```
/// use antiphon_net::{Metrics, Router};
/// let metrics = Metrics::new();
/// let router = Router::new().intercept(metrics.clone());
/// // Whatever answers `GET /metrics` sends this text, of type `text/plain; version=0.0.4`.
/// assert!(metrics.to_string().contains("# TYPE rpc_server_call_duration_seconds histogram"));
/// # let _: Router = router;
/// ```
#[derive(Clone, Default)]
pub struct Metrics {
    state: Arc<Lock<Sides>>,
}

/// The counts of connections, of the peer's calls (`server`) and of ours (`client`).
#[derive(Default)]
struct Sides {
    open: u64,
    opened: u64,
    server: Measured,
    /// `None` before the first call: few programs have both sides.
    client: Option<Measured>,
}

#[derive(Default)]
struct Measured {
    running: u64,
    /// `None` before the first batch: few programs have any.
    batches: Option<Histogram<{ BATCH_BOUNDS.len() }>>,
    /// By method and kind of error, which is `None` for a call with a result.
    calls: BTreeMap<(String, Option<String>), Histogram<{ DURATION_BOUNDS.len() }>>,
}

impl Measured {
    fn add_batch(&mut self, items: usize) {
        let batches = self
            .batches
            .get_or_insert_with(|| Histogram::new(&BATCH_BOUNDS));
        batches.add(items as f64);
    }
}

/// How many values there were up to each of some bounds, and what they sum to.
struct Histogram<const N: usize> {
    bounds: &'static [f64; N],
    /// How many are at most as large as each bound, and larger than the one before.
    buckets: [u64; N],
    count: u64,
    total: f64,
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: &'static [f64; N]) -> Self {
        Self {
            bounds,
            buckets: [0; N],
            count: 0,
            total: 0.0,
        }
    }

    fn add(&mut self, value: f64) {
        let place = self.bounds.iter().position(|bound| value <= *bound);
        if let Some(bucket) = place.and_then(|place| self.buckets.get_mut(place)) {
            *bucket += 1;
        }
        self.count += 1;
        self.total += value;
    }

    fn write(&self, name: &str, labels: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut up_to = 0;
        for (bound, count) in self.bounds.iter().zip(self.buckets) {
            up_to += count;
            writeln!(f, "{name}_bucket{{{labels},le=\"{bound}\"}} {up_to}")?;
        }
        writeln!(f, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", self.count)?;
        writeln!(f, "{name}_sum{{{labels}}} {}", self.total)?;
        writeln!(f, "{name}_count{{{labels}}} {}", self.count)
    }
}

impl Metrics {
    /// Makes one that has counted nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn count(&self, call: &LoggedCall<'_>, end: &CallEnd) {
        let mut sides = self.state.lock();
        let measured = sides.of(call.is_outgoing);
        measured.running = measured.running.saturating_sub(1);
        let mut key = (call.known_method().to_owned(), end.error_type());
        if measured.calls.len() >= MAX_SERIES && !measured.calls.contains_key(&key) {
            key = (OTHER.into(), Some(OTHER.into()));
        }
        let series = measured.calls.entry(key);
        let series = series.or_insert_with(|| Histogram::new(&DURATION_BOUNDS));
        series.add(end.duration.as_secs_f64());
    }
}

impl Sides {
    fn of(&mut self, is_outgoing: bool) -> &mut Measured {
        match is_outgoing {
            true => self.client.get_or_insert_default(),
            false => &mut self.server,
        }
    }
}

impl<R: AnyRequest + ?Sized> Interceptor<R> for Metrics {
    fn opened(&self, _: u32) {
        let mut sides = self.state.lock();
        sides.open += 1;
        sides.opened += 1;
    }

    fn closed(&self, _: u32) {
        let mut sides = self.state.lock();
        sides.open = sides.open.saturating_sub(1);
    }

    fn batch_received(&self, _: u32, items: usize) {
        self.state.lock().of(false).add_batch(items);
    }

    fn batch_sent(&self, _: u32, items: usize) {
        self.state.lock().of(true).add_batch(items);
    }

    fn request(&self, _: &mut Cx, request: &R) -> Decision {
        self.state.lock().of(request.is_outgoing()).running += 1;
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
        let call = LoggedCall::of(cx, request);
        self.count(&call, &cx.given_up(request));
    }
}

/// Writes the text format of Prometheus.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = self.state.lock();
        let name = "antiphon_server_connections_open";
        head(
            f,
            name,
            "gauge",
            "Connections that have begun and not ended.",
        )?;
        writeln!(f, "{name} {}", sides.open)?;
        let name = "antiphon_server_connections_total";
        head(f, name, "counter", "Connections that have begun.")?;
        writeln!(f, "{name} {}", sides.opened)?;
        sides.server.write("server", SERVER_BATCH_SIZE, f)?;
        match &sides.client {
            Some(client) => client.write("client", CLIENT_BATCH_SIZE, f),
            None => Ok(()),
        }
    }
}

impl Measured {
    fn write(&self, side: &str, batch_size: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("antiphon_{side}_calls_running");
        head(f, &name, "gauge", "Calls that have begun and not ended.")?;
        writeln!(f, "{name} {}", self.running)?;
        let name = format!("rpc_{side}_call_duration_seconds");
        head(f, &name, "histogram", "How long calls took.")?;
        for ((method, error), series) in &self.calls {
            let labels = labels(method, error.as_deref());
            series.write(&name, &labels, f)?;
        }
        let Some(batches) = &self.batches else {
            return Ok(());
        };
        let name = batch_size.replace('.', "_");
        head(f, &name, "histogram", "How many items batches have.")?;
        batches.write(&name, &system_label(), f)
    }
}

/// Writes the lines before the samples of a name.
fn head(f: &mut fmt::Formatter<'_>, name: &str, kind: &str, about: &str) -> fmt::Result {
    writeln!(f, "# HELP {name} {about}")?;
    writeln!(f, "# TYPE {name} {kind}")
}

fn system_label() -> String {
    format!("rpc_system_name=\"{SYSTEM_NAME}\"")
}

/// The labels of a series, by the names of OpenTelemetry's RPC conventions.
fn labels(method: &str, error: Option<&str>) -> String {
    let mut labels = system_label() + ",rpc_method=\"";
    for letter in method.chars() {
        match letter {
            '\\' | '"' => labels.extend(['\\', letter]),
            '\n' => labels.push_str("\\n"),
            _ => labels.push(letter),
        }
    }
    labels.push('"');
    if let Some(error) = error {
        // Writing to a string cannot fail.
        let _ = write!(labels, ",error_type=\"{error}\"");
    }
    labels
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("series", &self.state.lock().server.calls.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use antiphon::service::{AnyRequest, Cx, Failure, Interceptor, Reply};
    use antiphon::{Instant, Json, OwnedError, OwnedId};

    use super::{MAX_SERIES, Metrics};

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
        let metrics = Metrics::new();
        let mut cx = Cx::new(Instant::ZERO, true);
        // 100 codes more than there may be series, and the first code once more.
        let codes = (0..MAX_SERIES as i64 + 100).chain([0]);
        for code in codes {
            metrics.request(&mut cx, &Call);
            let failed = Err(Failure::Error(OwnedError::new(code, "")));
            let mut reply = Reply::new(Some(failed), Duration::ZERO);
            metrics.response(&cx, &Call, &mut reply);
        }
        let text = metrics.to_string();
        let counts = text.lines().filter(|line| line.contains("seconds_count{"));
        assert_eq!(counts.count(), MAX_SERIES + 1);
        for line in [
            r#"rpc_method="_OTHER",error_type="_OTHER"} 100"#,
            r#"rpc_method="m",error_type="0"} 2"#,
        ] {
            assert!(text.contains(line), "no {line}");
        }
        assert!(text.contains("antiphon_client_calls_running 0\n"));
    }
}
