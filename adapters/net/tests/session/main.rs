//! A session without a transport, in virtual time: which threads and tasks wait, and for how long.

mod endings;
#[path = "../support/hand.rs"]
mod hand;
#[cfg(feature = "http")]
mod http;
mod limits;
mod outgoing;
mod roster;
mod serving;
mod support;
