//! The macros: what they make, and what they refuse.

mod refused;
mod service;
