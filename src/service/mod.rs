//! Methods with names and types: converts params to arguments, and errors to enums and back, and
//! describes a server.
//!
//! This module starts no task, never waits and reads no clock. There is one router, [`Routes`]: as [`LocalRouter`]
//! it serves a [`Connection`](crate::Connection) without an adapter, also on a microcontroller; each adapter, for
//! tasks or threads, has a `Router` that awaits what the same router hands out.
//!
//! | file | has |
//! |---|---|
//! | **methods** | |
//! | `registry` | the methods of a server, by name |
//! | `routing_table` | all that a router knows of its methods |
//! | `handler` | functions as handlers |
//! | `methods` | the methods of one value, which `#[service]` makes of a trait |
//! | `prefix` | what stands before the names of methods |
//! | `router`, `served` | the router, and its handlers |
//! | `shell`, `local` | what a router needs of an adapter, and what it has without one |
//! | `typed` | handlers of methods that a type describes |
//! | **values** | |
//! | `args`, `params` | params as arguments, and as one type |
//! | `missing` | what types say of parameters that were left out |
//! | `errors` | errors of the program as error objects, and back |
//! | **interceptors** | |
//! | `intercept` | see each call before it is handled, and its answer |
//! | `cx`, `attributes` | what they see of a call, and pass on |
//! | `decision`, `call_end` | what they decide, and how the call ended |
//! | `auth`, `limit`, `logging`, `tracing` | tokens of clients, limits of rate and cost, logs, spans |
//! | `trace_context`, `conventions` | traces as they are sent, and the names in them |
//! | **descriptions** | |
//! | `describe`, `schema` | methods, their parameters, and their types |
//! | `openrpc`, `extensions` | documents of a server, and the methods that give them |
//! | **both sides** | |
//! | `caller` | what typed clients call through |
//! | `scheduler` | which connection of a server may begin its next request |
//!
//! ```text
//!   request ─▶ routing_table ─▶ intercept ─▶ args, params ─▶ handler ─▶ the program
//!   answer  ◀─────────────────  intercept ◀─ errors       ◀───────────────┘
//! ```

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
mod invoked;
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
mod served;
mod shell;
mod subscriptions;
mod trace_context;
mod tracing;
mod typed;

pub use args::{Arguments, FlowParameter, GivenParams};
pub use attributes::Attributes;
pub use auth::{Authorization, BearerAuth, InvalidToken};
pub use call_end::CallEnd;
pub use caller::{Caller, Encoding, StreamCaller, Stub, Values};
pub use cx::{AnyRequest, Cx};
pub use decision::{Asked, Decision, Deferred, Resolve};
#[doc(hidden)]
pub use describe::Parameter;
pub use describe::{MethodInfo, ParamInfo, ServiceInfo};
pub use errors::{Failure, NoAnswer};
pub use extensions::Discovery;
pub use handler::{Argument, CallParts, Handler, IntoResult, described, marker};
pub use intercept::{Chain, Interceptor, Reply};
pub use invoked::{Invoked, Served};
pub use limit::{Bucket, KeyedBuckets, Prices};
pub use local::{Local, LocalRateLimit, LocalRequest};
pub use logging::{CallLog, FieldValue, LoggedCall, Logging};
pub use methods::{AsyncMethods, Implementation, Methods, ResultText, write_result};
#[doc(hidden)]
pub use methods::{error_members, error_with, error_with_data, not_this_error};
pub use prefix::Prefix;
pub use registry::{Naming, RegisterError, Registry, ReservedNames};
pub use router::{LocalRouter, Routes};
pub use scheduler::{Member, Scheduler, share};
pub use schema::SchemaOf;
#[cfg(feature = "openrpc")]
#[doc(hidden)]
pub use schema::probe;
#[doc(hidden)]
pub use schema::schema_of;
pub use served::{Answers, ReturnedAlone, ServiceMethods, written};
pub use shell::{Adapter, Awaits, Later, RoutedRequest, Shared, Shell, Streams};
pub use trace_context::TraceContext;
pub use tracing::{SpanFields, Tracer, Tracing};
pub use typed::MethodHandler;
