//! WebSocket. A client connects to a URL with `ws://` or `wss://`; a server is a
//! [`TcpServer`](crate::TcpServer) with
//! [`ConnectionConfig::with_websocket`](crate::ConnectionConfig::with_websocket).
//!
//! ```
//! use antiphon::{Config, OwnedError};
//! use antiphon_blocking::websocket::WebSocketConfig;
//! use antiphon_blocking::{
//!     Answer, ClientConfig, ConnectionConfig, Peer, Request, Service, TcpServer, connect,
//! };
//!
//! struct Who;
//!
//! impl Service for Who {
//!     fn request(&mut self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
//!         match request.method() {
//!             "who" => Ok(peer.context().cookie("name").into()),
//!             _ => Err(request.unknown_method()),
//!         }
//!     }
//! }
//!
//! // The server's side of the WebSocket: it accepts handshakes at this path only.
//! let mut route = WebSocketConfig::server();
//! route.web.paths.push("/rpc".into());
//! let server = TcpServer::bind("127.0.0.1:0")?;
//! let url = format!("ws://{}/rpc", server.local_addr()?);
//! let running = server.start(ConnectionConfig::from(Config::new()).with_websocket(route), |_| Who)?;
//!
//! // The client's side: a URL, and one more header for the handshake's request.
//! let options = ClientConfig::new(Config::new()).with_header("cookie", "name=Ada");
//! let client = connect(url, options, ())?;
//! let name: String = client.call("who", ()).wait()?;
//! assert_eq!(name, "Ada");
//! # running.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use antiphon_net::websocket::{WebSocketConfig, WebSocketEnd, WebSocketUrl};
