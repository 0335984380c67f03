//! HTTP.
mod exchange;
mod stream;
