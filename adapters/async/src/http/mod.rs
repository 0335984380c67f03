//! JSON-RPC over HTTP/1.1, for every runtime: servers and clients over hyper.
//!
//! An [`Endpoint`] is a service behind HTTP. Which requests are served and what a reply means is
//! decided in [`antiphon::http`]; hyper reads and writes; here are sizes, deadlines and the way
//! between them.

mod endpoint;
mod exchange;
mod options;
mod server;
mod stream;

pub use antiphon::http::{Answer, Cors, HttpRules, RequestHead, StatusScope, Statuses};
pub use endpoint::Endpoint;
pub use options::HttpOptions;
