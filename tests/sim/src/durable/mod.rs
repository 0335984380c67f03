//! The simulator over durable subscriptions: one or two hubs over one store, programs that consume and publish, and
//! virtual time by two clocks.
//!
//! `store` commits what hubs ask for in groups, fails and crashes. `server` is a simple shell around the machine of a hub,
//! `client` a program around the reader, with a link between them. `world` has the steps, `healing` the liveness phase.
//! `book` and `owners` are the oracle: what is stored, acknowledged and removed, and who is attached. `checks` names what
//! it checks, `counts` says what has occurred, and `plant` has faults that it has to find.

mod book;
mod checks;
mod client;
mod counts;
mod healing;
mod owners;
mod plant;
mod server;
mod settings;
mod store;
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
pub struct DurableSubscriptions;

impl Simulation for DurableSubscriptions {
    const FLAG: &'static str = "--durable";
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
