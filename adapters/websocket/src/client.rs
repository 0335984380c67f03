//! The client's side of the handshake: the request, and the check of the answer.
//!
//! A connection counts as open only after every check of RFC 6455 clause 4.1; any other answer of
//! the server is an error with its status.

use antiphon::session::Handshake;
use antiphon::websocket::WebSocketRules;
use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::client::{Response, generate_request};
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::machine::TryParse;
use tungstenite::http::StatusCode;
use tungstenite::http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};

use crate::handshake::told;
use crate::options::Request;
use crate::refused::Refused;

/// Appends the request to `into`. Returns the `Sec-WebSocket-Accept` that the server must send.
///
/// # Errors
/// The URL is not valid for a request, or the source of the bearer token has failed.
pub(crate) fn ask(
    asked: &Request,
    rules: &WebSocketRules,
    into: &mut Vec<u8>,
) -> tungstenite::Result<String> {
    let mut request = asked.url.0.clone().into_client_request()?;
    let offered = rules.offered();
    let offered = offered.map(|name| (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name)));
    // A `Host` among the configured headers replaces the URL's.
    request.headers_mut().extend(asked.headers()?);
    request.headers_mut().extend(offered);
    let (written, key) = generate_request(request)?;
    into.extend_from_slice(&written);
    Ok(derive_accept_key(key.as_bytes()))
}

/// Checks the head of the answer, and returns the data of the handshake. `accepted` is the value that
/// [`ask`] has returned.
pub(crate) fn judge(
    head: &[u8],
    accepted: &str,
    target: &str,
    rules: &WebSocketRules,
) -> Result<Handshake, Box<Refused>> {
    let Ok(Some((_, response))) = Response::try_parse(head) else {
        let refused = Refused::new(None, "the answer is no HTTP", HeaderMap::new());
        return Err(Box::new(refused));
    };
    let (status, headers) = (response.status(), response.headers());
    let refused = |reason: &str| Box::new(Refused::new(Some(status), reason, headers.clone()));
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refused(status.canonical_reason().unwrap_or("refused")));
    }
    // RFC 6455 clauses 4.1 and 11.3.3: some headers may occur only once, and the only upgrade is to
    // WebSocket.
    let sole = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    let is_websocket = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
    let mut tokens = headers.get_all(CONNECTION).iter();
    let does_upgrade = tokens.any(|value| {
        let mut tokens = value.to_str().unwrap_or_default().split(',');
        tokens.any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
    });
    if !sole(UPGRADE).is_some_and(is_websocket) || !does_upgrade {
        return Err(refused("the answer upgrades to something else"));
    }
    if sole(SEC_WEBSOCKET_ACCEPT).is_none_or(|key| key != accepted) {
        return Err(refused("the answer accepts another key"));
    }
    if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
        return Err(refused("the server chose an extension of its own"));
    }
    let selected = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let mut selected = selected.map(|name| name.to_str().unwrap_or_default());
    let subprotocol = rules.judge_selected(selected.next()).map_err(refused)?;
    if selected.next().is_some() {
        return Err(refused("the server chose several subprotocols"));
    }
    Ok(told(target, headers, subprotocol))
}
