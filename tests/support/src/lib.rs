//! What tests, benches and the simulator share, once each. Knows nothing of the crates that are tested.

pub mod heap;
pub mod notation;
pub mod random;
