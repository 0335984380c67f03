//! The store over real servers.

#[path = "../../../redb/src/tests/commands.rs"]
mod commands;

mod away;
mod hubs;
mod kills;
mod owners;
mod script;
mod server;
mod topics;
