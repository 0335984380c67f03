//! Methods with names and types: how params become arguments, errors become enums and back, and
//! what a server says about itself.
//!
//! Nothing here starts, waits or reads a clock. [`Router`] serves a [`Connection`](crate::Connection)
//! by itself, on a microcontroller too; adapters build theirs, for tasks and threads, from the same
//! [`Registry`] and [`Handler`].

mod args;
mod caller;
mod describe;
mod errors;
mod extensions;
mod handler;
mod intercept;
mod limit;
mod logging;
mod methods;
mod missing;
mod openrpc;
mod params;
mod registry;
mod router;
mod schema;

pub use args::Arguments;
pub use caller::{Caller, Encoding, Stub, Values};
pub use describe::{MethodInfo, ParamInfo, ServiceInfo};
pub use errors::{Failure, Internal, RpcError};
pub use extensions::Discovery;
pub use handler::{
    Argument, Call, FromCall, Handler, IntoResult, NotificationOk, State, described, marker,
};
pub use intercept::{AnyRequest, Attributes, Chain, Cx, Interceptor, Reply, Verdict};
pub use limit::Bucket;
pub use logging::{CallLog, LoggedCall, Logging};
pub use methods::{AsyncMethods, Implementation, Methods, ResultText, write_result};
#[doc(hidden)]
pub use methods::{error_with, error_with_data, not_this_error};
pub use params::Params;
pub use registry::{Naming, RegisterError, Registry};
pub use router::Router;
pub use schema::SchemaOf;
#[cfg(feature = "openrpc")]
#[doc(hidden)]
pub use schema::probe;
