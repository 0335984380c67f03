//! The server's side of the handshake: one request, judged and answered.
//!
//! The rule guarded here: a request that is no proper handshake, or that the rules do not let in,
//! gets an HTTP answer that says so, and nothing else is read.

use std::io::Write;

use antiphon::http::Fields;
use antiphon::websocket::{Refusal, Upgrade, WebSocketRules};
use tungstenite::error::{CapacityError, Error, ProtocolError};
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{self, Request};
use tungstenite::http::header::{HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_PROTOCOL};

use antiphon::session::Handshake;

/// Judges the head of a request and appends the answer to `into`.
pub(super) fn answer(
    head: &[u8],
    rules: &WebSocketRules,
    into: &mut Vec<u8>,
) -> Result<Handshake, Refusal> {
    let judged = judge(head, rules);
    match &judged {
        Ok((opened, response)) => {
            into.extend_from_slice(response);
            Ok(opened.clone())
        }
        Err(refused) => {
            refuse(*refused, into);
            Err(*refused)
        }
    }
}

fn judge(head: &[u8], rules: &WebSocketRules) -> Result<(Handshake, Vec<u8>), Refusal> {
    let malformed = Refusal {
        status: 400,
        reason: "no HTTP request",
    };
    let (_, request) = Request::try_parse(head)
        .map_err(refusal)?
        .ok_or(malformed)?;
    let mut fields = Fields::new();
    for (name, value) in request.headers() {
        fields.line(name.as_str(), value.as_bytes());
    }
    fields.require_host();
    if let Some(reason) = fields.handshake_fault() {
        return Err(Refusal {
            status: 400,
            reason,
        });
    }
    let mut response = server::create_response(&request).map_err(refusal)?;
    let target = request
        .uri()
        .path_and_query()
        .map_or("/", |target| target.as_str());
    let offers = values(request.headers(), SEC_WEBSOCKET_PROTOCOL);
    let offers = offers.iter().flat_map(|offers| offers.split(','));
    let selected = rules.judge(&Upgrade {
        target,
        origins: fields.origins(),
        subprotocols: &offers.map(str::trim).collect::<Vec<_>>(),
    })?;
    if let Some(selected) = selected {
        let selected = HeaderValue::from_static(selected);
        response
            .headers_mut()
            .insert(SEC_WEBSOCKET_PROTOCOL, selected);
    }
    let mut written = Vec::new();
    server::write_response(&mut written, &response).map_err(refusal)?;
    Ok((handshake(target, request.headers(), selected), written))
}

/// The values of a header; one that is not text stands as an empty one.
fn values(headers: &HeaderMap, name: HeaderName) -> Vec<&str> {
    let values = headers.get_all(name).iter();
    values
        .map(|value| value.to_str().unwrap_or_default())
        .collect()
}

/// What is known when a WebSocket opens. Header names are in lower case; those of one name stand
/// together, in the order received.
pub(super) fn handshake(target: &str, headers: &HeaderMap, subprotocol: Option<&str>) -> Handshake {
    let mut handshake = Handshake::new();
    handshake.target = Some(target.into());
    let headers = headers.iter();
    handshake.headers = headers
        .map(|(name, value)| (name.as_str().into(), value.as_bytes().into()))
        .collect();
    handshake.subprotocol = subprotocol.map(Into::into);
    handshake
}

/// What is wrong with a request, as an HTTP status.
fn refusal(error: Error) -> Refusal {
    let (status, reason) = match error {
        Error::Protocol(ProtocolError::WrongHttpMethod) => (405, "only GET opens a WebSocket"),
        Error::Protocol(ProtocolError::WrongHttpVersion) => (400, "HTTP/1.1 is needed"),
        Error::Protocol(
            ProtocolError::MissingConnectionUpgradeHeader
            | ProtocolError::MissingUpgradeWebSocketHeader,
        ) => (426, "only a WebSocket is served here"),
        Error::Protocol(ProtocolError::MissingSecWebSocketVersionHeader) => {
            (426, "WebSocket version 13 is needed")
        }
        Error::Protocol(
            ProtocolError::MissingSecWebSocketKey | ProtocolError::InvalidSecWebSocketKey,
        ) => (400, "no valid WebSocket key"),
        Error::Capacity(CapacityError::TooManyHeaders) => (431, "too many headers"),
        _ => (400, "no HTTP request"),
    };
    Refusal { status, reason }
}

/// Appends the answer to a request that is not let in.
pub(super) fn refuse(refused: Refusal, into: &mut Vec<u8>) {
    let name = match refused.status {
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        426 => "Upgrade Required",
        431 => "Request Header Fields Too Large",
        _ => "Refused",
    };
    // RFC 9110 clauses 15.5.6 and 15.5.22: what would be right is named.
    let extra = match refused.status {
        405 => "allow: GET\r\n",
        426 => "upgrade: websocket\r\nsec-websocket-version: 13\r\n",
        _ => "",
    };
    let connection = if refused.status == 426 {
        "upgrade, close"
    } else {
        "close"
    };
    // Writing to memory does not fail.
    let written = write!(
        into,
        "HTTP/1.1 {} {name}\r\nconnection: {connection}\r\n{extra}content-type: text/plain\r\n\
         content-length: {}\r\n\r\n{}\n",
        refused.status,
        refused.reason.len() + 1,
        refused.reason
    );
    debug_assert!(written.is_ok());
}
