//! JSON-RPC over HTTP/1.1, for every runtime: servers and clients over hyper.
//!
//! An [`Endpoint`] is a service over HTTP. The rules for requests and replies are in
//! [`antiphon::http`]; hyper reads and writes; this module enforces sizes and deadlines and
//! connects the two.
//!
//! | file | has |
//! |---|---|
//! | **server** | |
//! | `web` | what is served on one port, and who may come in |
//! | `endpoint` | one request: judged, and answered by a page or a service |
//! | `body` | the body of an answer |
//! | `server` | one connection of a server |
//! | `phases` | how far a request on it is, and how long that may last |
//! | `service` | the endpoint for servers of others, as a tower service |
//! | **client** | |
//! | `connections` | the client's own connections, and which may be used again |
//! | `stages` | how far a request on one of them is, and whether it may be sent again |
//! | **both** | |
//! | `connect` | clients and endpoints on the runtime of the calling task |
//! | `io` | a stream as hyper polls it, and its deadlines |
//! | `options` | options of servers |
//!
//! The requests of a client, as values, and what sends them, are in [`antiphon_shell::http`]; its calls, and one
//! message of a server (`exchange`), in the rooms `client` and `serve` there.
//!
//! ```text
//!   client   call ─▶ over_http ─▶ http_caller ─▶ send ─▶ connections ─▶ hyper ─▶ network
//!   server   network ─▶ hyper ─▶ server ─▶ endpoint ─▶ exchange ─▶ service
//! ```

mod body;
#[cfg(any(feature = "tokio", feature = "async-io"))]
mod connect;
pub(crate) mod connections;
mod endpoint;
mod io;
mod options;
mod phases;
mod server;
mod service;
mod stages;
mod web;

pub use antiphon::http::*;
pub use antiphon_shell::http::*;
pub use body::WebBody;
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use connect::{endpoint, with_send};
pub use endpoint::Endpoint;
pub use options::HttpConfig;
pub use service::WebService;
pub use web::Web;
