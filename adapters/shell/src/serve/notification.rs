//! A notification, as a handler gets it.

use std::fmt;
use std::sync::Arc;

use antiphon::session::{Report, RequestDetails};
use antiphon::{ErrorObject, Json, Origin, OwnedError, OwnedNotification};
use serde::Deserialize;

use crate::session::Session;

/// A notification that the peer sent. It is not answered.
#[derive(Clone)]
pub struct Notification {
    message: OwnedNotification,
    session: Arc<Session>,
}

impl Notification {
    /// Makes a notification from a session's work.
    pub(crate) fn new(session: &Arc<Session>, message: OwnedNotification) -> Self {
        let session = Arc::clone(session);
        Self { message, session }
    }

    /// Returns its parts.
    pub(crate) fn into_parts(self) -> (Arc<Session>, OwnedNotification) {
        (self.session, self.message)
    }

    /// The method.
    pub fn method(&self) -> &str {
        self.message.method()
    }

    /// The params, read into a type: an array by position, an object by name, `null` if there are
    /// none.
    ///
    /// ```
    /// # use antiphon::OwnedError;
    /// # use antiphon_shell::{Notification, Peer, Service};
    /// struct Log;
    ///
    /// impl Log {
    ///     fn take(&self, notification: &Notification) -> Result<(), OwnedError> {
    ///         let (level, text): (u8, String) = notification.params()?;
    ///         assert!(level < 8 && !text.is_empty());
    ///         Ok(())
    ///     }
    /// }
    ///
    /// impl Service for Log {
    ///     async fn notification(&self, _: &Peer, notification: Notification) {
    ///         // Params of another type have been reported, and nobody can be answered.
    ///         let _ = self.take(&notification);
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// *Invalid params* (−32602). The service gets a report with the reason; nothing is sent to the
    /// peer.
    pub fn params<'n, P: Deserialize<'n>>(&'n self) -> Result<P, OwnedError> {
        let params = self.raw_params().unwrap_or(Json::NULL);
        params.decode().map_err(|error| {
            let about = RequestDetails::of_notification(self.method());
            self.session.report(Report::InvalidParams(about, error));
            ErrorObject::invalid_params().into_owned()
        })
    }

    /// The params as the peer wrote them, an array or an object, if there are any.
    pub fn raw_params(&self) -> Option<Json<'_>> {
        self.message.params()
    }

    /// [Reports](Report::Unserved) that nobody serves the notification. Call it where your service
    /// finds no handler.
    pub fn unserved(&self) {
        let method = self.method();
        self.session
            .act(|state| state.conn.report_unserved(method, None));
    }

    /// The position of the notification: alone or in a batch.
    pub fn origin(&self) -> Origin {
        self.message.origin()
    }
}

impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notification")
            .field(&self.method())
            .finish_non_exhaustive()
    }
}
