//! The simulator over sessions: pairs and stars of [`Session`](antiphon::session::Session)s, each
//! with a shell around it, a seeded network between them, and virtual time.
//!
//! `side` is one session with its shell: `talking` is what it says, reads and writes, `serving` what
//! its handlers do. `world` has the links and what happens on them, `ending` the liveness phase.
//! `settings`, `pipe` and `layer` are what a link is made of. `book` and `checks` are the oracle,
//! `counts` says what has occurred, and `plant` has faults that the oracle has to find.

mod book;
mod checks;
mod counts;
mod ending;
mod layer;
pub(crate) mod pipe;
mod plant;
mod serving;
mod settings;
mod side;
mod talking;
mod world;

use checks::Broken;
pub use checks::Check;
pub use counts::Tally;
use ending::BOUND_NANOS;
pub use plant::Plant;
use world::{KINDS, World};

use crate::runner::{Options, Report, Simulation, leftover};

/// This simulator.
#[derive(Debug)]
pub struct Sessions;

impl Simulation for Sessions {
    const FLAG: &'static str = "--sessions";
    const KINDS: usize = KINDS.len();
    const BOUND_NANOS: u64 = BOUND_NANOS;
    type Plant = Plant;
    type Tally = Tally;

    fn play(seed: u64, options: Options<Plant>) -> Result<Report<Tally>, Broken> {
        let mut world = World::new(seed, options);
        if options.plant == Some(Plant::Leftover) {
            world.now += leftover();
        }
        world.safety()?;
        let liveness = world.liveness()?;
        let mut counts = world.counts;
        let sides = world.links.iter().flat_map(|link| &link.sides);
        sides.for_each(|side| counts.merge(&side.counts));
        world.trace.mix(world.now);
        Ok(Report {
            steps: world.steps,
            counts,
            hash: world.trace.hash(),
            liveness,
        })
    }
}
