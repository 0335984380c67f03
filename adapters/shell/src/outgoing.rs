//! Our calls, as interceptors see them.

use std::fmt;
use std::net::SocketAddr;

use antiphon::service::AnyRequest;
use antiphon::{Instant, Json, OwnedId, OwnedJson};

use crate::runtime::SharedRuntime;

/// One of our calls or notifications, as interceptors see it: as its caller made it, even if an
/// interceptor has changed it since.
pub struct OutgoingCall {
    pub(crate) method: String,
    pub(crate) params: Option<OwnedJson>,
    /// The id that the caller chose.
    pub(crate) id: Option<OwnedId>,
    pub(crate) is_notification: bool,
    pub(crate) connection: u32,
    pub(crate) peer_addr: Option<SocketAddr>,
    pub(crate) server: Option<(String, u16)>,
    pub(crate) runtime: SharedRuntime,
}

impl AnyRequest for OutgoingCall {
    fn method(&self) -> &str {
        &self.method
    }

    fn params(&self) -> Option<Json<'_>> {
        self.params.as_ref().map(OwnedJson::as_json)
    }

    fn id(&self) -> Option<OwnedId> {
        self.id.clone()
    }

    fn is_notification(&self) -> bool {
        self.is_notification
    }

    fn connection(&self) -> u32 {
        self.connection
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer_addr
    }

    fn server(&self) -> Option<(&str, u16)> {
        let (name, port) = self.server.as_ref()?;
        Some((name, *port))
    }

    fn now(&self) -> Instant {
        self.runtime.now()
    }

    fn is_outgoing(&self) -> bool {
        true
    }
}

/// Prints neither the params nor the server.
impl fmt::Debug for OutgoingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingCall")
            .field("name", &self.method)
            .field("is_notification", &self.is_notification)
            .finish_non_exhaustive()
    }
}
