//! The simulation of whole conversations.

mod sessions;
mod shared;
mod simulation;
mod streams;
