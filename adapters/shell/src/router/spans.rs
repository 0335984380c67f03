//! Makes spans of the crate `tracing` from calls, and events from reports.

use antiphon::service::conventions::{
    ERROR_TYPE, JSONRPC_PROTOCOL_VERSION, JSONRPC_REQUEST_ID, NETWORK_PEER_ADDRESS,
    NETWORK_PEER_PORT, RPC_METHOD, RPC_METHOD_ORIGINAL, RPC_STATUS_CODE, RPC_SYSTEM_NAME,
    SERVER_ADDRESS, SERVER_PORT, SYSTEM_NAME,
};
use antiphon::service::{CallEnd, FieldValue, LoggedCall, TraceContext, Tracer};
use antiphon::session::{Report, Severity};
use tracing::field::{Empty, display};
use tracing::{Level, Span, event, span};

use crate::peer::Peer;

/// Makes a span of the crate `tracing` of each call, for [`Tracing`](antiphon::service::Tracing).
/// Handlers run inside it, so their log messages belong to it.
///
/// Its fields have the names of OpenTelemetry's conventions for RPC, and `otel.name`, `otel.kind`
/// and `otel.status_code`, by which the crate `tracing-opentelemetry` makes a span of
/// OpenTelemetry. Its level is INFO, its target `antiphon`. The caller's trace is in `trace_id` and
/// `parent_id`.
///
/// ```
/// use antiphon::service::Tracing;
/// use antiphon_shell::{Router, TracingSpans, trace_report};
/// let router = Router::new()
///     .intercept(Tracing::new(TracingSpans::new()))
///     .on_report(trace_report);
/// # let _: Router = router;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TracingSpans {
    adopt: fn(&Span, &TraceContext),
    identify: fn(&Span) -> Option<TraceContext>,
}

impl Default for TracingSpans {
    fn default() -> Self {
        Self::new()
    }
}

impl TracingSpans {
    /// Makes spans that are not linked to those of other programs.
    pub const fn new() -> Self {
        Self {
            adopt: |_, _| {},
            identify: |_| None,
        }
    }

    /// Links spans to traces of several programs, with a subscriber that records them. `adopt`
    /// makes a span the child of the caller's span; `identify` returns the identity of this span
    /// for a peer that is called. With `tracing-opentelemetry` use `set_parent` and `context` of
    /// its `OpenTelemetrySpanExt`.
    #[must_use]
    pub const fn linked(
        adopt: fn(&Span, &TraceContext),
        identify: fn(&Span) -> Option<TraceContext>,
    ) -> Self {
        Self { adopt, identify }
    }
}

impl Tracer for TracingSpans {
    type Span = Span;
    type Parent = TraceContext;

    fn extract(&self, field: &dyn Fn(&str) -> Option<String>) -> Option<TraceContext> {
        TraceContext::extract(field)
    }

    fn start(&self, call: &LoggedCall<'_>, parent: Option<TraceContext>) -> Span {
        let span = span!(
            target: "antiphon",
            Level::INFO,
            SYSTEM_NAME,
            otel.name = call.span_name(),
            otel.kind = match call.is_outgoing {
                true => "client",
                false => "server",
            },
            otel.status_code = Empty,
            { RPC_SYSTEM_NAME } = Empty,
            { RPC_METHOD } = Empty,
            { RPC_METHOD_ORIGINAL } = Empty,
            { RPC_STATUS_CODE } = Empty,
            { ERROR_TYPE } = Empty,
            { JSONRPC_REQUEST_ID } = Empty,
            { JSONRPC_PROTOCOL_VERSION } = Empty,
            { SERVER_ADDRESS } = Empty,
            { SERVER_PORT } = Empty,
            { NETWORK_PEER_ADDRESS } = Empty,
            { NETWORK_PEER_PORT } = Empty,
            antiphon.connection = call.connection,
            trace_id = Empty,
            parent_id = Empty,
        );
        if span.is_disabled() {
            return span;
        }
        // What is not declared above is left out.
        call.fields(&mut |name, value| {
            let _ = match value {
                FieldValue::Text(text) => span.record(name, text),
                FieldValue::Number(number) => span.record(name, number),
            };
        });
        if let Some(parent) = parent {
            let text = parent.to_string();
            let mut ids = text.split('-').skip(1);
            span.record("trace_id", ids.next());
            span.record("parent_id", ids.next());
            (self.adopt)(&span, &parent);
        }
        span
    }

    fn inject(&self, span: &Span, put: &mut dyn FnMut(&str, &str)) {
        if let Some(context) = (self.identify)(span) {
            context.inject(put);
        }
    }

    fn enter(&self, span: &Span, step: &mut dyn FnMut()) {
        span.in_scope(step);
    }

    fn end(&self, span: &Span, _: &LoggedCall<'_>, end: &CallEnd) {
        if let Some(code) = end.code {
            span.record(RPC_STATUS_CODE, display(code));
        }
        if let Some(error) = end.error_type() {
            span.record(ERROR_TYPE, error);
            span.record("otel.status_code", "ERROR");
        }
    }
}

/// Makes an event of the crate `tracing` from a report: an argument for `Router::on_report`. Its level
/// is the report's [severity](Report::severity): ERROR is for what has to be mended here, and nothing
/// that any peer can cause as often as it likes is above INFO, unless a limit was reached. It does not
/// quote params; the error of a failed handler is written unchanged.
pub fn trace_report(peer: &Peer, report: Report) {
    let connection = peer.context().connection;
    // The level of an event is a constant.
    macro_rules! tell {
        ($level:ident) => {
            event!(target: "antiphon", Level::$level, antiphon.connection = connection, "{report}")
        };
    }
    match report.severity() {
        Severity::Error => tell!(ERROR),
        Severity::Warning => tell!(WARN),
        _ => tell!(INFO),
    }
}
