//! JSON-RPC over HTTP for threads.
//!
//! One thread reads and writes for all clients and servers, with hyper. A call blocks the thread
//! that makes it. The methods of a service run on the threads of the [`Pool`](crate::Pool) in its
//! options, so they may block.
//!
//! ```
//! use antiphon_blocking::{
//!     Answer, Config, OwnedError, Peer, Request, Service, TcpServer, connect,
//! };
//!
//! struct Ping;
//!
//! impl Service for Ping {
//!     fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
//!         match request.method() {
//!             "ping" => Ok("pong".into()),
//!             _ => Err(request.unknown_method()),
//!         }
//!     }
//! }
//!
//! let server = TcpServer::bind("127.0.0.1:0")?;
//! let url = format!("http://{}/", server.local_addr()?);
//! let running = server.start_http(Config::new(), |_| Ping)?;
//!
//! let client = connect(&url, Config::new(), ())?;
//! assert_eq!(client.call::<String>("ping", ()).wait()?, "pong");
//! running.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod connect;
mod send;
mod service;

pub use antiphon::http::{Cors, HttpAnswer, Refusal, ReplyError, StatusScope, Statuses, WebRules};
pub use antiphon_net::http::{
    HttpConfig, HttpError, HttpReply, HttpRequest, HttpResponse, HttpUrl, Web,
};
pub use connect::with_send;
pub use send::HttpSend;
pub(crate) use service::OnPool;
