//! The store: what it promises, and what survives a crash.

mod commands;
mod crashes;
mod files;
mod plant;
mod script;

pub(crate) use plant::{Plant, planted};
