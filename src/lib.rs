//! JSON-RPC as a pure state machine.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod buffer;
pub mod frame;
mod time;

pub use buffer::ReadBuffer;
pub use time::Instant;
