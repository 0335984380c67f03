//! A connection with everything that a driver needs around it: for threads, tasks or tests.
//!
//! A [`Session`] is the common part of all drivers. It does no I/O itself, so tests use it
//! directly. It is built around a [`Connection`](crate::Connection), which is the protocol.
//!
//! | file | has |
//! |---|---|
//! | `machine` | the session: its state, work, calls and getters |
//! | `answer` | answers by handlers, and answers for handlers that gave none |
//! | `phase` | the phases of a session's life |
//! | `input` | turns bytes into messages, and passes messages to callers and to the service |
//! | `output` | the bytes to be written next, and the result of writing |
//! | `ending` | how a session ends, and when a deadline may end something |
//! | `queue` | the messages that wait for the service, in order and within limits |
//! | `order` | what a handler may hold up, and for how long |
//! | `ticket` | the right to answer one request |
//! | `diverted` | notifications whose streams only the driver knows |
//! | `events` | gives events of streams to their routes |
//! | `routes` | the table of routes: which notification belongs to which stream, and what waits for its reader |
//! | `streams` | the ids of the open streams of one style |
//! | `unsubscribe` | streams that nobody reads any more |
//! | `unserved` | reports of messages that nobody serves |
//! | `wire` | what carries the messages: a stream, whole messages, a layer such as WebSocket |
//! | `report` | what went wrong, for a log |
//! | `options` | the limits, and which work waits for other work |

mod answer;
mod diverted;
mod ending;
mod events;
mod input;
mod machine;
mod options;
mod order;
mod output;
mod phase;
mod queue;
mod report;
mod routes;
mod streams;
#[cfg(test)]
mod tests;
mod ticket;
mod unserved;
mod unsubscribe;
mod wire;

pub use ending::grace;
pub use machine::Session;
pub use options::{Order, SessionConfig, WhenFull};
pub use phase::Phase;
pub use queue::{Settled, Work};
pub use report::{Fault, Report, RequestDetails, Severity, UnmatchedDetails};
pub use routes::{Bound, Extend, Overflow, Routed};
pub use streams::{Diverted, RouteId};
pub use ticket::Ticket;
pub use wire::{FramingMismatch, Handshake, Layer, LayerEnd, LayerEvent, Wire};
