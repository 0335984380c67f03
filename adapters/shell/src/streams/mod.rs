//! Streams of events.
//!
//! | module | has |
//! |---|---|
//! | `sink` | the subscriptions of the peer: handlers send events |

pub(crate) mod sink;
