//! The events of a connection that are no calls, and the functions and interceptors of a router that
//! are told of them. A service that passes its calls to a router calls the methods here from its methods
//! of the same names.

use antiphon::Closed;
use antiphon::service::Chain;
use antiphon::session::Report;

use super::{Listener, Routes, Table};
use crate::peer::Peer;
use crate::serve::request::Request;

impl<S: Send + Sync + 'static, M: 'static> Routes<S, M> {
    /// Passes a report to the function of [`on_report`](Self::on_report): for a service's
    /// [`report`](crate::Service::report).
    pub fn report(&self, peer: &Peer, report: Report) {
        self.tell(|table| table.on_report.clone(), peer, report);
    }

    /// Tells the interceptors and the function of [`on_opened`](Self::on_opened) of a new connection: for
    /// a service's [`opened`](crate::Service::opened).
    pub fn opened(&self, peer: &Peer) {
        let chain = self.read().routes.everywhere();
        if let Some(chain) = chain {
            peer.session().attributes().insert(Seen(chain.clone()));
            chain.opened(peer.context().connection);
        }
        self.tell(|table| table.on_opened.clone(), peer, ());
    }

    /// Tells the interceptors that a batch has arrived: for a service's [`batch`](crate::Service::batch).
    pub fn batch(&self, peer: &Peer, items: usize) {
        let chain = self.read().routes.everywhere();
        if let Some(chain) = chain {
            chain.batch_received(peer.context().connection, items);
        }
    }

    /// Tells the function of [`on_closed`](Self::on_closed) of the end of a connection, and then the
    /// interceptors that were told of its beginning: for a service's [`closed`](crate::Service::closed).
    pub fn closed(&self, peer: &Peer, why: Closed) {
        self.tell(|table| table.on_closed.clone(), peer, why);
        let seen = peer.session().attributes().remove::<Seen>();
        if let Some(Seen(chain)) = seen {
            chain.closed(peer.context().connection);
        }
    }

    fn tell<A>(&self, pick: impl FnOnce(&Table<S>) -> Option<Listener<A>>, peer: &Peer, what: A) {
        // The function runs without the router's lock, so that it may register methods.
        let listener = pick(&self.read());
        if let Some(listener) = listener {
            listener(peer, what);
        }
    }
}

/// The interceptors that have seen a connection begin.
struct Seen(Chain<Request>);
