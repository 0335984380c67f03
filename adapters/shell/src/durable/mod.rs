//! Durable topics: at the server the machine of the core over a store, at the client a stream of messages.
//!
//! ```text
//!   publish, requests, completions ─▶ act: the machine, under the lock
//!                                        └─▶ pump, without it: commands ─▶ store, answers ─▶ peers, wakers
//!   turn of a connection ─▶ next (under the session's lock) ── commands wait for ──▶ the thread, which pumps
//!   the thread: what is due
//! ```
//!
//! One thread at a time pumps, so the store gets the commands in their order.

mod consumer;
mod hub;
mod publish_error;

pub use consumer::{Delivered, DeliveryError, DurableItems, DurableStream, OpenDurable};
pub use hub::{Durable, DurableConfig};
pub use publish_error::DurablePublishError;
