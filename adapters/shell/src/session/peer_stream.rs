//! One subscription of the peer, as its owners hold it.

use std::sync::Arc;

use antiphon::{EncodeError, ErrorObject, OwnedJson, Style};

use super::{Session, SinkKey};

/// A subscription of the peer. It ends when this is dropped, and the peer is told so.
#[derive(Debug)]
pub(crate) struct PeerStream {
    pub(crate) session: Arc<Session>,
    pub(crate) key: SinkKey,
    pub(crate) style: Style,
    /// The id by which the peer knows it.
    pub(crate) id: OwnedJson,
}

impl PeerStream {
    pub(crate) fn new(
        session: &Arc<Session>,
        key: SinkKey,
        style: Style,
    ) -> Result<Self, EncodeError> {
        Ok(Self {
            session: Arc::clone(session),
            key,
            style,
            id: OwnedJson::from_value(&*key.id())?,
        })
    }

    /// Ends the subscription, and tells the peer why, after everything that was sent.
    pub(crate) fn end(&self, why: &ErrorObject<'_>) {
        let params = |why: &ErrorObject<'_>| self.style.end_params(self.id.as_json(), why);
        // Its data may nest too deep.
        let params = params(why).or_else(|_| params(&ErrorObject::new(why.code(), why.message())));
        self.session
            .act(|state| state.finish_sink(self.key, params.ok()));
    }
}

impl Drop for PeerStream {
    fn drop(&mut self) {
        self.end(&ErrorObject::stream_completed());
    }
}
