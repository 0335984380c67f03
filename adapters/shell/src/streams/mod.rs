//! Streams of events that the peer sends for a call: subscriptions, and partial results.
//!
//! | module | has |
//! |---|---|
//! | `source` | the call that opens a stream, and opens it again |
//! | `subscribe` | a subscription before it is made |
//! | `subscription` | an open stream |
//! | `partial` | the results of a call that come one by one, before its answer |

pub(crate) mod partial;
pub(crate) mod source;
pub(crate) mod subscribe;
pub(crate) mod subscription;
