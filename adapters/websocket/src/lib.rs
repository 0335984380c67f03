//! The WebSocket protocol without I/O. It converts received bytes into messages, and messages into
//! bytes to be sent. It is given the current time, and returns its deadlines.
//!
//! A [`WebSocket`] is a [`Layer`](antiphon::session::Layer) of a session, so the code that moves
//! the bytes, over TCP or TLS, on a thread or a task, is the same as without a WebSocket. It can
//! also be driven by hand. tungstenite reads and writes handshakes and frame headers; the rules for
//! accepting clients, the limits and the close codes are in [`antiphon::websocket`].
//!
//! ```text
//!            ┌──────────────────────────────── WebSocket ─────────────────────────────┐
//!   bytes ──▶│ handshake (client, server) ─▶ FrameReader ──▶ text ────────────────────│──▶ messages
//!            │      │                             └▶ ping, close                      │
//!            │      ▼                                  ▼                              │
//!   bytes ◀──│ request, answer                    pong, close            text frame ◀─│─── messages
//!            └────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! # Memory
//!
//! An open WebSocket that is idle holds only its state, some 500 bytes, and a buffer of 14 bytes
//! for a frame's header. While a message arrives, it holds the part received so far,
//! `max_message_bytes` at most, in a buffer that grows by doubling. A handshake holds at most
//! `max_header_bytes`. If several pings wait to be answered, only the newest is answered. Output
//! waits in the connection, within the limits of the connection.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod client;
mod end;
mod handshake;
mod options;
mod read;
mod refused;
mod server;
mod url;
mod websocket;
mod write;

pub use end::WebSocketEnd;
pub use options::WebSocketConfig;
pub use url::WebSocketUrl;
pub use websocket::WebSocket;
