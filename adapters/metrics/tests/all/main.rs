//! What is counted and measured, as Prometheus reads it.

mod calls;
mod measured;
#[path = "../../../tokio/tests/all/support/raw.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod raw;
mod series;
