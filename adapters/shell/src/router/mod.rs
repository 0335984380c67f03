//! The router of tasks and threads: what the router of the core, [`antiphon::service::Routes`], needs of this
//! crate, and what only routers of adapters have.
//!
//! | file | has |
//! |---|---|
//! | `shell`, `incoming` | what the router of the core needs of tasks and threads, and of their requests |
//! | `serve` | the router as the service of a connection |
//! | `context` | what handlers of methods that a type describes get besides the params |
//! | `extract` | arguments that are made from the request |
//! | `streams`, `flows` | subscriptions, flows and topics |
//! | `limit` | refuses calls that come too often, or cost too much |
//! | `spans` | spans of the crate `tracing` |

mod context;
mod extract;
mod flows;
mod incoming;
mod limit;
mod serve;
mod shell;
#[cfg(feature = "tracing")]
mod spans;
mod streams;

use antiphon::service::Routes;

pub use context::RequestContext;
pub use extract::{Extension, ReplyHeaders};
pub use flows::FlowRoutes;
pub use limit::{CostLimit, RateLimit};
pub use shell::{OnThreads, Tasks};
#[cfg(feature = "tracing")]
pub use spans::{TracingSpans, trace_report};

/// Serves methods by name, on tasks.
///
/// ```
/// use std::time::Duration;
///
/// use antiphon::service::{MethodInfo, Prefix};
/// use antiphon::{Internal, OwnedError, Params, State};
/// use antiphon_shell::{Answer, Extension, Peer, RateLimit, Router};
///
/// async fn divide(a: f64, b: f64) -> Result<f64, OwnedError> {
///     match b {
///         0.0 => Err(OwnedError::new(-32602, "Division by zero")),
///         _ => Ok(a / b),
///     }
/// }
///
/// #[derive(serde::Deserialize)]
/// struct Move { x: i32, y: i32 }
///
/// #[derive(Clone)]
/// struct User(String);
///
/// // A router of its own, for a part of the methods.
/// let admin = Router::new()
///     .intercept(RateLimit::per_connection(1, 5))
///     .check_async(|request| {
///         let token = request.peer().context().headers.get("authorization").map(String::from);
///         async move {
///             // Look the token up here.
///             token.map(User).ok_or(OwnedError::new(1001, "Unauthorized"))
///         }
///     })
///     .method("whoami", [], |Extension(user): Extension<User>| Ok::<_, OwnedError>(user.0));
///
/// let router = Router::with_state(100)
///     .method("add", ["a", "b"], |a: f64, b: f64| Ok::<_, OwnedError>(a + b))
///     .method("divide", ["a", "b"], divide)
///     .method("move", [], async |Params(to): Params<Move>, State(width): State<i32>, peer: Peer| {
///         peer.try_notify("moved", &[to.x, to.y]).internal()?;
///         Ok::<_, OwnedError>(to.x < width)
///     })
///     .notification("log", ["line"], |line: String| drop(line))
///     .raw("echo", |request| Ok(Answer::new(request.raw_params())))
///     .raw(MethodInfo::from("resize").with_params_of::<Move>(), |_| Ok(Answer::new(&1)))
///     .nest(Prefix::separated("admin", "/"), admin) // admin/whoami
///     .handler_timeout(Duration::from_secs(10));
/// ```
pub type Router<S = ()> = Routes<S, Tasks>;
