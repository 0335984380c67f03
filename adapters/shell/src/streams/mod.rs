//! Streams of events.
//!
//! | module | has |
//! |---|---|
//! | `hub` | topics: what a program publishes reaches the connections that have subscribed |
//! | `sink` | the subscriptions of the peer: handlers send events |

pub(crate) mod hub;
pub(crate) mod sink;
