//! One subscription of the peer, as its owners hold it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use antiphon::{ErrorObject, Json, Style, codes};

use super::{Session, SinkKey};

/// A subscription of the peer. It ends when this is dropped, and the peer is told so.
#[derive(Debug)]
pub(crate) struct PeerStream {
    pub(crate) session: Arc<Session>,
    pub(crate) key: SinkKey,
    pub(crate) style: Style,
    /// Whether the answer to the request has its id. Otherwise the request fails, and the peer hears of nothing else.
    is_accepted: AtomicBool,
}

impl PeerStream {
    pub(crate) fn new(session: &Arc<Session>, key: SinkKey, style: Style) -> Self {
        Self {
            session: Arc::clone(session),
            key,
            style,
            is_accepted: AtomicBool::new(false),
        }
    }

    /// Returns its id, for the answer to the request.
    pub(crate) fn accept(&self) -> String {
        self.is_accepted.store(true, Ordering::Relaxed);
        self.key.id()
    }

    /// Ends the subscription, and tells the peer why, after everything that was sent.
    pub(crate) fn end(&self, why: &ErrorObject<'_>) {
        let id = self.key.id();
        let id = Json::parse_str(&id).unwrap_or(Json::NULL);
        let params = |why: &ErrorObject<'_>| self.style.end_params(id, why);
        let params = match self.is_accepted.load(Ordering::Relaxed) {
            // Its data may nest too deep.
            true => params(why).or_else(|_| params(&ErrorObject::new(why.code(), why.message()))),
            false => return self.session.act(|state| state.finish_sink(self.key, None)),
        };
        self.session
            .act(|state| state.finish_sink(self.key, params.ok()));
    }
}

impl Drop for PeerStream {
    fn drop(&mut self) {
        self.end(&ErrorObject::new(
            codes::STREAM_COMPLETED,
            "Stream completed",
        ));
    }
}
