//! A session without a transport, in virtual time: who waits for what, and for how long.

mod endings;
mod limits;
mod roster;
mod serving;
mod support;
