//! The simulator over streams: a server with a hub and its clients, each with a simple shell around
//! the machines for topics, subscriptions and flows, a seeded network between them, and virtual time.
//!
//! `end` is one end of a link: `server` and `client` are what it does with topics and subscriptions,
//! `flowing` and `producing` what both ends do with flows. `world` has the links and the steps,
//! `network` what happens on the links, `hostile` what is put in, `healing` the liveness phase. `hub`
//! and `wire_book` are the oracle, with parts of `client` and `flowing`; `checks` names what it checks,
//! `counts` says what has occurred, and `plant` has faults that the oracle has to find.

mod checks;
mod client;
mod counts;
mod end;
mod flowing;
mod healing;
mod hostile;
mod hub;
mod network;
mod plant;
mod producing;
mod server;
mod settings;
mod wire_book;
mod world;

use checks::Broken;
pub use checks::Check;
pub use counts::Tally;
use healing::BOUND_NANOS;
pub use plant::Plant;
use world::{KINDS, World};

use crate::runner::{Options, Report, Simulation};

/// This simulator.
#[derive(Debug)]
pub struct Streams;

impl Simulation for Streams {
    const FLAG: &'static str = "--streams";
    const KINDS: usize = KINDS.len();
    const BOUND_NANOS: u64 = BOUND_NANOS;
    type Plant = Plant;
    type Tally = Tally;

    fn play(seed: u64, options: Options<Plant>) -> Result<Report<Tally>, Broken> {
        let mut world = World::new(seed, options);
        world.safety()?;
        let settled = world.liveness()?;
        world.trace.mix(world.now);
        Ok(Report {
            steps: world.steps,
            counts: world.counts,
            hash: world.trace.hash(),
            liveness: [settled, 0],
        })
    }
}
