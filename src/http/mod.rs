//! The rules of HTTP for JSON-RPC: which requests are served, which status a reply has, and what a
//! reply means for the client. HTTP itself is read and written by libraries that the adapters use.
//!
//! A server checks the head of a request ([`HttpRules::judge`]), has its body answered, and sets
//! the status of the reply ([`HttpRules::reply`]). A client uses a [`ClientExchange`] to write the
//! body, and to read the reply. [`handle`] does both parts of a server in one call, for serverless
//! functions.
//!
//! A status is about the transport, a body about the call. If the body is a valid answer, the
//! status does not matter; otherwise a status that is no success is a failure of the transport.

mod exchange;
mod fields;
mod opening;
mod rules;
mod serverless;
mod statuses;
#[cfg(test)]
mod tests;

pub use exchange::{BrokenReply, ClientExchange, MAX_REDIRECTS, ReplyError, redirect};
pub use fields::{Fields, HeadScan};
pub use opening::{Opening, opening};
pub use rules::{Cors, HttpAnswer, HttpRules, MEDIA_TYPE, RequestHead, Verdict};
pub use serverless::handle;
pub use statuses::{StatusScope, Statuses};
