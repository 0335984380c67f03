//! The adapter for async-std.

mod executor;
mod http;
mod links;
