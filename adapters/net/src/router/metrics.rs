//! Counts and durations of calls, as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use antiphon::service::conventions::{DURATION_BOUNDS, OTHER, SYSTEM_NAME};
use antiphon::service::{AnyRequest, Cx, Decision, Interceptor, Reply};

/// An interceptor that counts connections, and counts and measures calls, by method and by the code of
/// the error, or what there is instead of an answer: `cancelled` and `panicked` for a server; `cancelled`,
/// `timeout`, `connection_closed`, `unsent`, `missing` and `invalid` for a client. A call that its handler
/// answers later is not measured. Over HTTP each request counts as a connection. Clones count together,
/// calls of the peer's and of ours apart.
///
/// Everything but what is open or running only rises, so that a reader of two texts knows the rates.
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
    state: Arc<Mutex<Sides>>,
}

/// The connections, the calls of the peer's, and ours.
#[derive(Default)]
struct Sides {
    open: u64,
    opened: u64,
    server: Measured,
    /// Nothing before a first call: few programs have both.
    client: Option<Measured>,
}

#[derive(Default)]
struct Measured {
    running: u64,
    /// By method and kind of error; none for a result, or for a call that is answered later.
    calls: BTreeMap<(String, Option<String>), Series>,
}

#[derive(Default)]
struct Series {
    /// How many took at most as long as each bound says, and longer than the one before.
    buckets: [u64; DURATION_BOUNDS.len()],
    count: u64,
    total: Duration,
}

impl Metrics {
    /// Counts from nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn count<R: AnyRequest + ?Sized>(
        &self,
        cx: &Cx,
        request: &R,
        error: Option<String>,
        duration: Duration,
    ) {
        let method = match cx.is_registered() {
            true => request.method(),
            false => OTHER,
        };
        let seconds = duration.as_secs_f64();
        let mut sides = self.lock();
        let measured = sides.of(request);
        measured.running = measured.running.saturating_sub(1);
        let series = measured.calls.entry((method.into(), error)).or_default();
        let place = DURATION_BOUNDS.iter().position(|bound| seconds <= *bound);
        if let Some(bucket) = place.and_then(|place| series.buckets.get_mut(place)) {
            *bucket += 1;
        }
        series.count += 1;
        series.total += duration;
    }

    fn lock(&self) -> MutexGuard<'_, Sides> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sides {
    fn of<R: AnyRequest + ?Sized>(&mut self, request: &R) -> &mut Measured {
        match request.is_outgoing() {
            true => self.client.get_or_insert_default(),
            false => &mut self.server,
        }
    }
}

impl<R: AnyRequest + ?Sized> Interceptor<R> for Metrics {
    fn opened(&self, _: u32) {
        let mut sides = self.lock();
        sides.open += 1;
        sides.opened += 1;
    }

    fn closed(&self, _: u32) {
        let mut sides = self.lock();
        sides.open = sides.open.saturating_sub(1);
    }

    fn request(&self, _: &mut Cx, request: &R) -> Decision {
        self.lock().of(request).running += 1;
        Decision::Continue
    }

    fn response(&self, cx: &Cx, request: &R, reply: &mut Reply) {
        if reply.is_deferred() {
            let mut sides = self.lock();
            let measured = sides.of(request);
            measured.running = measured.running.saturating_sub(1);
            return;
        }
        let code = reply.error().map(|error| error.code().to_string());
        let instead = reply.no_answer().map(|why| why.as_str().into());
        self.count(cx, request, code.or(instead), reply.duration());
    }

    fn given_up(&self, cx: &Cx, request: &R) {
        let duration = request.now().saturating_since(cx.began());
        let why = match std::thread::panicking() {
            true => "panicked",
            false => "cancelled",
        };
        self.count(cx, request, Some(why.into()), duration);
    }
}

/// The text that Prometheus reads.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = self.lock();
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
        sides.server.write("server", f)?;
        match &sides.client {
            Some(client) => client.write("client", f),
            None => Ok(()),
        }
    }
}

impl Measured {
    fn write(&self, side: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("antiphon_{side}_calls_running");
        head(f, &name, "gauge", "Calls that have begun and not ended.")?;
        writeln!(f, "{name} {}", self.running)?;
        let name = format!("rpc_{side}_call_duration_seconds");
        head(f, &name, "histogram", "How long calls took.")?;
        for ((method, error), series) in &self.calls {
            let labels = labels(method, error.as_deref());
            let mut up_to = 0;
            for (bound, count) in DURATION_BOUNDS.iter().zip(series.buckets) {
                up_to += count;
                writeln!(f, "{name}_bucket{{{labels},le=\"{bound}\"}} {up_to}")?;
            }
            writeln!(f, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", series.count)?;
            writeln!(f, "{name}_sum{{{labels}}} {}", series.total.as_secs_f64())?;
            writeln!(f, "{name}_count{{{labels}}} {}", series.count)?;
        }
        Ok(())
    }
}

/// What stands above the samples of a name.
fn head(f: &mut fmt::Formatter<'_>, name: &str, kind: &str, about: &str) -> fmt::Result {
    writeln!(f, "# HELP {name} {about}")?;
    writeln!(f, "# TYPE {name} {kind}")
}

/// The labels of a series, by the names of OpenTelemetry's RPC conventions.
fn labels(method: &str, error: Option<&str>) -> String {
    let mut labels = format!("rpc_system_name=\"{SYSTEM_NAME}\",rpc_method=\"");
    for letter in method.chars() {
        match letter {
            '\\' | '"' => labels.extend(['\\', letter]),
            '\n' => labels.push_str("\\n"),
            _ => labels.push(letter),
        }
    }
    labels.push('"');
    if let Some(error) = error {
        // Text is never refused.
        let _ = write!(labels, ",error_type=\"{error}\"");
    }
    labels
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("series", &self.lock().server.calls.len())
            .finish_non_exhaustive()
    }
}
