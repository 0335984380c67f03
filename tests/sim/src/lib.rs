//! The deterministic simulator: many connections, a seeded network, a virtual clock, faulty
//! handlers and hostile peers. The invariants of the core are checked after every step.
//!
//! `world` has the state and the links, `delivery` how input reaches an end, `end` and `digest` one
//! connection with its driver, `steps` the safety phase, `healing` the
//! liveness phase. `settings`, `wire`, `hostile`, `commands` and `handlers` are what can go wrong.
//! `book`, `observer`, `skim` and `checks` are the oracle; `plant` has faults that the oracle has to
//! find. `sessions` does the same with whole sessions,
//! `streams` with streams, `durable` with durable subscriptions; `runner` is what these three share. `README.md` says how to run it.
//!
//! Rule: a run follows from its seed alone. The oracle keeps records of what went in and came
//! out. Of the connection's own state these use only whether it has dropped output; its getters are
//! compared with them.

pub mod book;
pub mod checks;
pub mod commands;
pub mod counts;
pub mod delivery;
pub mod digest;
pub mod durable;
pub mod end;
pub mod handlers;
pub mod healing;
pub mod hostile;
mod kinds;
pub mod observer;
pub mod plant;
pub mod run;
pub mod runner;
pub mod sessions;
pub mod settings;
pub mod skim;
pub mod steps;
pub mod streams;
pub mod trace;
pub mod wire;
pub mod world;

/// Counts for each thread, and each thread runs one simulation at a time. What is allocated while a connection works
/// belongs to that connection; what the simulation allocates in between does not.
#[global_allocator]
static ALLOCATOR: antiphon_test_support::heap::Counting =
    antiphon_test_support::heap::Counting::of_thread();
