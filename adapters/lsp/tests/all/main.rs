//! Language servers.

mod language_server;
mod runtimes;
