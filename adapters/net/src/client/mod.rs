//! Makes clients: what a target is, and how it is connected to.
//!
//! ```text
//!   Target ────────▶ connect ─────▶ a connection, or HTTP ─┐
//!            └──────▶ reconnect ───▶ connections, replaced ─┴▶ Client ─▶ Call
//! ```

pub(crate) mod open;
pub(crate) mod target;
#[cfg(any(feature = "tokio", feature = "async-io"))]
mod url;
