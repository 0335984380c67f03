//! Flows: streams that one side of a connection pulls from the other, item by item, by ordinary calls.
//!
//! Either side may produce. What produces a flow gets an id, and sends it where the flow's value would
//! stand. The other side calls `nextFlowValue` with the id for each item that it wants, so a slow consumer
//! holds up nothing but its producer, and a peer in any language can take part with a loop of three lines.
//!
//! ```text
//!   consumer                                       producer
//!      │ ── {"method":"primes","id":1} ──────────────▶ │   open
//!      │ ◀───────────────────── {"result":7,"id":1} ── │   7 is the id of the flow
//!      │ ── {"method":"…nextFlowValue","params":[7],"id":2} ──▶ │
//!      │ ◀───────────────────── {"result":2,"id":2} ── │   an item, which may be null
//!      │ ── {"method":"…nextFlowValue","params":[7],"id":3} ──▶ │   waits as long as the item does
//!      │ ◀────────────── {"error":{"code":-32001},"id":3} ── │   the end; any other error: it failed
//!      │ ── {"method":"…cancelFlow","params":[7],"id":4} ──▶ │   instead, to stop early; the result is null
//! ```
//!
//! [`Producers`] has the flows that this end produces, [`Consumers`] those that it consumes; a program that
//! never does one of both leaves it out. They do no I/O, have no lock and no clock, and know nothing of
//! the connection: what they are told is in the messages, and what they return is sent. Without them the two
//! methods are methods like any others.
//!
//! | what happens | `Producers` | `Consumers` |
//! |---|---|---|
//! | a request comes | [`handle_request`](Producers::handle_request) | |
//! | the result of a call, or an argument, is the id of a flow | | [`open`](Consumers::open) |
//! | a call ends that had flows in its params | [`handle_call_end`](Producers::handle_call_end) | |
//! | the peer cancels a pull as a request | [`cancel_pull`](Producers::cancel_pull) | |
//! | a pull is answered | | [`handle_answer`](Consumers::handle_answer) |
//! | all input was handled | [`poll_answer`](Producers::poll_answer) | [`poll_request`](Consumers::poll_request), [`poll_ready`](Consumers::poll_ready) |
//! | the connection ends | [`close_all`](Producers::close_all) | [`handle_closed`](Consumers::handle_closed) |
//!
//! Waiting pulls are open requests of the connection, but no handler runs for them: they take nothing from
//! the handlers' limits, and have a limit of their own, [`FlowConfig::max_pulls`]. It is below
//! `max_open_requests` of the connection by default, so that a call is served however many pulls wait.

mod config;
mod consumers;
mod producers;
#[cfg(test)]
mod tests;
mod window;

pub use config::{FlowConfig, FlowId, FlowMethod};
pub use consumers::{ConsumerId, Consumers, FlowRequest, OpenFlowError, Pull, PullOptions};
pub use producers::{FlowAnswer, Handled, Producers, TooManyFlows};
pub use window::FlowError;
