//! Faults seen in use, each with the bytes or the program that showed it.
//!
//! `README.md` beside this lists every fault and the case that keeps it from coming back. What the
//! wire can show is a script in `wire/`, played over every adapter and transport by
//! `antiphon-suite`; what it cannot is a test in `tests/`. This library holds what several of those
//! need.
//!
//! Most tests are named after the fault, and assert that it is gone.

pub mod board;
pub mod frames;
pub mod program;
pub mod raw;
pub mod routed;
pub mod served;

pub use antiphon_stress::{LONG, Rt, choose_executor, on_every_runtime};
