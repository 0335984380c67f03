//! The simulation of whole conversations.

mod durable;
mod sessions;
mod shared;
mod simulation;
mod streams;
