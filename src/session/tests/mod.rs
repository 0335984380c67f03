//! Sessions driven by hand, in virtual time.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use std::io;

use super::*;
use crate::{
    CancelStyle, CloseReason, Closed, Config, ConnectionError, ErrorObject, Failures, Framing,
    Instant, McpRevision, OwnedOutcome, RequestKey, SendError,
};

mod answers;
mod diverted;
mod ends;
mod layer;
mod order;
mod queue;
mod routes;
mod state;
mod subscriptions;
mod time;
mod waiting;

const SECOND: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn session(config: impl Into<SessionConfig>) -> Session<u32> {
    Session::new(config.into(), Wire::Stream, at(0))
}

/// A session whose service has taken `Opened` and has no more work.
fn idle(config: impl Into<SessionConfig>) -> Session<u32> {
    let mut session = session(config);
    assert_eq!(work(&mut session), ["opened"]);
    session
}

fn lsp_cancels() -> Config {
    let mut config = Config::new();
    config.dialect.cancel_receive = CancelStyle::Lsp;
    config.dialect.cancel_send = CancelStyle::Lsp;
    config
}

/// Describes work in a word or two, and returns the ticket if it is a request.
fn describe(work: Work<u32>) -> (String, Option<Ticket>) {
    match work {
        Work::Opened => ("opened".into(), None),
        Work::Batch(items) => (format!("batch of {items}"), None),
        Work::Request(message, ticket) => (format!("request {}", message.method()), Some(ticket)),
        Work::Notification(message) => (format!("notification {}", message.method()), None),
        Work::Cancelled(..) => ("cancelled".into(), None),
        Work::Settled(settled) => (format!("settled {}", settled.waiter), None),
        Work::Report(report) => (format!("report: {report}"), None),
    }
}

/// Takes all work, and describes it. Tickets are dropped, so no request is answered.
fn work(session: &mut Session<u32>) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(work) = session.poll_work(true) {
        seen.push(describe(work).0);
    }
    seen
}

/// Takes work up to the next request, and returns the request's ticket.
fn request(session: &mut Session<u32>) -> Ticket {
    loop {
        match session.poll_work(true).map(describe) {
            Some((_, Some(ticket))) => return ticket,
            Some(_) => {}
            None => panic!("there is no request"),
        }
    }
}

/// Takes all output, and reports it as written.
fn output(session: &mut Session<u32>) -> String {
    let mut written = Vec::new();
    while session.take_transmit(&mut written) {
        session.handle_written();
    }
    String::from_utf8(written).unwrap()
}

fn line(session: &mut Session<u32>, text: &str) {
    session.handle_input(text.as_bytes());
    session.handle_input(b"\n");
}

fn outcomes(session: &mut Session<u32>) -> Vec<(u32, OwnedOutcome)> {
    let mut settled = Vec::new();
    while let Some(one) = session.poll_settled() {
        settled.push((one.waiter, one.outcome));
    }
    settled
}

const M1: &str = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
const M2: &str = r#"{"jsonrpc":"2.0","method":"m","id":2}"#;
const N: &str = r#"{"jsonrpc":"2.0","method":"n"}"#;
const CANCEL_1: &str = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;
