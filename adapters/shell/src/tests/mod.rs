//! A session, without a transport and over a WebSocket, in virtual time: which threads and tasks wait,
//! and for how long.

use crate::http::{HttpError, HttpRequest, HttpResponse};

mod endings;
mod hand;
mod http;
mod http_mock;
mod limits;
#[path = "../../../metrics/tests/all/measured.rs"]
mod measured;
mod outgoing;
mod serving;
mod support;
#[cfg(feature = "websocket")]
mod websocket;
