//! The runtimes.

mod current;
#[cfg(feature = "async-io")]
pub(crate) mod futures;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;

pub use current::current;
