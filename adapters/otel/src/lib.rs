//! OpenTelemetry for JSON-RPC with [antiphon](https://docs.rs/antiphon): calls as spans of traces
//! across several programs, and their durations as metrics.
//!
//! [`Tracing`](antiphon::service::Tracing) with an [`OtelTracer`] makes the spans, [`OtelMetrics`]
//! the metrics. Both are interceptors, for routers and for clients, on every runtime. This crate
//! depends only on the API of OpenTelemetry: the program chooses the exporter, such as
//! `opentelemetry-otlp` over HTTP.
//!
//! ```
//! use antiphon_otel::{OtelMetrics, OtelTracer};
//! use antiphon_tokio::service::Tracing;
//! use antiphon_tokio::{Config, ConnectionConfig, OwnedError, Router};
//!
//! let router = Router::new()
//!     .method("add", ["a", "b"], |a: f64, b: f64| Ok::<_, OwnedError>(a + b))
//!     .intercept(Tracing::new(OtelTracer::global()))
//!     .intercept(OtelMetrics::global());
//! // Calls of this side belong to the span of the handler that makes them.
//! let options = ConnectionConfig::from(Config::new())
//!     .intercept(Tracing::new(OtelTracer::global()).with_meta());
//! # let _: (Router, ConnectionConfig) = (router, options);
//! ```
//!
//! Names that begin with `antiphon.` are our own; the others are those of OpenTelemetry's
//! conventions for RPC: see [`antiphon::service::conventions`].
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod metrics;
mod tracer;

pub use metrics::OtelMetrics;
pub use tracer::OtelTracer;

/// The name of this crate in OpenTelemetry: its instrumentation scope.
const SCOPE: &str = "antiphon";
