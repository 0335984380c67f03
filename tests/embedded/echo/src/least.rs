//! The least that an echo peer can be: version 2.0 in lines, requests and notifications, every check
//! and every limit; no batches, no cancels. Its configuration is known when it is built, so that
//! nothing else is in it.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
#[path = "../../../../examples/firmware/src/clock.rs"]
mod clock;
mod echo;
mod fixed;
mod memory;

use antiphon::Connection;
use fixed::Least;

fn run() -> ! {
    echo::serve(Connection::fixed(Least), echo::echo)
}
