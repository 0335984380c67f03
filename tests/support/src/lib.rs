//! What tests, benches and the simulator share. Does not depend on the crates that are tested.

pub mod heap;
pub mod notation;
pub mod random;
