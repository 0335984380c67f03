//! The rules of HTTP for JSON-RPC: which requests are served, which status a reply has, and what a
//! reply means for the client. HTTP itself is read and written by libraries that the adapters use.
//!
//! A server checks the head of a request ([`WebRules::judge`]), has its body answered, and sets
//! the status of the reply ([`WebRules::reply`]). A client uses a [`ClientExchange`] to write the
//! body, and to read the reply. [`handle`] does both parts of a server in one call, for serverless
//! functions.
//!
//! A status is about the transport, a body about the call. If the body is a valid answer, the
//! status does not matter; otherwise a status that is no success is a failure of the transport.

mod answer;
mod exchange;
mod fields;
mod mcp;
mod opening;
mod scan;
mod serverless;
mod sse_reader;
mod sse_writer;
mod statuses;
#[cfg(test)]
mod tests;
mod web;

pub use answer::{HttpAnswer, MEDIA_TYPE, Refusal};
pub use exchange::{BrokenReply, ClientExchange, MAX_REDIRECTS, ReplyError, redirect};
pub use fields::{Fields, RequestHead, Upgrade};
pub use mcp::{McpParam, McpRules, SessionUse};
pub use opening::{Opening, opening};
pub use scan::RequestScan;
pub use serverless::handle;
pub use sse_reader::{OwnedSseEvent, SseReader};
pub use sse_writer::{EVENT_STREAM, FieldBreak, SseEvent, write_comment};
pub use statuses::{StatusScope, Statuses, is_result};
pub use web::{Cors, OnClose, Verdict, WebRules};
