//! JSON-RPC over HTTP/1.1, for every runtime: servers and clients over hyper.
//!
//! An [`Endpoint`] is a service behind HTTP. Which requests are served and what a reply means is
//! decided in [`antiphon::http`]; hyper reads and writes; here are sizes, deadlines and the way
//! between them.

mod client;
mod connections;
mod endpoint;
mod exchange;
mod io;
mod line;
mod options;
mod phases;
mod send;
mod server;

pub use antiphon::http::{Answer, Cors, HttpRules, RequestHead, StatusScope, Statuses};
pub use antiphon::http::{MEDIA_TYPE, REDIRECTS_MAX, ReplyError, Verdict};
pub use antiphon_session::http::{
    HttpCallError, HttpClientOptions, HttpError, HttpMock, HttpReply, HttpRequest, HttpResponse,
    HttpScheme, HttpUrl, OnReply,
};
pub use client::Client;
pub use connections::Connections;
pub use endpoint::Endpoint;
pub use options::HttpOptions;
pub use send::{HttpSend, Sending};
