//! Servers: accepting connections, bounding them, and ending them together.

pub(crate) mod accept;
pub(crate) mod listen;
pub(crate) mod running;
