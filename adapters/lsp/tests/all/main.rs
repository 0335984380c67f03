//! Language servers.

mod language_server;
#[path = "../../../metrics/tests/all/measured.rs"]
mod measured;
mod runtimes;
