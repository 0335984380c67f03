//! WebSocket without a socket and without a clock: frames made by hand, time moved by hand.

mod frames;
mod garbage;
mod handshake;
mod limits;
mod support;
mod time;
