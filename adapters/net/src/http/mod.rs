//! JSON-RPC over HTTP/1.1, for every runtime: servers and clients over hyper.
//!
//! An [`Endpoint`] is a service over HTTP. The rules for requests and replies are in
//! [`antiphon::http`]; hyper reads and writes; this module enforces sizes and deadlines and
//! connects the two.

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
