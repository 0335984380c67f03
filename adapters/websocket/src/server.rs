//! The server's side of the handshake: one request, checked and answered.
//!
//! A request that is no valid handshake, or that the rules refuse, gets an HTTP answer with the
//! reason, and no more is read.

use antiphon::http::{Fields, HttpAnswer, RequestHead};
use antiphon::session::Handshake;
use httparse::{EMPTY_HEADER, Error, Request, Status};
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::server::{Response, write_response};
use tungstenite::http::Uri;
use tungstenite::http::header::{CONNECTION, CONTENT_LENGTH};

use crate::options::WebSocketConfig;

/// The most header lines of a request. More are answered 431.
const MAX_HEADERS: usize = 124;

impl WebSocketConfig {
    /// Checks a request for a WebSocket, whose head was read elsewhere. Returns the answer that opens the
    /// WebSocket, and the selected subprotocol. After this answer follow the bytes of
    /// [`WebSocket::accepted`](crate::WebSocket::accepted).
    ///
    /// # Errors
    /// The answer to a request that is refused.
    pub fn answer(
        &self,
        head: &RequestHead<'_>,
    ) -> Result<(HttpAnswer, Option<&'static str>), HttpAnswer> {
        let upgrade = self.web.judge_upgrade(head)?;
        let subprotocol = self.rules.select(upgrade.subprotocols)?;
        let key = upgrade.key.unwrap_or_default();
        let answer = HttpAnswer::new(101)
            .with_header("connection", "Upgrade")
            .with_header("upgrade", "websocket")
            .with_header("sec-websocket-accept", derive_accept_key(key.as_bytes()));
        let answer = match subprotocol {
            Some(name) => answer.with_header("sec-websocket-protocol", name),
            None => answer,
        };
        Ok((answer, subprotocol))
    }
}

/// Checks the head of a request. If it is accepted, appends the answer to `into`, and returns the
/// data of the handshake.
pub(crate) fn answer(
    head: &[u8],
    options: &WebSocketConfig,
    into: &mut Vec<u8>,
) -> Result<Handshake, HttpAnswer> {
    let bad_request = || HttpAnswer::text(400, "no HTTP request\n");
    let mut lines = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = Request::new(&mut lines);
    match request.parse(head) {
        Ok(Status::Complete(_)) => {}
        Err(Error::TooManyHeaders) => return Err(HttpAnswer::text(431, "too many headers\n")),
        Ok(Status::Partial) | Err(_) => return Err(bad_request()),
    }
    let uri: Uri = request
        .path
        .unwrap_or_default()
        .parse()
        .map_err(|_| bad_request())?;
    let mut fields = Fields::new();
    for line in request.headers.iter() {
        fields.line(line.name, line.value);
    }
    if request.version == Some(1) {
        fields.require_host();
    }
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let method = request.method.unwrap_or_default();
    let (answer, subprotocol) = options.answer(&fields.head(method, target))?;
    write(&answer, into);
    let mut handshake = Handshake::new();
    handshake.target = Some(target.into());
    let headers = request.headers.iter();
    handshake.headers = headers
        .map(|line| (line.name.to_ascii_lowercase(), line.value.into()))
        .collect();
    handshake.subprotocol = subprotocol.map(Into::into);
    Ok(handshake)
}

/// Appends the answer to a request that is refused.
pub(crate) fn refuse(mut refused: HttpAnswer, into: &mut Vec<u8>) {
    let close = (CONNECTION.as_str(), "close".into());
    refused.headers.retain(|header| *header != close);
    refused.headers.insert(0, close);
    let length = refused.body.len().to_string();
    refused
        .headers
        .push((CONTENT_LENGTH.as_str(), length.into()));
    write(&refused, into);
    into.extend_from_slice(&refused.body);
}

/// Appends the head of an answer.
fn write(answer: &HttpAnswer, into: &mut Vec<u8>) {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(*name, &**value);
    }
    // The statuses and headers of the rules are valid, and writing to memory does not fail.
    let written = response.body(()).map_err(tungstenite::Error::from);
    let written = written.and_then(|response| write_response(into, &response));
    debug_assert!(written.is_ok());
}
