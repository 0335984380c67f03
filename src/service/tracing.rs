//! Spans of calls, in traces that go through several programs.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use super::call_end::CallEnd;
use super::cx::{AnyRequest, Cx};
use super::decision::Decision;
use super::intercept::{Interceptor, Reply};
use super::logging::LoggedCall;
use super::trace_context::{meta_text, with_meta};

/// Makes spans. Unless you write it, [`enter`](Self::enter) only runs the step, and every other
/// method but [`start`](Self::start) does nothing.
///
/// [`Tracing`] calls it for each call. `antiphon_shell` has one for the crate `tracing`,
/// `antiphon-otel` has one for OpenTelemetry.
pub trait Tracer: Send + Sync + 'static {
    /// A span that has begun. If it was not ended before, it ends when it is dropped.
    type Span: Send + Sync + 'static;
    /// The caller's span, as far as it is known.
    type Parent;

    /// Reads the caller's span, with a function that looks up fields such as `traceparent`: in the
    /// `_meta` of the params, then in the headers of the call.
    fn extract(&self, field: &dyn Fn(&str) -> Option<String>) -> Option<Self::Parent> {
        let _ = field;
        None
    }

    /// Begins a span for a call. `parent` is the caller's span. A call of this side has none; it
    /// belongs to the current span here.
    fn start(&self, call: &LoggedCall<'_>, parent: Option<Self::Parent>) -> Self::Span;

    /// Writes the fields by which the peer finds the span of a call of this side.
    fn inject(&self, span: &Self::Span, put: &mut dyn FnMut(&str, &str)) {
        let _ = (span, put);
    }

    /// Runs a step of the handler inside the span: calls `step` once.
    fn enter(&self, span: &Self::Span, step: &mut dyn FnMut()) {
        let _ = span;
        step();
    }

    /// Ends a span.
    fn end(&self, span: &Self::Span, call: &LoggedCall<'_>, end: &CallEnd) {
        let _ = (span, call, end);
    }
}

/// The fields by which the peer finds the span of a call of this side. They are an attribute of the
/// call; HTTP clients send them as headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanFields(Vec<(String, String)>);

impl SpanFields {
    /// The fields: names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// An interceptor that makes a span of every call: the peer's in a router, this side's in a client.
/// Handlers run inside their spans, so the calls that they make belong to the same trace.
///
/// Spans never contain params or results.
#[derive(Clone, Debug)]
pub struct Tracing<T> {
    tracer: T,
    uses_meta: bool,
}

impl<T: Tracer> Tracing<T> {
    /// Makes spans with `tracer`.
    pub const fn new(tracer: T) -> Self {
        Self {
            tracer,
            uses_meta: false,
        }
    }

    /// Sends the span of a call in the member `_meta` of its params, if they are by name or absent.
    /// An HTTP client sends headers, with or without this. A stream has no headers; a peer that does
    /// not know `_meta` may refuse it as a parameter.
    #[must_use]
    pub const fn with_meta(mut self) -> Self {
        self.uses_meta = true;
        self
    }
}

/// The span of a call, stored in its attributes.
struct Current<T: Tracer>(T::Span);

impl<R: AnyRequest + ?Sized, T: Tracer> Interceptor<R> for Tracing<T> {
    fn request(&self, cx: &mut Cx, request: &R) -> Decision {
        let call = LoggedCall::of(cx, request);
        let field = |name: &str| {
            meta_text(request.params(), name).or_else(|| request.header(name).map(str::to_owned))
        };
        let parent = match call.is_outgoing {
            true => None,
            false => self.tracer.extract(&field),
        };
        let span = self.tracer.start(&call, parent);
        if call.is_outgoing {
            let mut fields = Vec::new();
            self.tracer.inject(&span, &mut |name, value| {
                fields.push((name.to_owned(), value.to_owned()));
            });
            if self.uses_meta && !fields.is_empty() {
                let params = with_meta(cx.params().or(request.params()), &fields);
                if let Some(params) = params {
                    cx.set_params(params);
                }
            }
            cx.attributes_mut().insert(SpanFields(fields));
        }
        cx.attributes_mut().insert(Current::<T>(span));
        Decision::Continue
    }

    fn response(&self, cx: &Cx, request: &R, reply: &mut Reply) {
        if let Some(end) = reply.end() {
            self.end(cx, request, &end);
        }
    }

    fn answered(&self, cx: &Cx, request: &R, end: &CallEnd) {
        self.end(cx, request, end);
    }

    fn given_up(&self, cx: &Cx, request: &R) {
        self.end(cx, request, &cx.given_up(request));
    }

    fn scope(&self, cx: &Cx, _: &R, step: &mut dyn FnMut()) {
        match cx.attributes().get() {
            Some(Current::<T>(span)) => self.tracer.enter(span, step),
            None => step(),
        }
    }
}

impl<T: Tracer> Tracing<T> {
    fn end<R: AnyRequest + ?Sized>(&self, cx: &Cx, request: &R, end: &CallEnd) {
        if let Some(Current::<T>(span)) = cx.attributes().get() {
            self.tracer.end(span, &LoggedCall::of(cx, request), end);
        }
    }
}
