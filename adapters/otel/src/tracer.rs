//! Spans of calls, and how they are linked.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use antiphon::service::conventions::{ERROR_TYPE, RPC_RESPONSE_STATUS_CODE, RPC_STATUS_CODE};
use antiphon::service::{CallEnd, FieldValue, LoggedCall, TraceContext, Tracer};
use opentelemetry::global::{self, BoxedTracer, ObjectSafeTracer};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
    Tracer as _, TracerProvider,
};
use opentelemetry::{Context, KeyValue};

use crate::SCOPE;

/// Makes a span of OpenTelemetry of each call, for [`Tracing`](antiphon::service::Tracing).
/// Handlers run in the span's context, so the calls that they make, and spans that other libraries
/// make in them, belong to the span.
///
/// A span has the method, the status code and the kind of error, never params, results or messages
/// of errors. If the method is unknown, the span's name is `jsonrpc`, its attribute `rpc.method` is
/// `_OTHER`, and `rpc.method_original` is the name that the peer wrote.
#[derive(Clone)]
pub struct OtelTracer {
    tracer: Arc<BoxedTracer>,
    /// Reads and writes the fields; `None` for W3C's.
    propagator: Option<Arc<dyn TextMapPropagator + Send + Sync>>,
    /// The name of the attribute for the code of an error.
    status_code: &'static str,
}

impl OtelTracer {
    /// Uses the provider that the program has set for all its libraries.
    pub fn global() -> Self {
        Self::of(global::tracer(SCOPE))
    }

    /// Uses the given provider.
    pub fn new<P>(provider: &P) -> Self
    where
        P: TracerProvider<Tracer: ObjectSafeTracer + Send + Sync + 'static>,
    {
        Self::of(BoxedTracer::new(Box::new(provider.tracer(SCOPE))))
    }

    fn of(tracer: BoxedTracer) -> Self {
        Self {
            tracer: Arc::new(tracer),
            propagator: None,
            status_code: RPC_STATUS_CODE,
        }
    }

    /// Links spans by the fields that `propagator` reads and writes, instead of W3C's `traceparent`
    /// and `tracestate`. To keep these and add others, such as `baggage`, pass a propagator
    /// composed of several.
    #[must_use]
    pub fn with_propagator(
        mut self,
        propagator: impl TextMapPropagator + Send + Sync + 'static,
    ) -> Self {
        self.propagator = Some(Arc::new(propagator));
        self
    }

    /// Uses the name `rpc.response.status_code` for the code of an error, as the conventions did up
    /// to version 1.44.0.
    #[must_use]
    pub const fn with_response_status_code(mut self) -> Self {
        self.status_code = RPC_RESPONSE_STATUS_CODE;
        self
    }
}

impl fmt::Debug for OtelTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelTracer")
            .field("status_code", &self.status_code)
            .finish_non_exhaustive()
    }
}

impl Tracer for OtelTracer {
    /// The context that holds the span. If the span was not ended before, it ends when the last
    /// clone of the context is dropped.
    type Span = Context;
    type Parent = Context;

    fn extract(&self, field: &dyn Fn(&str) -> Option<String>) -> Option<Context> {
        let here = Context::current();
        let Some(propagator) = &self.propagator else {
            let remote = TraceContext::extract(field)?;
            return Some(here.with_remote_span_context(span_context(&remote)));
        };
        let names = propagator.fields();
        let found: HashMap<String, String> = names
            .filter_map(|name| Some((name.to_owned(), field(name)?)))
            .collect();
        Some(propagator.extract_with_context(&here, &found))
    }

    fn start(&self, call: &LoggedCall<'_>, parent: Option<Context>) -> Context {
        let parent = parent.unwrap_or_else(Context::current);
        let kind = match call.is_outgoing {
            true => SpanKind::Client,
            false => SpanKind::Server,
        };
        let builder = self.tracer.span_builder(call.span_name().to_owned());
        let builder = builder.with_kind(kind).with_attributes(attributes(call));
        let span = self.tracer.build_with_context(builder, &parent);
        parent.with_span(span)
    }

    fn inject(&self, span: &Context, put: &mut dyn FnMut(&str, &str)) {
        match &self.propagator {
            Some(propagator) => {
                let mut fields = HashMap::new();
                propagator.inject_context(span, &mut fields);
                for (name, value) in &fields {
                    put(name, value);
                }
            }
            None => {
                if let Some(context) = trace_context(span.span().span_context()) {
                    context.inject(put);
                }
            }
        }
    }

    fn enter(&self, span: &Context, step: &mut dyn FnMut()) {
        let _entered = span.clone().attach();
        step();
    }

    fn end(&self, span: &Context, _: &LoggedCall<'_>, end: &CallEnd) {
        let span = span.span();
        if let Some(code) = end.code {
            span.set_attribute(KeyValue::new(self.status_code, code.to_string()));
        }
        if let Some(error) = end.error_type() {
            span.set_attribute(KeyValue::new(ERROR_TYPE, error));
            // The status has no text, because an error's message may be confidential.
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

fn attributes(call: &LoggedCall<'_>) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    call.fields(&mut |name, value| {
        attributes.push(match value {
            FieldValue::Text(text) => KeyValue::new(name, text.to_owned()),
            FieldValue::Number(number) => KeyValue::new(name, number),
        });
    });
    attributes
}

/// Converts a caller's span for OpenTelemetry.
fn span_context(remote: &TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(remote.trace_id()),
        SpanId::from_bytes(remote.span_id()),
        TraceFlags::new(remote.flags()),
        true,
        // An invalid trace state is left out.
        TraceState::from_str(remote.state()).unwrap_or_default(),
    )
}

/// Converts a span of ours to the form that is sent. `None` if it is not valid.
fn trace_context(span: &SpanContext) -> Option<TraceContext> {
    let context = TraceContext::new(
        span.trace_id().to_bytes(),
        span.span_id().to_bytes(),
        span.trace_flags().to_u8(),
    )?;
    Some(context.with_state(&span.trace_state().header()))
}
