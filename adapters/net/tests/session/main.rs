//! A session without a transport, in virtual time: who waits for what, and for how long.

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
