//! Servers: accept connections, limit their number, and end them together.

pub(crate) mod accept;
pub(crate) mod listen;
pub(crate) mod running;
