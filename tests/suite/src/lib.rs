//! The same conversations over every adapter and every transport: README.md has the format of the
//! scripts, and what a cell is.
//!
//! ```text
//!   script ── what is said        play ── says it, and compares
//!   cell   ── where: an adapter on a transport, with our side of it running
//!   raw    ── the plain peer on the other side: bytes and framings, no antiphon
//! ```
#![forbid(unsafe_code)]

pub mod cell;
pub mod memory;
pub mod play;
pub mod raw;
pub mod script;
pub mod table;
