//! WebSocket, for every runtime. A client connects to a URL with `ws://` or `wss://`; a server sets
//! [`ConnectionConfig::with_websocket`](crate::ConnectionConfig::with_websocket).
//!
//! If the other side breaks the WebSocket protocol or does not close properly, the service gets a
//! [`Report::Layer`](crate::Report::Layer), with the [`WebSocketEnd`] as its error.

pub use antiphon_websocket::{WebSocket, WebSocketConfig, WebSocketEnd, WebSocketUrl};
