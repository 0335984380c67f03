//! What a session is to be told to speak WebSocket.

use std::io;

use antiphon::websocket::WebSocketRules;

use super::client::WebSocketRequest;
use super::url::WebSocketUrl;

/// Which side of a WebSocket a session is, and the rules it keeps.
///
/// ```
/// use antiphon_websocket::WebSocketOptions;
///
/// let mut server = WebSocketOptions::server();
/// server.rules.paths.push("/rpc".into());
/// server.rules.origins.push("https://app.example".into());
///
/// let client = WebSocketOptions::client("ws://localhost:8080/rpc")?
///     .with_header("authorization", "Bearer s3cret")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WebSocketOptions {
    /// Whom to let in, limits and spans.
    pub rules: WebSocketRules,
    /// What to ask for, as a client; none as a server.
    pub(super) request: Option<WebSocketRequest>,
}

impl WebSocketOptions {
    /// A server with the default rules.
    pub const fn server() -> Self {
        Self {
            rules: WebSocketRules::new(),
            request: None,
        }
    }

    /// A client that asks for `url`, of scheme `ws` or `wss`, with the default rules. It does not
    /// connect: the transport does, to the URL's host and port, over TLS for `wss`.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is not the URL of a WebSocket.
    pub fn client(url: &str) -> io::Result<Self> {
        Ok(WebSocketRequest::new(url)?.into())
    }

    /// The same with another header in the client's request: see
    /// [`WebSocketRequest::with_header`]. Nothing for a server.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it cannot be sent.
    pub fn with_header(mut self, name: &str, value: impl AsRef<[u8]>) -> io::Result<Self> {
        if let Some(request) = self.request.take() {
            self.request = Some(request.with_header(name, value)?);
        }
        Ok(self)
    }

    /// What is asked for, as a client.
    pub fn request(&self) -> Option<&WebSocketRequest> {
        self.request.as_ref()
    }

    /// Where a client connects to without TLS.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the URL wants TLS;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if these are the options of a server.
    pub fn plain_url(&self) -> io::Result<&WebSocketUrl> {
        self.url(false, "wss needs a link over TLS")
    }

    /// Where a client connects to over TLS.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the URL does not ask for TLS;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if these are the options of a server.
    pub fn tls_url(&self) -> io::Result<&WebSocketUrl> {
        self.url(true, "ws is not spoken over TLS")
    }

    fn url(&self, is_tls: bool, otherwise: &str) -> io::Result<&WebSocketUrl> {
        let (kind, what) = match &self.request {
            Some(request) if request.url().is_tls() == is_tls => return Ok(request.url()),
            Some(_) => (io::ErrorKind::Unsupported, otherwise),
            None => (
                io::ErrorKind::InvalidInput,
                "a server has nowhere to connect to",
            ),
        };
        Err(io::Error::new(kind, what))
    }

    /// Whether it is the server's side.
    pub fn is_server(&self) -> bool {
        self.request.is_none()
    }
}

impl From<WebSocketRequest> for WebSocketOptions {
    fn from(request: WebSocketRequest) -> Self {
        Self {
            rules: WebSocketRules::new(),
            request: Some(request),
        }
    }
}
