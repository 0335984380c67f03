//! A connection with everything a driver needs around it, whatever runs the driver.
//!
//! A [`Session`] is to a driver what a [`Connection`](crate::Connection) is to a protocol: the part
//! that every driver needs and that needs no driver. Threads, tasks and tests drive the same one.
//!
//! | file | has |
//! |---|---|
//! | `machine` | the session: work, calls, and what can be asked of it |
//! | `answer` | answers, by handlers and for them |
//! | `phase` | the states of its life |
//! | `input` | bytes to messages, messages to callers and to the service |
//! | `output` | what is written next, and what became of it |
//! | `ending` | ends, and when a deadline may end something |
//! | `progress` | the progress that the peer reports of our calls |
//! | `queue` | what waits for the service, in order and within limits |
//! | `ticket` | the right to answer one request |
//! | `wire` | what carries the messages: a stream, whole messages, a layer such as WebSocket |
//! | `report` | what went wrong, for a log |
//! | `options` | the limits |

mod answer;
mod ending;
mod input;
mod machine;
mod options;
mod output;
mod phase;
mod progress;
mod queue;
mod report;
#[cfg(test)]
mod tests;
mod ticket;
mod wire;

pub use ending::grace;
pub use machine::Session;
pub use options::{SessionConfig, WhenFull};
pub use phase::Phase;
pub use progress::Extend;
pub use queue::{Settled, Work};
pub use report::{Fault, Report, RequestDetails, UnmatchedDetails};
pub use ticket::Ticket;
pub use wire::{Handshake, Layer, LayerEnd, LayerEvent, Wire};
