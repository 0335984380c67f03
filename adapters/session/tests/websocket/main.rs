//! WebSocket without a socket and without a clock: frames made by hand, time moved by hand.
#![cfg(feature = "websocket")]

mod frames;
mod garbage;
mod handshake;
mod limits;
mod session;
mod support;
mod time;
