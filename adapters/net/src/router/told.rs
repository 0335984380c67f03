//! What a router is told of a connection besides its calls, and whom it tells.

use antiphon::Closed;
use antiphon::service::Chain;
use antiphon::session::Report;

use super::{Routes, Table, Told};
use crate::peer::Peer;
use crate::request::Request;

impl<S: Send + Sync + 'static, M: 'static> Routes<S, M> {
    /// Tells of something that went wrong, as a service is told.
    pub fn report(&self, peer: &Peer, report: Report) {
        self.tell(|table| table.on_report.clone(), peer, report);
    }

    /// Tells of a connection, as a service is told.
    pub fn opened(&self, peer: &Peer) {
        let chain = self.read().chain.clone();
        if let Some(chain) = chain {
            peer.session().attributes().insert(Seen(chain.clone()));
            chain.opened(peer.context().connection);
        }
        self.tell(|table| table.on_opened.clone(), peer, ());
    }

    /// Tells of a batch, as a service is told.
    pub fn batch(&self, peer: &Peer, items: usize) {
        let chain = self.read().chain.clone();
        if let Some(chain) = chain {
            chain.batch_received(peer.context().connection, items);
        }
    }

    /// Tells of the end of a connection, as a service is told.
    pub fn closed(&self, peer: &Peer, why: Closed) {
        self.tell(|table| table.on_closed.clone(), peer, why);
        let seen = peer.session().attributes().remove::<Seen>();
        if let Some(Seen(chain)) = seen {
            chain.closed(peer.context().connection);
        }
    }

    fn tell<A>(&self, pick: impl FnOnce(&Table<S>) -> Option<Told<A>>, peer: &Peer, what: A) {
        // It runs without the lock, so that it may register methods.
        let told = pick(&self.read());
        if let Some(told) = told {
            told(peer, what);
        }
    }
}

/// The interceptors that have seen a connection begin.
struct Seen(Chain<Request>);
