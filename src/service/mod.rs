//! Methods with names and types: converts params to arguments, and errors to enums and back, and
//! describes a server.
//!
//! This module starts no task, never waits and reads no clock. [`LocalRouter`] serves a
//! [`Connection`](crate::Connection) without an adapter, also on a microcontroller. The routers of
//! the adapters, for tasks and threads, are built on the same [`Registry`] and [`Handler`].

mod args;
mod attributes;
mod auth;
mod call_end;
mod caller;
pub mod conventions;
mod cx;
mod decision;
mod describe;
pub(crate) mod errors;
mod extensions;
pub(crate) mod handler;
mod intercept;
mod limit;
mod local;
mod logging;
mod methods;
mod missing;
mod openrpc;
pub(crate) mod params;
mod prefix;
mod registry;
mod router;
mod routing_table;
mod scheduler;
mod schema;
mod trace_context;
mod tracing;

pub use args::Arguments;
pub use attributes::Attributes;
pub use auth::{Authorization, BearerAuth, InvalidToken};
pub use call_end::CallEnd;
pub use caller::{Caller, Encoding, Stub, Values};
pub use cx::{AnyRequest, Cx};
pub use decision::{Asked, Decision, Deferred};
#[doc(hidden)]
pub use describe::Parameter;
pub use describe::{MethodInfo, ParamInfo, ServiceInfo};
pub use errors::{Failure, NoAnswer};
pub use extensions::Discovery;
pub use handler::{Argument, CallParts, Handler, IntoResult, described, marker, names_of};
pub use intercept::{Chain, Interceptor, Reply, left_group};
pub use limit::{Bucket, KeyedBuckets, Prices};
pub use local::{LocalRateLimit, LocalRequest};
pub use logging::{CallLog, FieldValue, LoggedCall, Logging};
pub use methods::{AsyncMethods, Implementation, Methods, ResultText, write_result};
#[doc(hidden)]
pub use methods::{error_members, error_with, error_with_data, not_this_error};
pub use prefix::Prefix;
pub use registry::{Naming, RegisterError, Registry, ReservedNames};
pub use router::LocalRouter;
pub use routing_table::{Found, Route, RoutingTable};
pub use scheduler::{Member, Scheduler, share};
pub use schema::SchemaOf;
#[cfg(feature = "openrpc")]
#[doc(hidden)]
pub use schema::probe;
#[doc(hidden)]
pub use schema::schema_of;
pub use trace_context::TraceContext;
pub use tracing::{SpanFields, Tracer, Tracing};
