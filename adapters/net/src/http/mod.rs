//! JSON-RPC over HTTP/1.1, for every runtime: servers and clients over hyper.
//!
//! An [`Endpoint`] is a service over HTTP. The rules for requests and replies are in
//! [`antiphon::http`]; hyper reads and writes; this module enforces sizes and deadlines and
//! connects the two.
//!
//! | file | has |
//! |---|---|
//! | **server** | |
//! | `endpoint` | a service over HTTP, for a server of this crate or of another |
//! | `exchange` | one message in, its answer out, with handlers between |
//! | `server` | one connection of a server |
//! | `phases` | how far a request on it is, and how long that may last |
//! | **client** | |
//! | `transmit` | calls, notifications and batches, each in one request |
//! | `caller` | their requests, ids and outcomes |
//! | `send` | sends requests, whatever the transport is |
//! | `connections` | the client's own connections, and which may be used again |
//! | `stages` | how far a request on one of them is, and whether it may be sent again |
//! | `reply` | the status and headers of a reply |
//! | `mock` | a transport without a network |
//! | `url` | the URL of requests |
//! | **both** | |
//! | `connect` | clients and endpoints on the runtime of the calling task |
//! | `io` | a stream as hyper polls it, and its deadlines |
//! | `options` | options of servers and clients |
//! | `error` | the ways in which HTTP fails |
//! | `words` | text of the other side, for logs |
//!
//! ```text
//!   client   call ─▶ transmit ─▶ caller ─▶ send ─▶ connections ─▶ hyper ─▶ network
//!   server   network ─▶ hyper ─▶ server ─▶ endpoint ─▶ exchange ─▶ service
//! ```

mod caller;
#[cfg(any(feature = "tokio", feature = "async-io"))]
mod connect;
pub(crate) mod connections;
mod endpoint;
pub(crate) mod error;
mod exchange;
mod io;
mod mock;
mod options;
mod phases;
pub(crate) mod reply;
mod send;
mod server;
mod stages;
pub(crate) mod transmit;
pub(crate) mod url;
mod words;

pub use antiphon::http::{Cors, HttpAnswer, HttpRules, RequestHead, StatusScope, Statuses};
pub use antiphon::http::{MAX_REDIRECTS, MEDIA_TYPE, ReplyError, Verdict};
pub use caller::{HttpRequest, HttpResponse};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use connect::{endpoint, with_send};
pub use endpoint::Endpoint;
pub use error::HttpError;
pub use mock::HttpMock;
pub use options::HttpConfig;
pub use reply::HttpReply;
pub use send::{HttpSend, HttpSending};
pub use url::{HttpScheme, HttpUrl};
