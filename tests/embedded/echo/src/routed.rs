//! The methods of `untyped.rs` through the router: typed params, `rpc.discover`, and texts for params that do not fit.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
#[path = "../../../../examples/firmware/src/clock.rs"]
mod clock;
mod echo;
mod fixed;
mod memory;

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use antiphon::service::LocalRouter;
use antiphon::{Connection, OwnedError};
use fixed::Least;
use serde::Serialize;

static IS_ON: AtomicBool = AtomicBool::new(false);

#[derive(Serialize)]
struct Status {
    ticks: u32,
    on: bool,
}

fn add(a: i32, b: i32) -> Result<i32, OwnedError> {
    a.checked_add(b)
        .ok_or_else(|| OwnedError::new(1, "too large"))
}

fn led(on: bool) -> Result<bool, OwnedError> {
    IS_ON.store(on, Relaxed);
    Ok(on)
}

fn status() -> Result<Status, OwnedError> {
    Ok(Status {
        ticks: board::ticks(),
        on: IS_ON.load(Relaxed),
    })
}

fn run() -> ! {
    let mut router = LocalRouter::new()
        .method("add", ["a", "b"], add)
        .method("led", ["on"], led)
        .method("status", [], status);
    echo::serve(Connection::fixed(Least), |conn, request| {
        drop(router.respond(conn, request))
    })
}
