//! One flow that this end produces, as its owners hold it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};

use antiphon::flow::FlowId;
use antiphon::{ErrorObject, OwnedError, Payload, SendError};

use super::Session;

/// A flow that this end produces. It is given up when this is dropped before its end.
#[derive(Debug)]
pub(crate) struct PeerFlow {
    pub(crate) session: Arc<Session>,
    pub(crate) id: FlowId,
}

impl PeerFlow {
    /// Opens a flow. `None` if there are too many.
    pub(crate) fn open(session: &Arc<Session>) -> Option<Arc<Self>> {
        let id = session.open_flow()?;
        let session = Arc::clone(session);
        Some(Arc::new(Self { session, id }))
    }

    /// Answers a pull with an item, as soon as one waits. Returns `None` if nobody wants the flow any more.
    pub(crate) async fn send(&self, item: impl Payload + Copy) -> Option<Result<(), SendError>> {
        poll_fn(|cx| {
            loop {
                if !ready!(self.session.poll_pull(self.id, cx.waker())) {
                    return Poll::Ready(None);
                }
                // The peer may have cancelled the pull meanwhile; then the item waits for the next one.
                if let Some(sent) = self.session.answer_pull(self.id, item) {
                    return Poll::Ready(Some(sent));
                }
            }
        })
        .await
    }

    /// Ends the flow in order.
    pub(crate) fn end(&self) {
        self.session.end_flow(self.id, Some(Ok(())));
    }

    /// Ends the flow with an error, without its cause.
    pub(crate) fn fail(&self, error: &ErrorObject<'_>) {
        let error: OwnedError = error.clone().into_owned();
        self.session.end_flow(self.id, Some(Err(error)));
    }
}

impl Drop for PeerFlow {
    fn drop(&mut self) {
        self.session.end_flow(self.id, None);
    }
}
