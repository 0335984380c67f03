//! The server's side of the handshake: one request, checked and answered.
//!
//! A request that is no valid handshake, or that the rules refuse, gets an HTTP answer with the
//! reason, and no more is read.

use antiphon::http::Fields;
use antiphon::session::Handshake;
use antiphon::websocket::{Refusal, Upgrade, WebSocketRules};
use tungstenite::error::{CapacityError, Error, ProtocolError};
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, Response, create_response, write_response};
use tungstenite::http::header::{
    ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};

use crate::handshake::told;

/// Checks the head of a request. If it is accepted, appends the answer to `into`, and returns the
/// data of the handshake.
pub(crate) fn answer(
    head: &[u8],
    rules: &WebSocketRules,
    into: &mut Vec<u8>,
) -> Result<Handshake, Refusal> {
    let bad_request = |reason| {
        let status = 400;
        Refusal { status, reason }
    };
    let request = Request::try_parse(head).map_err(refusal)?;
    let (_, request) = request.ok_or(bad_request("no HTTP request"))?;
    let mut fields = Fields::new();
    for (name, value) in request.headers() {
        fields.line(name.as_str(), value.as_bytes());
    }
    fields.require_host();
    if let Some(reason) = fields.handshake_fault() {
        return Err(bad_request(reason));
    }
    let mut response = create_response(&request).map_err(refusal)?;
    let target = request.uri().path_and_query();
    let target = target.map_or("/", |target| target.as_str());
    let offers = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    // An offer that is not text counts as an empty one.
    let offers = offers.flat_map(|offers| offers.to_str().unwrap_or_default().split(','));
    let selected = rules.judge(&Upgrade {
        target,
        host: fields.host(),
        origins: fields.origins(),
        subprotocols: &offers.map(str::trim).collect::<Vec<_>>(),
    })?;
    let header = selected.map(|name| (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name)));
    response.headers_mut().extend(header);
    write_response(into, &response).map_err(refusal)?;
    Ok(told(target, request.headers(), selected))
}

/// Returns the HTTP status for the fault of a request.
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

/// Appends the answer to a request that is refused.
pub(crate) fn refuse(refused: Refusal, into: &mut Vec<u8>) {
    let response = Response::builder()
        .status(refused.status)
        .header(CONNECTION, "close")
        .header(CONTENT_TYPE, "text/plain")
        // The body is the reason and a line feed.
        .header(CONTENT_LENGTH, refused.reason.len() + 1);
    // RFC 9110 clauses 15.5.6 and 15.5.22: the answer names the allowed method, or the protocol to
    // upgrade to.
    let response = match refused.status {
        405 => response.header(ALLOW, "GET"),
        426 => response
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, 13),
        _ => response,
    };
    // All statuses and headers above are valid, and writing to memory does not fail.
    let written = response.body(()).map_err(Error::from);
    let written = written.and_then(|response| write_response(&mut *into, &response));
    debug_assert!(written.is_ok());
    into.extend_from_slice(refused.reason.as_bytes());
    into.push(b'\n');
}
