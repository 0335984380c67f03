//! The core behind a fixed contract: a server with known methods and a client that is told what to
//! do, on every adapter. README.md beside this package has the contract; the program
//! `antiphon-peer` is made of this, and so is the suite that plays the same conversations over all
//! adapters.
//!
//! ```text
//!   contract ── the methods, once        desk, operations ── the client, once
//!       │                                        │
//!   on_threads, on_tasks ── how one waits    caller ── a few ways to call
//!       └──────────────── transports ────────────┘
//! ```
#![forbid(unsafe_code)]

pub mod caller;
pub mod contract;
pub mod desk;
pub mod items;
pub mod log;
pub mod on_tasks;
pub mod on_threads;
pub mod operations;
pub mod runtime;
pub mod transports;
