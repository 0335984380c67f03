//! The simulation of whole conversations.

mod sessions;
mod simulation;
mod streams;
