//! The router as the service of a connection.

use antiphon::session::Report;
use antiphon::{Closed, OwnedError};

use super::Router;
use crate::peer::Peer;
use crate::serve::answer::Answer;
use crate::serve::notification::Notification;
use crate::serve::request::Request;
use crate::serve::service::Service;

impl<S: Send + Sync + 'static> Service for Router<S> {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        self.serve(request).await
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        self.handle(notification).await;
    }

    async fn opened(&self, peer: &Peer) {
        Self::opened(self, peer);
    }

    fn batch(&self, peer: &Peer, items: usize) {
        Self::batch(self, peer, items);
    }

    fn report(&self, peer: &Peer, report: Report) {
        Self::report(self, peer, report);
    }

    fn closed(&self, peer: &Peer, why: Closed) {
        Self::closed(self, peer, why);
    }
}
