//! What an HTTP binding of JSON-RPC decides: which requests are served, which status a reply has,
//! what a reply means to the client that asked. Rules only: HTTP itself is read and written by the
//! adapters' library.
//!
//! A server judges the head of a request ([`HttpRules::judge`]), has its body answered, and gives
//! the reply its status ([`HttpRules::reply`]). A client has a [`ClientExchange`] write the body,
//! and take in the reply. [`handle`] is both halves of a server in one call, for functions
//! that a cloud runs for each request.
//!
//! A status speaks of the transport, a body of the call. A body is believed before a status, and a
//! reply that says neither is a failure of the transport.

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
