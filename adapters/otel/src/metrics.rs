//! Durations of calls, sizes of batches and the number of open connections.

use antiphon::service::conventions::{
    BATCH_BOUNDS, CLIENT_BATCH_SIZE, DURATION_BOUNDS, ERROR_TYPE, RPC_CLIENT_CALL_DURATION,
    RPC_METHOD, RPC_RESPONSE_STATUS_CODE, RPC_SERVER_CALL_DURATION, RPC_STATUS_CODE,
    RPC_SYSTEM_NAME, SERVER_ADDRESS, SERVER_BATCH_SIZE, SERVER_CONNECTIONS_OPEN, SERVER_PORT,
    SYSTEM_NAME,
};
use antiphon::service::{AnyRequest, CallEnd, Cx, Interceptor, LoggedCall, Reply};
use opentelemetry::KeyValue;
use opentelemetry::global;
use opentelemetry::metrics::{Histogram, Meter, MeterProvider, UpDownCounter};

use crate::SCOPE;

/// An interceptor that measures calls in OpenTelemetry's histograms `rpc.server.call.duration` and
/// `rpc.client.call.duration`, in seconds, by method and kind of error; the sizes of batches in
/// `antiphon.server.batch.size` and `antiphon.client.batch.size`; and counts the open connections of a
/// router in `antiphon.server.connections.open`. Over HTTP each request counts as a connection.
///
/// All methods that a router does not know are measured under the name `_OTHER`.
#[derive(Clone, Debug)]
pub struct OtelMetrics {
    server: Histogram<f64>,
    client: Histogram<f64>,
    server_batches: Histogram<u64>,
    client_batches: Histogram<u64>,
    connections: UpDownCounter<i64>,
    /// The name of the attribute for the code of an error.
    status_code: &'static str,
}

impl OtelMetrics {
    /// Uses the provider that the program has set for all its libraries.
    pub fn global() -> Self {
        Self::of(&global::meter(SCOPE))
    }

    /// Uses the given provider.
    pub fn new(provider: &impl MeterProvider) -> Self {
        Self::of(&provider.meter(SCOPE))
    }

    fn of(meter: &Meter) -> Self {
        let histogram = |name: &'static str, about: &'static str| {
            let builder = meter.f64_histogram(name).with_unit("s");
            let builder = builder.with_description(about);
            builder.with_boundaries(DURATION_BOUNDS.to_vec()).build()
        };
        let batches = |name: &'static str, about: &'static str| {
            let builder = meter.u64_histogram(name).with_unit("{item}");
            let builder = builder.with_description(about);
            builder.with_boundaries(BATCH_BOUNDS.to_vec()).build()
        };
        let connections = meter.i64_up_down_counter(SERVER_CONNECTIONS_OPEN);
        Self {
            server: histogram(RPC_SERVER_CALL_DURATION, "How long calls of peers took."),
            client: histogram(
                RPC_CLIENT_CALL_DURATION,
                "How long calls of this side took.",
            ),
            server_batches: batches(SERVER_BATCH_SIZE, "How many items batches of peers have."),
            client_batches: batches(
                CLIENT_BATCH_SIZE,
                "How many items batches of this side have.",
            ),
            connections: connections
                .with_unit("{connection}")
                .with_description("Connections that have begun and not ended.")
                .build(),
            status_code: RPC_STATUS_CODE,
        }
    }

    /// Uses the name `rpc.response.status_code` for the code of an error, as the conventions did up
    /// to version 1.44.0.
    #[must_use]
    pub const fn with_response_status_code(mut self) -> Self {
        self.status_code = RPC_RESPONSE_STATUS_CODE;
        self
    }

    fn measure(&self, call: &LoggedCall<'_>, end: &CallEnd) {
        let mut attributes = vec![
            KeyValue::new(RPC_SYSTEM_NAME, SYSTEM_NAME),
            KeyValue::new(RPC_METHOD, call.known_method().to_owned()),
        ];
        if let Some(code) = end.code {
            attributes.push(KeyValue::new(self.status_code, code.to_string()));
        }
        if let Some(error) = end.error_type() {
            attributes.push(KeyValue::new(ERROR_TYPE, error));
        }
        let histogram = match call.is_outgoing {
            true => &self.client,
            false => &self.server,
        };
        if let Some((name, port)) = call.server {
            attributes.push(KeyValue::new(SERVER_ADDRESS, name.to_owned()));
            attributes.push(KeyValue::new(SERVER_PORT, i64::from(port)));
        }
        histogram.record(end.duration.as_secs_f64(), &attributes);
    }
}

impl<R: AnyRequest + ?Sized> Interceptor<R> for OtelMetrics {
    fn opened(&self, _: u32) {
        self.connections.add(1, &[]);
    }

    fn closed(&self, _: u32) {
        self.connections.add(-1, &[]);
    }

    fn batch_received(&self, _: u32, items: usize) {
        self.server_batches.record(items as u64, &[]);
    }

    fn batch_sent(&self, _: u32, items: usize) {
        self.client_batches.record(items as u64, &[]);
    }

    fn response(&self, cx: &Cx, request: &R, reply: &mut Reply) {
        if let Some(end) = reply.end() {
            self.measure(&LoggedCall::of(cx, request), &end);
        }
    }

    fn answered(&self, cx: &Cx, request: &R, end: &CallEnd) {
        self.measure(&LoggedCall::of(cx, request), end);
    }

    fn given_up(&self, cx: &Cx, request: &R) {
        let end = cx.given_up(request);
        self.measure(&LoggedCall::of(cx, request), &end);
    }
}
