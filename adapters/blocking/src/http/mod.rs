//! JSON-RPC over HTTP for threads.
//!
//! One thread reads and writes for all clients and servers, as hyper does. A call waits on the
//! thread that makes it; what a service does, however long it blocks, it does on the threads of the
//! [`Pool`](crate::Pool) in its options.
//!
//! ```
//! use antiphon::Config;
//! use antiphon_blocking::{Peer, Request, Responder, Service, TcpServer, http};
//!
//! struct Ping;
//!
//! impl Service for Ping {
//!     fn request(&mut self, _: &Peer, request: Request, reply: Responder) {
//!         let answered = match request.method() {
//!             "ping" => reply.ok(&"pong"),
//!             other => reply.unknown_method(other),
//!         };
//!         // A connection that has closed meanwhile takes no answer.
//!         drop(answered);
//!     }
//! }
//!
//! let server = TcpServer::bind("127.0.0.1:0")?;
//! let url = format!("http://{}/", server.local_addr()?);
//! let running = server.start_http(Config::new(), |_| Ping)?;
//!
//! let client = http::connect(&url, Config::new())?;
//! assert_eq!(client.call::<String>("ping", ())?, "pong");
//! running.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod connect;
mod send;
mod server;
mod service;
mod tasks;

pub use antiphon::http::{Answer, Cors, HttpRules, ReplyError, StatusScope, Statuses};
pub use antiphon_net::http::HttpConfig;
pub use antiphon_net::http::{
    HttpCallError, HttpClientConfig, HttpError, HttpMock, HttpReply, HttpRequest, HttpResponse,
    HttpScheme, HttpUrl, OnReply,
};
pub use client::Client;
pub use connect::connect;
#[cfg(feature = "tls")]
pub use connect::connect_tls;
pub use send::HttpSend;
pub(crate) use server::start;
