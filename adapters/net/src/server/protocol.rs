//! The protocol on the connections of a server, and the handshake before it.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use antiphon::{CloseReason, Closed, LimitReached};

use super::ending::{End, Ending};
use crate::link::{Link, drive_on};
use antiphon_shell::{ConnectionConfig, Context, Peer, Service, SharedRuntime, Task};

/// A running handshake.
pub type Handshake = Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>;

/// The handshake with which a connection begins: TLS.
pub trait Secure: Send + Sync + 'static {
    /// Begins the handshake.
    fn accept(&self, link: Link) -> Handshake;
}

/// The protocol on the connections of a server.
pub trait Protocol: Send + Sync + 'static {
    /// Serves one connection, until it ends or `ending` says so.
    fn serve(&self, link: Link, ending: Ending, runtime: &SharedRuntime) -> Task;

    /// Returns a task that tells the client of a connection beyond the limit that it is refused, and
    /// ends within a second or two. With `None`, the default, the connection is closed without an answer.
    fn refuse(&self, link: Link, why: LimitReached, runtime: &SharedRuntime) -> Option<Task> {
        let _ = (link, why, runtime);
        None
    }
}

/// Messages directly on the stream.
pub(super) struct Plain<F> {
    pub(super) options: Arc<ConnectionConfig>,
    pub(super) make: F,
}

impl<S: Service, F: Fn(&Context) -> S + Send + Sync + 'static> Protocol for Plain<F> {
    fn serve(&self, link: Link, ending: Ending, runtime: &SharedRuntime) -> Task {
        let service = Arc::new((self.make)(&link.context));
        let (peer, driver) = drive_on(link, Arc::clone(&self.options), service, runtime);
        Box::pin(serve_until(peer, driver, ending))
    }
}

/// Runs a connection, and ends it as `ending` says.
pub(crate) async fn serve_until(
    peer: Peer,
    driver: impl Future<Output = io::Result<Closed>>,
    mut ending: Ending,
) {
    let mut driver = pin!(driver);
    let mut end = End::No;
    poll_fn(|cx| {
        while let Poll::Ready(more) = ending.poll_beyond(end, cx) {
            end = more;
            match end {
                End::No => {}
                End::Drain => peer.drain(),
                End::Now => peer.close(CloseReason::GoingAway),
                End::Release => return Poll::Ready(()),
            }
        }
        // The service was told how the connection ended, so the result is dropped.
        driver.as_mut().poll(cx).map(drop)
    })
    .await;
}
