//! Fuzz targets, each a function that takes bytes and panics when its invariant is broken.
//!
//! `fuzz_targets/` hands them to the fuzzing engine; `tests/replay.rs` plays every committed case through
//! the same functions, without the engine and on any toolchain. How to run either stands in
//! `README.md`.

mod bytes;
pub mod c_functions;
pub mod client;
mod config;
pub mod conversations;
mod corners;
pub mod corpus;
pub mod drivers;
pub mod encode;
mod events;
pub mod frames;
pub mod json;
mod naive;
pub mod operations;
pub mod peers;
#[path = "../../tests/model/reference.rs"]
mod reference;
#[path = "../../tests/model/rendering.rs"]
mod rendering;
#[path = "../../tests/model/run.rs"]
mod run;
pub mod server;
pub mod sessions;
pub mod sse_reader;
pub mod values;

/// Whether a fault is planted in each target, to show that the target finds it. It is planted between the
/// target and the core; the core itself has none.
pub(crate) const PLANTED: bool = cfg!(feature = "planted");

/// One target.
#[derive(Debug)]
pub struct Target {
    /// Also the name of its corpus.
    pub name: &'static str,
    /// What it does with a case.
    pub run: fn(&[u8]),
    /// How many cases its committed corpus has at least. It may only go up.
    pub cases_min: usize,
}

/// All targets.
pub const TARGETS: [Target; 13] = [
    target("json", json::run, 651),
    target("frames", frames::run, 248),
    target("client", client::run, 1179),
    target("server", server::run, 1100),
    target("encode", encode::run, 789),
    target("operations", operations::run, 706),
    target("peers", peers::run, 264),
    target("drivers", drivers::run, 333),
    target("conversations", conversations::run, 307),
    target("values", values::run, 883),
    target("sessions", sessions::run, 570),
    target("sse_reader", sse_reader::run, 55),
    target("c_functions", c_functions::run, 1),
];

const fn target(name: &'static str, run: fn(&[u8]), cases_min: usize) -> Target {
    Target {
        name,
        run,
        cases_min,
    }
}
