//! Streams of events: those that the peer sends, and those that it gets.
//!
//! | module | has |
//! |---|---|
//! | `source` | the call that opens a stream, and opens it again |
//! | `subscribe` | a subscription before it is made |
//! | `subscription` | an open stream |
//! | `published` | an event of a topic |
//! | `partial` | the results of a call that come one by one, before its answer |
//! | `sink` | the subscriptions of the peer: handlers send events |
//! | `flow` | flows of the peer, and flows as answers |
//! | `produced` | flows that this end produces |
//! | `iterated` | iterators as streams |
//! | `hub` | topics: what a program publishes reaches the connections that have subscribed |

pub(crate) mod flow;
pub(crate) mod hub;
pub(crate) mod iterated;
pub(crate) mod partial;
pub(crate) mod produced;
pub(crate) mod published;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod subscribe;
pub(crate) mod subscription;
