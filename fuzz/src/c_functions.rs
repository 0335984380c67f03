//! The functions of the C interface, in any order and with any arguments that the header allows.

#[path = "../../adapters/c/tests/all/steps.rs"]
mod steps;

/// Plays a case.
pub fn run(data: &[u8]) {
    steps::run(data, crate::PLANTED);
}
